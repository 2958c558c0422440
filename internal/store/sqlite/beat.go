package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	lib "modernc.org/sqlite/lib"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Beat implements [store.Store]. It has a connection of its own: a long batch does not hold it up more than it must.
func (s *Store) Beat(ctx context.Context, incarnation journal.ID) error {
	raw, err := s.openRaw(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	locked := false
	err = retryBusy(ctx, func() error {
		_, err := raw.conn.ExecContext(ctx, `insert into cairn_beats (incarnation, beat) values (?, 1)
			on conflict (incarnation) do update set beat = beat + 1`, incarnation[:])
		locked = locked || primary(err) == lib.SQLITE_BUSY // the last error may be that of ctx
		return err
	})
	if err != nil && locked {
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	}
	return classify("beat", err)
}

// liveRuns goes through the runs that have not ended, by the index on their states.
const liveRuns = ` from cairn_namespaces n join cairn_runs r indexed by cairn_runs_status on r.ns = n.no and r.status in (0, 1) and r.status <> 2 `

// Peers implements [store.Reader].
func (s *Store) Peers(ctx context.Context) ([]store.Peer, error) {
	var peers []store.Peer
	err := s.each(ctx, s.often(), 3, func(row []driver.Value) error {
		peers = append(peers, store.Peer{Incarnation: asID(row[0]), Beat: asInt(row[1]), Batch: asInt(row[2])})
		return nil
	}, `select w.incarnation, max(b.beat), sum(w.batch) from cairn_writers w left join cairn_beats b on b.incarnation = w.incarnation
		where w.fenced = 0 group by w.incarnation`)
	if err == nil {
		s.hub.version.sawPeers(peers)
	}
	return peers, err
}

// Owns implements [store.Reader].
func (s *Store) Owns(ctx context.Context, incarnation journal.ID) (bool, error) {
	owns := false
	err := s.each(ctx, s.db(), 1, func([]driver.Value) error { owns = true; return nil },
		`select 1`+liveRuns+`where r.owner = ? limit 1`, incarnation[:])
	return owns, err
}
