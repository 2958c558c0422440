package storetest

import (
	"context"
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
}

// due lists the runs of the bench's namespace that are due.
func (b *bench) due(now journal.Time, limit int, workflows ...string) []store.DueRun {
	b.Helper()
	if len(workflows) == 0 {
		workflows = []string{birth(journal.Engine).Workflow}
	}
	due, err := b.store.Due(b.ctx(), store.DueFilter{Namespace: b.ns, Workflows: workflows, Owner: b.self, Now: now, Limit: limit})
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
		Namespace: b.ns, Workflows: []string{birth(journal.Engine).Workflow}, Owner: b.self, From: journal.WakeAfterDeath + 1, Now: b.now, Limit: 10,
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
