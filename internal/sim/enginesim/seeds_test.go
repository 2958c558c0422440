package enginesim_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/sim"
	"github.com/cairn-workflow/cairn/internal/sim/enginesim"
)

// TestEngineSeeds executes random workflows on engines that die, freeze and come back, over a store that fails at every point: every run must end with the result that
// it has without faults, and everything that is promised on the way must hold. It runs as many seeds as SEEDS says, or as fit into SIM_SECONDS, but
// at least fifty; with SEED, that one; with SOAK, until it is stopped. With PART=2/3 it runs the second of every three,
// and with FROM it begins there.
func TestEngineSeeds(t *testing.T) { //nolint:paralleltest // it has the time that the other tests leave
	const least = 50
	seeds, first, soak := sim.Number(t, "SEEDS"), sim.Number(t, "SEED"), os.Getenv("SOAK") != ""
	if first != 0 {
		check(t, uint64(first))
		return
	}
	told := time.Now()
	end := began.Add(time.Duration(sim.Number(t, "SIM_SECONDS")) * time.Second)
	part, parts := 1, 1
	if text := os.Getenv("PART"); text != "" {
		_, err := fmt.Sscanf(text, "%d/%d", &part, &parts)
		require.NoError(t, err, "PART is like 2/3")
	}
	n, histories, undecided := 0, 0, 0
	for next := max(1, sim.Number(t, "FROM")) + part - 1; soak || seeds > 0 && next <= seeds || seeds == 0 && (n < least || time.Now().Before(end)); next += parts {
		n++
		seed := uint64(next)
		if soak { // others than last time
			seed = uint64(began.UnixNano()) + uint64(next)
		}
		report := check(t, seed)
		histories += report.Histories
		undecided += report.Undecided
		if time.Since(told) > time.Minute {
			told = time.Now()
			fmt.Printf("%s: %d seeds of engines, %d histories undecided\n", time.Since(began).Round(time.Second), n, undecided)
		}
	}
	fmt.Printf("%d seeds of engines, %d histories undecided\n", n, undecided)
	require.LessOrEqual(t, undecided, max(5, histories/100), "of %d histories: who does not look, finds nothing", histories)
}

// check simulates a seed.
func check(t *testing.T, seed uint64) *enginesim.Report {
	t.Helper()
	plan := enginesim.NewPlan(seed)
	report := simulate(t, plan, enginesim.Options{})
	if file := os.Getenv("TRACE"); file != "" {
		require.NoError(t, os.WriteFile(file, report.Trace, 0o600))
	}
	if report.Err() != nil {
		fails(t, plan, report, enginesim.Options{})
	}
	return report
}
