package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/pgcluster"
)

// TestMain lets the test's program stand in for the benchmark's when it starts itself again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serveCommand {
		os.Exit(serveMain(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// TestCells runs everything with a few runs, so that none of it rots.
func TestCells(t *testing.T) {
	t.Parallel()
	for _, c := range cells() {
		t.Run(c.bench+"/"+c.peer+"/"+c.store, func(t *testing.T) {
			t.Parallel()
			r, err := c.measure(t.Context(), options{runs: 10, seconds: 0.01, sync: "full"})
			if errors.Is(err, pgcluster.ErrNotInstalled) && os.Getenv("CAIRN_REQUIRE_POSTGRES") != "1" {
				t.Skip("SKIPPED: no PostgreSQL server; `make setup` installs it")
			}
			require.NoError(t, err)
			require.Equal(t, 10, r.InFlight)
			require.Equal(t, 10, r.PeerInFlight)
			require.GreaterOrEqual(t, r.Pairs, leastPairs)
			require.Positive(t, r.Value)
			require.Positive(t, r.Raw)
			require.Positive(t, r.Ratio)
		})
	}
}

// TestSizes lets the warm-up find how many runs fill a turn, and looks at what is printed.
func TestSizes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-json", "-peer", "river", "-store", "sqlite", "-seconds", "0.5", "-peer-sync", "normal"}, &out))
	lines := bufio.NewScanner(&out)
	require.True(t, lines.Scan())
	var row map[string]any
	require.NoError(t, json.Unmarshal(lines.Bytes(), &row))
	for _, key := range []string{"bench", "peer", "store", "in_flight", "value", "unit", "raw", "ratio", "cpu_ms", "peer_cpu_ms"} {
		require.Contains(t, row, key)
	}
	require.InDelta(t, mostSteps, row["in_flight"], 0)
	require.False(t, lines.Scan())
}

func TestTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := newReport(&out, false)
	c := cell{bench: "w10", steps: 10, peer: "temporal", store: "sqlite"}
	ours := []turn{{steps: 10, runs: 1, seconds: 1, cpu: 1000}, {steps: 10, runs: 1, seconds: 2, cpu: 1000}}
	theirs := []turn{{steps: 10, runs: 1, seconds: 5, cpu: 4000}, {steps: 10, runs: 1, seconds: 6, cpu: 4000}}
	x := c.row(ours, theirs)
	require.InDelta(t, 4, x.Ratio, 1e-9, "the median of 5 and 3")
	require.InDelta(t, 7.5, x.Value, 1e-9)
	require.InDelta(t, 4, x.CPURatio, 1e-9)
	require.NoError(t, r.add(x))
	require.NoError(t, r.flush())
	require.Contains(t, out.String(), "temporal")
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"nonsense"},
		{"-store", "oracle"},
		{"-peer", "nobody"},
		{"-peer-sync", "off"},
		{"-runs", "-1"},
		{"-seconds", "0"},
		{"-peer", "temporal", "-store", "postgres"},
	} {
		require.Error(t, run(t.Context(), args, &bytes.Buffer{}), "%v", args)
	}
}

func TestChildCPU(t *testing.T) {
	t.Parallel()
	require.Positive(t, ownCPU())
	require.Zero(t, childCPU(-1))
}
