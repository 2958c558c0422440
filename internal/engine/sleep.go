package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// Until computes a time from the present.
type Until func(now journal.Time) journal.Time

// TimerSpec is a timer as the code asks for it.
type TimerSpec struct {
	Name  string
	Key   string // explicit; "": the n-th use of the name
	Until Until
	input journal.Payload // of a poll
	For   time.Duration   // how long it lasts, if that is what the code says
	At    journal.Time    // until when it lasts, if that is what the code says
}

// lasts is what is recorded of how long a timer lasts.
func (s TimerSpec) lasts() int64 { return s.For.Milliseconds() }

// Sleep waits until a time, also across restarts.
func (b *Branch) Sleep(s TimerSpec) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	key, err := b.keyOf(s.Name, s.Key)
	if err != nil {
		return err
	}
	m := b.recall(key, kindWait)
	if m != nil {
		b.compareTimer(key, s, m)
	}
	if m != nil && m.completed != 0 {
		b.saw(m.at)
		return errorOrNil(m.failed)
	}
	if err := b.stopped(); err != nil {
		if m != nil {
			b.giveUp(key, err)
		}
		return err
	}
	b.goLive()
	at := b.timer(key, s)
	w := &waiter{line: b.line, ctx: b.ctx, at: at, wait: key, ready: never, key: key, kind: kindWait}
	b.x.block(w)
	if w.fired {
		b.saw(at)
		return nil
	}
	err = b.stopped()
	b.giveUp(key, err)
	return err
}

// giveUp records that a wait ended before its time, and why: it must not wake the run any more.
func (b *Branch) giveUp(key string, why error) {
	if why == nil || errors.Is(why, ErrLost) {
		return // a branch that lost a race has lost its timers, too
	}
	b.add(journal.Event{Key: key, Data: &journal.WaitCompleted{Error: asFailure(why)}})
}

// compareTimer notices that a recorded timer is asked for with another duration. Its record is good, and that is said. In strict mode it is a mismatch: a
// sleep may have been inserted before it, whose record this one is.
func (b *Branch) compareTimer(key string, s TimerSpec, m *memo) {
	if m.copied || m.lasts == 0 && s.At == 0 { // a program that did not record how long may have written it
		return
	}
	was, is := lasting(m.lasts, m.resumeAt), lasting(s.lasts(), s.At)
	if was == is {
		return
	}
	b.replayTimer(key, m, was, is)
	if b.x.eng.cfg.Strict {
		b.halt(cairnerr.Errorf(cairnerr.CodeMismatch, "timer %q is recorded with %s, and the code now wants %s: was one inserted before it? Give timers keys of their own, "+
			"fix the code and resume the run, or fork it", key, was, is).With(detailPlace, key).With(detailRecorded, was).With(detailWanted, is))
	}
	b.x.eng.logDrift(b.x, kindWait, key, "duration")
}

// lasting says how long a timer lasts: so many milliseconds, or until a fixed time.
func lasting(ms int64, until journal.Time) string {
	if ms != 0 {
		return (time.Duration(ms) * time.Millisecond).String()
	}
	return until.Std().UTC().Format(time.RFC3339Nano)
}

// timer returns when a timer is due. It is created if it does not exist.
func (b *Branch) timer(key string, s TimerSpec) journal.Time {
	if m := b.recall(key, kindWait); m != nil {
		return m.resumeAt
	}
	b.frontier(key, kindWait)
	b.goLive()
	at := max(s.Until(b.x.eng.now()), 1) // 0 would mean never
	b.add(journal.Event{Key: key, Data: &journal.WaitCreated{ResumeAt: at, Kind: s.Name, For: s.lasts(), Input: s.input}})
	return at
}

// closeTimer ends a timer that is not needed any more, so that it does not wake the run. The lock is held.
func (x *exec) closeTimer(l *line, key string) {
	if m := x.memos.byKey[key]; (m == nil || m.completed == 0) && !l.isClosed() {
		x.put(l, journal.Event{Key: key, Data: &journal.WaitCompleted{}})
	}
}

// deadline ends a context at a time, also across restarts.
type deadline struct {
	key   string
	outer *deadline
}

// clock is a timer that ends a context while its branch does something else.
type clock struct {
	line   *line
	key    string
	at     journal.Time
	cancel context.CancelCauseFunc
	stop   func()
}

func (c *clock) unset() { c.stop() }

// Deadline returns the branch with a context that ends at a time. What was begun before then fails with a timeout, also when the
// code is executed again later. The returned function ends it sooner, and must be called on the same branch.
func (b *Branch) Deadline(s TimerSpec) (*Branch, func(), error) {
	if err := b.enter(); err != nil {
		return nil, nil, err
	}
	defer b.leave()
	key, err := b.keyOf(s.Name, s.Key)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(b.ctx)
	limited := &Branch{line: b.line, ctx: ctx, sheltered: b.sheltered, deadline: &deadline{key, b.deadline}}
	m := b.recall(key, kindWait)
	if m != nil {
		b.compareTimer(key, s, m)
	}
	if m != nil && (m.completed != 0 || b.x.replay != nil) {
		if m.fired {
			b.x.mu.Lock()
			b.x.hold(m.completed, func() { cancel(timedOut(key)) })
			b.x.mu.Unlock()
		}
		return limited, func() { cancel(context.Canceled) }, nil
	}
	x := b.x
	c := &clock{line: b.line, key: key, at: b.timer(key, s), cancel: cancel}
	x.mu.Lock()
	if x.clocks == nil {
		x.clocks = map[*clock]struct{}{}
	}
	x.clocks[c] = struct{}{}
	c.stop = x.eng.timers.set(c.at, func() { go x.ring() })
	x.mu.Unlock()
	return limited, func() { c.end(x) }, nil
}

func timedOut(key string) error {
	return cairnerr.Errorf(cairnerr.CodeTimeout, "the deadline %q has passed", key)
}

// end ends a clock whose deadline was not reached.
func (c *clock) end(x *exec) {
	x.mu.Lock()
	_, runs := x.clocks[c]
	if runs {
		delete(x.clocks, c)
		c.unset()
		x.closeTimer(c.line, c.key)
	}
	x.mu.Unlock()
	c.cancel(context.Canceled)
}

// strike ends the contexts whose deadlines are over. The lock is held, and the run is owned.
func (x *exec) strike(now journal.Time) {
	var over []*clock
	for c := range x.clocks {
		if c.at <= now {
			over = append(over, c)
		}
	}
	slices.SortFunc(over, func(a, b *clock) int { return cmp.Compare(a.key, b.key) })
	for _, c := range over {
		delete(x.clocks, c)
		c.unset()
		if !c.line.isClosed() {
			x.put(c.line, journal.Event{Key: c.key, Data: &journal.WaitCompleted{ResumeAt: c.at}})
		}
		c.cancel(timedOut(c.key))
	}
}
