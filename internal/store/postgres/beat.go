package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Beat implements [store.Store].
func (s *Store) Beat(ctx context.Context, incarnation journal.ID) error {
	_, err := s.pool.Exec(ctx, `insert into beats (incarnation, beat) values ($1, 1)
		on conflict (incarnation) do update set beat = beats.beat + 1`, [16]byte(incarnation))
	return classify("beat", err)
}

const (
	selectPeers = `select w.incarnation, coalesce(max(b.beat), 0), sum(w.batch)::bigint from writers w left join beats b on b.incarnation = w.incarnation
		where not w.fenced group by w.incarnation`
	// selectOwns goes through the runs that have not ended, by the index on their states.
	selectOwns = `select exists (select 1 from runs r
		where r.ns in (select no from namespaces) and r.status in (0, 1) and r.status <> 2 and r.owner = $1)`
)

// Peers implements [store.Reader].
func (s *Store) Peers(ctx context.Context) ([]store.Peer, error) {
	rows, err := s.pool.Query(ctx, selectPeers)
	if err != nil {
		return nil, classify("read", err)
	}
	peers, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.Peer, error) {
		var p store.Peer
		err := row.Scan((*[16]byte)(&p.Incarnation), &p.Beat, &p.Batch)
		return p, err
	})
	return peers, classify("read", err)
}

// Owns implements [store.Reader].
func (s *Store) Owns(ctx context.Context, incarnation journal.ID) (bool, error) {
	var owns bool
	err := s.pool.QueryRow(ctx, selectOwns, [16]byte(incarnation)).Scan(&owns)
	return owns, classify("read", err)
}
