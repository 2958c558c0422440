package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// Beat implements [store.Store]. It has a connection of its own: a long batch does not hold it up more than it must.
func (s *Store) Beat(ctx context.Context, incarnation journal.ID) error {
	raw, err := s.openRaw(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	err = retryBusy(ctx, func() error {
		_, err := raw.conn.ExecContext(ctx, `insert into cairn_beats (incarnation, beat) values (?, 1)
			on conflict (incarnation) do update set beat = beat + 1`, incarnation[:])
		return err
	})
	return classify("beat", err)
}

// Owners implements [store.Reader]: it hops from owner to owner through their index.
func (s *Store) Owners(ctx context.Context) (map[journal.ID]int64, error) {
	owners := map[journal.ID]int64{}
	err := s.each(ctx, s.db(), 2, func(row []driver.Value) error {
		owners[asID(row[0])] = asInt(row[1])
		return nil
	}, `with recursive o (owner) as (
			select min(owner) from cairn_runs where owner is not null
			union all
			select (select min(r.owner) from cairn_runs r where r.owner > o.owner) from o where o.owner is not null
		) select o.owner, b.beat from o left join cairn_beats b on b.incarnation = o.owner where o.owner is not null`)
	return owners, err
}
