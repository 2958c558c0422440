package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Due implements [store.Reader].
func (s *Store) Due(ctx context.Context, f store.DueFilter) ([]store.DueRun, error) {
	if f.IsEmpty() {
		return nil, nil
	}
	within, args := inScope(f.Scope, int64(f.From), int64(f.Now), f.Owner[:])
	var due []store.DueRun
	err := s.each(ctx, s.often(), 4, func(row []driver.Value) error {
		due = append(due, store.DueRun{Namespace: asText(row[3]), Run: asID(row[0]), Owner: asID(row[1]), WakeAt: asTime(row[2])})
		return nil
	}, `select r.id, r.owner, r.wake_at, n.name from cairn_runs r indexed by cairn_runs_due`+namesOfRun+`
		where r.wake_at >= ? and r.wake_at <= ? and (r.owner is null or r.owner = ?)`+within+` order by r.wake_at limit ?`,
		append(args, f.Limit)...)
	return due, err
}

// Parked implements [store.Reader].
func (s *Store) Parked(ctx context.Context, scope store.Scope, after store.RunKey, limit int) ([]store.ParkedRun, error) {
	if scope.IsEmpty() {
		return nil, nil
	}
	within, args := inScope(scope, after.Namespace, after.Run[:])
	var parked []store.ParkedRun
	err := s.each(ctx, s.often(), 3, func(row []driver.Value) error {
		parked = append(parked, store.ParkedRun{RunKey: store.RunKey{Namespace: asText(row[2]), Run: asID(row[0])}, ParkedAt: asTime(row[1])})
		return nil
	}, `select r.id, r.parked_at, n.name from cairn_runs r indexed by cairn_runs_parked`+namesOfRun+`
		where r.parked_at is not null and (r.ns, r.id) > (coalesce((select no from cairn_namespaces where name = ?), 0), ?)`+within+` order by r.ns, r.id limit ?`,
		append(args, limit)...)
	return parked, err
}

// namesOfRun joins the names of a run's workflow and namespace. It is done for each run that is found, and never the other way round.
const namesOfRun = ` cross join cairn_workflows w on w.no = r.workflow cross join cairn_namespaces n on n.no = w.ns`

// inScope returns the condition that a run is within a scope, and the arguments that came before with those of the condition.
func inScope(s store.Scope, before ...any) (condition string, args []any) {
	args = before
	for _, name := range s.Workflows {
		args = append(args, name)
	}
	condition = ` and w.name in (` + marks(len(s.Workflows)) + `)`
	if s.All {
		return condition, args
	}
	for _, name := range s.Namespaces {
		args = append(args, name)
	}
	return condition + ` and n.name in (` + marks(len(s.Namespaces)) + `)`, args
}

// NextDue implements [store.Reader].
func (s *Store) NextDue(ctx context.Context, after journal.Time) (journal.Time, error) {
	var next journal.Time
	err := s.each(ctx, s.often(), 1, func(row []driver.Value) error { next = asTime(row[0]); return nil },
		`select wake_at from cairn_runs indexed by cairn_runs_due where wake_at > ? order by wake_at limit 1`, int64(after))
	return next, err
}
