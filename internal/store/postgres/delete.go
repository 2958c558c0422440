package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// ownRows are the tables with rows of a run, by its number, in the order in which batches lock them.
var ownRows = []string{"events", "steps", "hooks", "waits", "receipts", "attributes", "logs"}

// Delete implements [store.Store]. The run's row is locked first: who writes to a run that has ended locks it, too.
func (s *Store) Delete(ctx context.Context, namespace string, run journal.ID) error {
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil {
		return err
	}
	if !ok {
		return store.RunNotFound(run)
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var no int64
		var status int16
		err := tx.QueryRow(ctx, `select no, status from runs where ns = $1 and id = $2 for update`, ns, raw(run)).Scan(&no, &status)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return store.RunNotFound(run)
		case err != nil:
			return err
		case !journal.Status(status).Terminal():
			return store.NotEnded(run)
		}
		b := &pgx.Batch{}
		for _, table := range ownRows {
			b.Queue(`delete from `+table+` where run = $1`, no)
		}
		b.Queue(`delete from messages where ns = $1 and run = $2`, ns, raw(run))
		for _, table := range []string{"chunks", "sources"} {
			b.Queue(`delete from `+table+` where stream in (select no from streams where ns = $1 and run = $2)`, ns, raw(run))
		}
		b.Queue(`delete from streams where ns = $1 and run = $2`, ns, raw(run))
		b.Queue(`delete from runs where no = $1`, no)
		return tx.SendBatch(ctx, b).Close()
	})
	return classify("delete", err)
}
