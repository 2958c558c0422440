package storetest

import (
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/store"
)

var dueTests = []test{
	{"FencedOwnersRuns", dueFenced},
	{"InTheOrderOfTime", dueOrder},
	{"Owners", dueOwners},
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
	owners, err := b.store.Owners(b.ctx())
	require.NoError(b, err)
	require.NotContains(b, owners, p.self)
	b.must(b.claim(run))
	require.EqualValues(b, 2, b.run(run).Epoch)
}

func dueOwners(b *bench) {
	p := b.peer()
	b.start(journal.Engine)
	b.start(journal.Engine)
	p.start(journal.Engine)
	beat := func() (mine, theirs int64) {
		owners, err := b.store.Owners(b.ctx())
		require.NoError(b, err)
		require.Contains(b, owners, b.self)
		require.Contains(b, owners, p.self)
		return owners[b.self], owners[p.self]
	}
	mine, theirs := beat()
	require.Zero(b, mine)
	require.Zero(b, theirs)
	require.NoError(b, b.store.Beat(b.ctx(), b.self))
	require.NoError(b, b.store.Beat(b.ctx(), b.self))
	mine, theirs = beat()
	require.EqualValues(b, 2, mine)
	require.Zero(b, theirs)
}
