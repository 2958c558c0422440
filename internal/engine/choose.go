package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// Future is the result of a branch that was started beside this one.
type Future struct {
	x    *exec
	line *line
	name string // the branch's key

	// Guarded by the execution.
	done  bool
	order int64 // which of all branches it was to end
	out   journal.Payload
	err   error
}

// BranchSpec is a branch as the code asks for it.
type BranchSpec struct {
	Name string
	Key  string // explicit; "": the n-th use of the name
	Item []byte // the digest of the item that the branch is for; nil: it is for none
}

// Go starts a branch. Its name, and how often it was used here, identify it.
func (b *Branch) Go(s BranchSpec, f func(*Branch) (journal.Payload, error)) (*Future, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	defer b.leave()
	key, err := b.keyOf(s.Name, s.Key)
	if err != nil {
		return nil, err
	}
	child := newLine(b.x, b.line, key+"/", b.now)
	if s.Item != nil {
		child.item = s.Item
	}
	child.ctx, child.cancel = context.WithCancelCause(b.ctx)
	fut := &Future{x: b.x, line: child, name: key}
	x := b.x
	x.mu.Lock()
	if child.isClosed() {
		fut.done, fut.err = true, ErrLost
		x.mu.Unlock()
		child.cancel(ErrLost)
		return fut, nil
	}
	x.lines[child] = struct{}{}
	child.mark = b.mark
	x.active++
	child.counted = true
	x.mu.Unlock()
	go fut.run(&Branch{line: child, ctx: child.ctx, sheltered: b.sheltered, deadline: b.deadline}, f)
	return fut, nil
}

func (f *Future) run(b *Branch, fn func(*Branch) (journal.Payload, error)) {
	roomy()
	x := f.x
	x.turns.Take(b.path, 0)
	var out journal.Payload
	var err error
	returned := false
	defer func() {
		p := recover()
		if x.isGone() {
			return
		}
		if bug := bugOf(p, returned, err, "the goroutine of branch "+f.name); bug != nil && !b.hasLost() {
			b.stopFor(bug)
			return
		} else if bug != nil {
			err = bug
		}
		f.end(out, err)
	}()
	out, err = fn(b)
	returned = true
}

// hasLost reports whether the branch lost a race: nothing that it does counts any more.
func (b *Branch) hasLost() bool {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	return b.isClosed()
}

// end takes note of what a branch returned.
func (f *Future) end(out journal.Payload, err error) {
	x := f.x
	x.mu.Lock()
	f.line.used.Store(true)
	delete(x.lines, f.line)
	if !f.done {
		x.ended++
		f.done, f.out, f.err, f.order = true, out, err, x.ended
	}
	if f.line.counted {
		f.line.counted = false
		x.active--
	}
	if x.phase == phaseRunning {
		x.resolve()
	}
	idle := x.active == 0 && x.phase == phaseRunning
	x.mu.Unlock()
	f.line.cancel(context.Canceled)
	if idle {
		x.park()
	} else {
		x.send()
	}
}

// Wait waits for the result of a branch.
func (b *Branch) Wait(f *Future) (journal.Payload, error) {
	if err := b.enterWith("the future", f.x); err != nil {
		return nil, err
	}
	defer b.leave()
	// Branches see a cancel themselves; this one waits for them to have cleaned up.
	if err := b.x.blockFor(b.line, func() bool { return f.done }, func() { b.depend(f) }); err != nil {
		return nil, err
	}
	out, err := f.Result()
	if !errors.Is(err, ErrLost) { // how far a loser came is left open
		b.saw(f.line.now)
		b.follow(f)
	}
	return out, err
}

// WaitAll waits until all branches have ended; [Future.Result] has what they returned.
func (b *Branch) WaitAll(futures []*Future) error {
	if err := b.enterFor(futures); err != nil {
		return err
	}
	defer b.leave()
	done := 0 // so many at the beginning have ended: none is asked twice
	ready := func() bool {
		for done < len(futures) && futures[done].done {
			done++
		}
		return done == len(futures)
	}
	if err := b.x.blockFor(b.line, ready, func() { b.depend(futures...) }); err != nil {
		return err
	}
	for _, f := range futures {
		if _, err := f.Result(); !errors.Is(err, ErrLost) { // how far a loser came is left open
			b.saw(f.line.now)
			b.follow(f)
		}
	}
	return nil
}

// Choice is how several branches are chosen from.
type Choice struct {
	Name string // of the decision
	// Enough reports whether the branches that have ended, in the order in which they did, decide the matter.
	Enough func(ended []*Future) bool
	// Close ends the others: nothing that they do afterwards is recorded.
	Close bool
}

// Choose waits for branches, and returns those that ended first, in their order, as soon as they are enough. The decision is recorded
// behind the last thing that they did, and is the same when the code is executed again.
func (b *Branch) Choose(c Choice, futures []*Future) ([]*Future, error) {
	if err := b.enterFor(futures); err != nil {
		return nil, err
	}
	defer b.leave()
	key, err := b.keyOf(c.Name, "")
	if err != nil {
		return nil, err
	}
	var chosen []*Future
	var lost []*line
	closeLosers := func() {
		if c.Close {
			lost = b.x.closeLosers(chosen, futures)
		}
	}
	if m := b.recall(key, kindStep); m != nil && m.done {
		if chosen, err = b.remember(key, m, futures); err != nil {
			return nil, err
		}
		err = b.x.blockFor(b.line, func() bool { return !slices.ContainsFunc(chosen, func(f *Future) bool { return !f.done }) }, func() { b.depend(chosen...); closeLosers() })
	} else {
		b.frontier(key, kindStep)
		b.goLive()
		began := b.x.eng.now()
		ready := func() bool { chosen = ended(futures); return len(chosen) == len(futures) || c.Enough(chosen) }
		var failed error
		err = b.x.blockFor(b.line, ready, func() { failed = b.decide(key, c, chosen, futures, began); closeLosers() })
		err = errors.Join(err, failed)
	}
	if err != nil {
		return nil, err
	}
	for _, f := range chosen {
		b.saw(f.line.now)
	}
	b.follow(chosen...)
	for _, l := range lost {
		l.cancel(ErrLost) // and with it all that it has started
	}
	b.x.freeLosers()
	b.x.endLosers(lost)
	return chosen, nil
}

// enterFor is enterWith for all of them.
func (b *Branch) enterFor(futures []*Future) error {
	for _, f := range futures {
		if f.x != b.x {
			return b.enterWith("a future", f.x)
		}
	}
	return b.enter()
}

// ended returns the futures that have ended, in the order in which they did. The lock is held.
func ended(futures []*Future) []*Future {
	done := slices.DeleteFunc(slices.Clone(futures), func(f *Future) bool { return !f.done })
	slices.SortFunc(done, func(a, b *Future) int { return int(a.order - b.order) })
	return done
}

// depend notes that the branch has seen what others returned. The lock is held.
func (b *Branch) depend(futures ...*Future) {
	for _, f := range futures {
		b.mark = max(b.mark, f.line.mark)
	}
}

// decide records a decision. The lock is held.
func (b *Branch) decide(key string, c Choice, chosen, futures []*Future, began journal.Time) error {
	b.depend(chosen...)
	names := make([]string, len(chosen))
	for i, f := range chosen {
		names[i] = f.name
	}
	result, err := payload.Encode(names)
	if err != nil {
		return err
	}
	d := &journal.StepCompleted{Name: c.Name, Attempt: 1, StartedAt: began, Took: int64(b.x.eng.now() - began), Result: result}
	if c.Close {
		for _, f := range futures {
			if !slices.Contains(chosen, f) {
				d.Closes = append(d.Closes, f.line.path)
			}
		}
	}
	if !b.isClosed() {
		b.x.put(b.line, journal.Event{Key: key, Data: d})
	}
	return nil
}

// remember returns the branches that a recorded decision names.
func (b *Branch) remember(key string, m *memo, futures []*Future) ([]*Future, error) {
	var names []string
	if err := payload.Decode(m.result, &names); err != nil {
		return nil, err
	}
	chosen := make([]*Future, 0, len(names))
	for _, name := range names {
		i := slices.IndexFunc(futures, func(f *Future) bool { return f.name == name })
		if i < 0 {
			b.replayChoice(key, name)
			if m.copied {
				b.halt(cairnerr.Errorf(cairnerr.CodeMismatch, "%q was decided for branch %q, which an earlier decision has taken now: fork the source again, without this key and those that follow it", key, name).
					With(detailPlace, key))
			}
			b.halt(cairnerr.Errorf(cairnerr.CodeMismatch, "%q was decided for branch %q, which the code does not start any more: fix the code and resume the run, or fork it", key, name).
				With(detailPlace, key))
		}
		chosen = append(chosen, futures[i])
	}
	return chosen, nil
}

// closeLosers closes the branches that were not chosen, and returns them: their contexts are still to be ended. The lock is held.
func (x *exec) closeLosers(chosen, futures []*Future) (lost []*line) {
	for _, f := range futures {
		if slices.Contains(chosen, f) || f.line.closed {
			continue
		}
		f.line.closed = true
		if !f.done {
			x.ended++
			f.done, f.err, f.order = true, ErrLost, x.ended
		}
		lost = append(lost, f.line)
	}
	waits := map[*line]bool{}
	for w := range x.blocked {
		waits[w.line] = true
	}
	for l := range x.lines {
		if l.counted && l.isClosed() {
			l.counted = false
			if !waits[l] {
				x.active--
			}
		}
	}
	return lost
}

// freeLosers lets branches go on that have lost while they waited; they are told so.
func (x *exec) freeLosers() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for w := range x.blocked {
		if w.line.isClosed() {
			x.free(w)
		}
	}
}

// Result returns what the branch returned. It must have ended.
func (f *Future) Result() (journal.Payload, error) {
	f.x.mu.Lock()
	defer f.x.mu.Unlock()
	return f.out, f.err
}

// Failed reports whether the branch ended with an error. It is for [Choice.Enough].
func (f *Future) Failed() bool { return f.err != nil }

// Room bounds how many branches run at the same time. Nil does not.
type Room struct {
	b    *Branch
	free int // guarded by the execution
}

// Limit returns room for n branches that this one starts, or for any number if n is 0 or less.
func (b *Branch) Limit(n int) *Room {
	if n <= 0 {
		return nil
	}
	return &Room{b: b, free: n}
}

// Enter waits for a place.
func (r *Room) Enter() error {
	if r == nil {
		return nil
	}
	if err := r.b.enter(); err != nil {
		return err
	}
	defer r.b.leave()
	return r.b.x.blockFor(r.b.line, func() bool { return r.free > 0 }, func() { r.free-- })
}

// Leave gives a place back.
func (r *Room) Leave() {
	if r == nil {
		return
	}
	x := r.b.x
	x.mu.Lock()
	defer x.mu.Unlock()
	r.free++
	if x.phase == phaseRunning {
		x.resolve()
	}
}
