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

// liveRuns goes through the runs that have not ended, by the index on their states.
const liveRuns = ` from cairn_namespaces n join cairn_runs r indexed by cairn_runs_status on r.ns = n.no and r.status in (0, 1) and r.status <> 2 `

// Owners implements [store.Reader].
func (s *Store) Owners(ctx context.Context) (map[journal.ID]int64, error) {
	owners := map[journal.ID]int64{}
	err := s.each(ctx, s.db(), 2, func(row []driver.Value) error {
		owners[asID(row[0])] = asInt(row[1])
		return nil
	}, `select o.owner, b.beat from (select distinct r.owner`+liveRuns+`where r.owner is not null) o
		left join cairn_beats b on b.incarnation = o.owner`)
	return owners, err
}
