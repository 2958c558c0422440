package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// kind is what [store.Info] calls these databases.
const kind = "sqlite"

// lockPatience is how long a start waits for SQLite's write lock in a transaction that does not have it yet. Somebody who holds two
// transactions would wait for himself for ever.
const lockPatience = 10 * time.Second

// InTx returns a handle on a transaction of yours, for starts that are part of it. It must be one on the engine's file; the driver is the one that
// Cairn uses, modernc.org/sqlite.
//
// A transaction that reads before it writes can be refused by SQLite when it comes to write (transaction_conflict). One that begins as a
// writer cannot: open your database with _txlock=immediate.
func InTx(tx *sql.Tx) Tx { return Tx{tx} }

// Tx is a transaction of the user's.
type Tx struct{ tx *sql.Tx }

// Kind implements [store.UserTx].
func (Tx) Kind() string { return kind }

var _ store.Joiner = (*Store)(nil)

// Join implements [store.Joiner]. Nothing in here may wait for a connection of the store's own: the user may hold the write lock.
func (s *Store) Join(ctx context.Context, user store.UserTx, now journal.Time) (store.Joined, error) {
	u, ok := user.(Tx)
	switch {
	case !ok:
		return nil, store.WrongTx(user, kind)
	case u.tx == nil:
		return nil, store.WrongTx(nil, kind)
	case s.closed.Load():
		return nil, closedStore()
	case s.cfg.ReadOnly:
		return nil, cairnerr.Errorf(cairnerr.CodeReadOnly, "%s was opened for reading only", s.path)
	case s.path == "":
		return nil, cairnerr.Errorf(cairnerr.CodeUnsupported, "a database in memory cannot be part of your transactions: use a file")
	}
	// A writer that writes through the user's transaction: the same statements, the same rows. It has no row of its own, and is never committed.
	raw := &rawConn{inner: &txConn{tx: u.tx}, stmts: map[string]*rawStmt{}, count: &s.statements, ctx: ctx}
	j := &joined{s: s, user: u.tx, tx: &tx{w: &Writer{store: s, raw: raw}, now: now, begun: true, moved: true}}
	if err := j.lock(ctx); err != nil {
		return nil, err
	}
	return j, j.examine()
}

// joined is a transaction of the user's.
type joined struct {
	s    *Store
	user *sql.Tx
	tx   *tx
}

const (
	// takeLock changes nothing, but makes the transaction a writing one. What is read after it is the newest there is.
	takeLock      = `update cairn_writers set fenced = fenced where no is null`
	selectWitness = `select count(*) from cairn_writers where incarnation in (?, ?)`
)

// lock takes the write lock, unless the transaction has it.
func (j *joined) lock(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	var stale error
	err := retryBusy(waiting, func() error {
		_, err := j.tx.w.raw.exec(takeLock)
		if extended(err) == lib.SQLITE_BUSY_SNAPSHOT { // trying again does not help
			stale, err = err, nil
		}
		return err
	})
	switch {
	case stale != nil:
		return conflict("the transaction has read what others have changed since; begin it as a writer (_txlock=immediate): %w", stale)
	case err != nil && waiting.Err() != nil && ctx.Err() == nil:
		return conflict("another transaction has held the write lock for %s", lockPatience)
	default:
		return joinError("join", err)
	}
}

// examine makes sure that the transaction is on this database.
func (j *joined) examine() error {
	first, last := j.s.witness.Both()
	var seen int64
	err := j.tx.w.raw.query(func(row []driver.Value) error { seen = asInt(row[0]); return nil }, selectWitness, first[:], last[:])
	if err == nil && seen == 0 {
		return store.ForeignTx(j.s.path)
	}
	return joinError("join", err)
}

// Started implements [store.Joined].
func (j *joined) Started(_ context.Context, key journal.StartKey) (journal.Started, bool, error) {
	out := journal.NewOutside()
	err := j.tx.loadOutside(&store.LoadSet{StartKeys: []journal.StartKey{key}}, out)
	started, found := out.StartKeys[key]
	return started, found, joinError("find a start key", err)
}

// Insert implements [store.Joined]. It is all or nothing, also if the user goes on after an error. The start key is free: the transaction has had
// the write lock since it looked.
func (j *joined) Insert(ctx context.Context, run *store.RunChange) (bool, error) {
	if _, err := j.user.ExecContext(ctx, `savepoint cairn_start`); err != nil {
		return false, joinError("start", err)
	}
	_, _, err := j.tx.write(&store.Changes{Runs: []store.RunChange{*run}})
	end := `release cairn_start`
	if err != nil {
		end = `rollback to cairn_start; release cairn_start`
	}
	_, endErr := j.user.ExecContext(context.WithoutCancel(ctx), end)
	if err = errorsJoin(err, endErr); err != nil {
		return false, joinError("start", err)
	}
	j.s.watcher.watch(ctx, j.user, store.RunKey{Namespace: run.State.Namespace, Run: run.State.Run.ID})
	return true, nil
}

// joinError gives an error that came up in a transaction of the user's its code.
func joinError(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrTxDone), errors.Is(err, sql.ErrConnDone):
		return cairnerr.Errorf(cairnerr.CodeTxOver, "the transaction has ended: %w", err)
	case primary(err) == lib.SQLITE_BUSY, primary(err) == lib.SQLITE_LOCKED:
		return conflict("sqlite: %w", err)
	case strings.Contains(err.Error(), "no such table"):
		return cairnerr.Errorf(cairnerr.CodeForeignTx, "the transaction is on a database without Cairn's tables: begin it on the engine's file: %w", err)
	default:
		return classify(op, err)
	}
}

func conflict(format string, args ...any) error {
	err := cairnerr.Errorf(cairnerr.CodeTxConflict, format, args...)
	err.Retryable = true
	return err
}

// txConn makes a transaction look like the connection that rawConn uses.
type txConn struct{ tx *sql.Tx }

// PrepareContext implements [driver.ConnPrepareContext]. Nothing is prepared: the statements of one start run once. A conflict must not take back
// what is the user's own.
func (c *txConn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	return &txStmt{tx: c.tx, query: strings.Replace(query, `insert or rollback `, `insert `, 1)}, nil
}

type txStmt struct {
	tx    *sql.Tx
	query string
}

func (st *txStmt) Close() error  { return nil }
func (st *txStmt) NumInput() int { return -1 }

// Exec implements [driver.Stmt], for which nobody asks.
func (st *txStmt) Exec([]driver.Value) (driver.Result, error) { return nil, driver.ErrSkip }

// Query implements [driver.Stmt], for which nobody asks.
func (st *txStmt) Query([]driver.Value) (driver.Rows, error) { return nil, driver.ErrSkip }

// ExecContext implements [driver.StmtExecContext].
func (st *txStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return st.tx.ExecContext(ctx, st.query, valuesOf(args)...)
}

// QueryContext implements [driver.StmtQueryContext].
func (st *txStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := st.tx.QueryContext(ctx, st.query, valuesOf(args)...) //nolint:rowserrcheck // txRows asks for it
	if err != nil {
		return nil, err
	}
	columns, err := rows.Columns() // it fails for rows that are closed
	return &txRows{rows: rows, columns: columns}, err
}

func valuesOf(args []driver.NamedValue) []any {
	values := make([]any, len(args))
	for i := range args {
		values[i] = args[i].Value
	}
	return values
}

type txRows struct {
	rows    *sql.Rows
	columns []string
}

func (r *txRows) Columns() []string { return r.columns }
func (r *txRows) Close() error      { return r.rows.Close() }

// Next implements [driver.Rows].
func (r *txRows) Next(row []driver.Value) error {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	values, into := make([]any, len(row)), make([]any, len(row))
	for i := range values {
		into[i] = &values[i]
	}
	if err := r.rows.Scan(into...); err != nil {
		return err
	}
	for i, v := range values {
		row[i] = v
	}
	return nil
}
