package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// TestDelete_RunIsBeingAnnotated_LeavesNoRow deletes a run to which somebody is just writing: what that writes is
// deleted as well.
func TestDelete_RunIsBeingAnnotated_LeavesNoRow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	run := f.start()
	id, ref := run.Run.ID, run.Ref
	end := f.reduce(run, id, f.owner(), journal.Event{Data: &journal.RunCompleted{}})
	require.NoError(t, f.commit(f.writer, &store.Changes{Runs: []store.RunChange{end}}))
	b := f.begin(f.writer)
	want := &store.LoadSet{Runs: []store.LoadRun{{Namespace: namespace, Run: id, EventsAfter: -1}}}
	loaded, err := b.Load(t.Context(), want)
	require.NoError(t, err)

	deleted := make(chan error, 1)
	go func() { deleted <- f.Delete(t.Context(), namespace, id) }()
	f.waiting(`%from runs where%`)
	note := f.reduce(loaded.Runs[0].State, id, journal.Guards{}, journal.Event{Data: &journal.Annotated{Name: "note"}})
	require.NoError(t, b.Commit(t.Context(), &store.Changes{Runs: []store.RunChange{note}}))
	require.NoError(t, <-deleted)
	var left int
	require.NoError(t, f.pool.QueryRow(t.Context(), `select count(*) from events where run = $1`, ref).Scan(&left))
	require.Zero(t, left)
}
