package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var dueTests = []test{
	{"FencedOwnersRuns", dueFenced},
	{"Paused", duePaused},
	{"FencedInTheMiddle", dueFencedInTheMiddle},
	{"InTheOrderOfTime", dueOrder},
	{"Next", dueNext},
	{"Peers", duePeers},
	{"OwnersPoked", duePoked},
	{"InSeveralNamespaces", dueInSeveral},
	{"Parked", dueParked},
}

// scope is what a process executes that has some workflows.
func (b *bench) scope(workflows ...string) store.Scope {
	return store.Scope{Namespaces: []string{b.ns}, Workflows: workflows}
}

// due lists the runs of the bench's namespace that are due.
func (b *bench) due(now journal.Time, limit int, workflows ...string) []store.DueRun {
	b.Helper()
	if len(workflows) == 0 {
		workflows = []string{birth(journal.Engine).Workflow}
	}
	due, err := b.store.Due(b.ctx(), store.DueFilter{Scope: b.scope(workflows...), Owner: b.self, Now: now, Limit: limit})
	require.NoError(b, err)
	return due
}

func dueOrder(b *bench) {
	late, soon, now := b.mint(), b.mint(), b.mint()
	for run, at := range map[journal.ID]journal.Time{late: b.now + 2000, soon: b.now + 1000, now: 0} {
		created := birth(journal.Engine)
		created.StartAt = at
		b.must(&journal.Command{Run: run, Events: []journal.Event{plain(created)}})
	}
	require.Empty(b, b.due(b.now-1, 10))
	require.Equal(b, []store.DueRun{{Namespace: b.ns, Run: now, WakeAt: b.now}}, b.due(b.now, 10))
	all := b.due(b.now+2000, 10)
	require.Len(b, all, 3)
	require.Equal(b, []journal.ID{now, soon, late}, []journal.ID{all[0].Run, all[1].Run, all[2].Run})
	require.Len(b, b.due(b.now+2000, 2), 2)
	require.Empty(b, b.due(b.now+2000, 10, "another workflow"))
	require.Empty(b, b.foreign().due(b.now+2000, 10))
}

// duePoked has something come from outside to a run that somebody owns: its owner is told, others are not.
func duePoked(b *bench) {
	run := b.start(journal.Engine)
	require.Empty(b, b.due(b.now, 10))
	p := b.peer()
	p.outsider(run, plain(&journal.CancelRequested{}))
	due := b.due(b.now+1_000_000, 10)
	require.Len(b, due, 1)
	require.Equal(b, b.self, due[0].Owner)
	require.Empty(b, p.due(b.now+1_000_000, 10))
}

// dueFenced declares a process dead: its runs are due, whoever looks.
func dueFenced(b *bench) {
	p := b.peer()
	run := p.start(journal.Engine)
	require.Empty(b, b.due(b.now, 10))
	require.NoError(b, b.store.Beat(b.ctx(), p.self))
	require.NoError(b, b.store.Fence(b.ctx(), p.self))
	due := b.due(b.now, 10)
	require.Len(b, due, 1)
	require.Equal(b, run, due[0].Run)
	require.True(b, due[0].Owner.IsZero())
	require.Nil(b, b.seen(p.self))
	require.False(b, b.owns(p.self))
	after, err := b.store.Due(b.ctx(), store.DueFilter{
		Scope: b.scope(birth(journal.Engine).Workflow), Owner: b.self, From: journal.WakeAfterDeath + 1, Now: b.now, Limit: 10,
	})
	require.NoError(b, err)
	require.Empty(b, after, "runs of dead processes can be left out")
	b.must(b.claim(run))
	require.EqualValues(b, 2, b.run(run).Epoch)
}

// duePaused pauses a run from outside: its owner is told, and nobody else takes it, also when the owner dies or gives it back.
func duePaused(b *bench) {
	p := b.peer()
	pause := plain(&journal.RunParked{Error: &cairnerr.Error{Code: "paused"}, Asked: true})
	dead, back := p.start(journal.Engine), p.start(journal.Engine)
	for _, run := range []journal.ID{dead, back} {
		b.outsider(run, pause)
		b.check(run)
	}
	require.Len(b, p.due(b.now, 10), 2, "the owner is told")
	require.Empty(b, b.due(b.now, 10))
	cmd := &journal.Command{Run: back, Lease: journal.LeaseRelease, Guards: journal.Guards{Owner: journal.Ownership{Incarnation: p.self, Epoch: 1}}}
	p.must(cmd)
	require.NoError(b, b.store.Fence(b.ctx(), p.self))
	for _, run := range []journal.ID{dead, back} {
		got := b.run(run)
		require.True(b, got.Owner.IsZero())
		require.NotZero(b, got.ParkedAt)
		require.Zero(b, got.WakeAt)
	}
	require.Empty(b, b.due(b.now+1_000_000, 10))
	b.outsider(dead, plain(&journal.RunResumed{}))
	require.Len(b, b.due(b.now+1_000_000, 10), 1)
}

// seen returns what is seen of a process, nil if nothing.
func (b *bench) seen(incarnation journal.ID) *store.Peer {
	b.Helper()
	peers, err := b.store.Peers(b.ctx())
	require.NoError(b, err)
	for _, p := range peers {
		if p.Incarnation == incarnation {
			return &p
		}
	}
	return nil
}

func (b *bench) owns(incarnation journal.ID) bool {
	b.Helper()
	owns, err := b.store.Owns(b.ctx(), incarnation)
	require.NoError(b, err)
	return owns
}

// dueFencedInTheMiddle gives up declaring a process dead at some moment: who is not seen any more owns nothing, or nobody would ever take its runs.
func dueFencedInTheMiddle(b *bench) {
	for n := range 25 {
		p := b.peer()
		p.start(journal.Engine)
		ctx, cancel := context.WithTimeout(b.ctx(), time.Duration(n)*100*time.Microsecond)
		_ = b.store.Fence(ctx, p.self)
		cancel()
		if b.seen(p.self) == nil {
			require.False(b, b.owns(p.self))
		}
	}
}

func duePeers(b *bench) {
	p := b.peer()
	require.NotNil(b, b.seen(p.self), "who has opened a writer is there")
	require.False(b, b.owns(p.self))
	before := *b.seen(p.self)
	run := p.start(journal.Engine)
	after := *b.seen(p.self)
	require.Greater(b, after.Batch, before.Batch, "who writes moves")
	require.True(b, b.owns(p.self))
	require.Equal(b, after, *b.seen(p.self), "who does nothing does not")
	require.NoError(b, b.store.Beat(b.ctx(), p.self))
	require.NoError(b, b.store.Beat(b.ctx(), p.self))
	require.Equal(b, after.Beat+2, b.seen(p.self).Beat)
	p.write(run, plain(&journal.RunCompleted{}))
	require.False(b, b.owns(p.self), "a run that has ended belongs to nobody")
}

func dueNext(b *bench) {
	next := func(after journal.Time) journal.Time {
		at, err := b.store.NextDue(b.ctx(), after)
		require.NoError(b, err)
		return at
	}
	far := b.now + 1_000_000_000_000
	require.Zero(b, next(far))
	for _, at := range []journal.Time{far + 2000, far + 1000} {
		created := birth(journal.Engine)
		created.StartAt = at
		b.must(&journal.Command{Run: b.mint(), Events: []journal.Event{plain(created)}})
	}
	require.Equal(b, far+1000, next(far))
	require.Equal(b, far+2000, next(far+1000))
	require.Zero(b, next(far+2000))
}

// dueInSeveral looks for runs of one workflow in some namespaces, and in all.
func dueInSeveral(b *bench) {
	workflow := fmt.Sprintf("only here %s", b.ns) // others use the database, too
	var runs []journal.ID
	places := []*bench{b, b.in(b.ns + " 2"), b.in(b.ns + " 3")}
	for i, p := range places {
		created := birth(journal.Engine)
		created.Workflow, created.StartAt = workflow, b.now+journal.Time(i)
		runs = append(runs, p.mint())
		p.must(&journal.Command{Run: runs[i], Events: []journal.Event{plain(created)}})
	}
	for name, want := range map[string]struct {
		scope store.Scope
		runs  []journal.ID
	}{
		"one":     {store.Scope{Namespaces: []string{places[1].ns}}, runs[1:2]},
		"two":     {store.Scope{Namespaces: []string{places[2].ns, "nobody's", b.ns}}, []journal.ID{runs[0], runs[2]}},
		"all":     {store.Scope{All: true, Namespaces: []string{"nobody's"}}, runs},
		"nowhere": {store.Scope{Namespaces: []string{"nobody's"}}, nil},
		"none":    {store.Scope{}, nil},
	} {
		want.scope.Workflows = []string{"another", workflow}
		due, err := b.store.Due(b.ctx(), store.DueFilter{Scope: want.scope, Owner: b.self, Now: b.now + 10, Limit: 10})
		require.NoError(b, err, name)
		var found []journal.ID
		for _, d := range due {
			found = append(found, d.Run)
			require.Equal(b, places[slices.Index(runs, d.Run)].ns, d.Namespace)
		}
		require.Equal(b, want.runs, found, name)
	}
}

// dueParked lists parked runs of several namespaces, page by page.
func dueParked(b *bench) {
	workflow := fmt.Sprintf("parked only here %s", b.ns)
	places := []*bench{b, b.in(b.ns + " 2")}
	want := map[store.RunKey]bool{}
	for i := range 7 {
		p := places[i%2]
		run := p.start(journal.Engine, func(d *journal.RunCreated) { d.Workflow = workflow })
		if i < 5 {
			p.outsider(run, plain(&journal.RunParked{Error: &cairnerr.Error{Code: "paused"}, Asked: true}))
			want[store.RunKey{Namespace: p.ns, Run: run}] = true
		}
	}
	for _, limit := range []int{1, 2, 10} {
		found := map[store.RunKey]bool{}
		for after := (store.RunKey{}); ; {
			parked, err := b.store.Parked(b.ctx(), store.Scope{All: true, Workflows: []string{workflow}}, after, limit)
			require.NoError(b, err)
			for _, run := range parked {
				require.False(b, found[run.RunKey])
				require.Equal(b, b.now, run.ParkedAt)
				found[run.RunKey] = true
				after = run.RunKey
			}
			if len(parked) < limit {
				break
			}
		}
		require.Equal(b, want, found, limit)
	}
	some, err := b.store.Parked(b.ctx(), store.Scope{Namespaces: []string{places[1].ns}, Workflows: []string{workflow}}, store.RunKey{}, 10)
	require.NoError(b, err)
	require.Len(b, some, 2)
	none, err := b.store.Parked(b.ctx(), b.scope("another"), store.RunKey{}, 10)
	require.NoError(b, err)
	require.Empty(b, none)
}
