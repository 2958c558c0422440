package torture

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What follows from the seed follows from the seed alone.
func TestOrdersFollowFromTheSeed(t *testing.T) {
	t.Parallel()
	kinds, meddles, others := map[string]bool{}, map[string]bool{}, 0
	for n := range 300 {
		o := orderOf(7, 1, n)
		require.Equal(t, o, orderOf(7, 1, n))
		require.Equal(t, o.result(), (&o).result())
		if other := orderOf(8, 1, n); !slices.EqualFunc(o.Legs, other.Legs, func(a, b leg) bool { return a.Kind == b.Kind }) {
			others++
		}
		meddles[o.Meddle] = true
		for i := range o.Legs {
			kinds[o.Legs[i].Kind] = true
			require.True(t, o.Keyed || !needsClient(o.Legs), "nobody would answer the hooks of %s", o.Name)
		}
	}
	require.Len(t, kinds, 13)
	require.Len(t, meddles, 5)
	require.Greater(t, others, 200, "another seed gives other orders")
}

func needsClient(legs []leg) bool {
	return slices.ContainsFunc(legs, func(l leg) bool {
		return l.Kind == legHook || l.Kind == legOnce || l.Kind == legAsk || l.Kind == legForever || needsClient(l.Legs)
	})
}

// Each deck has every kind of blow, and a stop is longer than the lease.
func TestBlowsFollowFromTheSeed(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	deck := deckOf(true, true)
	next, again := blowsOf(3, deck, time.Second, lease), blowsOf(3, deck, time.Second, lease)
	for range 5 {
		var dealt []string
		for range deck {
			b := next()
			require.Equal(t, b, again())
			dealt = append(dealt, b.Kind)
			if b.Kind == blowStop {
				require.GreaterOrEqual(t, b.Lasts, lease)
			}
		}
		require.ElementsMatch(t, deck, dealt)
	}
	require.NotContains(t, deckOf(false, false), blowCut)
	require.NotContains(t, deckOf(false, false), blowFull)
}
