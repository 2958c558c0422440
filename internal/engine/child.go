package engine

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/store"
)

// ChildSpec is a child as the code asks for it.
type ChildSpec struct {
	Workflow   string
	Key        string
	Input      journal.Payload
	Attributes map[string]string
	Detached   bool // it goes on when its parent is cancelled
	Elsewhere  bool // another process has the workflow
}

// Child is a run that this one has started.
type Child struct {
	id       journal.ID
	key      string
	name     string
	detached bool
	began    journal.Time

	// Guarded by the execution.
	over bool // its end was recorded
}

// ID returns the child's id.
func (c *Child) ID() journal.ID { return c.id }

// childWait is what is known about a child that somebody waits for.
type childWait struct {
	ended *journal.Run // with its output or error; nil while it goes on
}

// StartChild starts a child, once, however often the code is executed.
func (b *Branch) StartChild(s ChildSpec) (*Child, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	defer b.leave()
	key, err := b.keyOf(s.Workflow, s.Key)
	if err != nil {
		return nil, err
	}
	c := &Child{key: key, name: s.Workflow, detached: s.Detached, began: b.x.eng.now()}
	if m := b.lookForChild(key); m != nil {
		b.reach(m.seq)
		c.id = m.child
		b.x.attach(c, !m.done)
		return c, nil
	}
	if err := b.stopped(); err != nil {
		return nil, err
	}
	b.x.barrier(b.line)
	// The start key makes sure that a child whose start was not written down in its parent is not started again.
	c.id, err = b.x.startChild(StartRequest{
		Workflow: s.Workflow, Input: s.Input, Attributes: s.Attributes, Parent: b.Run(), Digest: []byte{1}, Elsewhere: s.Elsewhere,
		StartKey: journal.PrefixStep.Format(journal.DeriveID(b.x.key.Run, journal.PrefixStep, key)),
	})
	if err != nil {
		return nil, err
	}
	b.x.attach(c, true)
	b.add(journal.Event{Key: key, Data: &journal.StepCreated{Name: s.Workflow, Child: c.id, Detached: s.Detached}})
	return c, nil
}

// lookForChild returns what the journal says about a child. One whose result was kept by a fork has no id.
func (b *Branch) lookForChild(key string) *memo {
	b.x.mu.Lock()
	m := b.x.memos.byKey[key]
	if m != nil && m.kind == kindStep && m.done && m.copied {
		m.kind = kindChild
	}
	b.x.mu.Unlock()
	return b.look(key, kindChild)
}

// startChild starts a run for this one. While the database cannot be reached it is tried again.
func (x *exec) startChild(r StartRequest) (journal.ID, error) {
	for {
		id, err := x.eng.startIn(x.eng.hard, x.key.Namespace, r)
		if err == nil || !temporary(journal.CodeOf(err)) || !x.eng.pause() {
			x.check()
			return id, err
		}
	}
}

// AwaitChild waits until a child has ended, and returns its output. If the run is cancelled, so is the child, and its end is still
// waited for, because it may have to clean up; a detached one is left alone.
func (b *Branch) AwaitChild(c *Child) (journal.Payload, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	defer b.leave()
	x := b.x
	if m := b.lookForChild(c.key); m != nil && m.done {
		b.recall(c.key, kindChild)
		b.saw(m.at)
		return m.result, errorOrNil(m.failed)
	}
	x.mu.Lock()
	if x.children == nil {
		x.children = map[journal.ID]*childWait{}
	}
	w := x.children[c.id]
	if w == nil {
		w = &childWait{}
		x.children[c.id] = w
	}
	x.mu.Unlock()
	x.lookAtChildren()
	ended := func() bool { return w.ended != nil }
	x.mu.Lock()
	over := ended()
	x.mu.Unlock()
	if !over {
		x.block(&waiter{line: b.line, ctx: b.ctx, ready: ended})
	}
	if err := b.stopped(); err != nil && w.ended == nil {
		if c.detached || errors.Is(err, ErrLost) {
			return nil, err
		}
		x.eng.cancelChild(x, c.id, "its parent was asked to stop")
		x.block(&waiter{line: b.line, ready: ended})
		if w.ended == nil {
			return nil, err // it lost a race meanwhile
		}
	}
	return b.childEnded(c, w.ended)
}

// childEnded records the end of a child in its parent, which then depends on it no more.
func (b *Branch) childEnded(c *Child, run *journal.Run) (journal.Payload, error) {
	b.x.mu.Lock()
	told := c.over
	c.over = true
	b.x.mu.Unlock()
	if told {
		return run.Output, errorOrNil(FailureOf(run))
	}
	b.x.attach(c, false)
	took := int64(max(run.CompletedAt-c.began, 0))
	b.saw(c.began + journal.Time(took))
	failure := FailureOf(run)
	if failure == nil {
		b.add(journal.Event{Key: c.key, Data: &journal.StepCompleted{Name: c.name, Attempt: 1, StartedAt: c.began, Took: took, Result: run.Output}})
		return run.Output, nil
	}
	b.add(journal.Event{Key: c.key, Data: &journal.StepFailed{Name: c.name, Attempt: 1, StartedAt: c.began, Took: took, Error: failure}})
	return nil, failure
}

// FailureOf returns why a run that has ended did not succeed, nil if it did.
func FailureOf(run *journal.Run) *journal.Error {
	switch {
	case run.Error != nil && run.Error.Error != nil:
		return run.Error.Error
	case run.Status == journal.StatusCancelled:
		return ErrCancelled
	case run.Status == journal.StatusFailed:
		return &journal.Error{Code: journal.CodeInternal, Message: "the run failed"}
	default:
		return nil
	}
}

// lookAtChildren asks the database for children that may have ended without this process having noticed.
func (x *exec) lookAtChildren() {
	x.mu.Lock()
	ids := make([]journal.ID, 0, len(x.children))
	for id, w := range x.children {
		if w.ended == nil {
			ids = append(ids, id)
		}
	}
	x.mu.Unlock()
	for _, id := range ids {
		run, err := x.eng.store.Run(x.eng.hard, x.key.Namespace, id, store.ResolveAll)
		if err == nil && run.Status.Terminal() {
			x.noteChild(run)
		}
	}
}

// noteChild takes note of a child that has ended.
func (x *exec) noteChild(run *journal.Run) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if w := x.children[run.ID]; w != nil && w.ended == nil {
		w.ended = run
		if x.phase == phaseRunning {
			x.resolve()
		} else {
			x.poked = true
		}
	}
}

// attach notes that a child belongs to the run, until its end was seen.
func (x *exec) attach(c *Child, belongs bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.attached == nil {
		x.attached = map[journal.ID]struct{}{}
	}
	if belongs && !c.detached && !c.id.IsZero() {
		x.attached[c.id] = struct{}{}
	} else {
		delete(x.attached, c.id)
	}
}

// openChildren returns the children that belong to the run and have not ended as far as it knows: those that the code has started, and those
// in the journal that it has not come to yet. The lock is held.
func (x *exec) openChildren() []journal.ID {
	ids := slices.Collect(maps.Keys(x.attached))
	for _, m := range x.memos.byKey {
		if m.kind == kindChild && !m.done && !m.detached && !m.child.IsZero() && (x.memos.cancelled == 0 || m.seq < x.memos.cancelled) {
			ids = append(ids, m.child)
		}
	}
	slices.SortFunc(ids, journal.ID.Compare)
	return slices.Compact(ids)
}

// cancelChildren asks children to stop.
func (x *exec) cancelChildren(ids []journal.ID) {
	for _, id := range ids {
		x.eng.cancelChild(x, id, "it belongs to a run that ends")
	}
}

// cancelChild passes a cancel on.
func (e *Engine) cancelChild(x *exec, id journal.ID, reason string) {
	for {
		err := e.Cancel(e.hard, id, reason, journal.PrefixRun.Format(x.key.Run))
		if err == nil || !temporary(journal.CodeOf(err)) || !e.pause() {
			return
		}
	}
}

// terminateChildren ends the children of a run that was terminated, and theirs.
func (e *Engine) terminateChildren(ctx context.Context, run journal.ID, reason, actor string) error {
	j, err := e.store.Journal(ctx, e.cfg.Namespace, run, 0)
	if err != nil {
		return err
	}
	var errs []error
	for i := range j.Events {
		d, ok := j.Events[i].Data.(*journal.StepCreated)
		if !ok || d.Child.IsZero() || d.Detached {
			continue
		}
		err := e.Terminate(ctx, d.Child, reason, actor)
		if code := journal.CodeOf(err); code != journal.CodeRunEnded && code != journal.CodeRunNotFound {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
