package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var searchTests = []test{
	{"Model", searchModel},
	{"UnknownStatus", searchUnknownStatus},
}

// searchModel compares every filter with one that goes through all runs.
func searchModel(b *bench) {
	const seed = 7
	b.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	runs := b.generateRuns(random, 300)
	foreign := b.foreign()
	foreign.generateRuns(random, 30)

	filters := b.fixedFilters(runs)
	more := 150
	if testing.Short() {
		more = 20
	}
	for range more {
		filters = append(filters, b.randomFilter(random, runs))
	}
	for _, f := range filters {
		var want []*journal.Run
		for _, r := range runs {
			if matches(&f, r) {
				want = append(want, runWithout(r))
			}
		}
		if len(f.Attributes) == 0 && len(f.Ranges) > 0 {
			key := f.Ranges[0].Key
			slices.SortStableFunc(want, func(x, y *journal.Run) int { return strings.Compare(x.Attributes[key], y.Attributes[key]) })
		}
		for _, desc := range []bool{false, true} {
			if desc {
				slices.Reverse(want)
			}
			limit := 1 + random.IntN(len(want)+40)
			got := all(b, func(p store.Page) (store.List[*journal.Run], error) { return b.store.Runs(b.ctx(), b.ns, f, p) },
				store.Page{Limit: max(limit, 20), Desc: desc})
			require.Len(b, got, len(want), "filter %+v", f)
			for i := range got {
				require.Equal(b, want[i], normal(got[i]), "filter %+v", f)
			}
		}
	}
}

// generateRuns makes runs of all kinds in one batch, and returns them in the order of their ids, as readers show them.
func (b *bench) generateRuns(random *rand.Rand, n int) []*journal.Run {
	b.Helper()
	var parents []journal.ID
	var changes store.Changes
	var runs []*journal.Run
	for i := range n {
		b.now += journal.Time(random.IntN(3) * 1000)
		created := &journal.RunCreated{Workflow: fmt.Sprint("flow-", random.IntN(4)), Attributes: map[string]string{}, Input: payload("in")}
		created.Dialect = journal.Dialect(random.IntN(3))
		created.Spec = birth(created.Dialect).Spec
		for _, key := range []string{"color", "size", "größe"} {
			if random.IntN(3) > 0 {
				created.Attributes[key] = fmt.Sprint(random.IntN(3))
			}
		}
		if len(parents) > 0 && random.IntN(3) == 0 {
			created.Parent = parents[random.IntN(len(parents))]
		}
		if random.IntN(4) == 0 {
			created.StartKey, created.StartDigest = fmt.Sprint("key-", i), []byte{1}
		}
		id := b.mint()
		if random.IntN(10) == 0 { // clients may make ids some time before
			old := b.now - journal.Time(random.IntN(20*3_600_000))
			for k, ms := 5, old; k >= 0; k, ms = k-1, ms>>8 {
				id[k] = byte(ms)
			}
		}
		if i < 3 {
			parents = append(parents, id)
		}
		cmd := &journal.Command{Run: id, Events: []journal.Event{plain(created)}}
		if created.Dialect == journal.Engine {
			cmd.Guards.Owner.Incarnation = b.self
		}
		end := []journal.Data{&journal.RunCompleted{Output: payload("out")}, &journal.RunFailed{Error: &cairnerr.Error{Code: "x"}}, &journal.RunCancelled{}}
		if far := random.IntN(6); far > 0 {
			cmd.Events = append(cmd.Events, plain(&journal.RunStarted{}))
			switch {
			case far > 2:
				cmd.Events = append(cmd.Events, plain(end[far-3]))
			case created.Dialect != journal.Engine:
			case random.IntN(3) == 0:
				cmd.Events = append(cmd.Events, plain(&journal.RunParked{Error: &cairnerr.Error{Code: "x"}}))
			case random.IntN(2) == 0:
				cmd.Lease = journal.LeaseRelease
			}
		}
		c := b.optimistic(journal.NewState(b.ns), cmd)
		changes.Runs = append(changes.Runs, c.Runs...)
	}
	require.NoError(b, b.commit(&store.Changes{Runs: sorted(changes.Runs...)}))
	for i := range changes.Runs {
		c := &changes.Runs[i]
		runs = append(runs, b.viewsOf(c.State, c.Events).run)
	}
	return runs
}

func (b *bench) fixedFilters(runs []*journal.Run) []store.RunFilter {
	middle, first := runs[len(runs)/2].CreatedAt, runs[0].CreatedAt
	filters := []store.RunFilter{
		{},
		{Workflow: "flow-1"},
		{Workflow: "none"},
		{Parent: runs[len(runs)-1].Parent},
		{Parent: b.mint()},
		{Attributes: map[string]string{"color": "1"}},
		{Attributes: map[string]string{"größe": "2", "size": "0"}},
		{Attributes: map[string]string{"color": ""}},
		{Attributes: map[string]string{"none": "1"}},
		{Ranges: []store.AttributeRange{{Key: "color"}}},
		{Ranges: []store.AttributeRange{{Key: "color", From: "1"}}},
		{Ranges: []store.AttributeRange{{Key: "color", Below: "2"}, {Key: "size", From: "1", Below: "2"}}},
		{Ranges: []store.AttributeRange{{Key: "none"}}},
		{Ranges: []store.AttributeRange{{Key: "size", From: "2", Below: "1"}}},
		{CreatedFrom: middle},
		{CreatedBefore: middle},
		{CreatedFrom: first, CreatedBefore: middle},
		{CreatedFrom: middle, CreatedBefore: middle + 1},
		{CreatedFrom: middle, CreatedBefore: middle},
		{CreatedFrom: b.now + 1},
		{CreatedBefore: 1},
		{Statuses: []journal.Status{journal.StatusRunning, journal.StatusRunning}},
		{Phase: store.PhaseParked},
		{Phase: store.PhaseWaiting},
		{Phase: store.PhaseParked, Workflow: "flow-2"},
		{Phase: store.PhaseWaiting, Workflow: "flow-2", Attributes: map[string]string{"color": "1"}},
		{Phase: store.PhaseParked, Statuses: []journal.Status{journal.StatusRunning, journal.StatusPending}},
		{StartKey: "none", Workflow: "flow-1"},
	}
	for _, r := range runs {
		if r.StartKey != "" {
			filters = append(filters, store.RunFilter{StartKey: r.StartKey, Workflow: r.Workflow}, store.RunFilter{StartKey: r.StartKey, Workflow: "flow-1"})
		}
	}
	for s := journal.StatusPending; s <= journal.StatusCancelled; s++ {
		filters = append(filters, store.RunFilter{Statuses: []journal.Status{s}}, store.RunFilter{Statuses: []journal.Status{s, journal.StatusCompleted}},
			store.RunFilter{Statuses: []journal.Status{s, journal.StatusPending, journal.StatusFailed}})
	}
	return filters
}

func (b *bench) randomFilter(random *rand.Rand, runs []*journal.Run) store.RunFilter {
	var f store.RunFilter
	if random.IntN(3) == 0 {
		f.Workflow = fmt.Sprint("flow-", random.IntN(4))
	}
	for s := journal.StatusPending; s <= journal.StatusCancelled && len(f.Statuses) < 3; s++ {
		if random.IntN(4) == 0 {
			f.Statuses = append(f.Statuses, s)
		}
	}
	f.Phase = []store.RunPhase{store.AnyPhase, store.AnyPhase, store.PhaseParked, store.PhaseWaiting}[random.IntN(4)]
	if random.IntN(4) == 0 {
		f.Parent = runs[random.IntN(len(runs))].Parent
	}
	f.Attributes = map[string]string{}
	for _, key := range []string{"color", "size", "größe"} {
		if random.IntN(4) == 0 {
			f.Attributes[key] = fmt.Sprint(random.IntN(3))
		}
	}
	for _, key := range []string{"size", "color"} {
		if random.IntN(4) == 0 {
			from := random.IntN(3)
			f.Ranges = append(f.Ranges, store.AttributeRange{Key: key, From: fmt.Sprint(from), Below: fmt.Sprint(from + random.IntN(3))})
		}
	}
	if random.IntN(3) == 0 {
		f.CreatedFrom = runs[random.IntN(len(runs))].CreatedAt
	}
	if random.IntN(3) == 0 {
		f.CreatedBefore = runs[random.IntN(len(runs))].CreatedAt
	}
	return f
}

func matches(f *store.RunFilter, r *journal.Run) bool {
	for k, v := range f.Attributes {
		if have, ok := r.Attributes[k]; !ok || have != v {
			return false
		}
	}
	for _, x := range f.Ranges {
		have, ok := r.Attributes[x.Key]
		if !ok || have < x.From || (x.Below != "" && have >= x.Below) {
			return false
		}
	}
	switch f.Phase {
	case store.AnyPhase:
	case store.PhaseParked:
		if r.ParkedAt == 0 {
			return false
		}
	case store.PhaseWaiting:
		if r.ParkedAt != 0 || r.Status != journal.StatusRunning || !r.Owner.IsZero() {
			return false
		}
	}
	return (f.Workflow == "" || f.Workflow == r.Workflow) &&
		(len(f.Statuses) == 0 || slices.Contains(f.Statuses, r.Status)) &&
		(f.StartKey == "" || f.StartKey == r.StartKey) &&
		(f.Parent.IsZero() || f.Parent == r.Parent) &&
		(f.CreatedFrom == 0 || r.CreatedAt >= f.CreatedFrom) &&
		(f.CreatedBefore == 0 || r.CreatedAt < f.CreatedBefore)
}

func searchUnknownStatus(b *bench) {
	b.start(journal.Engine)
	for _, f := range []store.RunFilter{{Statuses: []journal.Status{99}}, {Workflow: "checkout", Statuses: []journal.Status{99}}} {
		l, err := b.store.Runs(b.ctx(), b.ns, f, store.Page{})
		require.NoError(b, err)
		require.Empty(b, l.Data)
	}
}
