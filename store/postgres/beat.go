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

// selectOwners hops from owner to owner through their index.
const selectOwners = `with recursive o as (
		(select r.owner from runs r where r.owner is not null order by r.owner limit 1)
		union all
		select n.owner from o cross join lateral (select r.owner from runs r where r.owner > o.owner order by r.owner limit 1) n
	) select o.owner, coalesce(b.beat, 0) from o left join beats b on b.incarnation = o.owner`

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
