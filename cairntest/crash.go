package cairntest

import (
	"context"
	"fmt"
	"sync"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// faultKind says where a process dies.
type faultKind string

const (
	beforeCommit faultKind = "before commit"
	afterCommit  faultKind = "after commit"
	afterBody    faultKind = "after the body of step"
)

// fault is a place at which a process dies: the n-th of its kind. The zero value is none.
type fault struct {
	kind faultKind
	at   int
}

func (f fault) String() string { return fmt.Sprintf("killed %s %d", f.kind, f.at) }

// crasher lets a process die at a place. It stands between the engine and its store.
type crasher struct {
	store.Store
	fault fault
	fell  chan struct{} // closed when the place was reached

	mu        sync.Mutex
	count     int
	committed chan struct{} // closed, and made anew, with each commit
}

func newCrasher(f fault, st store.Store) *crasher {
	return &crasher{Store: st, fault: f, fell: make(chan struct{}), committed: make(chan struct{})}
}

// here counts a place, and reports whether it is the one.
func (c *crasher) here(kind faultKind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault.kind != kind {
		return false
	}
	c.count++
	if c.count != c.fault.at {
		return false
	}
	close(c.fell)
	return true
}

// nextCommit returns a channel that is closed with the next commit.
func (c *crasher) nextCommit() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.committed
}

func (c *crasher) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.committed)
	c.committed = make(chan struct{})
}

func (c *crasher) hasFallen() bool {
	select {
	case <-c.fell:
		return true
	default:
		return false
	}
}

// bodyEnded holds a step whose body has returned until its process is dead.
func (c *crasher) bodyEnded(ctx context.Context, _ engine.StepInfo) {
	if c.here(afterBody) {
		<-ctx.Done()
	}
}

// OpenWriter implements [store.Store].
func (c *crasher) OpenWriter(ctx context.Context, incarnation journal.ID, number int) (store.Writer, error) {
	w, err := c.Store.OpenWriter(ctx, incarnation, number)
	if err != nil {
		return nil, err
	}
	return &crashingWriter{w, c}, nil
}

type crashingWriter struct {
	store.Writer
	c *crasher
}

// Begin implements [store.Writer].
func (w *crashingWriter) Begin(ctx context.Context, now journal.Time) (store.Tx, error) {
	tx, err := w.Writer.Begin(ctx, now)
	if err != nil {
		return nil, err
	}
	return &crashingTx{tx, w.c}, nil
}

type crashingTx struct {
	store.Tx
	c *crasher
}

// Commit implements [store.Tx]. At the place of the fault it does not return before the process is dead.
func (t *crashingTx) Commit(ctx context.Context, changes *store.Changes) error {
	if t.c.here(beforeCommit) {
		t.Rollback()
		<-ctx.Done()
		return ctx.Err()
	}
	err := t.Tx.Commit(ctx, changes)
	t.c.tell()
	if t.c.here(afterCommit) {
		<-ctx.Done()
		return store.ErrUnknownOutcome
	}
	return err
}
