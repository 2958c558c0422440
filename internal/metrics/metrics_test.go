package metrics_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/metrics"
	"github.com/cairn-workflow/cairn/observe"
)

func TestBound(t *testing.T) {
	t.Parallel()
	var b metrics.Bound
	for i := range metrics.MaxValues {
		v := strconv.Itoa(i)
		require.Equal(t, v, b.Value("step", v))
	}
	require.Equal(t, "7", b.Value("step", "7"), "known ones stay")
	require.Equal(t, metrics.Other, b.Value("step", "one more"))
	require.Equal(t, "one more", b.Value("code", "one more"), "each label has its own")
}

type source struct{ stats observe.Stats }

func (s *source) Stats() observe.Stats { return s.stats }

// Two engines in one namespace are added; one that is stopped keeps what it has counted, and has nothing that goes on.
func TestTotals(t *testing.T) {
	t.Parallel()
	var totals metrics.Totals
	require.Empty(t, totals.Read())
	a := &source{observe.Stats{Namespace: "n", Active: 1, LeasesLost: 10}}
	b := &source{observe.Stats{Namespace: "n", Active: 2, LeasesLost: 20}}
	c := &source{observe.Stats{Namespace: "m", Active: 4}}
	for _, s := range []*source{a, b, c} {
		totals.Started(s)
	}
	totals.Stopped(a)
	totals.Stopped(a)
	require.Equal(t, []observe.Stats{{Namespace: "m", Active: 4}, {Namespace: "n", Active: 2, LeasesLost: 30}}, totals.Read())
}

func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, m := range metrics.All() {
		require.False(t, seen[m.Prometheus] || seen[m.OTel], m.Prometheus)
		seen[m.Prometheus], seen[m.OTel] = true, true
		require.NotEmpty(t, m.Help)
		require.Equal(t, m.Kind == metrics.Histogram, len(m.Buckets) > 0, m.Prometheus)
	}
}
