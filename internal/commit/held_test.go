package commit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/store/postgres"
)

func withKey(key string) journal.Event {
	return journal.Event{Data: &journal.RunCreated{Workflow: "w", StartKey: key}}
}

// holder starts a run with a key in a transaction of a user's, which it leaves open.
func holder(t *testing.T, p *process, url, key string) (pgx.Tx, journal.ID) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	res, err := commit.Join(t.Context(), p.store, postgres.InTx(tx), outside(p.id(), withKey(key)), journal.Env{Now: now()})
	require.NoError(t, err)
	return tx, res.Run.ID
}

// A transaction of a user's is open in which a start key was used. Who starts with the same key waits for its end, and nobody else.
func TestAHeldStartKeyStallsNobody(t *testing.T) {
	t.Parallel()
	hold, others := 10*time.Second, 500
	if testing.Short() {
		hold, others = 2*time.Second, 100
	}
	url := pgtest.URL(t)
	p := start(t, openPostgres(t, url))
	committed, first := holder(t, p, url, "committed")
	undone, gone := holder(t, p, url, "undone")
	runs := make([]journal.ID, others)
	for i := range runs {
		runs[i] = p.newRun()
	}
	began := time.Now()
	var waiting []*commit.Ticket
	for i := range 6 {
		ticket, err := p.Submit(t.Context(), p.owned(p.id(), withKey([]string{"committed", "undone"}[i%2]), started()))
		require.NoError(t, err)
		waiting = append(waiting, ticket)
	}
	for round := 0; time.Since(began) < hold; round++ {
		// With a key, too: other starts are neighbours like the rest.
		neighbour, err := p.Submit(t.Context(), p.owned(p.id(), withKey(fmt.Sprint("other ", round)), started()))
		require.NoError(t, err)
		finishAll(t, p, runs, stepDone(numbered(round + 1)[round]))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		_, err = neighbour.Wait(ctx)
		require.NoError(t, err)
		cancel()
	}
	for _, ticket := range waiting {
		select {
		case <-ticket.Done():
			t.Fatal("a start was answered while nobody could know its outcome")
		default:
		}
	}
	stats := p.Stats()
	t.Logf("99.9 %% of the commands took less than %v", time.Duration(stats.Latency.Quantile(0.999))*time.Microsecond)
	require.NoError(t, committed.Commit(t.Context()))
	require.NoError(t, undone.Rollback(t.Context()))
	var second journal.ID
	for i, ticket := range waiting {
		res, err := ticket.Wait(t.Context())
		require.NoError(t, err)
		switch {
		case i%2 == 0:
			require.True(t, res.Existing)
			require.Equal(t, first, res.Run.ID)
		case second.IsZero():
			second = res.Run.ID
			require.NotEqual(t, gone, second)
		default:
			require.Equal(t, second, res.Run.ID, "one of them made the run")
		}
	}
	log(t, p.store, first)
	log(t, p.store, second)
}

// Who closes a committer does not wait for somebody else's transaction, and who gives up a start can.
func TestAHeldStartKeyIsGivenUp(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, openPostgres(t, url))
	tx, _ := holder(t, p, url, "k")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := p.Do(ctx, p.owned(p.id(), withKey("k"), started()))
	require.Error(t, err)
	ticket, err := p.Submit(t.Context(), p.owned(p.id(), withKey("k"), started()))
	require.NoError(t, err)
	p.newRun()
	require.NoError(t, p.Close(t.Context()))
	_, err = ticket.Wait(t.Context())
	require.Equal(t, cairnerr.CodeClosed, cairnerr.CodeOf(err), "%v", err)
	require.NoError(t, tx.Rollback(t.Context()))
}
