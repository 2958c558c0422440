package cairn

import (
	"context"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Tx is a transaction of your own: sqlite.InTx, postgres.InTx and postgres.InSQLTx make one.
type Tx interface {
	store.UserTx
}

// StartIn starts a run inside a database transaction of your own, on the database that the engine works on: the run
// exists if the transaction is committed, and never existed if it is rolled back. The store's package makes the handle:
// sqlite.InTx, postgres.InTx or postgres.InSQLTx.
//
//	tx, err := db.BeginTx(ctx, nil)
//	_, err = tx.ExecContext(ctx, `insert into orders …`)
//	run, err := Checkout.StartIn(ctx, eng, sqlite.InTx(tx), order, cairn.Key(order.ID))
//	err = tx.Commit()
//
// The run begins within a moment of the commit. Until then nobody sees it: [Run.Result], [RunHandle.Cancel] and the
// like give run_not_found. Another start with the same key waits for the end of the transaction.
//
// An error does not end the transaction, except where PostgreSQL itself does so: roll it back, or go on without the
// run. An error with the code transaction_conflict means that it should be repeated. See docs/transactions.md.
func (w *Workflow[In, Out]) StartIn(ctx context.Context, e *Engine, tx Tx, in In, opts ...StartOption) (*Run[Out], error) {
	req, err := w.request(ctx, "StartIn", in, opts)
	if err != nil {
		return nil, err
	}
	id, err := e.inner.Join(ctx, tx, req)
	if err != nil {
		return nil, err
	}
	return &Run[Out]{&RunHandle{e: e, id: id, joined: true}}, nil
}

// missing says why a run that was started in a transaction is probably not there.
func (h *RunHandle) missing(err error) error {
	if h.joined && cairnerr.CodeOf(err) == cairnerr.CodeRunNotFound {
		return cairnerr.Errorf(cairnerr.CodeRunNotFound, "no run %s: the transaction that it was started in was not committed, or not yet", h.ID())
	}
	return err
}
