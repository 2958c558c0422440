package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"log/slog"

	lib "modernc.org/sqlite/lib"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/store"
)

// Writer applies batches on a connection of its own.
type Writer struct {
	store       *Store
	incarnation journal.ID
	number      int64
	batch       int64 // the last batch that was begun and not taken back
	raw         *rawConn
	args        []driver.Value // reused from batch to batch
	broken      bool           // the connection may not be used any more
	doubt       bool           // it is not known whether the last batch was committed
	open        *tx            // the batch that has begun and not ended
}

// OpenWriter implements [store.Store].
func (s *Store) OpenWriter(ctx context.Context, incarnation journal.ID, number int) (store.Writer, error) {
	if s.cfg.ReadOnly {
		return nil, journal.Errorf(journal.CodeReadOnly, "%s was opened for reading only", s.path)
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
	return w, nil
}

const (
	insertWriter = `insert into cairn_writers (incarnation, number) values (?, ?) on conflict do nothing`
	selectWriter = `select batch, (select max(fenced) from cairn_writers where incarnation = ?1) from cairn_writers where incarnation = ?1 and number = ?2`
	// moveWriter is fence, lock and proof in one: it fails for a fenced incarnation, and its new number says that
	// the batch was applied.
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
		if _, err := conn.ExecContext(ctx, insertWriter, w.incarnation[:], w.number); err != nil {
			return err
		}
		return conn.QueryRowContext(ctx, selectWriter, w.incarnation[:], w.number).Scan(&w.batch, &fenced)
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
	return journal.Errorf(journal.CodeFenced, "%s was declared dead by its peers; start again as a new incarnation",
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
		`update cairn_runs set owner = null, wake_at = case when parked_at is null then 1 end where no in (select r.no` + liveRuns + `where r.owner = ?)`, // store.WakeAfterDeath
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
		return nil, journal.Errorf(journal.CodeClosed, "the writer was closed")
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
	var fenced bool
	read := func() error {
		return w.raw.conn.QueryRowContext(ctx, selectWriter, w.incarnation[:], w.number).Scan(&batch, &fenced)
	}
	if err := retryBusy(ctx, read); err != nil {
		return false, classify("settle", err)
	}
	w.doubt = false
	applied := batch == w.batch
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
		return journal.Errorf(journal.CodeClosed, "the store was closed")
	}
	if w.store.path != "" { // a database in memory would be gone with its connections
		readers, err := w.store.connect(w.store.cfg.Readers)
		if err != nil {
			return err
		}
		old := w.store.readers.Swap(readers)
		go func() { _ = old.Close() }()
	}
	raw, err := w.store.openRaw(ctx)
	if err != nil {
		return err
	}
	w.raw, w.broken = raw, false
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
	done  bool
	// names made in this batch, which others learn of when it is committed
	namespaces map[string]int64
	workflows  map[workflowName]int64
}

// begin opens the transaction and takes the writer's row.
func (t *tx) begin(ctx context.Context) error {
	if t.done {
		return sql.ErrTxDone
	}
	if t.begun {
		return nil
	}
	raw := t.w.raw
	if raw == nil {
		return journal.Errorf(journal.CodeClosed, "the writer was closed")
	}
	if err := t.w.store.turn.take(ctx); err != nil {
		return err
	}
	start := func() error { _, err := raw.exec(`begin immediate`); return err }
	if err := raw.do(func() error { return retryBusy(ctx, start) }); err != nil {
		t.w.store.turn.give()
		return classify("begin", err)
	}
	t.begun, t.w.open = true, t
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
		err = raw.query(func(row []driver.Value) error { fenced = asInt(row[1]) != 0; return nil }, selectWriter, t.w.incarnation[:], t.w.number)
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
	t.w.batch--
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
	return nil
}
