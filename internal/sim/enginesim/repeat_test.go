package enginesim_test

import (
	"bytes"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/sim"
	"github.com/cairn-workflow/cairn/internal/sim/enginesim"
)

// TestOneSeedOneTrace runs seeds again and again, on one processor and on several: the traces of a seed must be the same, byte for byte. Their last lines tell of
// all that anybody did, also where that has no line of its own. With CAIRN_VERIFY each seed is run twenty times; so it is with REPEAT, from SEED on.
func TestOneSeedOneTrace(t *testing.T) { //nolint:paralleltest // it changes the number of processors
	seeds, times, first := 3, 4, max(sim.Number(t, "SEED"), 1)
	if os.Getenv("CAIRN_VERIFY") != "" {
		if seeds, times = 20, 20; bubble.Race { // twenty times slower
			seeds = 3
		}
	}
	if n := sim.Number(t, "REPEAT"); n > 0 {
		seeds, times = n, 20
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for seed := uint64(first); seed < uint64(first+seeds); seed++ {
		var want []byte
		for n := range times {
			runtime.GOMAXPROCS(1 + 3*(n%2))
			report := simulate(t, enginesim.NewPlan(seed), enginesim.Options{})
			require.NoError(t, report.Err(), "seed %d", seed)
			if n == 0 {
				want = report.Trace
			}
			if !bytes.Equal(want, report.Trace) {
				require.Failf(t, "a seed gives two traces", "seed %d, run %d:\n%s", seed, n, parting(want, report.Trace))
			}
		}
	}
}

// parting shows where two traces part.
func parting(want, got []byte) []byte {
	a, b := bytes.SplitAfter(want, []byte{'\n'}), bytes.SplitAfter(got, []byte{'\n'})
	n := 0
	for n < min(len(a), len(b)) && bytes.Equal(a[n], b[n]) {
		n++
	}
	next := func(lines [][]byte) []byte { return bytes.Join(lines[n:min(n+6, len(lines))], nil) }
	return bytes.Join([][]byte{bytes.Join(a[max(0, n-10):n], nil), []byte("--- first\n"), next(a), []byte("--- now\n"), next(b)}, nil)
}
