package sim_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/sim"
)

// inMemory returns a directory that is in memory where there is such a place: no test of this package needs the disk.
func inMemory(t *testing.T) string {
	t.Helper()
	const shared = "/dev/shm"
	if info, err := os.Stat(shared); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(shared, "sim")
	require.NoError(t, err)
	return dir
}

// simulate runs a seed in a bubble of its own.
func simulate(t *testing.T, seed uint64, opts sim.Options) (trace []byte, err error) {
	t.Helper()
	dir := inMemory(t)
	defer func() { _ = os.RemoveAll(dir) }()
	bubble.Run(t, func(*testing.T) { trace, err = sim.Run(seed, dir, opts) })
	return trace, err
}

// TestOneSeedOneTrace runs seeds many times: the traces of one must be the same, byte for byte. In seed 64, two processes that were killed go on to their end.
func TestOneSeedOneTrace(t *testing.T) {
	t.Parallel()
	seeds := []uint64{64, 4711}
	if os.Getenv("CAIRN_VERIFY") != "" {
		seeds = append(seeds, 1, 2, 3, 4, 5, 6, 7, 8)
	}
	for _, seed := range seeds {
		first, err := simulate(t, seed, sim.Options{})
		require.NoError(t, err)
		require.NotEmpty(t, first)
		for range 19 {
			again, err := simulate(t, seed, sim.Options{})
			require.NoError(t, err)
			if !bytes.Equal(first, again) {
				require.Equal(t, string(first), string(again), "seed %d", seed)
			}
		}
	}
}

// TestSeeds runs as many seeds as SEEDS says, or as fit into SIM_SECONDS, but at least fifty; with SOAK, until it is stopped.
func TestSeeds(t *testing.T) {
	t.Parallel()
	const least = 50
	seeds, seconds := sim.Number(t, "SEEDS"), sim.Number(t, "SIM_SECONDS")
	first := uint64(sim.Number(t, "SEED"))
	if first != 0 {
		seeds = max(seeds, 1)
	}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	n := 0
	if os.Getenv("SOAK") != "" { // others than last time
		first = uint64(time.Now().UnixNano())
	}
	told := time.Now()
	for os.Getenv("SOAK") != "" || seeds > 0 && n < seeds || seeds == 0 && (n < least || time.Now().Before(end)) {
		seed := first + uint64(n)
		if first == 0 {
			seed++
		}
		_, err := simulate(t, seed, sim.Options{})
		require.NoError(t, err, "replay with: SEED=%d go test ./internal/sim -run TestSeeds -v", seed)
		n++
		if time.Since(told) > time.Minute {
			told = time.Now()
			fmt.Printf("%d seeds of committers\n", n)
		}
	}
	fmt.Printf("%d seeds of committers\n", n)
}
