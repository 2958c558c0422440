package enginesim_test

import (
	"bytes"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/sim/enginesim"
)

// began is when the tests of this package did: all of them share the time that there is.
var began = time.Now()

// TestMain uses one processor: in a simulation one goroutine does something at a time, and to hand that over to another processor takes longer than it.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// inMemory returns a directory in memory where there is one: a power cut is simulated, so nobody needs the disk.
func inMemory(t *testing.T) string {
	t.Helper()
	const shared = "/dev/shm"
	if info, err := os.Stat(shared); err == nil && info.IsDir() {
		return shared
	}
	return t.TempDir()
}

// simulate runs a plan in a bubble of its own.
func simulate(t *testing.T, plan *enginesim.Plan, opts enginesim.Options) *enginesim.Report {
	t.Helper()
	dir, err := os.MkdirTemp(inMemory(t), "sim")
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(dir) }()
	var report *enginesim.Report
	bubble.Run(t, func(*testing.T) { report = enginesim.Run(plan, dir, opts) })
	return report
}

// shrinkTries is how often a plan that failed is run again to make it smaller.
const shrinkTries = 150

// fails says all about a seed that failed: the command that runs it again, and the smallest plan that fails too.
func fails(t *testing.T, plan *enginesim.Plan, report *enginesim.Report, opts enginesim.Options) {
	t.Helper()
	first := report.Err()
	small, report := enginesim.Shrink(plan, report, shrinkTries, func(p *enginesim.Plan) *enginesim.Report { return simulate(t, p, opts) })
	require.Failf(t, "a seed fails", "seed %d: %v\n\nreplay with: SEED=%d go test ./internal/sim/enginesim -run TestEngineSeeds -v\n\nshrunk, it fails with: %v\n\nplan:\n%s\ntrace:\n%s",
		plan.Seed, first, plan.Seed, report.Err(), small, tail(report.Trace, 200))
}

func tail(trace []byte, n int) []byte {
	lines := bytes.SplitAfter(trace, []byte{'\n'})
	return bytes.Join(lines[max(0, len(lines)-n-1):], nil)
}
