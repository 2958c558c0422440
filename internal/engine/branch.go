package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// Branch is one line of a run's code: the function itself, or one that it started beside. It belongs to one goroutine.
type Branch struct {
	x    *exec
	path string
	uses map[string]int // how often each name was used on this branch
	busy atomic.Bool
}

// Run returns the run that the branch belongs to, as last seen.
func (b *Branch) Run() *journal.Run {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	return b.x.run
}

// Context ends when the run is cancelled, or its execution here is over.
func (b *Branch) Context() context.Context { return b.x.ctx }

// enter begins a durable call. Two at the same time on one branch would get their keys in an order that nobody repeats.
func (b *Branch) enter() error {
	b.x.check()
	if !b.busy.CompareAndSwap(false, true) {
		return journal.Errorf(CodeConcurrentContext, "two durable calls at the same time on one branch: start a branch of its own for each goroutine")
	}
	return nil
}

func (b *Branch) leave() { b.busy.Store(false) }

// keyOf returns the memo key of the next use of a name on this branch, or of an explicit key.
func (b *Branch) keyOf(name, explicit string) (string, error) {
	if name == "" || strings.ContainsAny(name, "/#@\x00\n") {
		return "", journal.Errorf(journal.CodeMalformed, "bad name %q: it must not be empty nor contain / # @", name)
	}
	key := b.path + name
	if explicit != "" {
		key += "@" + explicit
		if b.uses[key]++; b.uses[key] > 1 {
			return "", journal.Errorf(CodeDuplicateKey, "%s is used twice in one execution: an explicit key stands for one call", key)
		}
	} else if b.uses[name]++; b.uses[name] > 1 {
		key += "#" + strconv.Itoa(b.uses[name])
	}
	if len(key) > journal.MaxKey {
		return "", journal.Errorf(journal.CodeLimitExceeded, "the key %.64q… is longer than %d bytes", key, journal.MaxKey)
	}
	return key, nil
}

// recall returns what the journal says about a key, nil if nothing. Another kind of thing under the key means that the code has
// changed: the run is parked for somebody to look at, and the goroutine ends.
func (b *Branch) recall(key string, k kind) *memo {
	b.x.mu.Lock()
	m := b.x.memos.byKey[key]
	b.x.mu.Unlock()
	if m != nil && m.kind != k {
		b.x.parkForGood(journal.Errorf(CodeMismatch, "%q is recorded as a %s, and the code now wants a %s: fix the code and resume the run, or fork it", key, m.kind, k))
	}
	return m
}

// add puts an event behind those that are not written yet.
func (b *Branch) add(e journal.Event) {
	b.x.mu.Lock()
	b.x.pending = append(b.x.pending, e)
	b.x.mu.Unlock()
}

// cancelled returns the reason if the run was asked to stop.
func (b *Branch) cancelled() error {
	if b.x.ctx.Err() != nil {
		b.x.check()
		return context.Cause(b.x.ctx)
	}
	return nil
}

// Sleep waits until the time that until computes from the present, also across restarts.
func (b *Branch) Sleep(name string, until func(now journal.Time) journal.Time) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	key, err := b.keyOf(name, "")
	if err != nil {
		return err
	}
	at, done := b.timer(key, name, until)
	if done {
		return nil
	}
	if err := b.cancelled(); err != nil {
		return err
	}
	w := &waiter{at: at, wait: key, ready: never}
	b.x.block(w)
	if !w.fired {
		return b.cancelled()
	}
	return nil
}

// timer returns when a timer is due, and whether it is over. It is created if it does not exist.
func (b *Branch) timer(key, name string, until func(now journal.Time) journal.Time) (at journal.Time, done bool) {
	if m := b.recall(key, kindWait); m != nil {
		return m.resumeAt, m.completed != 0
	}
	at = until(b.x.eng.now())
	b.add(journal.Event{Key: key, Data: &journal.WaitCreated{ResumeAt: at, Kind: name}})
	return at, false
}

func never() bool { return false }

// Future is the result of a branch that was started beside this one.
type Future struct {
	x    *exec
	name string
	done bool // guarded by x.mu
	out  journal.Payload
	err  error
}

// Go starts a branch. Its name, and how often it was used here, identify it.
func (b *Branch) Go(name, explicit string, f func(*Branch) (journal.Payload, error)) (*Future, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	defer b.leave()
	key, err := b.keyOf(name, explicit)
	if err != nil {
		return nil, err
	}
	fut := &Future{x: b.x, name: key}
	child := &Branch{x: b.x, path: key + "/", uses: map[string]int{}}
	b.x.mu.Lock()
	b.x.active++
	b.x.mu.Unlock()
	go fut.run(child, f)
	return fut, nil
}

func (f *Future) run(b *Branch, fn func(*Branch) (journal.Payload, error)) {
	x := f.x
	var out journal.Payload
	var err error
	returned := false
	defer func() {
		if p := recover(); p != nil {
			err, returned = panicError(p), true
		}
		if x.isGone() {
			return
		}
		if !returned {
			err = journal.Errorf(CodeGoexit, "branch %s ended without a result (runtime.Goexit?)", f.name)
		}
		x.mu.Lock()
		f.done, f.out, f.err = true, out, err
		x.active--
		x.resolve()
		idle := x.active == 0
		x.mu.Unlock()
		if idle {
			x.park()
		} else {
			x.send()
		}
	}()
	out, err = fn(b)
	returned = true
}

// Wait waits for the result of a branch.
func (b *Branch) Wait(f *Future) (journal.Payload, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	defer b.leave()
	b.x.mu.Lock()
	done := f.done
	b.x.mu.Unlock()
	if !done {
		// Branches see a cancel themselves; this one waits for them to have cleaned up.
		b.x.blockFor(&waiter{ready: func() bool { return f.done }})
	}
	return f.out, f.err
}

// WaitAny waits until the condition on futures of this run holds. The condition is evaluated with the run's lock held.
func (b *Branch) WaitAny(ready func() bool) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	b.x.blockFor(&waiter{ready: ready})
	return nil
}

// Done reports whether the branch has ended. It may be used in conditions of [Branch.WaitAny] only.
func (f *Future) Done() bool { return f.done }

// Result returns what the branch returned. It must have ended.
func (f *Future) Result() (journal.Payload, error) { return f.out, f.err }

// blockFor waits for something inside the run, which a cancel does not interrupt.
func (x *exec) blockFor(w *waiter) {
	for {
		x.mu.Lock()
		ready := w.ready()
		x.mu.Unlock()
		if ready {
			return
		}
		w.inner = true
		x.block(w)
	}
}

func panicText(p any) string { return fmt.Sprintf("panic: %v", p) }
