package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// ownRows are the tables with rows of a run, by its number.
var ownRows = []string{"cairn_events", "cairn_steps", "cairn_hooks", "cairn_waits", "cairn_receipts", "cairn_attributes", "cairn_logs"}

const (
	// A number is never given to a second run, because other processes may remember whose it was. SQLite gives a new row the greatest number and one, so
	// the row with the greatest stays, without a namespace and so seen by nobody, until there is a greater one.
	buryRun = `update cairn_runs set ns = 0, workflow = 0, status = 2, owner = null, wake_at = null, parent = null, start_key = null, start_digest = null, extra = null
		where no = ?1`
	sweepGraves = `delete from cairn_runs where ns = 0 and no < (select max(no) from cairn_runs)`
)

// Delete implements [store.Store].
func (s *Store) Delete(ctx context.Context, namespace string, run journal.ID) error {
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil {
		return err
	}
	if !ok {
		return store.RunNotFound(run)
	}
	raw, err := s.openRaw(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }() // which takes back what was not committed
	if err := s.turn.take(ctx); err != nil {
		return err
	}
	defer s.turn.give()
	do := func(statement string, args ...any) error {
		return retryBusy(ctx, func() error { _, err := raw.conn.ExecContext(ctx, statement, args...); return err })
	}
	if err := do(`begin immediate`); err != nil {
		return classify("delete", err)
	}
	var no, status int64
	err = raw.conn.QueryRowContext(ctx, `select no, status from cairn_runs where ns = ? and id = ?`, ns, run[:]).Scan(&no, &status)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return store.RunNotFound(run)
	case err != nil:
		return classify("delete", err)
	case !journal.Status(status).Terminal():
		return store.NotEnded(run)
	}
	for _, table := range ownRows {
		if err := do(`delete from `+table+` where run = ?`, no); err != nil {
			return classify("delete", err)
		}
	}
	for _, step := range []struct {
		statement string
		args      []any
	}{
		{`delete from cairn_messages where ns = ? and run = ?`, []any{ns, run[:]}},
		{`delete from cairn_chunks where stream in (select no from cairn_streams where ns = ? and run = ?)`, []any{ns, run[:]}},
		{`delete from cairn_sources where stream in (select no from cairn_streams where ns = ? and run = ?)`, []any{ns, run[:]}},
		{`delete from cairn_streams where ns = ? and run = ?`, []any{ns, run[:]}},
		{buryRun, []any{no}},
		{sweepGraves, nil},
		{`commit`, nil},
	} {
		if err := do(step.statement, step.args...); err != nil {
			return classify("delete", err)
		}
	}
	return nil
}
