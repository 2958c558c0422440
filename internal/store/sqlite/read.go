package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/store"
)

// each runs a query and gives each row to f, which may keep the values. While another process has the file to itself, the query is
// begun again: that happens before the first row.
func (s *Store) each(ctx context.Context, q querier, columns int, f func(row []driver.Value) error, query string, args ...any) error {
	_, pool := q.(*sql.DB)
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
	return err != nil && !s.closed.Load() && q != querier(s.db()) && cairnerr.CodeOf(classify("read", err)) == cairnerr.CodeClosed
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
