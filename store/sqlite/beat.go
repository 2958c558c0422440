package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	lib "modernc.org/sqlite/lib"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/store"
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

// runsOf finds the runs of a process that have not ended.
const runsOf = `select r.no from` + oldRuns + ` and r.ns in (select no from cairn_namespaces) and r.status in (0, 1) and r.owner = ?1
	union all select r.no from` + youngRuns + ` and r.status in (0, 1) and r.owner = ?1`

// Peers implements [store.Reader].
func (s *Store) Peers(ctx context.Context) ([]store.Peer, error) {
	var peers []store.Peer
	err := s.each(ctx, s.db(), 3, func(row []driver.Value) error {
		peers = append(peers, store.Peer{Incarnation: asID(row[0]), Beat: asInt(row[1]), Batch: asInt(row[2])})
		return nil
	}, `select w.incarnation, max(b.beat), sum(w.batch) from cairn_writers w left join cairn_beats b on b.incarnation = w.incarnation
		where w.fenced = 0 group by w.incarnation`)
	return peers, err
}

// Owns implements [store.Reader].
func (s *Store) Owns(ctx context.Context, incarnation journal.ID) (bool, error) {
	owns := false
	err := s.each(ctx, s.db(), 1, func([]driver.Value) error { owns = true; return nil },
		runsOf+` limit 1`, incarnation[:])
	return owns, err
}
