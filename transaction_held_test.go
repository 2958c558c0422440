package cairn_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// A transaction in which a run was started stays open for more than twice the lease. On PostgreSQL all others go on meanwhile, on SQLite they go on when it has
// ended; and all come to a good end.
//
// That nobody is declared dead meanwhile, TestALockHeldForLong shows in a time that no slow machine disturbs.
func TestATransactionHeldOpen(t *testing.T) {
	t.Parallel()
	onEachPlace(t, heldOpen)
}

const heldLease = 3 * time.Second

// slowRun is a run whose first step ends while a transaction is held open.
type slowRun struct {
	takes      time.Duration
	wf         *cairn.Workflow[int, string]
	atWork     chan struct{}
	begun, cut atomic.Int32
}

func newSlowRun(takes time.Duration) *slowRun {
	s := &slowRun{takes: takes, atWork: make(chan struct{})}
	s.wf = cairn.NewWorkflow("slow", func(ctx cairn.Context, _ int) (string, error) {
		if _, err := cairn.Do(ctx, "work", s.work); err != nil {
			return "", err
		}
		return cairn.Do(ctx, "after", func(context.Context) (string, error) { return "done", nil })
	})
	return s
}

func (s *slowRun) work(ctx context.Context) (int, error) {
	if s.begun.Add(1) == 1 {
		close(s.atWork)
	}
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		s.cut.Add(1)
	}
	return 0, ctx.Err()
}

func heldOpen(t *testing.T, p *place) {
	t.Helper()
	slow, wf := newSlowRun(heldLease), checkout()
	cfg := cairn.Config{Poll: 50 * time.Millisecond, Lease: heldLease}
	e := p.engine(cfg, slow.wf, wf)
	run, err := slow.wf.Start(t.Context(), e, 0)
	require.NoError(t, err)
	<-slow.atWork
	other := p.engine(cfg, wf)

	tx := p.begin()
	tx.order(t, "o-1")
	held, err := wf.StartIn(t.Context(), e, tx.handle, "o-1", cairn.Key("o-1"))
	require.NoError(t, err)
	opened := time.Now()
	var others sync.WaitGroup
	same, errs := make([]*cairn.Run[string], 2), make([]error, 2)
	for i := range same { // who wants the same key waits for the transaction
		others.Go(func() { same[i], errs[i] = wf.Start(t.Context(), other, "o-1", cairn.Key("o-1")) })
	}
	for i := 0; p.kind != "sqlite" && time.Since(opened) < 2*heldLease; i++ { // those who do not, do not
		for _, e := range []*cairn.Engine{e, other} {
			_, err := result(t, e, wf, "neighbour")
			require.NoError(t, err)
		}
		_, err := wf.Start(t.Context(), e, "n", cairn.Key(fmt.Sprint("other ", i)))
		require.NoError(t, err)
	}
	time.Sleep(2*heldLease + heldLease/2 - time.Since(opened))
	require.NoError(t, tx.commit())

	out, err := held.Result(within(t))
	require.NoError(t, err)
	require.Equal(t, "charged o-1", out)
	others.Wait()
	for i := range same {
		require.NoError(t, errs[i])
		require.Equal(t, held.ID(), same[i].ID())
	}
	out, err = run.Result(within(t))
	require.NoError(t, err)
	require.Equal(t, "done", out)
}

// lives are processes on one SQLite file, in virtual time.
type lives struct {
	t     *testing.T
	path  string
	lease time.Duration
}

func (l *lives) engine(workflows ...cairn.Definition) (*cairn.Engine, cairn.Store) {
	l.t.Helper()
	st, err := sqlite.Open(l.t.Context(), l.path, nil)
	require.NoError(l.t, err)
	e, err := cairn.NewWith(l.t.Context(), st, cairn.Config{Lease: l.lease, Logger: slog.New(slog.DiscardHandler)}, workflows...)
	require.NoError(l.t, err)
	l.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = e.Stop(ctx)
		_ = st.Close()
	})
	return e, st
}

// A user's transaction keeps everybody from writing to a SQLite file, from moments between the heartbeats on and for several leases. Nobody is declared
// dead, no body is ended or done twice, and all go on when it has ended.
func TestALockHeldForLong(t *testing.T) {
	t.Parallel()
	for _, phase := range []time.Duration{0, 280 * time.Millisecond} {
		path := filepath.Join(t.TempDir(), "x.db")
		bubble.Run(t, func(t *testing.T) { lockHeld(t, path, phase) })
	}
}

func lockHeld(t *testing.T, path string, phase time.Duration) {
	t.Helper()
	l := &lives{t: t, path: path, lease: time.Second}
	slow, wf := newSlowRun(2*l.lease), checkout()
	e, st := l.engine(slow.wf, wf)
	run, err := slow.wf.Start(t.Context(), e, 0)
	require.NoError(t, err)
	<-slow.atWork
	other, _ := l.engine(wf)
	time.Sleep(l.lease + phase)
	peers := incarnations(t, st)
	tx := l.lock()
	held, err := wf.StartIn(t.Context(), other, sqlite.InTx(tx), "o-1")
	require.NoError(t, err)
	time.Sleep(5 * l.lease / 2)
	require.NoError(t, tx.Commit())
	_, err = held.Result(within(t))
	require.NoError(t, err)
	_, err = run.Result(within(t))
	require.NoError(t, err)
	time.Sleep(2 * l.lease)
	require.EqualValues(t, 1, slow.begun.Load(), "bodies begun")
	require.Zero(t, slow.cut.Load(), "bodies ended early")
	require.Equal(t, peers, incarnations(t, st))
}

// lock begins a transaction that keeps everybody else from writing.
func (l *lives) lock() *sql.Tx {
	l.t.Helper()
	db, err := sql.Open("sqlite", "file:"+l.path+"?_txlock=immediate")
	require.NoError(l.t, err)
	l.t.Cleanup(func() { _ = db.Close() })
	for { // SQLite's own way to wait would sleep in real time
		tx, err := db.BeginTx(l.t.Context(), nil)
		if err == nil {
			return tx
		}
		require.ErrorContains(l.t, err, "locked")
		time.Sleep(time.Millisecond)
	}
}

// A process dies while a user's transaction keeps everybody from writing, or without one: its peers take its runs over within the lease and a fifth
// of it, which is a second by default, counted from when they can write again.
func TestADeathBehindALock(t *testing.T) {
	t.Parallel()
	for _, lock := range []time.Duration{0, 2400 * time.Millisecond} {
		path := filepath.Join(t.TempDir(), "x.db")
		bubble.Run(t, func(t *testing.T) { deathBehindALock(t, path, lock) })
	}
}

func deathBehindALock(t *testing.T, path string, lock time.Duration) {
	t.Helper()
	l := &lives{t: t, path: path, lease: time.Second}
	slow := newSlowRun(time.Minute)
	e, st := l.engine(slow.wf)
	_, err := slow.wf.Start(t.Context(), e, 0)
	require.NoError(t, err)
	<-slow.atWork
	l.engine(slow.wf)
	time.Sleep(l.lease)
	tx := l.lock()
	require.NoError(t, st.Close()) // it can neither write nor read any more
	time.Sleep(lock)
	require.NoError(t, tx.Rollback())
	free := time.Now()
	for slow.begun.Load() < 2 && time.Since(free) < time.Minute {
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("taken over after %v", time.Since(free))
	require.LessOrEqual(t, time.Since(free), l.lease*6/5)
}

// incarnations returns the processes that were not declared dead.
func incarnations(t *testing.T, st cairn.Store) map[journal.ID]bool {
	t.Helper()
	peers, err := store.Of(st).Peers(t.Context())
	require.NoError(t, err)
	all := map[journal.ID]bool{}
	for _, p := range peers {
		all[p.Incarnation] = true
	}
	return all
}
