package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
)

// TestMain is also the program that the workload cold starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childFlag {
		main()
		return
	}
	pgtest.Main(m)
}

// TestWorkloads runs every workload for a moment, so that none of them rots. What it prints must have the promised keys.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{kindSQLite, kindPostgres} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			args := []string{
				"-json", "-store", kind, "-seconds", "1", "-pairs", "1", "-slice", "5ms", "-callers", "1,8", "-events", "200", "-runs", "200", "-runs-waiting", "300", "-steps", "300",
			}
			if kind == kindPostgres {
				args = append(args, "-postgres", pgtest.URL(t)) // skips, loudly, where there is no PostgreSQL
			}
			var out bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // a run that never ends is described
			defer cancel()
			require.NoError(t, run(ctx, args, &out))
			seen := map[string]bool{}
			for lines := bufio.NewScanner(&out); lines.Scan(); {
				var row map[string]any
				require.NoError(t, json.Unmarshal(lines.Bytes(), &row))
				checkRow(t, row)
				seen[row["bench"].(string)] = true
				if figure, ok := row["figure"].(string); ok {
					seen[row["bench"].(string)+" "+figure] = true
				}
			}
			for _, wl := range workloads() {
				require.Contains(t, seen, wl.name)
			}
			for _, figure := range []string{
				"waiting start", "waiting others", "waiting rss", "waiting heap", "waiting idle", "waiting wake",
				"starttx commit", "starttx wake", "cold migrated", "cold new", "steps 1-100", "steps 200-299", "steps replay", "chunks written", "chunks acknowledged", "lag in process", "lag across processes",
			} {
				require.Contains(t, seen, figure)
			}
		})
	}
}

func checkRow(t *testing.T, row map[string]any) {
	t.Helper()
	for _, key := range []string{"bench", "store", "in_flight", "value", "unit", "raw", "ratio"} {
		require.Contains(t, row, key)
	}
	positive := []string{"value", "ratio"}
	switch row["bench"] {
	case "w1", "w10":
		positive = append(positive, "cpu_ms_per_run", "statements", "transactions", "fsyncs", "append", "append_ratio")
	case "w1-closed", "w10-closed":
		positive = append(positive, "cpu_ms_per_run", "statements", "transactions", "fsyncs", "p50_us", "p99_us")
		if row["in_flight"] == 1.0 {
			commits := map[any]float64{"w1-closed": 2, "w10-closed": 11}[row["bench"]]
			require.InDelta(t, commits, row["commits_per_run"], 1) // a heartbeat may come between
		} else {
			positive = append(positive, "single", "single_ratio")
		}
	case "latency", "hook", "fan":
		positive = append(positive, "p50_us", "p99_us", "raw_p50_us", "commits_per_run")
	case "waiting":
		if row["figure"] == "idle" { // which costs nothing, if all is well
			positive = nil
		}
	}
	for _, key := range positive {
		require.Positive(t, row[key], "%s of %v", key, row)
	}
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"nonsense"}, {"-store", "oracle"}, {"-callers", "0"}, {"-callers", "x"}, {childFlag, "no JSON"}} {
		require.Error(t, run(t.Context(), args, &bytes.Buffer{}), "%v", args)
	}
}
