package enginesim

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/bubble"
)

// TestTurns lets many take their turns at once, so many that some choose the same instant: each has one of its own in the end, always the same, and those of
// another lane have others.
func TestTurns(t *testing.T) {
	t.Parallel()
	const many = 2000
	run := func() (instants []time.Duration) {
		instants = make([]time.Duration, many)
		bubble.Run(t, func(*testing.T) {
			turns := newTurns(7, time.Now())
			var all sync.WaitGroup
			for i := range many {
				all.Go(func() {
					turns.take(lane(i%2), fmt.Sprint("number ", i))
					instants[i] = time.Since(turns.began)
				})
			}
			all.Wait()
		})
		return instants
	}
	first := run()
	taken := map[time.Duration]bool{}
	again := 0
	for i, at := range first {
		require.False(t, taken[at], "two have their turn at %s", at)
		taken[at] = true
		require.Equal(t, time.Duration(i%2), at%lanes)
		if at > longestTurn+lanes {
			again++
		}
	}
	require.NotZero(t, again, "nobody had to choose again")
	require.Equal(t, first, run())
}

// TestReserve reserves the same instant again and again.
func TestReserve(t *testing.T) {
	t.Parallel()
	bubble.Run(t, func(t *testing.T) {
		t.Helper()
		turns := newTurns(7, time.Now())
		taken := map[time.Duration]bool{}
		for range 10 {
			d := turns.reserve(laneDatabase, time.Millisecond)
			require.False(t, taken[d])
			require.Equal(t, time.Duration(laneDatabase), d%lanes)
			require.GreaterOrEqual(t, d, time.Millisecond)
			taken[d] = true
		}
	})
}
