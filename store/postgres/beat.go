package postgres

import (
	"context"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// Beat implements [store.Store].
func (s *Store) Beat(ctx context.Context, incarnation journal.ID) error {
	_, err := s.pool.Exec(ctx, `insert into beats (incarnation, beat) values ($1, 1)
		on conflict (incarnation) do update set beat = beats.beat + 1`, [16]byte(incarnation))
	return classify("beat", err)
}

// selectOwners goes through the runs that have not ended, by the index on their states.
const selectOwners = `select o.owner, coalesce(b.beat, 0) from (
		select distinct r.owner from runs r
		where r.ns in (select no from namespaces) and r.status in (0, 1) and r.status <> 2 and r.owner is not null
	) o left join beats b on b.incarnation = o.owner`

// Owners implements [store.Reader].
func (s *Store) Owners(ctx context.Context) (map[journal.ID]int64, error) {
	rows, err := s.pool.Query(ctx, selectOwners)
	if err != nil {
		return nil, classify("read", err)
	}
	defer rows.Close()
	owners := map[journal.ID]int64{}
	for rows.Next() {
		var id [16]byte
		var beat int64
		if err := rows.Scan(&id, &beat); err != nil {
			return nil, classify("read", err)
		}
		owners[journal.ID(id)] = beat
	}
	return owners, classify("read", rows.Err())
}
