package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Due implements [store.Reader].
func (s *Store) Due(ctx context.Context, f store.DueFilter) ([]store.DueRun, error) {
	ns, ok, err := s.namespaceNo(ctx, f.Namespace)
	if err != nil || !ok {
		return nil, err
	}
	workflows := make([]any, 0, len(f.Workflows))
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
	args := append([]any{int64(f.From), int64(f.Now), f.Owner[:]}, workflows...)
	var due []store.DueRun
	err = s.each(ctx, s.often(), 3, func(row []driver.Value) error {
		due = append(due, store.DueRun{Namespace: f.Namespace, Run: asID(row[0]), Owner: asID(row[1]), WakeAt: asTime(row[2])})
		return nil
	}, `select id, owner, wake_at from cairn_runs indexed by cairn_runs_due
		where wake_at >= ? and wake_at <= ? and (owner is null or owner = ?) and workflow in (`+marks(len(workflows))+`) order by wake_at limit ?`,
		append(args, f.Limit)...)
	return due, err
}

// NextDue implements [store.Reader].
func (s *Store) NextDue(ctx context.Context, after journal.Time) (journal.Time, error) {
	var next journal.Time
	err := s.each(ctx, s.often(), 1, func(row []driver.Value) error { next = asTime(row[0]); return nil },
		`select wake_at from cairn_runs indexed by cairn_runs_due where wake_at > ? order by wake_at limit 1`, int64(after))
	return next, err
}
