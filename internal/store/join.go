package store

import (
	"context"
	"sync"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// UserTx is a transaction that the user has begun on the database of a store, and will end. The packages of the stores make
// it: sqlite.InTx, postgres.InTx, postgres.InSQLTx.
type UserTx interface {
	// Kind is the kind of database that the transaction is on, as in [Info].
	Kind() string
}

// Joiner lets new runs be part of transactions of the user's: they are there if those are committed, and never were if not.
type Joiner interface {
	// Join makes ready to write in a transaction. An error with [cairnerr.CodeForeignTx] says that it is not one of this database;
	// [cairnerr.CodeTxOver], that it has ended; [cairnerr.CodeReadOnly], that it may not write; [cairnerr.CodeTxConflict], that its owner must
	// repeat it.
	Join(ctx context.Context, tx UserTx, now journal.Time) (Joined, error)
}

// Joined is a transaction of the user's as a store writes in it. What it writes is final only with the user's commit: nothing of it is
// remembered, and nobody else waits for it, except who uses the same start key, and on SQLite who writes at all.
type Joined interface {
	// Started finds the run that was started with a key, as the transaction sees it.
	Started(ctx context.Context, key journal.StartKey) (started journal.Started, found bool, err error)
	// Insert writes a new run, which has one event: its birth. It reports false, and has written nothing, if its start key was used
	// in the meantime; the transaction can still be committed then. When it is committed, the listeners of the namespace get a hint.
	Insert(ctx context.Context, run *RunChange) (inserted bool, err error)
}

// Witness remembers incarnations that a store has opened writers for. Their rows are in its database: a transaction that does not
// see one of them is on another.
type Witness struct {
	mu          sync.Mutex
	first, last journal.ID
}

// Saw notes an incarnation whose writer's row is committed.
func (w *Witness) Saw(incarnation journal.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first.IsZero() {
		w.first = incarnation
	}
	w.last = incarnation
}

// Both returns the first incarnation and the last one: a transaction that reads from one moment may be older than the last.
func (w *Witness) Both() (first, last journal.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.first, w.last
}

// ForeignTx is the error for a transaction that is not one of a store's database.
func ForeignTx(location string) error {
	return cairnerr.Errorf(cairnerr.CodeForeignTx, "the transaction does not see the engine's rows: begin it on the database that the engine works on, %s", location)
}

// WrongTx is the error for a handle that was not made for this kind of store.
func WrongTx(tx UserTx, kind string) error {
	if tx == nil {
		return cairnerr.Errorf(cairnerr.CodeForeignTx, "no transaction was given")
	}
	return cairnerr.Errorf(cairnerr.CodeForeignTx, "the transaction is on a %s database, the engine works on %s", tx.Kind(), kind)
}
