package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/store"
)

// each runs a query and gives each row to f, which may keep the values. While another process has the file to itself, the query is
// begun again: that happens before the first row.
func (s *Store) each(ctx context.Context, q querier, columns int, f func(row []driver.Value) error, query string, args ...any) error {
	_, snapshot := q.(*sql.Tx)
	pool := !snapshot
	if pool { // a snapshot has its turn already
		if err := s.turn.take(ctx); err != nil {
			return err
		}
		defer s.turn.give()
	}
	yielded := false
	var failed error
	err := retryBusy(ctx, func() error {
		rows, err := q.QueryContext(ctx, query, args...)
		if pool && s.reopened(q, err) {
			q = s.db()
			rows, err = q.QueryContext(ctx, query, args...)
		}
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		err = scanRows(rows, columns, func(row []driver.Value) error { yielded = true; return f(row) })
		if yielded {
			failed, err = err, nil
		}
		return err
	})
	return classify("read", errorsJoin(err, failed))
}

// one reads one row.
func (s *Store) one(ctx context.Context, into []any, query string, args ...any) error {
	if err := s.turn.take(ctx); err != nil {
		return err
	}
	defer s.turn.give()
	db := s.db()
	err := scanOne(ctx, db, into, query, args...)
	if s.reopened(db, err) {
		err = scanOne(ctx, s.db(), into, query, args...)
	}
	return err
}

// reopened reports whether a query failed because the file was closed and opened again in the meantime.
func (s *Store) reopened(q querier, err error) bool {
	if o, ok := q.(often); ok {
		q = o.DB
	}
	return err != nil && !s.closed.Load() && q != querier(s.db()) && cairnerr.CodeOf(classify("read", err)) == cairnerr.CodeClosed
}

// often returns the pool that reads, for statements that are executed again and again with the same text: each
// connection compiles them once. To compile takes longer than to execute, for most of them.
func (s *Store) often() often { return often{s.db(), &s.prepared} }

type often struct {
	*sql.DB
	prepared *prepared
}

// QueryContext implements querier.
func (o often) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	st, err := o.prepared.stmt(ctx, o.DB, query) //nolint:sqlclosecheck // it is kept
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

// prepared keeps the statements of the pool that reads. They end with the pool.
type prepared struct {
	mu    sync.Mutex
	pool  *sql.DB
	stmts map[string]*sql.Stmt
}

func (p *prepared) stmt(ctx context.Context, pool *sql.DB, query string) (*sql.Stmt, error) {
	if st := p.keep(pool, query, nil); st != nil {
		return st, nil
	}
	st, err := pool.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	kept := p.keep(pool, query, st)
	if kept != st { // somebody else was faster
		_ = st.Close() //nolint:sqlclosecheck // the one that is kept must stay open
	}
	return kept, nil
}

// keep returns the statement of a pool that is kept. If there is none, it keeps st.
func (p *prepared) keep(pool *sql.DB, query string, st *sql.Stmt) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pool != pool {
		p.pool, p.stmts = pool, map[string]*sql.Stmt{}
	}
	if kept := p.stmts[query]; kept != nil {
		return kept
	}
	if st != nil {
		p.stmts[query] = st
	}
	return st
}

func scanOne(ctx context.Context, q querier, into []any, query string, args ...any) error {
	return retryBusy(ctx, func() error { return q.QueryRowContext(ctx, query, args...).Scan(into...) })
}

func scanRows(rows *sql.Rows, columns int, f func(row []driver.Value) error) error {
	row, values, into := make([]driver.Value, columns), make([]any, columns), make([]any, columns)
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, v := range values {
			row[i] = v
		}
		if err := f(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// payloadColumn reads a payload, or leaves it where it is.
func payloadColumn(column string, r store.Resolve) string {
	if r == store.ResolveAll {
		return column
	}
	return "null"
}

// direction returns how a page compares with its cursor, and sorts.
func direction(p store.Page) (compare, order string) {
	if p.Desc {
		return "<", "desc"
	}
	return ">", "asc"
}

// bounds turns an absent cursor into the end of the list at which its order begins.
func bounds(p store.Page, cursor int64) int64 {
	if p.Cursor == "" && p.Desc {
		return 1<<63 - 1
	}
	return cursor
}
