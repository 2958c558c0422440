package engine

import (
	"cmp"
	"context"
	"runtime"
	"slices"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// waiter is a branch that waits.
type waiter struct {
	line  *line
	ctx   context.Context // when it ends, the wait is over; nil: it does not matter
	ready func() bool     // whether what it waits for has happened; the lock is held
	then  func()          // done with the lock held when it has
	at    journal.Time    // when that happens by itself; 0: never
	wait  string          // the key of the timer that is then completed, "" if there is none
	soft  bool            // at is a wish of this process alone, and in no row: a poll's next look
	fired bool            // the time has come
	key   string          // what it asks for, if that has a key
	kind  kind            // of what it asks for
	stop  func()          // stops its clock
	ch    chan struct{}
}

func (w *waiter) unset() {
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

func (w *waiter) due(now journal.Time) bool { return w.at != 0 && w.at <= now }

func never() bool { return false }

// resolve lets those branches go on whose condition holds, unless the run is paused. The lock is held, and the run is owned.
func (x *exec) resolve() {
	if len(x.blocked) == 0 && len(x.clocks) == 0 {
		return
	}
	now := x.eng.now()
	x.strike(now)
	if x.memos.paused {
		return
	}
	ready := make([]*waiter, 0, 4)
	for w := range x.blocked {
		if w.due(now) || w.ready() || (w.ctx != nil && w.ctx.Err() != nil) {
			ready = append(ready, w)
		}
	}
	slices.SortFunc(ready, compareWaiters)
	for _, w := range ready {
		if w.fired = w.due(now); w.fired && w.wait != "" && !w.line.isClosed() { // one of those before may have decided a race
			x.put(w.line, journal.Event{Key: w.wait, Data: &journal.WaitCompleted{ResumeAt: w.at}})
		}
		if w.then != nil && w.ready() {
			w.then()
		}
		x.free(w)
	}
}

// compareWaiters makes the order of events independent of a map's.
func compareWaiters(a, b *waiter) int {
	return cmp.Or(cmp.Compare(a.line.path, b.line.path), cmp.Compare(a.wait, b.wait))
}

// stirs reports whether a branch could go on. The lock is held.
func (x *exec) stirs() bool {
	if x.memos.paused {
		return false
	}
	for w := range x.blocked {
		if w.ready() || (w.ctx != nil && w.ctx.Err() != nil) {
			return true
		}
	}
	return false
}

// free lets a branch go on. The lock is held.
func (x *exec) free(w *waiter) {
	if _, waits := x.blocked[w]; !waits {
		return
	}
	delete(x.blocked, w)
	w.unset()
	if w.line.counted {
		x.active++
	}
	close(w.ch)
}

// block waits. If every branch waits, the run is given back.
func (x *exec) block(w *waiter) {
	w.ch = make(chan struct{})
	if x.replay != nil {
		w.at = 0 // a time that has come is in the record
	}
	x.mu.Lock()
	if x.phase == phaseGone {
		x.mu.Unlock()
		runtime.Goexit()
	}
	x.blocked[w] = struct{}{}
	if w.line.counted {
		x.active--
	}
	if x.phase == phaseRunning {
		x.resolve()
	}
	if _, waits := x.blocked[w]; waits && w.at != 0 {
		w.stop = x.eng.timers.set(w.at, func() { go x.ring() })
	}
	idle := x.active == 0
	x.mu.Unlock()
	if idle {
		x.park()
	} else {
		x.send()
	}
	select {
	case <-w.ch:
	case <-x.gone:
	}
	x.turns.Take(w.line.path, 0)
	x.check()
}

// blockFor waits for something inside the run, which a cancel does not interrupt. Then is done once, with the lock held. The error says
// that the branch that waits has lost a race itself.
func (x *exec) blockFor(l *line, ready func() bool, then func()) error {
	x.mu.Lock()
	if ready() {
		if then != nil {
			then()
		}
		x.mu.Unlock()
		return nil
	}
	x.mu.Unlock()
	x.block(&waiter{line: l, ready: ready, then: then})
	x.mu.Lock()
	defer x.mu.Unlock()
	if l.isClosed() {
		return ErrLost
	}
	return nil
}
