package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// wire is a connection that counts round trips, and can lose the server's answers.
type wire struct {
	net.Conn
	trips   *atomic.Int64
	wrote   atomic.Bool
	cut     *atomic.Bool
	written chan struct{}
}

func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.wrote.Store(true)
	return n, err
}

func (w *wire) Read(p []byte) (int, error) {
	if w.wrote.Swap(false) {
		w.trips.Add(1)
	}
	if w.cut.Load() {
		<-w.written
		return 0, errors.New("the line was cut: EOF")
	}
	return w.Conn.Read(p)
}

// tap puts wires between the store's writers and the server.
type tap struct {
	trips   atomic.Int64
	cut     atomic.Bool
	written chan struct{} // closed when the answers may be lost
}

func (f *fixture) tap() *tap {
	t := &tap{written: make(chan struct{})}
	dial := f.conn.DialFunc
	f.conn.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &wire{Conn: c, trips: &t.trips, cut: &t.cut, written: t.written}, nil
	}
	return t
}

func TestCommitIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	run := f.start()
	tap := f.tap()
	w := f.open(f.self, 1)
	before := tap.trips.Load()
	require.NoError(t, f.commit(w, &store.Changes{Runs: []store.RunChange{f.step(run, "a")}}))
	require.EqualValues(t, 1, tap.trips.Load()-before)

	// All kinds of rows, and many of them.
	changes := &store.Changes{Notify: []string{namespace}, Wake: []store.RunKey{{Namespace: namespace, Run: f.mint()}}}
	for range 100 {
		s := journal.NewState(namespace)
		changes.Runs = append(changes.Runs, f.reduce(s, f.mint(), f.owner(),
			journal.Event{Data: &journal.RunCreated{Workflow: "w", Attributes: map[string]string{"a": "b"}}},
			journal.Event{Data: &journal.RunStarted{}}, journal.Event{Key: "s", Data: &journal.StepStarted{Name: "s"}},
			journal.Event{Key: "h", Data: &journal.HookCreated{Token: f.mint().String()}}, journal.Event{Key: "w", Data: &journal.WaitCreated{ResumeAt: f.now + 1}}))
	}
	changes.Messages = []journal.Message{{ID: f.mint(), Namespace: namespace, Queue: "q"}}
	before = tap.trips.Load()
	require.NoError(t, f.commit(w, changes))
	require.EqualValues(t, 1, tap.trips.Load()-before)

	// A batch that loads has one more.
	before = tap.trips.Load()
	b := f.begin(w)
	loaded, err := b.Load(t.Context(), &store.LoadSet{Runs: []store.LoadRun{{Namespace: namespace, Run: run.Run.ID}}})
	require.NoError(t, err)
	require.EqualValues(t, 1, tap.trips.Load()-before)
	require.Len(t, loaded.Runs[0].Events, 3)
	c := f.reduce(loaded.Runs[0].State, run.Run.ID, journal.Guards{}, journal.Event{Data: &journal.Annotated{Name: "note"}})
	require.NoError(t, b.Commit(t.Context(), &store.Changes{Runs: []store.RunChange{c}}))
	require.EqualValues(t, 2, tap.trips.Load()-before)
	require.Equal(t, []int64{1, 2, 3, 4}, f.seqs(run.Run.ID))
}

// TestStatementsUseIndexes asks for the plan of each statement of a writer, on tables without statistics.
func TestStatementsUseIndexes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.writer
	for i, st := range statements {
		if statement(i) == stmtBegin || statement(i) == stmtCommit {
			continue
		}
		var args []string
		for _, oid := range w.prepared[i].ParamOIDs {
			kind, ok := w.conn.TypeMap().TypeForOID(oid)
			require.True(t, ok)
			args = append(args, map[bool]string{true: "'{}'", false: "null"}[strings.HasPrefix(kind.Name, "_")])
		}
		query := `explain execute ` + st.name
		if len(args) > 0 {
			query += `(` + strings.Join(args, `, `) + `)`
		}
		rows, err := w.conn.Query(t.Context(), query, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		text := strings.Join(plan, "\n")
		require.NotContains(t, text, "Seq Scan", st.name)
		require.NotContains(t, text, "Join Filter", text)
		require.NotContains(t, text, "Materialize", text)
	}
}

func TestRefGetsSetWithTheCommit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := journal.NewState(namespace)
	id := f.mint()
	c := f.reduce(s, id, f.owner(), journal.Event{Data: &journal.RunCreated{Workflow: "w"}})
	b := f.begin(f.writer)
	require.Zero(t, s.Ref)
	require.NoError(t, b.Commit(t.Context(), &store.Changes{Runs: []store.RunChange{c}}))
	require.NotZero(t, s.Ref)

	again := journal.NewState(namespace)
	c = f.reduce(again, id, f.owner(), journal.Event{Data: &journal.RunCreated{Workflow: "w"}})
	require.ErrorIs(t, f.commit(f.writer, &store.Changes{Runs: []store.RunChange{c}}), store.ErrConflict)
	require.Zero(t, again.Ref)
}

func TestManyNewRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	seen := map[int64]bool{}
	for _, n := range []int{1, 700, 200, 200, 200} {
		changes := &store.Changes{}
		for range n {
			changes.Runs = append(changes.Runs, f.reduce(journal.NewState(namespace), f.mint(), f.owner(), journal.Event{Data: &journal.RunCreated{Workflow: "w"}}))
		}
		require.NoError(t, f.commit(f.writer, changes))
		for i := range changes.Runs {
			require.False(t, seen[changes.Runs[i].State.Ref])
			seen[changes.Runs[i].State.Ref] = true
		}
	}
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	run := f.start()
	stale := *run
	require.NoError(t, f.commit(f.writer, &store.Changes{Runs: []store.RunChange{f.step(run, "a")}}))

	// The same position again, by a writer that has not seen the first.
	c := f.step(&stale, "b")
	require.ErrorIs(t, f.commit(f.writer, &store.Changes{Runs: []store.RunChange{c}}), store.ErrConflict)

	// A run that somebody else has claimed in the meantime.
	f.sql(`update runs set epoch = 7`)
	c = f.reduce(run, run.Run.ID, f.owner(), journal.Event{Data: &journal.RunCompleted{}})
	require.ErrorIs(t, f.commit(f.writer, &store.Changes{Runs: []store.RunChange{c}}), store.ErrConflict)
	require.Equal(t, []int64{1, 2, 3}, f.seqs(run.Run.ID))

	// The writer goes on.
	require.NoError(t, f.commit(f.writer, &store.Changes{}))
	f.start()
}

func TestBusyRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.start(), f.start()
	other := f.begin(f.open(f.mint(), 0))
	loaded, err := other.Load(t.Context(), &store.LoadSet{Runs: []store.LoadRun{{Namespace: namespace, Run: a.Run.ID, EventsAfter: -1}}})
	require.NoError(t, err)
	require.False(t, loaded.Runs[0].Busy)

	mine := f.begin(f.writer)
	missing := f.mint()
	want := &store.LoadSet{Runs: []store.LoadRun{
		{Namespace: namespace, Run: a.Run.ID}, {Namespace: namespace, Run: b.Run.ID}, {Namespace: namespace, Run: missing}, {Namespace: "nowhere", Run: missing},
	}}
	loaded, err = mine.Load(t.Context(), want)
	require.NoError(t, err, "nobody waits for a run that another one holds: that would end with the lock's timeout")
	require.True(t, loaded.Runs[0].Busy)
	require.False(t, loaded.Runs[1].Busy)
	require.Equal(t, b.Run.ID, loaded.Runs[1].State.Run.ID)
	require.EqualValues(t, 2, loaded.Runs[1].State.Seq)
	require.Len(t, loaded.Runs[1].Events, 2)
	for _, none := range loaded.Runs[2:] {
		require.False(t, none.Busy)
		require.Nil(t, none.State.Run)
	}
	other.Rollback()
	loaded, err = mine.Load(t.Context(), want)
	require.NoError(t, err)
	require.False(t, loaded.Runs[0].Busy)
	mine.Rollback()
	mine.Rollback()
}

func TestLocksAreNotWaitedForLong(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	run := f.start()
	beside := f.beside()
	_, err := beside.Exec(t.Context(), `select from runs for update`)
	require.NoError(t, err)
	c := f.reduce(run, run.Run.ID, f.owner(), journal.Event{Data: &journal.RunCompleted{}})
	require.ErrorIs(t, f.commit(f.writer, &store.Changes{Runs: []store.RunChange{c}}), store.ErrBusy)
	require.NoError(t, beside.Rollback(t.Context()))
	require.NoError(t, f.commit(f.writer, &store.Changes{Runs: []store.RunChange{c}}))
}

func TestWake(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	free, held, ended, parked := f.start(), f.start(), f.start(), f.start()
	f.sql(`update runs set status = 2 where no = $1`, ended.Ref)
	f.sql(`update runs set parked_at = 1 where no = $1`, parked.Ref)
	other := f.begin(f.open(f.mint(), 0))
	_, err := other.Load(t.Context(), &store.LoadSet{Runs: []store.LoadRun{{Namespace: namespace, Run: held.Run.ID, EventsAfter: -1}}})
	require.NoError(t, err)
	wake := &store.Changes{}
	for _, s := range []*journal.State{free, held, ended, parked} {
		wake.Wake = append(wake.Wake, store.RunKey{Namespace: namespace, Run: s.Run.ID})
	}
	require.NoError(t, f.commit(f.writer, wake))
	woken := func(s *journal.State) bool {
		run, err := f.Run(t.Context(), namespace, s.Run.ID, false)
		require.NoError(t, err)
		return run.WakeAt == f.now
	}
	require.True(t, woken(free))
	require.False(t, woken(held), "somebody holds it")
	require.False(t, woken(ended))
	require.False(t, woken(parked))
	other.Rollback()
	require.NoError(t, f.commit(f.writer, &store.Changes{}))
	require.True(t, woken(held), "a wake-up is not lost")
}

func TestReleaseKeepsAWakeUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	run := f.start()
	f.sql(`update runs set wake_at = 5`) // somebody else has marked it since
	was := run.Run
	_, err := run.Reduce(&journal.Command{Namespace: namespace, Run: was.ID, Guards: f.owner(), Lease: journal.LeaseRelease},
		journal.Env{Now: f.now, Self: f.self}, journal.NewOutside())
	require.NoError(t, err)
	require.NoError(t, f.commit(f.writer, &store.Changes{Runs: []store.RunChange{{State: run, Rows: run.Changed(), Was: was}}}))
	got, err := f.Run(t.Context(), namespace, was.ID, false)
	require.NoError(t, err)
	require.True(t, got.Owner.IsZero())
	require.EqualValues(t, 5, got.WakeAt)
}

func TestFence(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	run := f.start()
	b := f.begin(f.writer)
	_, err := b.Load(t.Context(), &store.LoadSet{Runs: []store.LoadRun{{Namespace: namespace, Run: run.Run.ID, EventsAfter: -1}}})
	require.NoError(t, err)

	fenced := make(chan error, 1)
	go func() { fenced <- f.Fence(t.Context(), f.self) }()
	f.waiting(`update writers set fenced%`)
	select {
	case err := <-fenced:
		require.Fail(t, "the fence did not wait for a batch in flight", err)
	default:
	}
	require.NoError(t, b.Commit(t.Context(), &store.Changes{Runs: []store.RunChange{f.step(run, "a")}}))
	run.Commit()
	require.NoError(t, <-fenced)

	require.Equal(t, cairnerr.CodeFenced, code(f.commit(f.writer, &store.Changes{Runs: []store.RunChange{f.step(run, "b")}})))
	_, err = f.begin(f.writer).Load(t.Context(), &store.LoadSet{})
	require.Equal(t, cairnerr.CodeFenced, code(err))
	_, err = f.OpenWriter(t.Context(), f.self, 3)
	require.Equal(t, cairnerr.CodeFenced, code(err))
	require.Equal(t, []int64{1, 2, 3}, f.seqs(run.Run.ID))

	unknown := f.mint()
	require.NoError(t, f.Fence(t.Context(), unknown))
	require.NoError(t, f.Fence(t.Context(), unknown))
	_, err = f.OpenWriter(t.Context(), unknown, 0)
	require.Equal(t, cairnerr.CodeFenced, code(err))
	loaded, err := f.begin(f.open(f.mint(), 0)).Load(t.Context(), &store.LoadSet{Owners: []journal.ID{f.self, unknown, f.mint()}})
	require.NoError(t, err)
	require.Equal(t, map[journal.ID]bool{f.self: true, unknown: true}, loaded.Outside.Fenced)
}

// TestFence_WhileAWriterIsOpened_FencesIt holds up OpenWriter when it has already read that its incarnation lives.
func TestFence_WhileAWriterIsOpened_FencesIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.conn.RuntimeParams["lock_timeout"] = "10s"
	run := f.start()
	beside := f.beside()
	_, err := beside.Exec(t.Context(), `insert into writers (incarnation, number) values ($1, 1)`, raw(f.self))
	require.NoError(t, err)
	opened := make(chan *Writer, 1)
	go func() {
		w, err := f.OpenWriter(t.Context(), f.self, 1)
		late, _ := w.(*Writer)
		if err != nil || late == nil {
			t.Errorf("open a writer: %v", err)
		}
		opened <- late
	}()
	f.waiting(`insert into writers (incarnation, number) values%`)

	fenced := make(chan error, 1)
	go func() { fenced <- f.Fence(t.Context(), f.self) }()
	require.Eventually(t, func() bool {
		return len(fenced) > 0 || f.isWaiting(`insert into writers (incarnation, number, fenced)%`)
	},
		5*time.Second, 5*time.Millisecond)
	require.NoError(t, beside.Rollback(t.Context()))
	late := <-opened
	require.NotNil(t, late)
	t.Cleanup(func() { require.NoError(t, late.Close()) })
	require.NoError(t, <-fenced)
	require.Equal(t, cairnerr.CodeFenced, code(f.commit(late, &store.Changes{Runs: []store.RunChange{f.step(run, "a")}})))
	require.Equal(t, []int64{1, 2}, f.seqs(run.Run.ID))
}

func TestReopenedWriterContinues(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 3 {
		f.start()
	}
	require.NoError(t, f.writer.Close())
	f.writer = f.open(f.self, 0)
	require.EqualValues(t, 3, f.writer.batch)
	f.start()
}

func TestSettleNotApplied(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	run := f.start()
	f.terminate(f.writer.pid())
	changes := &store.Changes{Runs: []store.RunChange{f.step(run, "a")}}
	require.ErrorIs(t, f.commit(f.writer, changes), store.ErrUnknownOutcome)
	_, err := f.writer.Begin(t.Context(), f.now)
	require.ErrorIs(t, err, store.ErrUnknownOutcome)
	applied, err := f.writer.Settle(t.Context())
	require.NoError(t, err)
	require.False(t, applied)
	require.NoError(t, f.commit(f.writer, changes), "the same rows can be sent again")
	require.Equal(t, []int64{1, 2, 3}, f.seqs(run.Run.ID))
	applied, err = f.writer.Settle(t.Context())
	require.NoError(t, err)
	require.True(t, applied, "the last batch")
}

func TestSettleApplied(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.start() // its names are known
	tap := f.tap()
	w := f.open(f.self, 1)
	s, id := journal.NewState(namespace), f.mint()
	changes := &store.Changes{Runs: []store.RunChange{f.reduce(s, id, f.owner(), journal.Event{Data: &journal.RunCreated{Workflow: "w"}})}}
	tap.cut.Store(true)
	outcome := make(chan error, 1)
	go func() { outcome <- f.commit(w, changes) }()
	require.Eventually(t, func() bool {
		_, err := f.Run(t.Context(), namespace, id, false)
		return err == nil
	}, 5*time.Second, time.Millisecond)
	close(tap.written)
	require.ErrorIs(t, <-outcome, store.ErrUnknownOutcome)
	require.Zero(t, s.Ref)
	tap.cut.Store(false)
	applied, err := w.Settle(t.Context())
	require.NoError(t, err)
	require.True(t, applied)
	require.NotZero(t, s.Ref, "the run is stored now")
	s.Commit()
	require.NoError(t, f.commit(w, &store.Changes{Runs: []store.RunChange{f.reduce(s, id, f.owner(), journal.Event{Data: &journal.RunStarted{}})}}))
}

func TestSettleFenced(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	run := f.start()
	f.terminate(f.writer.pid())
	require.ErrorIs(t, f.commit(f.writer, &store.Changes{Runs: []store.RunChange{f.step(run, "a")}}), store.ErrUnknownOutcome)
	require.NoError(t, f.Fence(t.Context(), f.self))
	applied, err := f.writer.Settle(t.Context())
	require.Equal(t, cairnerr.CodeFenced, code(err))
	require.False(t, applied)
	require.Equal(t, []int64{1, 2}, f.seqs(run.Run.ID))
}

// slowLine is a connection whose messages reach the server after the client has given up.
type slowLine struct {
	net.Conn
	mu   sync.Mutex
	slow bool
	late []byte // what the client has sent since
}

func (l *slowLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.slow {
		return l.Conn.Write(p)
	}
	l.late = append(l.late, p...)
	return len(p), nil
}

func (l *slowLine) Read(p []byte) (int, error) {
	if l.isSlow() {
		return 0, errors.New("the line was cut: EOF")
	}
	return l.Conn.Read(p)
}

func (l *slowLine) Close() error {
	if l.isSlow() {
		return nil // the server does not notice
	}
	return l.Conn.Close()
}

func (l *slowLine) isSlow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.slow
}

func (l *slowLine) slowDown() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = true
}

// deliver brings the server what was sent, and waits until it has done that.
func (l *slowLine) deliver(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	terminate := []byte{'X', 0, 0, 0, 4}
	_, err := l.Conn.Write(append(l.late, terminate...))
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, l.Conn)
	require.NoError(t, l.Conn.Close())
}

// TestSettle_BatchArrivesAfterwards_IsNotApplied keeps a batch on its way to the server until Settle has said that it was
// not applied. That must stay true.
func TestSettle_BatchArrivesAfterwards_IsNotApplied(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string]int{"one statement": 1, "a transaction": 50} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			run := f.start()
			lines := make(chan *slowLine, 10)
			dial := f.conn.DialFunc
			f.conn.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := dial(ctx, network, address)
				l := &slowLine{Conn: c}
				lines <- l
				return l, err
			}
			w := f.open(f.self, 1)
			f.conn.DialFunc = dial
			line := <-lines // a later one asks the server to cancel
			var events []journal.Event
			for i := range steps {
				events = append(events, stepDone(numbered("s", i)))
			}
			changes := &store.Changes{Runs: []store.RunChange{f.reduce(run, run.Run.ID, f.owner(), events...)}}
			line.slowDown()
			require.ErrorIs(t, f.commit(w, changes), store.ErrUnknownOutcome)
			applied, err := w.Settle(t.Context())
			require.NoError(t, err)
			require.False(t, applied)
			line.deliver(t)
			require.Equal(t, []int64{1, 2}, f.seqs(run.Run.ID))
			require.NoError(t, f.commit(w, changes), "the same rows can be sent again")
			require.Len(t, f.seqs(run.Run.ID), 2+steps)
		})
	}
}

// TestSettleWaits cuts the line while the batch waits for a lock in the server. Settle must not answer before the server
// is done with it, and what it answers must be true.
func TestSettleWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	run := f.start()
	f.conn.RuntimeParams["lock_timeout"] = "10s"
	tap := f.tap()
	w := f.open(f.self, 1)
	beside := f.beside()
	_, err := beside.Exec(t.Context(), `insert into events (run, seq, at, type) values ($1, 3, 0, 21)`, run.Ref)
	require.NoError(t, err)
	changes := &store.Changes{Runs: []store.RunChange{f.step(run, "a")}}
	tap.cut.Store(true)
	outcome := make(chan error, 1)
	go func() { outcome <- f.commit(w, changes) }()
	f.waiting(`%insert into events%`)
	close(tap.written)
	require.ErrorIs(t, <-outcome, store.ErrUnknownOutcome)
	tap.cut.Store(false)
	released := make(chan error, 1)
	go func() {
		time.Sleep(100 * time.Millisecond)
		released <- beside.Rollback(context.Background())
	}()
	applied, err := w.Settle(t.Context())
	require.NoError(t, err)
	require.NoError(t, <-released)
	require.Equal(t, applied, len(f.seqs(run.Run.ID)) == 3)
	if !applied {
		require.NoError(t, f.commit(w, changes))
	}
	require.Equal(t, []int64{1, 2, 3}, f.seqs(run.Run.ID))
}

func TestSettleTriesUntilItsTimeIsOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	run := f.start()
	f.terminate(f.writer.pid())
	changes := &store.Changes{Runs: []store.RunChange{f.step(run, "a")}}
	require.ErrorIs(t, f.commit(f.writer, changes), store.ErrUnknownOutcome)
	dial := f.conn.DialFunc
	var tries atomic.Int64
	f.conn.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if tries.Add(1) < 6 { // a connection tries twice: with and without encryption
			return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		}
		return dial(ctx, network, address)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := f.writer.Settle(ctx)
	require.Error(t, err)
	applied, err := f.writer.Settle(t.Context())
	require.NoError(t, err)
	require.False(t, applied)
	require.NoError(t, f.commit(f.writer, changes))
}

func TestConnectionLostBeforeTheBatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	run := f.start()
	b := f.begin(f.writer)
	_, err := b.Load(t.Context(), &store.LoadSet{Runs: []store.LoadRun{{Namespace: namespace, Run: run.Run.ID, EventsAfter: -1}}})
	require.NoError(t, err)
	f.terminate(f.writer.pid())
	_, err = b.Load(t.Context(), &store.LoadSet{Runs: []store.LoadRun{{Namespace: namespace, Run: run.Run.ID, EventsAfter: -1}}})
	require.Equal(t, cairnerr.CodeUnreachable, code(err))
	b.Rollback()
	require.NoError(t, f.commit(f.writer, &store.Changes{Runs: []store.RunChange{f.step(run, "a")}}), "the next batch connects again")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = f.begin(f.writer).Commit(ctx, &store.Changes{Runs: []store.RunChange{f.step(run, "b")}})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, store.ErrUnknownOutcome, "nothing was sent")
}
