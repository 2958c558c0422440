package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestWorkloads runs every workload for a moment, so that none of them rots. What it prints must have the promised keys.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind == "postgres" {
				pgtest.URL(t) // skips, loudly, where there is no PostgreSQL
			}
			var out bytes.Buffer
			args := []string{"-json", "-store", kind, "-slice", "5ms", "-callers", "1,8", "-events", "200", "-runs", "200"}
			require.NoError(t, run(t.Context(), args, &out))
			seen := map[string]bool{}
			for lines := bufio.NewScanner(&out); lines.Scan(); {
				var row map[string]any
				require.NoError(t, json.Unmarshal(lines.Bytes(), &row))
				for _, key := range []string{"bench", "store", "in_flight", "value", "unit", "raw", "ratio"} {
					require.Contains(t, row, key)
				}
				require.Positive(t, row["value"])
				require.Positive(t, row["ratio"])
				seen[row["bench"].(string)] = true
			}
			for _, wl := range workloads() {
				require.Contains(t, seen, wl.name)
			}
		})
	}
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"nonsense"}, {"-store", "oracle"}, {"-callers", "0"}, {"-callers", "x"}} {
		require.Error(t, run(t.Context(), args, &bytes.Buffer{}), "%v", args)
	}
}
