package storetest

import (
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var headTests = []test{
	{"OfManyRuns", headsOfMany},
	{"OfEveryState", headsOfEveryState},
	{"OfNothing", headsOfNothing},
}

// heads returns the heads of runs by their ids.
func (b *bench) heads(ids ...journal.ID) map[journal.ID]store.RunHead {
	b.Helper()
	list, err := b.store.Heads(b.ctx(), b.ns, ids)
	require.NoError(b, err)
	heads := map[journal.ID]store.RunHead{}
	for _, h := range list {
		require.NotContains(b, heads, h.Run, "each run comes once")
		heads[h.Run] = h
	}
	return heads
}

func headsOfEveryState(b *bench) {
	pending, running, parked, ended := b.mint(), b.start(journal.Engine), b.start(journal.Engine), b.start(journal.Engine)
	created := birth(journal.Engine)
	created.StartAt = b.now + 1000
	b.must(&journal.Command{Run: pending, Events: []journal.Event{plain(created)}})
	b.later(1)
	b.write(parked, plain(&journal.RunParked{Error: &cairnerr.Error{Code: "paused"}, Asked: true}))
	at := b.now
	b.later(1)
	b.write(ended, plain(&journal.RunCompleted{}))
	b.outsider(ended, plain(&journal.Annotated{Name: "note", Actor: "me"}))
	require.Equal(b, map[journal.ID]store.RunHead{
		pending: {Run: pending, Status: journal.StatusPending, Seq: 1},
		running: {Run: running, Status: journal.StatusRunning, Seq: 2},
		parked:  {Run: parked, Status: journal.StatusRunning, ParkedAt: at, Seq: 3},
		ended:   {Run: ended, Status: journal.StatusCompleted, Seq: 4},
	}, b.heads(pending, running, parked, ended))
	b.outsider(parked, plain(&journal.RunResumed{}))
	require.Equal(b, store.RunHead{Run: parked, Status: journal.StatusRunning, Seq: 4}, b.heads(parked)[parked])
}

// headsOfMany asks for some runs of many, and for as many that do not exist.
func headsOfMany(b *bench) {
	var asked []journal.ID
	want := map[journal.ID]store.RunHead{}
	for i := range 40 {
		run := b.start(journal.Engine)
		if i%2 == 0 {
			asked = append(asked, run, b.mint())
			want[run] = store.RunHead{Run: run, Status: journal.StatusRunning, Seq: 2}
		}
	}
	require.Equal(b, want, b.heads(asked...))
	for range 3 {
		b.write(asked[0], plain(&journal.Annotated{Name: "note", Actor: "me"}))
	}
	require.Equal(b, int64(5), b.heads(asked...)[asked[0]].Seq)
}

func headsOfNothing(b *bench) {
	run := b.start(journal.Engine)
	require.Empty(b, b.heads())
	require.Empty(b, b.heads(b.mint()))
	require.Empty(b, b.foreign().heads(run), "a run of another namespace")
	require.Empty(b, b.in(b.ns+" never seen").heads(run))
	b.write(run, plain(&journal.RunCompleted{}))
	require.NoError(b, b.store.Delete(b.ctx(), b.ns, run))
	require.Empty(b, b.heads(run), "a run that was deleted")
}
