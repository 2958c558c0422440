package commit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// TestACommandThatRestsOnAnother submits a command before the one that it rests on is durable: both are written together, or neither is, also where the second alone would be
// accepted.
func TestACommandThatRestsOnAnother(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		t.Helper()
		p := start(t, again())
		run := p.newRun()

		before := p.Stats().Batches
		first, err := p.Put(t.Context(), p.owned(run, stepDone("a")))
		require.NoError(t, err)
		_, err = p.DoAfter(t.Context(), p.owned(run, stepDone("b")), first)
		require.NoError(t, err)
		_, err = first.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(1), p.Stats().Batches-before, "one commit for both")

		stale := p.owned(run, stepDone("c"))
		stale.Guards.Seq = 1
		refused, err := p.Put(t.Context(), stale)
		require.NoError(t, err)
		_, err = p.DoAfter(t.Context(), p.owned(run, stepDone("d")), refused)
		require.Equal(t, cairnerr.CodeStaleEpoch, cairnerr.CodeOf(err), err)
		_, err = refused.Wait(t.Context())
		require.Equal(t, cairnerr.CodePrecondition, cairnerr.CodeOf(err), err)
		_, err = p.DoAfter(t.Context(), p.owned(run, stepDone("d")), refused)
		require.Equal(t, cairnerr.CodeStaleEpoch, cairnerr.CodeOf(err), "also much later")

		over, cancel := context.WithCancel(t.Context())
		withdrawn, err := p.Put(t.Context(), p.owned(run, stepDone("e")))
		require.NoError(t, err)
		cancel()
		_, err = withdrawn.Wait(over)
		require.ErrorIs(t, err, context.Canceled)
		_, err = withdrawn.Wait(t.Context())
		require.ErrorIs(t, err, context.Canceled, "all who wait for it are told")
		_, err = p.DoAfter(t.Context(), p.owned(run, stepDone("f")), withdrawn)
		require.Equal(t, cairnerr.CodeStaleEpoch, cairnerr.CodeOf(err), err)

		require.Equal(t, []string{"a", "b"}, keys(log(t, p.store, run)))
	})
}

// TestWhatNobodyCommits puts a command into the queue of a committer that nobody else uses: who waits for it commits it in the end.
func TestWhatNobodyCommits(t *testing.T) {
	t.Parallel()
	p := start(t, openSQLite(t, t.TempDir()+"/x.db"))
	run := p.newRun()
	ticket, err := p.Put(t.Context(), p.owned(run, stepDone("a")))
	require.NoError(t, err)
	res, err := ticket.WaitOrLead(t.Context(), time.Millisecond)
	require.NoError(t, err)
	require.EqualValues(t, 3, res.Seq)
}

// TestAReleaseBehindEvents gives a run back in a batch that has appended to it: that needs no look at the run, and still does not undo what another process asked for.
func TestAReleaseBehindEvents(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		t.Helper()
		p, other := start(t, again()), start(t, again())
		run := p.newRun()
		rest := func() (*journal.Result, error) {
			first, err := p.Put(t.Context(), p.owned(run, note("x")))
			require.NoError(t, err)
			release := p.owned(run)
			release.Lease = journal.LeaseRelease
			return p.DoAfter(t.Context(), release, first)
		}
		other.must(outside(run, journal.Event{Data: &journal.CancelRequested{Reason: "enough"}}))
		res, err := rest()
		require.NoError(t, err)
		require.NotZero(t, res.Run.CancelledAt)
		r, err := p.store.Run(t.Context(), namespace, run, store.ResolveNone)
		require.NoError(t, err)
		require.NotZero(t, r.CancelledAt)
		require.NotZero(t, r.WakeAt, "somebody has to see to it")
	})
}
