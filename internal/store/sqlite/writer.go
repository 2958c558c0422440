package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"log/slog"

	lib "modernc.org/sqlite/lib"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Writer applies batches on a connection of its own.
type Writer struct {
	store       *Store
	incarnation journal.ID
	number      int64
	no          int64        // of the writer's row
	batch       int64        // what the row says, or will say when the open batch is committed
	movedAt     journal.Time // when the row was moved on
	known       version      // of the database after the last batch: unless it has changed, the row is as it was
	proof       proof        // of the last batch
	raw         *rawConn
	args        []driver.Value // reused from batch to batch
	broken      bool           // the connection may not be used any more
	doubt       bool           // it is not known whether the last batch was committed
	open        *tx            // the batch that has begun and not ended
}

// OpenWriter implements [store.Store].
func (s *Store) OpenWriter(ctx context.Context, incarnation journal.ID, number int) (store.Writer, error) {
	if s.cfg.ReadOnly {
		return nil, cairnerr.Errorf(cairnerr.CodeReadOnly, "%s was opened for reading only", s.path)
	}
	raw, err := s.openRaw(ctx)
	if err != nil {
		return nil, err
	}
	w := &Writer{store: s, incarnation: incarnation, number: int64(number), raw: raw}
	if err := w.register(ctx); err != nil {
		return nil, errorsJoin(err, raw.Close())
	}
	s.witness.Saw(incarnation)
	s.hub.version.own.Store(incarnation, true)
	return w, nil
}

// version is SQLite's number for what a connection sees. It changes with each commit, whoever makes it.
type version struct {
	number uint32
	valid  bool
}

// proof is the event that says that a batch was applied; without one, the writer's row does.
type proof struct{ run, seq int64 }

const (
	insertWriter = `insert into cairn_writers (incarnation, number) values (?, ?) on conflict do nothing`
	// takeWriter lets another writer that uses the same row know.
	takeWriter   = `update cairn_writers set batch = batch + 1 where incarnation = ? and number = ? and fenced = 0`
	selectWriter = `select no, batch, (select max(fenced) from cairn_writers where incarnation = ?1) from cairn_writers where incarnation = ?1 and number = ?2`
	selectProof  = `select count(*) from cairn_events where run = ? and seq = ? and writer = ?`
	// moveWriter is fence and proof in one: it fails for a fenced incarnation, and its new number says that the batch was applied.
	moveWriter = `update cairn_writers set batch = ?1 where incarnation = ?2 and number = ?3 and batch = ?1 - 1 and fenced = 0`
)

func (w *Writer) register(ctx context.Context) error {
	if err := w.store.turn.take(ctx); err != nil {
		return err
	}
	defer w.store.turn.give()
	conn := w.raw.conn
	var fenced bool
	err := retryBusy(ctx, func() error {
		for _, statement := range []string{insertWriter, takeWriter} {
			if _, err := conn.ExecContext(ctx, statement, w.incarnation[:], w.number); err != nil {
				return err
			}
		}
		return conn.QueryRowContext(ctx, selectWriter, w.incarnation[:], w.number).Scan(&w.no, &w.batch, &fenced)
	})
	if err != nil {
		return classify("open a writer", err)
	}
	if fenced {
		return w.fenced()
	}
	return nil
}

func (w *Writer) fenced() error {
	return cairnerr.Errorf(cairnerr.CodeFenced, "%s was declared dead by its peers; start again as a new incarnation",
		journal.PrefixIncarnation.Format(w.incarnation))
}

// Fence implements [store.Store].
func (s *Store) Fence(ctx context.Context, incarnation journal.ID) error {
	raw, err := s.openRaw(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	if err := s.turn.take(ctx); err != nil {
		return err
	}
	defer s.turn.give()
	begin := func() error { _, err := raw.conn.ExecContext(ctx, `begin immediate`); return err }
	if err := retryBusy(ctx, begin); err != nil {
		return classify("fence", err)
	}
	// All in one transaction: who is fenced owns nothing. The extra row refuses writers that this incarnation opens from now on.
	for _, statement := range []string{
		`insert into cairn_writers (incarnation, number, fenced) values (?, -1, 1) on conflict do nothing`,
		`update cairn_writers set fenced = 1 where incarnation = ?`,
		`update cairn_runs set owner = null, wake_at = case when parked_at is null then 1 end where no in (select r.no` + liveRuns + `where r.owner = ?)`, // journal.WakeAfterDeath
		`delete from cairn_beats where incarnation = ?`,
	} {
		if _, err := raw.conn.ExecContext(ctx, statement, incarnation[:]); err != nil {
			return classify("fence", err) // closing the connection takes the transaction back
		}
	}
	commit := func() error { _, err := raw.conn.ExecContext(ctx, `commit`); return err }
	return classify("fence", retryBusy(ctx, commit))
}

// Begin implements [store.Writer]. The transaction begins with the first Load, or with Commit.
func (w *Writer) Begin(ctx context.Context, now journal.Time) (store.Tx, error) {
	if w.raw == nil || w.store.closed.Load() {
		return nil, cairnerr.Errorf(cairnerr.CodeClosed, "the writer was closed")
	}
	if w.doubt {
		return nil, store.ErrUnknownOutcome
	}
	if w.broken { // a rollback failed: nothing is in doubt, but the connection is not to be trusted
		if err := w.reopen(ctx); err != nil {
			return nil, err
		}
	}
	return &tx{w: w, now: now}, nil
}

// Settle implements [store.Writer]. The connection that failed is closed, with all others of this process: after a
// failed sync nothing that it holds can be trusted. Closed, it cannot change anything any more, so what the file says
// now is final.
func (w *Writer) Settle(ctx context.Context) (bool, error) {
	if err := w.reopen(ctx); err != nil {
		return false, err
	}
	if err := w.store.turn.take(ctx); err != nil {
		return false, err
	}
	defer w.store.turn.give()
	var batch int64
	var fenced, proven bool
	read := func() error {
		err := w.raw.conn.QueryRowContext(ctx, selectWriter, w.incarnation[:], w.number).Scan(&w.no, &batch, &fenced)
		if err != nil || w.proof == (proof{}) {
			return err
		}
		return w.raw.conn.QueryRowContext(ctx, selectProof, w.proof.run, w.proof.seq, w.no).Scan(&proven)
	}
	if err := retryBusy(ctx, read); err != nil {
		return false, classify("settle", err)
	}
	w.doubt = false
	applied := proven || w.proof == (proof{}) && batch == w.batch
	w.batch = batch
	if !applied && fenced {
		return false, w.fenced()
	}
	return applied, nil
}

func (w *Writer) reopen(ctx context.Context) error {
	if w.raw != nil {
		_ = w.raw.Close()
		w.raw = nil
	}
	if w.store.closed.Load() {
		return closedStore()
	}
	if w.store.path != "" { // a database in memory would be gone with its connections
		readers, err := w.store.connect(w.store.cfg.Readers)
		if err != nil {
			return err
		}
		old := w.store.readers.Swap(readers)
		if w.store.asides.run(ctx, func(context.Context) { _ = old.Close() }) == nil { // it was closed meanwhile, and may not have seen the new ones
			return errorsJoin(closedStore(), old.Close(), readers.Close())
		}
	}
	raw, err := w.store.openRaw(ctx)
	if err != nil {
		return err
	}
	w.raw, w.broken, w.known = raw, false, version{}
	return nil
}

// Close implements [store.Writer].
func (w *Writer) Close() error {
	if w.raw == nil {
		return nil
	}
	if w.open != nil {
		w.open.Rollback()
	}
	err := w.raw.Close()
	w.raw = nil
	return err
}

// tx is one batch.
type tx struct {
	w     *Writer
	now   journal.Time
	begun bool
	moved bool // the writer's row
	seen  version
	done  bool
	// names made in this batch, which others learn of when it is committed
	namespaces map[string]int64
	workflows  map[workflowName]int64
}

// moveEvery is how often a writer's row is moved on at least while it writes, in milliseconds: others see by it that the writer lives.
const moveEvery = 250

// begin opens the transaction and makes sure that the writer is not fenced. The writer's row is moved on, unless nobody else has written to
// the database since it was, and the batch proves by an event that it was applied.
func (t *tx) begin(ctx context.Context, provable bool) error {
	if t.done {
		return sql.ErrTxDone
	}
	if t.begun {
		return nil
	}
	raw := t.w.raw
	if raw == nil {
		return cairnerr.Errorf(cairnerr.CodeClosed, "the writer was closed")
	}
	if err := t.w.store.turn.take(ctx); err != nil {
		return err
	}
	start := func() error {
		if _, err := raw.exec(`begin immediate`); err != nil {
			return err
		}
		t.seen = raw.version()
		return nil
	}
	if err := raw.do(func() error { return retryBusy(ctx, start) }); err != nil {
		t.w.store.turn.give()
		return classify("begin", err)
	}
	t.begun, t.w.open = true, t
	alone := t.seen.valid && t.seen == t.w.known
	t.w.store.hub.version.began(!alone)
	t.w.known = version{} // until it is committed
	if provable && alone && t.now-t.w.movedAt < moveEvery {
		return nil
	}
	return t.move()
}

// move moves the writer's row on.
func (t *tx) move() error {
	raw := t.w.raw
	t.moved = true
	t.w.batch++
	return raw.do(func() error {
		moved, err := raw.exec(moveWriter, t.w.batch, t.w.incarnation[:], t.w.number)
		if err != nil {
			return classify("begin", err)
		}
		if moved == 1 {
			return nil
		}
		var fenced bool
		err = raw.query(func(row []driver.Value) error { fenced = asInt(row[2]) != 0; return nil }, selectWriter, t.w.incarnation[:], t.w.number)
		if err == nil && !fenced {
			err = errors.New("another writer uses this incarnation and number")
		}
		if err != nil {
			return classify("begin", err)
		}
		return t.w.fenced()
	})
}

// Rollback implements [store.Tx].
func (t *tx) Rollback() {
	if t.done {
		return
	}
	t.done = true
	if !t.begun {
		return
	}
	defer t.ended()
	if t.moved {
		t.w.batch--
	}
	err := t.w.raw.do(func() error { _, err := t.w.raw.exec(`rollback`); return err })
	if err != nil && primary(err) != lib.SQLITE_ERROR { // SQLite rolled back by itself: there is no transaction any more
		t.w.broken = true
	}
}

// ended gives the turn back.
func (t *tx) ended() {
	t.w.open = nil
	t.w.store.turn.give()
}

// commit makes the batch durable. While the database is busy, nothing has happened yet.
func (t *tx) commit(ctx context.Context) error {
	end := func() error { _, err := t.w.raw.exec(`commit`); return err }
	err := t.w.raw.do(func() error { return retryBusy(ctx, end) })
	if err != nil && primary(err) == 0 {
		t.Rollback()
		return classify("commit", err)
	}
	t.done = true
	defer t.ended()
	if err != nil {
		t.w.doubt = true
		t.w.store.cfg.Logger.ErrorContext(ctx, "commit failed; the file is opened again", slog.Any("error", err))
		return errorsJoin(store.ErrUnknownOutcome, classify("commit", err))
	}
	t.w.store.names.learn(t.namespaces, t.workflows)
	t.w.known = version{t.seen.number + 1, t.seen.valid}
	if t.moved {
		t.w.movedAt = t.now
	}
	return nil
}
