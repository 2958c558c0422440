package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"modernc.org/sqlite"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// rawConn is the writing connection below database/sql: the same statements run thousands of times a second, and the
// checks, locks and copies of database/sql would cost as much as the work.
type rawConn struct {
	db    *sql.DB
	conn  *sql.Conn
	stmts map[string]*rawStmt
	inner driver.ConnPrepareContext // set while do runs
	count *atomic.Int64             // of the store's statements
	// ctx is that of no caller, and never ends: for one that can, the driver starts a goroutine at each statement, and a
	// statement takes microseconds.
	ctx context.Context
}

type rawStmt struct {
	exec  driver.StmtExecContext
	query driver.StmtQueryContext
	close func() error
	args  []driver.NamedValue
	row   []driver.Value
}

// openRaw opens a connection for writing.
func (s *Store) openRaw(ctx context.Context) (*rawConn, error) {
	if s.closed.Load() {
		return nil, closedStore()
	}
	db, err := connect(s.writerDSN, 1)
	if err != nil {
		return nil, err
	}
	if err := s.turn.take(ctx); err != nil {
		return nil, errorsJoin(err, db.Close())
	}
	conn, err := db.Conn(ctx)
	s.turn.give()
	if err != nil {
		return nil, errorsJoin(classify("connect", err), db.Close())
	}
	return &rawConn{db: db, conn: conn, stmts: map[string]*rawStmt{}, count: &s.statements, ctx: context.Background()}, nil
}

func (c *rawConn) Close() error {
	_ = c.conn.Raw(func(any) error {
		for _, st := range c.stmts {
			_ = st.close()
		}
		return nil
	})
	return errorsJoin(c.conn.Close(), c.db.Close())
}

// do runs f with the connection for itself. The other methods may be used only inside f.
func (c *rawConn) do(f func() error) error {
	if c.conn == nil { // it stands for a transaction of the user's, see join.go
		return f()
	}
	var result error
	err := c.conn.Raw(func(inner any) error {
		p, ok := inner.(driver.ConnPrepareContext)
		if !ok {
			return errors.New("the driver cannot prepare statements")
		}
		c.inner = p
		defer func() { c.inner = nil }()
		result = f() // kept apart: an error returned to Raw could close the connection
		return nil
	})
	return errorsJoin(result, err)
}

// stmt returns a prepared statement that is about to be executed.
func (c *rawConn) stmt(query string) (*rawStmt, error) {
	c.count.Add(1)
	if st := c.stmts[query]; st != nil {
		return st, nil
	}
	prepared, err := c.inner.PrepareContext(c.ctx, query)
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	e, ok1 := prepared.(driver.StmtExecContext)
	q, ok2 := prepared.(driver.StmtQueryContext)
	if !ok1 || !ok2 {
		return nil, errorsJoin(errors.New("the driver's statements take no context"), prepared.Close())
	}
	st := &rawStmt{exec: e, query: q, close: prepared.Close}
	c.stmts[query] = st
	return st, nil
}

func (st *rawStmt) bind(args []driver.Value) []driver.NamedValue {
	for len(st.args) < len(args) {
		st.args = append(st.args, driver.NamedValue{Ordinal: len(st.args) + 1})
	}
	for i, v := range args {
		st.args[i].Value = v
	}
	return st.args[:len(args)]
}

// exec runs a statement and returns the number of rows that it changed.
func (c *rawConn) exec(query string, args ...driver.Value) (int64, error) {
	st, err := c.stmt(query)
	if err != nil {
		return 0, err
	}
	res, err := st.exec.ExecContext(c.ctx, st.bind(args))
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// version returns the version of what the connection sees. It is not valid where the driver does not tell.
func (c *rawConn) version() version {
	control, ok := c.inner.(sqlite.FileControl)
	if !ok {
		return version{}
	}
	n, err := control.FileControlDataVersion("main")
	return version{n, err == nil}
}

// insert runs a statement that adds a row, and returns the number that the row got.
func (c *rawConn) insert(query string, args ...driver.Value) (int64, error) {
	st, err := c.stmt(query)
	if err != nil {
		return 0, err
	}
	res, err := st.exec.ExecContext(c.ctx, st.bind(args))
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// query runs a statement and gives each row to f, which must not keep it.
func (c *rawConn) query(f func(row []driver.Value) error, query string, args ...driver.Value) error {
	st, err := c.stmt(query)
	if err != nil {
		return err
	}
	rows, err := st.query.QueryContext(c.ctx, st.bind(args))
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	if n := len(rows.Columns()); len(st.row) != n {
		st.row = make([]driver.Value, n)
	}
	for {
		switch err := rows.Next(st.row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := f(st.row); err != nil {
			return err
		}
	}
}

// The functions below turn what the database holds into Go and back: null is the zero value.

func asInt(v driver.Value) int64 { n, _ := v.(int64); return n }

func asText(v driver.Value) string { s, _ := v.(string); return s }

func asBytes(v driver.Value) []byte { b, _ := v.([]byte); return b }

func asTime(v driver.Value) journal.Time { return journal.Time(asInt(v)) }

func asID(v driver.Value) journal.ID {
	var id journal.ID
	copy(id[:], asBytes(v))
	return id
}

func intOrNull[T ~int64](n T) driver.Value {
	if n == 0 {
		return nil
	}
	return int64(n)
}

func textOrNull(s string) driver.Value {
	if s == "" {
		return nil
	}
	return s
}

func bytesOrNull(b []byte) driver.Value {
	if len(b) == 0 {
		return nil
	}
	return b
}

func idOrNull(id journal.ID) driver.Value {
	if id.IsZero() {
		return nil
	}
	return id[:]
}
