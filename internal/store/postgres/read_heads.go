package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

const selectHeads = `select r.id, r.status, coalesce(r.parked_at, 0), coalesce(e.seq, 0)
	from unnest($2::uuid[]) as u (id)
	cross join lateral (select no, id, status, parked_at from runs where ns = $1::integer and id = u.id limit 1) r
	left join lateral (select seq from events where run = r.no order by seq desc limit 1) e on true`

// Heads implements [store.Reader].
func (s *Store) Heads(ctx context.Context, namespace string, ids []journal.ID) ([]store.RunHead, error) {
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil || !ok {
		return nil, err
	}
	list := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		list[i] = raw(id)
	}
	var heads []store.RunHead
	err = s.each(ctx, func(rows pgx.Rows) error {
		var h store.RunHead
		var status int16
		err := rows.Scan(scanID{&h.Run}, &status, (*int64)(&h.ParkedAt), &h.Seq)
		h.Status = journal.Status(status)
		heads = append(heads, h)
		return err
	}, selectHeads, ns, list)
	return heads, err
}
