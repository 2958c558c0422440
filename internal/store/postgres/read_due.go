package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

const (
	selectDue = `select r.id, r.owner, r.wake_at, n.name` + runsInScope + `
		and r.wake_at is not null and r.wake_at >= $4 and r.wake_at <= $5 and (r.owner is null or r.owner = $6)
		order by r.wake_at limit $7`
	selectParked = `select r.id, r.parked_at, n.name` + runsInScope + `
		and r.parked_at is not null and (r.ns, r.id) > (coalesce((select no from namespaces where name = $4), 0), $5::uuid)
		order by r.ns, r.id limit $6`
	// runsInScope are the runs of some workflows in some namespaces.
	runsInScope = ` from runs r join workflows w on w.no = r.workflow join namespaces n on n.no = w.ns
		where w.name = any($1::text[]) and ($2 or n.name = any($3::text[]))`
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
	var left bool
	if err := s.pool.QueryRow(ctx, `select exists (select from wakes)`).Scan(&left); err != nil {
		return nil, classify("read", err)
	}
	if left {
		if _, err := s.pool.Exec(ctx, wakeLeft, int64(f.Now)); err != nil {
			return nil, classify("wake what was left", err)
		}
	}
	rows, err := s.pool.Query(ctx, selectDue, f.Workflows, f.All, f.Namespaces, int64(f.From), int64(f.Now), [16]byte(f.Owner), f.Limit)
	if err != nil {
		return nil, classify("read", err)
	}
	due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d store.DueRun, err error) {
		var owner *[16]byte
		if err := row.Scan((*[16]byte)(&d.Run), &owner, (*int64)(&d.WakeAt), &d.Namespace); err != nil {
			return d, err
		}
		if owner != nil {
			d.Owner = journal.ID(*owner)
		}
		return d, nil
	})
	return due, classify("read", err)
}

// Parked implements [store.Reader].
func (s *Store) Parked(ctx context.Context, scope store.Scope, after store.RunKey, limit int) ([]store.ParkedRun, error) {
	rows, err := s.pool.Query(ctx, selectParked, scope.Workflows, scope.All, scope.Namespaces, after.Namespace, [16]byte(after.Run), limit)
	if err != nil {
		return nil, classify("read", err)
	}
	parked, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p store.ParkedRun, err error) {
		return p, row.Scan((*[16]byte)(&p.Run), (*int64)(&p.ParkedAt), &p.Namespace)
	})
	return parked, classify("read", err)
}

// NextDue implements [store.Reader].
func (s *Store) NextDue(ctx context.Context, after journal.Time) (journal.Time, error) {
	var next int64
	err := s.pool.QueryRow(ctx, `select coalesce((select wake_at from runs where wake_at is not null and wake_at > $1 order by wake_at limit 1), 0)`, int64(after)).Scan(&next)
	return journal.Time(next), classify("read", err)
}
