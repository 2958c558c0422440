package enginesim_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/sim/enginesim"
)

// simulate runs a plan in a bubble of its own.
func simulate(t *testing.T, plan *enginesim.Plan, opts enginesim.Options) *enginesim.Report {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "sim")
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(dir) }()
	var report *enginesim.Report
	bubble.Run(t, func(*testing.T) { report = enginesim.Run(plan, dir, opts) })
	return report
}

func TestOne(t *testing.T) {
	first, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	n, _ := strconv.Atoi(os.Getenv("SEEDS"))
	bad := 0
	for i := range max(n, 1) {
		seed := first + uint64(i)
		began := time.Now()
		r := simulate(t, enginesim.NewPlan(seed), enginesim.Options{})
		err := r.Err()
		t.Logf("seed %d %s undecided %d", seed, time.Since(began), r.Undecided)
		if err != nil {
			bad++
			t.Errorf("seed %d: %v", seed, err)
			if bad > 10 {
				return
			}
		}
		if os.Getenv("TRACE") != "" {
			os.WriteFile(os.Getenv("TRACE"), r.Trace, 0o644)
		}
	}
}
