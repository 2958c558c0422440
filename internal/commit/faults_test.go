package commit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
)

// once returns a plan with one fault: at the n-th commit.
func once(n int32, f faultstore.Fault) faultstore.Plan {
	var commits atomic.Int32
	return func(op faultstore.Op, _ int) faultstore.Fault {
		if op == faultstore.OpCommit && commits.Add(1) == n {
			return f
		}
		return faultstore.Fault{}
	}
}

// TestLostAnswers loses the answer of a commit in each way: the command must be applied once, and its caller must be told.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	faults := map[string]faultstore.Fault{
		"applied, then lost":       {AfterCommit: true},
		"deadlock":                 {Before: store.ErrBusy},
		"never sent":               {Before: store.ErrUnknownOutcome},
		"somebody else was faster": {Before: store.ErrConflict},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEveryStore(t, func(t *testing.T, again func() store.Store) {
				p := withPlan(t, again(), once(2, fault))
				run := p.newRun() // the first commit
				res := p.must(p.owned(run, stepDone("a")))
				require.EqualValues(t, 3, res.Seq)
				p.must(p.owned(run, stepDone("b")))
				require.Equal(t, []string{"a", "b"}, keys(log(t, p.store, run)))
			})
		})
		t.Run(name+" at the birth of a run", func(t *testing.T) {
			t.Parallel()
			onEveryStore(t, func(t *testing.T, again func() store.Store) {
				p := withPlan(t, again(), once(1, fault))
				run := p.newRun()
				p.must(p.owned(run, stepDone("a")))
				require.Len(t, log(t, p.store, run), 3)
			})
		})
	}
}

// TestErrorsAreToldAndLoseNothing fails a commit for good: the caller gets the error, nothing is written, and the next one works.
func TestErrorsAreToldAndLoseNothing(t *testing.T) {
	t.Parallel()
	for _, code := range []cairnerr.Code{cairnerr.CodeDiskFull, cairnerr.CodeReadOnly, cairnerr.CodeUnreachable} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			onEveryStore(t, func(t *testing.T, again func() store.Store) {
				p := withPlan(t, again(), once(2, faultstore.Fault{Before: cairnerr.Errorf(code, "simulated")}))
				run := p.newRun()
				p.refused(p.owned(run, stepDone("a")), code)
				require.Empty(t, keys(log(t, p.store, run)))
				p.must(p.owned(run, stepDone("a")))
				require.Equal(t, []string{"a"}, keys(log(t, p.store, run)))
			})
		})
	}
}

// TestACommitThatLandsLate gives up on a commit that is applied two seconds later. In virtual time, on SQLite.
func TestACommitThatLandsLate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		for _, settleAfter := range []time.Duration{0, 5 * time.Second} { // before it lands, and after
			var commits atomic.Int32
			p := withPlan(t, openSQLite(t, dir+"/x.db"), func(op faultstore.Op, _ int) faultstore.Fault {
				switch {
				case op == faultstore.OpCommit && commits.Add(1) == 2:
					return faultstore.Fault{Late: 2 * time.Second}
				case op == faultstore.OpSettle:
					return faultstore.Fault{Delay: settleAfter}
				}
				return faultstore.Fault{}
			})
			run := p.newRun()
			impatient, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := p.Do(impatient, p.owned(run, stepDone("a")))
			cancel()
			if settleAfter > 0 {
				require.Equal(t, cairnerr.CodeOutcomeUnknown, cairnerr.CodeOf(err))
			} else {
				require.NoError(t, err)
			}
			time.Sleep(10 * time.Second)
			require.Equal(t, []string{"a"}, keys(log(t, p.store, run)), "applied once, whatever the caller was told")
			p.must(p.owned(run, stepDone("b")))
			require.NoError(t, p.Close(t.Context()))
			require.NoError(t, p.store.Close())
		}
	})
}

// TestClosedWhileItSettles closes a committer that is waiting to be told what became of a commit: nobody knows, and it must not be said that it was not applied, because
// whoever hears that does it again.
func TestClosedWhileItSettles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var commits atomic.Int32
		p := withPlan(t, openSQLite(t, dir+"/x.db"), func(op faultstore.Op, _ int) faultstore.Fault {
			switch {
			case op == faultstore.OpCommit && commits.Add(1) == 2:
				return faultstore.Fault{AfterCommit: true}
			case op == faultstore.OpSettle:
				return faultstore.Fault{Delay: time.Hour}
			}
			return faultstore.Fault{}
		})
		run := p.newRun()
		ticket, err := p.Submit(t.Context(), p.owned(run, stepDone("a")))
		require.NoError(t, err)
		time.Sleep(time.Second)
		closing, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = p.Close(closing)
		_, err = ticket.Wait(t.Context())
		require.Equal(t, cairnerr.CodeOutcomeUnknown, cairnerr.CodeOf(err), "%v", err)
		require.Equal(t, []string{"a"}, keys(log(t, p.store, run)))
		require.NoError(t, p.store.Close())
	})
}

// TestPostgresLandsLate puts a slow network between the committer and PostgreSQL: it is cut for the client while the server
// gets the batch two seconds later, once all of it and once only the end of it, when the rest holds its locks.
func TestPostgresLandsLate(t *testing.T) {
	t.Parallel()
	pause := 2 * time.Second
	if testing.Short() {
		pause = 500 * time.Millisecond
	}
	for name, keep := range map[string]func([]byte) int{
		"the whole batch":      func([]byte) int { return 0 },
		"the end of the batch": func(b []byte) int { return len(b) - len(syncMessage) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			direct := openPostgres(t, url)
			proxy := newProxy(t, url)
			p := start(t, openPostgres(t, proxy.url))
			run := p.newRun()
			p.must(p.owned(run, stepDone("a")))
			proxy.cutNext([]byte("result of b"), keep, pause)
			res := p.must(p.owned(run, stepDone("b")))
			require.EqualValues(t, 4, res.Seq)
			p.must(p.owned(run, stepDone("c")))
			proxy.wait()
			require.Equal(t, []string{"a", "b", "c"}, keys(log(t, direct, run)))
			require.EqualValues(t, 1, p.Stats().Settled)
		})
	}
}

// TestALockedRunStallsNobody holds the row of one run while a thousand others go on.
func TestALockedRunStallsNobody(t *testing.T) {
	t.Parallel()
	hold, others := 10*time.Second, 1000
	if testing.Short() {
		hold, others = time.Second, 200
	}
	url := pgtest.URL(t)
	p := start(t, openPostgres(t, url))
	locked := p.newRun()
	runs := make([]journal.ID, others)
	for i := range runs {
		runs[i] = p.newRun()
	}
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `select 1 from cairn.runs where id = $1 for update`, [16]byte(locked))
	require.NoError(t, err)
	began := time.Now()

	// It ends, so its row must be written.
	stuck, err := p.Submit(t.Context(), p.owned(locked, ended()))
	require.NoError(t, err)
	for round := 0; time.Since(began) < hold; round++ {
		finishAll(t, p, runs, stepDone(numbered(round + 1)[round]))
	}
	finishAll(t, p, runs, ended())
	select {
	case <-stuck.Done():
		t.Fatal("the locked run was written while it was locked")
	default:
	}
	require.NoError(t, tx.Rollback(t.Context()))
	_, err = stuck.Wait(t.Context())
	require.NoError(t, err)
}

// TestQueue_RunIsLocked_KeepsOrder has more commands for a run than go into one batch at a time. Those that were tried
// while it was locked stay the first.
func TestQueue_RunIsLocked_KeepsOrder(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := start(t, openPostgres(t, url), func(c *commit.Config) { c.MaxBatch = 7 })
	run := p.newRun()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `select 1 from cairn.runs where id = $1 for update`, [16]byte(run))
	require.NoError(t, err)

	const n = 100
	var tickets []*commit.Ticket
	for _, text := range numbered(n) {
		ticket, err := p.Submit(t.Context(), outside(run, note(text)))
		require.NoError(t, err)
		tickets = append(tickets, ticket)
	}
	before := p.Stats().Postponed // perhaps before the others had come
	require.Eventually(t, func() bool { return p.Stats().Postponed > before }, 10*time.Second, time.Millisecond)
	require.NoError(t, tx.Rollback(t.Context()))
	for _, ticket := range tickets {
		_, err := ticket.Wait(t.Context())
		require.NoError(t, err)
	}
	var texts []string
	for _, e := range log(t, p.store, run)[2:] {
		texts = append(texts, string(e.Data.(*journal.Annotated).Value))
	}
	require.Equal(t, numbered(n), texts)
}

// finishAll writes an event to each run and waits for all of them, but not for ever.
func finishAll(t *testing.T, p *process, runs []journal.ID, e journal.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tickets := make([]*commit.Ticket, len(runs))
	for i, run := range runs {
		ticket, err := p.Submit(ctx, p.owned(run, e))
		require.NoError(t, err)
		tickets[i] = ticket
	}
	for _, ticket := range tickets {
		_, err := ticket.Wait(ctx)
		require.NoError(t, err)
	}
}

// TestFaultsEverywhere runs many callers through a store that fails in every way at every tenth call.
func TestFaultsEverywhere(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		var n atomic.Int64
		p := withPlan(t, again(), func(op faultstore.Op, _ int) faultstore.Fault {
			kinds := []faultstore.Fault{
				{AfterCommit: true},
				{Before: store.ErrUnknownOutcome},
				{Before: store.ErrBusy},
				{Before: store.ErrConflict},
				{Delay: time.Millisecond},
				{Late: 5 * time.Millisecond},
			}
			if k := n.Add(1); k%10 == 0 && op == faultstore.OpCommit {
				return kinds[k/10%int64(len(kinds))]
			}
			return faultstore.Fault{}
		})
		const callers, steps = 20, 10
		errs := make([]error, callers)
		runs := make([]journal.ID, callers)
		var wg sync.WaitGroup
		for i := range callers {
			runs[i] = p.id()
			wg.Go(func() {
				_, err := p.Do(t.Context(), p.owned(runs[i], created(), started()))
				for _, key := range numbered(steps) {
					if err == nil {
						_, err = p.Do(t.Context(), p.owned(runs[i], stepDone(key)))
					}
				}
				errs[i] = err
			})
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
		for _, run := range runs {
			require.Equal(t, numbered(steps), keys(log(t, p.store, run)))
		}
	})
}
