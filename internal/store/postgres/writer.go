package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// writerSettings are those that a writer's connection has besides. The planner is pinned to the indexes, because young tables without statistics
// would be read whole. A batch never waits long for a lock, nor holds one when its process has stopped or is gone:
// then the server notices within seconds, and the peers who fence it are not kept waiting.
var writerSettings = map[string]string{
	"plan_cache_mode":                     "force_generic_plan",
	"enable_hashjoin":                     "off",
	"enable_mergejoin":                    "off",
	"lock_timeout":                        "250ms",
	"idle_in_transaction_session_timeout": "5s",
	"tcp_keepalives_idle":                 "5",
	"tcp_keepalives_interval":             "2",
	"tcp_keepalives_count":                "3",
}

// Writer applies batches on a connection of its own.
type Writer struct {
	store       *Store
	incarnation journal.ID
	number      int
	no          int64 // of the writer's row
	batch       int64 // the last batch that is known to be applied, or to be void
	conn        *pgx.Conn
	prepared    *prepared
	closed      bool
	numbers     []int64 // for new runs
	rows        rows    // used again by each batch
	wanted      wanted  // used again by each batch
	streams     streamRows

	// unsettled says that it is not known whether batch+1 was applied; otherwise applied tells about the last batch.
	unsettled, applied bool
	born               []birth // the new runs of the last batch
	left               bool    // runs that could not be woken are written down
}

// birth is a new run and the number that it gets.
type birth struct {
	state *journal.State
	no    int64
}

// OpenWriter implements [store.Store].
func (s *Store) OpenWriter(ctx context.Context, incarnation journal.ID, number int) (store.Writer, error) {
	w := &Writer{store: s, incarnation: incarnation, number: number, rows: newRows(), wanted: newWanted(), streams: newStreamRows()}
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	if err := w.register(ctx); err != nil {
		w.closed = true
		w.disconnect(ctx)
		return nil, err
	}
	s.witness.Saw(incarnation)
	return w, nil
}

// connect makes sure that there is a connection.
func (w *Writer) connect(ctx context.Context) error {
	if w.closed {
		return cairnerr.Errorf(cairnerr.CodeClosed, "the writer was closed")
	}
	if w.store.closed.Load() {
		return errClosed()
	}
	if w.conn != nil && !w.conn.IsClosed() {
		return nil
	}
	conn, err := w.store.connect(ctx, writerSettings)
	if err != nil {
		return classify("connect", err)
	}
	w.prepared, err = prepare(ctx, conn.PgConn())
	if err != nil {
		_ = conn.Close(ctx)
		return classify("connect", err)
	}
	w.conn = conn
	return nil
}

// disconnect gives the connection up. What it was doing ends when the server notices.
func (w *Writer) disconnect(ctx context.Context) {
	if w.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = w.conn.Close(ctx)
	w.conn = nil
}

const (
	insertWriter = `insert into writers (incarnation, number) values ($1, $2) on conflict do nothing`
	// lockIncarnation makes a fence wait for a writer that is just being opened, so that it does not miss it.
	lockIncarnation = `select fenced from writers where incarnation = $1 and number = -1 for share`
	// lockWriter waits for a batch of the same writer on an older connection.
	lockWriter   = `select no, batch, fenced from writers where incarnation = $1 and number = $2 for update`
	selectWriter = `select batch, fenced from writers where no = $1`
	// moveWriter is fence, lock and proof in one: it fails, with a division by zero, for a fenced incarnation; its new
	// number says that the batch was applied.
	moveWriter = `with moved as (update writers set batch = $2::bigint where no = $1::bigint and batch = $2::bigint - 1 and not fenced returning 1)
		select 1 / count(*) from moved`
	takeNumbers = `select array_agg(nextval('runs_no')) from generate_series(1, $1::bigint)`
)

const (
	numberBlock = 256 // run numbers to fetch at once
	numberLow   = 64  // fetch more when fewer are left
)

// register finds or makes the writer's row.
func (w *Writer) register(ctx context.Context) error {
	for {
		err := w.tryRegister(ctx)
		if sqlState(err) != stateLockNotAvailable {
			return classify("open a writer", err)
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

func (w *Writer) tryRegister(ctx context.Context) error {
	id := raw(w.incarnation)
	return pgx.BeginFunc(ctx, w.conn, func(tx pgx.Tx) error {
		var dead, fenced bool
		b := &pgx.Batch{}
		b.Queue(insertWriter, id, -1)
		b.Queue(lockIncarnation, id).QueryRow(func(row pgx.Row) error { return row.Scan(&dead) })
		b.Queue(insertWriter, id, w.number)
		b.Queue(lockWriter, id, w.number).QueryRow(func(row pgx.Row) error { return row.Scan(&w.no, &w.batch, &fenced) })
		b.Queue(takeNumbers, numberBlock).QueryRow(func(row pgx.Row) error { return row.Scan(&w.numbers) })
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		if dead || fenced {
			return w.fenced()
		}
		return nil
	})
}

func (w *Writer) fenced() error {
	return cairnerr.Errorf(cairnerr.CodeFenced, "%s was declared dead by its peers; start again as a new incarnation",
		journal.PrefixIncarnation.Format(w.incarnation))
}

const (
	fenceIncarnation = `insert into writers (incarnation, number, fenced) values ($1, -1, true)
		on conflict (incarnation, number) do update set fenced = true`
	fenceWriters = `update writers set fenced = true where incarnation = $1 and not fenced`
)

// Fence implements [store.Store]. The row of the incarnation comes first: who opens a writer holds it until its own
// row can be seen.
func (s *Store) Fence(ctx context.Context, incarnation journal.ID) error {
	b := &pgx.Batch{}
	b.Queue(fenceIncarnation, raw(incarnation))
	b.Queue(fenceWriters, raw(incarnation))
	b.Queue(`update runs set owner = null, wake_at = case when parked_at is null then 1 end
		where ns in (select no from namespaces) and status in (0, 1) and status <> 2 and owner = $1`, raw(incarnation)) // journal.WakeAfterDeath
	b.Queue(`delete from beats where incarnation = $1`, raw(incarnation))
	return classify("fence", s.pool.SendBatch(ctx, b).Close())
}

// Begin implements [store.Writer]. Nothing is sent before the first Load, or Commit.
func (w *Writer) Begin(_ context.Context, now journal.Time) (store.Tx, error) {
	switch {
	case w.closed:
		return nil, cairnerr.Errorf(cairnerr.CodeClosed, "the writer was closed")
	case w.store.closed.Load():
		return nil, errClosed()
	case w.unsettled:
		return nil, fmt.Errorf("%w: it must be settled before the next one begins", store.ErrUnknownOutcome)
	}
	w.applied = false
	return &tx{w: w, now: now}, nil
}

// Settle implements [store.Writer]. The writer's row is moved past the batch in doubt, from a new connection: that waits
// for the old transaction, and when it succeeds the batch can never be applied, because it would find the row moved. It moves by two,
// so that an answer of Settle itself that got lost is not taken for the batch.
func (w *Writer) Settle(ctx context.Context) (bool, error) {
	for pause := 10 * time.Millisecond; w.unsettled; pause = min(2*pause, time.Second) {
		w.disconnect(ctx)
		err := w.trySettle(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil || !retryable(err) {
			return false, classify("settle", err)
		}
		w.store.cfg.Logger.WarnContext(ctx, "settle a batch: try again", slog.Any("error", err))
		if sleep(ctx, pause) != nil {
			return false, classify("settle", err)
		}
	}
	return w.applied, nil
}

const (
	waitForLock = `set local lock_timeout = 0`
	voidBatch   = `update writers set batch = batch + 2 where no = $1::bigint and batch = $2::bigint - 1 and not fenced`
)

func (w *Writer) trySettle(ctx context.Context) error {
	if err := w.connect(ctx); err != nil {
		return err
	}
	doubt := w.batch + 1
	var batch int64
	var fenced bool
	err := pgx.BeginFunc(ctx, w.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, waitForLock); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, voidBatch, w.no, doubt); err != nil {
			return err
		}
		return tx.QueryRow(ctx, selectWriter, w.no).Scan(&batch, &fenced)
	})
	if err != nil {
		return err
	}
	switch {
	case batch == doubt:
		w.settled(true)
	case batch == doubt+1:
		w.settled(false)
		w.batch = batch
	case batch == doubt-1 && fenced:
		w.settled(false)
		return w.fenced()
	default:
		return cairnerr.Errorf(cairnerr.CodeInternal, "batch %d is in doubt, but the writer's row says %d: somebody else uses this writer", doubt, batch)
	}
	return nil
}

// settled notes what became of the last batch.
func (w *Writer) settled(applied bool) {
	w.unsettled, w.applied = false, applied
	if applied {
		w.batch++
		for _, b := range w.born {
			b.state.Ref = b.no
		}
	}
	clear(w.born)
	w.born = w.born[:0]
}

// Close implements [store.Writer].
func (w *Writer) Close() error {
	w.closed = true
	w.disconnect(context.Background())
	return nil
}

// tx is one batch.
type tx struct {
	w     *Writer
	now   journal.Time
	begun bool // a transaction is open, and holds the writer's row
	done  bool
}

// begin puts the start of the transaction into a round trip.
func (t *tx) begin(trip *trip) {
	if t.begun {
		return
	}
	trip.send(stmtBegin, nil)
	t.move(trip)
}

// move puts the step of the writer's row into a round trip.
func (t *tx) move(trip *trip) {
	trip.send(stmtMoveWriter, nil, number(t.w.no), number(t.w.batch+1))
}

// Rollback implements [store.Tx].
func (t *tx) Rollback() {
	if t.done {
		return
	}
	t.done = true
	t.rollback(context.Background())
}

// rollback ends a transaction that is open. If that fails the connection is given up, which ends it too.
func (t *tx) rollback(ctx context.Context) {
	w := t.w
	if w.conn == nil || w.conn.IsClosed() || w.conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := w.conn.Exec(ctx, `rollback`); err != nil {
		w.disconnect(ctx)
	}
}

// refused tells why the server refused a batch. Nothing of it was written.
func (t *tx) refused(ctx context.Context, err error) error {
	t.rollback(ctx)
	if sqlState(err) != stateNotRun {
		return refusal(err)
	}
	w := t.w
	var batch int64
	var fenced bool
	if err := w.conn.QueryRow(ctx, selectWriter, w.no).Scan(&batch, &fenced); err != nil {
		return classify("find out why a batch was refused", err)
	}
	if fenced {
		return w.fenced()
	}
	return cairnerr.Errorf(cairnerr.CodeInternal, "batch %d was refused, and the writer's row says %d: somebody else uses this writer", w.batch+1, batch)
}

// nothingSent reports whether an error came before anything could have reached the server.
func nothingSent(err error) bool { return pgconn.SafeToRetry(err) }
