package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/store"
)

// What a batch could not wake, because somebody held the run, is woken later, also if the process that wanted to is gone.
func TestWhatCouldNotBeWokenIsWokenLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	sleeping := f.start()
	f.sql(`update runs set owner = null, wake_at = null where no = $1`, sleeping.Ref)
	stranger := f.start()
	f.sql(`update runs set owner = null, wake_at = null where no = $1`, stranger.Ref)
	gone := f.mint()
	other := f.start()
	beside := f.beside()
	_, err := beside.Exec(t.Context(), `select from runs where no = $1 for update`, sleeping.Ref)
	require.NoError(t, err)
	require.NoError(t, f.commit(f.writer, &store.Changes{Runs: []store.RunChange{f.step(other, "a")}, Wake: []store.RunKey{
		{Namespace: namespace, Run: sleeping.Run.ID}, {Namespace: namespace, Run: gone},
	}}))
	require.NoError(t, f.writer.Close()) // whoever wanted to wake it does nothing more
	due := func() []store.DueRun {
		runs, err := f.Due(t.Context(), store.DueFilter{Scope: store.Scope{Namespaces: []string{namespace}, Workflows: []string{"w"}}, Now: f.now, Limit: 10})
		require.NoError(t, err)
		return runs
	}
	require.Empty(t, due(), "it is held, and nobody waits for that")
	require.NoError(t, beside.Rollback(t.Context()))
	runs := due()
	require.Len(t, runs, 1)
	require.Equal(t, sleeping.Run.ID, runs[0].Run)
	f.sql(`insert into wakes (ns, run) select no, $1 from namespaces`, [16]byte(gone)) // a run that was deleted meanwhile
	f.sql(`insert into wakes (ns, run) values (4711, $1)`, [16]byte(stranger.Run.ID))  // one of the same id in another namespace
	require.Len(t, due(), 1)
	var left int
	require.NoError(t, f.pool.QueryRow(t.Context(), `select count(*) from wakes`).Scan(&left))
	require.Zero(t, left)
	require.Positive(t, runs[0].WakeAt)
}
