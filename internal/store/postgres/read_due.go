package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

const (
	selectDue = `select r.id, r.owner, r.wake_at from runs r
	where r.wake_at is not null and r.wake_at >= $5 and r.wake_at <= $1 and (r.owner is null or r.owner = $2) and r.workflow = any($3::integer[])
	order by r.wake_at limit $4`
	// wakeLeft wakes the runs that a batch could not wake, and whose process has not made up for it: it may be dead. It waits for nobody.
	wakeLeft = `with w as (
			select n, ns, run from wakes order by n limit 1000 for update skip locked
		), locked as (
			select w.n, r.no from w cross join lateral (select no from runs r where r.ns = w.ns and r.id = w.run for update skip locked) r
		), done as (
			delete from wakes using w where wakes.n = w.n
				and (w.n in (select n from locked) or not exists (select from runs r where r.ns = w.ns and r.id = w.run))
		)
		update runs r set wake_at = least(r.wake_at, $1::bigint) where r.no in (select no from locked) and r.status < 2 and r.parked_at is null`
)

// Due implements [store.Reader].
func (s *Store) Due(ctx context.Context, f store.DueFilter) ([]store.DueRun, error) {
	ns, ok, err := s.namespaceNo(ctx, f.Namespace)
	if err != nil || !ok {
		return nil, err
	}
	var workflows []int32
	for _, name := range f.Workflows {
		no, ok, err := s.workflowNo(ctx, ns, name)
		if err != nil {
			return nil, err
		}
		if ok {
			workflows = append(workflows, no)
		}
	}
	if len(workflows) == 0 {
		return nil, nil
	}
	var left bool
	if err := s.pool.QueryRow(ctx, `select exists (select from wakes)`).Scan(&left); err != nil {
		return nil, classify("read", err)
	}
	if left {
		if _, err := s.pool.Exec(ctx, wakeLeft, int64(f.Now)); err != nil {
			return nil, classify("wake what was left", err)
		}
	}
	rows, err := s.pool.Query(ctx, selectDue, int64(f.Now), [16]byte(f.Owner), workflows, f.Limit, int64(f.From))
	if err != nil {
		return nil, classify("read", err)
	}
	due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.DueRun, error) {
		d := store.DueRun{Namespace: f.Namespace}
		var owner *[16]byte
		var id [16]byte
		var at int64
		if err := row.Scan(&id, &owner, &at); err != nil {
			return d, err
		}
		d.Run, d.WakeAt = journal.ID(id), journal.Time(at)
		if owner != nil {
			d.Owner = journal.ID(*owner)
		}
		return d, nil
	})
	return due, classify("read", err)
}

// NextDue implements [store.Reader].
func (s *Store) NextDue(ctx context.Context, after journal.Time) (journal.Time, error) {
	var next int64
	err := s.pool.QueryRow(ctx, `select coalesce((select wake_at from runs where wake_at is not null and wake_at > $1 order by wake_at limit 1), 0)`, int64(after)).Scan(&next)
	return journal.Time(next), classify("read", err)
}
