package main

import (
	"context"
	"sync/atomic"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// counted is a store that counts what is written through it: package cairn hides its engine, so this is where one can see it.
type counted struct {
	store.Store
	// transactions that were committed. Each is one sync of the log, on SQLite with synchronous=FULL as on PostgreSQL; those of
	// checkpoints come besides, and are not counted.
	transactions atomic.Int64
	rested       atomic.Int64 // runs that came to wait and were given back
	ended        atomic.Int64 // runs that ended
}

// statements returns how many statements the store's writers have executed.
func (c *counted) statements() int64 {
	if s, ok := c.Store.(interface{ Statements() int64 }); ok {
		return s.Statements()
	}
	return 0
}

// OpenWriter implements [store.Store].
func (c *counted) OpenWriter(ctx context.Context, incarnation journal.ID, number int) (store.Writer, error) {
	w, err := c.Store.OpenWriter(ctx, incarnation, number)
	if err != nil {
		return nil, err
	}
	return &countedWriter{Writer: w, c: c}, nil
}

// Beat implements [store.Store].
func (c *counted) Beat(ctx context.Context, incarnation journal.ID) error {
	err := c.Store.Beat(ctx, incarnation)
	if err == nil {
		c.transactions.Add(1)
	}
	return err
}

type countedWriter struct {
	store.Writer
	c *counted
}

// Begin implements [store.Writer].
func (w *countedWriter) Begin(ctx context.Context, now journal.Time) (store.Tx, error) {
	tx, err := w.Writer.Begin(ctx, now)
	if err != nil {
		return nil, err
	}
	return &countedTx{Tx: tx, c: w.c}, nil
}

type countedTx struct {
	store.Tx
	c *counted
}

// Commit implements [store.Tx].
func (t *countedTx) Commit(ctx context.Context, changes *store.Changes) error {
	if err := t.Tx.Commit(ctx, changes); err != nil {
		return err
	}
	t.c.transactions.Add(1)
	for i := range changes.Runs {
		switch r := &changes.Runs[i]; {
		case r.State.Run.Status.Terminal():
			t.c.ended.Add(1)
		case r.Was != nil && !r.Was.Owner.IsZero() && r.State.Run.Owner.IsZero():
			t.c.rested.Add(1)
		}
	}
	return nil
}
