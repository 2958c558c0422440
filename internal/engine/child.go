package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// ChildSpec is a child as the code asks for it.
type ChildSpec struct {
	Workflow   string
	Key        string
	Input      journal.Payload
	Digest     []byte                                   // of the input
	Same       func(recorded, now journal.Payload) bool // see [StepSpec]
	Attributes map[string]string
	Detached   bool  // it goes on when its parent is cancelled
	Elsewhere  bool  // another process has the workflow
	Err        error // what is wrong with the request
}

// Child is a run that this one has started.
type Child struct {
	x        *exec // of its parent
	id       journal.ID
	key      string
	name     string
	detached bool
	began    journal.Time

	// Guarded by the execution.
	over bool         // its end was recorded
	at   journal.Time // and seen then
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
	c := &Child{x: b.x, key: key, name: s.Workflow, detached: s.Detached, began: b.x.eng.now()}
	if m := b.lookForChild(key); m != nil {
		b.reach(m.seq)
		b.compareInput(key, m, given{kindChild, s.Workflow, s.Key, s.Input, s.Digest, s.Same})
		c.id = m.child
		b.x.attach(c, !m.done)
		return c, nil
	}
	if err := b.x.eng.checkStart(&StartRequest{Workflow: s.Workflow, Elsewhere: s.Elsewhere}); err != nil && b.x.replay == nil {
		return nil, b.misused(err)
	}
	if err := checkUserKeys(maps.Keys(s.Attributes)); err != nil {
		return nil, err
	}
	b.x.barrier(b.line)
	b.whilePaused()
	if err := b.stopped(); err != nil {
		return nil, err
	}
	b.frontier(key, kindChild)
	b.goLive()
	// The start key makes sure that a child whose start was not written down in its parent is not started again.
	c.id, err = b.x.startChild(StartRequest{
		Workflow: s.Workflow, Input: s.Input, Attributes: s.Attributes, Parent: b.Run(), Digest: []byte{1}, Elsewhere: s.Elsewhere,
		StartKey: childKey(b.x.key.Run, key, s.Detached),
	})
	if err != nil {
		return nil, err
	}
	if b.lateFor(c, s.Input) {
		b.x.eng.cancelChild(b.x, c.id, "it belongs to a branch that has ended")
		b.x.check()
		return nil, ErrLost
	}
	return c, nil
}

// lateFor records that a child was started. It reports true if meanwhile the branch has lost a race, or the run ends: then nobody knows of the child.
func (b *Branch) lateFor(c *Child, input journal.Payload) bool {
	b.x.attach(c, true)
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	if b.isClosed() || b.x.ending {
		return !c.detached
	}
	b.x.put(b.line, journal.Event{Key: c.key, Data: &journal.StepCreated{Name: c.name, Child: c.id, Detached: c.detached, Input: input}})
	return false
}

// detached ends the start keys of children that go on when their parent ends.
const detached = ".detached"

func childKey(parent journal.ID, key string, goesOn bool) string {
	start := journal.PrefixStep.Format(journal.DeriveID(parent, journal.PrefixStep, key))
	if goesOn {
		start += detached
	}
	return start
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
		s, err := x.eng.startTold(x.with(x.eng.hard), r)
		if err == nil {
			return s.run, nil
		}
		if !temporary(cairnerr.CodeOf(err)) || !x.eng.pause() {
			x.check()
			return s.run, err
		}
	}
}

// AwaitChild waits until a child has ended, and returns its output. If the branch must stop, so must the child, and its end is still
// waited for, because it may have to clean up; a detached one is left alone. The output is decoded into a pointer; nil: it is not.
func (b *Branch) AwaitChild(c *Child, into any) (journal.Payload, error) {
	if err := b.enterWith("the child", c.x); err != nil {
		return nil, err
	}
	defer b.leave()
	out, err := b.awaitChild(c)
	if err != nil {
		return nil, err
	}
	return out, b.decode("the result of child "+quote(c.key), c.key, out, into)
}

func (b *Branch) awaitChild(c *Child) (journal.Payload, error) {
	x := b.x
	if m := b.lookForChild(c.key); m != nil && m.done {
		if err := b.stoppedBefore(m.completed); c.detached && err != nil {
			return nil, err // as it was when the child had not ended
		}
		b.recall(c.key, kindChild)
		b.saw(m.at)
		return m.result, errorOrNil(m.failed)
	}
	b.goLive()
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
	x.lookAtChild(c.id)
	ended := func() bool { return w.ended != nil }
	if x.result(w) == nil {
		x.block(&waiter{line: b.line, ctx: b.ctx, ready: ended, key: c.key, kind: kindChild})
	}
	why := b.stopped()
	switch {
	case why != nil && (c.detached || errors.Is(why, ErrLost)):
		return nil, why
	case why != nil && x.result(w) == nil:
		x.eng.cancelChild(x, c.id, "its parent was asked to stop")
		x.block(&waiter{line: b.line, ready: ended, key: c.key, kind: kindChild})
	}
	run := x.result(w)
	if run == nil {
		return nil, ErrLost // meanwhile
	}
	return b.childEnded(c, run, why)
}

// result returns how a child ended, nil: it goes on.
func (x *exec) result(w *childWait) *journal.Run {
	x.mu.Lock()
	defer x.mu.Unlock()
	return w.ended
}

// stoppedBefore returns why the branch was told to stop before a place in the journal, nil if it was not.
func (b *Branch) stoppedBefore(seq int64) error {
	b.x.mu.Lock()
	first, why := b.cut()
	b.x.mu.Unlock()
	if first == 0 || first > seq {
		return nil
	}
	b.reach(seq)
	return why
}

// childEnded records the end of a child in its parent, which then depends on it no more. A child that was stopped because the branch had to stop, failed
// for that reason.
func (b *Branch) childEnded(c *Child, run *journal.Run, why error) (journal.Payload, error) {
	failure := FailureOf(run)
	if why != nil && run.Status == journal.StatusCancelled {
		failure = asFailure(why)
	}
	took := int64(max(run.CompletedAt-c.began, 0))
	b.x.mu.Lock()
	told := c.over
	if !told {
		c.over, c.at = true, c.began+journal.Time(took)
	}
	at := c.at
	b.x.mu.Unlock()
	b.saw(at)
	if told {
		return run.Output, errorOrNil(failure)
	}
	b.x.attach(c, false)
	if failure == nil {
		b.add(journal.Event{Key: c.key, Data: &journal.StepCompleted{Name: c.name, Attempt: 1, StartedAt: c.began, Took: took, Result: run.Output}})
		return run.Output, nil
	}
	b.add(journal.Event{Key: c.key, Data: &journal.StepFailed{Name: c.name, Attempt: 1, StartedAt: c.began, Took: took, Error: failure}})
	return nil, failure
}

// FailureOf returns why a run that has ended did not succeed, nil if it did.
func FailureOf(run *journal.Run) *cairnerr.Error {
	switch {
	case run.Error != nil && run.Error.Error != nil:
		return run.Error.Error
	case run.Status == journal.StatusCancelled:
		return ErrCancelled
	case run.Status == journal.StatusFailed:
		return &cairnerr.Error{Code: cairnerr.CodeInternal, Message: "the run failed"}
	default:
		return nil
	}
}

// lookAtChildren asks the database for children that may have ended without this process having noticed. It insists on an answer: whoever takes a run
// that a child has woken uses up that wake-up, and there is no other.
func (x *exec) lookAtChildren() {
	x.mu.Lock()
	ids := make([]journal.ID, 0, len(x.children))
	for id, w := range x.children {
		if w.ended == nil {
			ids = append(ids, id)
		}
	}
	x.mu.Unlock()
	if len(ids) == 1 {
		x.lookAtChild(ids[0])
		return
	}
	slices.SortFunc(ids, journal.ID.Compare)
	for some := range slices.Chunk(ids, store.MaxLimit) {
		for _, id := range x.notRunning(some) {
			if !x.lookAtChild(id) {
				return
			}
		}
	}
}

// notRunning returns those of some children that have ended or do not exist. A parent of n children is woken up to
// n times. So it asks for all in one query, and reads only those that have ended.
func (x *exec) notRunning(ids []journal.ID) []journal.ID {
	running := map[journal.ID]bool{}
	answered := x.insist(func() error {
		heads, err := x.eng.store.Heads(x.eng.hard, x.key.Namespace, ids)
		for i := range heads {
			running[heads[i].Run] = !heads[i].Status.Terminal()
		}
		return err
	})
	if !answered {
		return nil
	}
	return slices.DeleteFunc(ids, func(id journal.ID) bool { return running[id] })
}

// lookAtChild asks for one child. It reports false if the execution is over.
func (x *exec) lookAtChild(id journal.ID) bool {
	return x.insist(func() error {
		run, err := x.eng.store.Run(x.eng.hard, x.key.Namespace, id, store.ResolveAll)
		switch {
		case err == nil && run.Status.Terminal():
			x.noteChild(run)
		case cairnerr.CodeOf(err) == cairnerr.CodeRunNotFound: // somebody has deleted it
			x.noteChild(&journal.Run{ID: id, Status: journal.StatusFailed, Error: &journal.RunFailed{Error: cairnerr.AsError(err)}})
			return nil
		}
		return err
	})
}

// insist repeats a read until the database has answered. It reports false if the execution is over. A replay reads
// nothing: what became of its children is in the record.
func (x *exec) insist(read func() error) bool {
	for x.replay == nil {
		err := read()
		switch code := cairnerr.CodeOf(err); {
		case err == nil:
			return true
		case x.isGone():
			return false
		case !temporary(code) || !x.eng.pause():
			x.leave(err)
			return false
		}
	}
	return false
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
		x.attached = map[journal.ID]string{}
	}
	if belongs && !c.detached && !c.id.IsZero() {
		x.attached[c.id] = c.key
	} else {
		delete(x.attached, c.id)
	}
}

// openChildren returns the children that belong to branches with such keys, and have not ended as far as the run knows: those that the code has
// started, and those in the journal that it has not come to yet. The lock is held.
func (x *exec) openChildren(belongs func(key string) bool) []journal.ID {
	var ids []journal.ID
	for id, key := range x.attached {
		if belongs(key) {
			ids = append(ids, id)
		}
	}
	for key, m := range x.memos.byKey {
		if m.kind == kindChild && !m.done && !m.detached && !m.child.IsZero() && (x.memos.cancelled == 0 || m.seq < x.memos.cancelled) && belongs(key) {
			ids = append(ids, m.child)
		}
	}
	slices.SortFunc(ids, journal.ID.Compare)
	return slices.Compact(ids)
}

// childrenOf returns the children that belong to a run and have not ended, as the database has them: also those whose start their parent did not
// live to write down.
func (e *Engine) childrenOf(ctx context.Context, parent journal.ID) ([]*journal.Run, error) {
	filter := store.RunFilter{Parent: parent, Statuses: []journal.Status{journal.StatusPending, journal.StatusRunning}}
	var all []*journal.Run
	for page := (store.Page{Limit: store.MaxLimit}); ; {
		list, err := e.store.Runs(ctx, e.namespace, filter, page)
		if err != nil {
			return nil, err
		}
		for _, run := range list.Data {
			if !strings.HasSuffix(run.StartKey, detached) {
				all = append(all, run)
			}
		}
		if !list.HasMore {
			return all, nil
		}
		page.Cursor = list.Cursor
	}
}

// passCancelOn asks the children to stop that were started before the run was. What is started later is clean-up.
func (x *exec) passCancelOn(known []journal.ID, at journal.Time) {
	if x.replay != nil {
		return
	}
	x.turns.Take("cancel", 0)
	x.cancelChildren(known, "its parent was asked to stop")
	left, err := x.eng.childrenOf(x.eng.hard, x.key.Run)
	if err != nil {
		return // the end of the run looks again
	}
	for _, run := range left {
		if run.CreatedAt < at && !x.knowsChild(run.ID) {
			x.eng.cancelChild(x, run.ID, "its parent was asked to stop")
		}
	}
}

// knowsChild reports whether the run has started a child and knows of it.
func (x *exec) knowsChild(id journal.ID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.attached[id]; ok {
		return true
	}
	for _, m := range x.memos.byKey {
		if m.child == id {
			return true
		}
	}
	return false
}

// mayHaveChildren reports whether children may be left: some are known, or one may have been started that the journal does not have. The lock is held.
func (x *exec) mayHaveChildren() bool {
	if len(x.attached) > 0 || len(x.memos.closed) > 0 || x.died || x.noticed {
		return true
	}
	for _, m := range x.memos.byKey {
		if m.kind == kindChild && !m.done {
			return true
		}
	}
	return false
}

// endChildren asks the children that are left to stop, because the run ends. All that it has seen is durable before: executed again, it would come to
// the same end.
func (x *exec) endChildren() {
	x.mu.Lock()
	n := x.out.added
	x.mu.Unlock()
	x.flush(n)
	for !x.isGone() {
		left, err := x.eng.childrenOf(x.eng.hard, x.key.Run)
		if err == nil {
			for _, run := range left {
				x.eng.cancelChild(x, run.ID, "it belongs to a run that ends")
			}
			return
		}
		if !x.eng.pause() {
			return
		}
	}
}

// endLosers asks the children of branches that lost a race to stop, once that is durable.
func (x *exec) endLosers(lost []*line) {
	x.mu.Lock()
	ids := x.openChildren(func(key string) bool {
		return slices.ContainsFunc(lost, func(l *line) bool { return strings.HasPrefix(key, l.path) })
	})
	n := x.out.added
	x.mu.Unlock()
	if len(ids) > 0 {
		go func() {
			x.turns.Take("losers", n)
			x.flush(n)
			x.mu.Lock()
			lost := x.out.written >= n
			x.mu.Unlock()
			if lost {
				x.cancelChildren(ids, "its branch lost a race")
			}
		}()
	}
}

func (x *exec) cancelChildren(ids []journal.ID, reason string) {
	for _, id := range ids {
		x.eng.cancelChild(x, id, reason)
	}
}

// cancelChild passes a cancel on.
func (e *Engine) cancelChild(x *exec, id journal.ID, reason string) {
	for x.replay == nil {
		err := e.Cancel(e.hard, id, reason, journal.PrefixRun.Format(x.key.Run))
		if err == nil || !temporary(cairnerr.CodeOf(err)) || !e.pause() {
			return
		}
	}
}

// terminateChildren ends the children of a run that was terminated, and theirs.
func (e *Engine) terminateChildren(ctx context.Context, run journal.ID, reason, actor string) error {
	children, err := e.childrenOf(ctx, run)
	if err != nil {
		return err
	}
	var errs []error
	for _, child := range children {
		err := e.Terminate(ctx, child.ID, reason, actor)
		if code := cairnerr.CodeOf(err); code != cairnerr.CodeRunEnded && code != cairnerr.CodeRunNotFound {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
