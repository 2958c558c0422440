// Package faultstore wraps a store and lets its writers fail in the ways that networks and disks do. It is part of the
// test kit: the simulation and the committer's tests run through it.
//
// Every call of a writer is an interaction point. A [Plan] decides what happens there; it sees the operation and
// how many calls of the writer came before, so a plan that depends on nothing else makes a run repeatable.
package faultstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Op is a call of a writer.
type Op string

// The calls at which something can happen.
const (
	OpBegin  Op = "begin"
	OpLoad   Op = "load"
	OpCommit Op = "commit"
	OpSettle Op = "settle"
)

// Fault is what happens at one interaction point. The zero value lets the call through.
type Fault struct {
	// Delay before the call.
	Delay time.Duration
	// Before fails the call with this error; nothing reaches the database.
	Before error
	// AfterCommit lets a commit be applied, and then loses the answer.
	AfterCommit bool
	// Late loses the answer of a commit at once; the commit itself lands after this time, unless Settle comes
	// first and finds that it has not begun.
	Late time.Duration
	// Hang stops the process here until the channel is closed, as kill -9 would: after a commit if AfterCommit is
	// set, before anything has reached the database otherwise.
	Hang <-chan struct{}
}

// ErrKilled is what a call returns that hung.
var ErrKilled = errors.New("the process was killed")

// Plan decides what happens at the n-th interaction point of a writer.
type Plan func(op Op, n int) Fault

// Wrap returns st with writers that follow a plan. Each writer asks its own plan, made by plan for its incarnation.
func Wrap(st store.Store, plan func(incarnation journal.ID) Plan) store.Store {
	return &faulty{Store: st, plan: plan}
}

type faulty struct {
	store.Store
	plan func(journal.ID) Plan
}

// OpenWriter implements [store.Store].
func (f *faulty) OpenWriter(ctx context.Context, incarnation journal.ID, number int) (store.Writer, error) {
	w, err := f.Store.OpenWriter(ctx, incarnation, number)
	if err != nil {
		return nil, err
	}
	return &writer{Writer: w, plan: f.plan(incarnation)}, nil
}

type writer struct {
	store.Writer
	plan Plan
	n    int
	// settle says what became of a commit whose answer was lost by a fault.
	settle func(context.Context) (applied bool, err error)
}

// point is an interaction point.
func (w *writer) point(ctx context.Context, op Op) Fault {
	f := w.plan(op, w.n)
	w.n++
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-ctx.Done():
			f.Before = ctx.Err()
		}
	}
	if f.Hang != nil && f.Before == nil && !f.AfterCommit {
		f.Before = ErrKilled
	}
	return f
}

// hang waits for the end of a process that was killed. The connection is gone, and with it what was not committed.
func (f *Fault) hang() {
	if f.Hang != nil {
		<-f.Hang
	}
}

// Begin implements [store.Writer].
func (w *writer) Begin(ctx context.Context, now journal.Time) (store.Tx, error) {
	if f := w.point(ctx, OpBegin); f.Before != nil {
		f.hang()
		return nil, f.Before
	}
	tx, err := w.Writer.Begin(ctx, now)
	if err != nil {
		return nil, err
	}
	return &faultyTx{Tx: tx, w: w}, nil
}

// Settle implements [store.Writer]. A commit that was to land late has either begun, and is waited for, or never will.
func (w *writer) Settle(ctx context.Context) (bool, error) {
	if f := w.point(ctx, OpSettle); f.Before != nil {
		f.hang()
		return false, f.Before
	}
	settle := w.Writer.Settle
	if w.settle != nil {
		settle = w.settle
	}
	applied, err := settle(ctx)
	if err == nil {
		w.settle = nil
	}
	return applied, err
}

type faultyTx struct {
	store.Tx
	w    *writer
	late bool
}

// Load implements [store.Tx].
func (t *faultyTx) Load(ctx context.Context, want *store.LoadSet) (*store.Loaded, error) {
	if f := t.w.point(ctx, OpLoad); f.Before != nil {
		t.Tx.Rollback()
		f.hang()
		return nil, f.Before
	}
	return t.Tx.Load(ctx, want)
}

// Commit implements [store.Tx].
func (t *faultyTx) Commit(ctx context.Context, changes *store.Changes) error {
	f := t.w.point(ctx, OpCommit)
	switch {
	case f.Before != nil:
		t.Tx.Rollback()
		f.hang()
		if errors.Is(f.Before, store.ErrUnknownOutcome) {
			t.w.settle = func(context.Context) (bool, error) { return false, nil }
		}
		return f.Before
	case f.AfterCommit:
		if err := t.Tx.Commit(ctx, freeze(changes)); err != nil { // the numbers of new runs and streams are lost as well
			return err
		}
		if f.hang(); f.Hang != nil {
			return ErrKilled
		}
		return store.ErrUnknownOutcome
	case f.Late > 0:
		t.commitLate(context.WithoutCancel(ctx), changes, f.Late)
		return store.ErrUnknownOutcome
	default:
		return t.Tx.Commit(ctx, changes)
	}
}

// commitLate commits after a while, unless Settle comes before. What it writes is fixed now: the caller goes on with
// its states.
func (t *faultyTx) commitLate(ctx context.Context, changes *store.Changes, after time.Duration) {
	frozen := freeze(changes)
	t.late = true
	landed := make(chan error, 1)
	timer := time.AfterFunc(after, func() { landed <- t.Tx.Commit(ctx, frozen) })
	t.w.settle = func(ctx context.Context) (bool, error) {
		if timer.Stop() { // it has not begun, and now never will
			t.Tx.Rollback()
			return false, nil
		}
		err := <-landed
		if errors.Is(err, store.ErrUnknownOutcome) {
			return t.w.Writer.Settle(ctx)
		}
		return err == nil, nil
	}
}

// Rollback implements [store.Tx]. A commit that lands late is not the caller's to take back.
func (t *faultyTx) Rollback() {
	if !t.late {
		t.Tx.Rollback()
	}
}

// freeze copies what a commit writes to: the numbers of new runs and streams are part of its answer.
func freeze(changes *store.Changes) *store.Changes {
	frozen := *changes
	frozen.Streams = slices.Clone(changes.Streams)
	frozen.Runs = make([]store.RunChange, len(changes.Runs))
	for i, c := range changes.Runs {
		state := *c.State
		c.State = &state
		frozen.Runs[i] = c
	}
	return &frozen
}
