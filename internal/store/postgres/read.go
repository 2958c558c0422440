package postgres

import (
	"context"
	"math"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// each runs a query and gives each row to f.
func (s *Store) each(ctx context.Context, f func(pgx.Rows) error, query string, args ...any) error {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return classify("read", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return classify("read", err)
		}
	}
	return classify("read", rows.Err())
}

// scanID reads an id; null is the zero id.
type scanID struct{ id *journal.ID }

// ScanUUID implements [pgtype.UUIDScanner].
func (s scanID) ScanUUID(v pgtype.UUID) error {
	*s.id = v.Bytes
	return nil
}

// payloadColumn reads a payload, or leaves it where it is.
func payloadColumn(column string, r store.Resolve) string {
	if r == store.ResolveAll {
		return column
	}
	return "null::bytea"
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
		return math.MaxInt64
	}
	return cursor
}

// arguments numbers the parameters of a query that is put together.
type arguments []any

// add returns the placeholder of a value.
func (a *arguments) add(v any) string {
	*a = append(*a, v)
	return "$" + strconv.Itoa(len(*a))
}

// raw returns an id as the driver wants it, also where it may not ask the server for types first.
func raw(id journal.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }
