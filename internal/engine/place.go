package engine

import (
	"container/list"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// place is what an execution takes of the engine's room.
type place uint8

const (
	placeNone place = iota
	placeActive
	placeWaiting // nobody owns the run; its goroutines are a cache
)

// maxSuspects is how many runs of dead processes are tried at the same time: one of them may be what killed its process. Each that has shown that it does no
// harm makes room for one more.
const maxSuspects = 8

// waitingList has the executions that wait, the one that has waited longest first.
type waitingList struct {
	order list.List
	byRun map[*exec]*list.Element
}

func (l *waitingList) add(x *exec) {
	if l.byRun == nil {
		l.byRun = map[*exec]*list.Element{}
	}
	l.byRun[x] = l.order.PushBack(x)
}

func (l *waitingList) remove(x *exec) {
	if at := l.byRun[x]; at != nil {
		l.order.Remove(at)
		delete(l.byRun, x)
	}
}

// admit takes a place among the runs that do something.
func (e *Engine) admit() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped || e.active >= e.cfg.MaxActive {
		return false
	}
	e.active++
	return true
}

// full reports whether there is no place for another run, or the engine stops.
func (e *Engine) full() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stopped || e.active >= e.cfg.MaxActive
}

// release gives a place back that no execution has taken.
func (e *Engine) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leftActive()
}

// leftActive counts one run less that does something. The lock is held.
func (e *Engine) leftActive() {
	e.active--
	if e.stopped && e.active == 0 {
		e.drain()
	}
	if e.active == e.cfg.MaxActive-1 {
		e.lookNow()
	}
}

// move gives an execution another place. The lock is held.
func (e *Engine) move(x *exec, to place) {
	from := x.place
	if from == to {
		return
	}
	x.place = to
	switch from {
	case placeActive:
		e.leftActive()
	case placeWaiting:
		e.waiting.remove(x)
	case placeNone:
	}
	switch to {
	case placeActive:
		e.active++
	case placeWaiting:
		e.waiting.add(x)
	case placeNone:
	}
}

// works is called when an execution wants to go on: it takes a place, also if there is none. An engine that stops lets none go on.
func (e *Engine) works(x *exec) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped || e.execs[x.key] != x {
		return false
	}
	e.move(x, placeActive)
	return true
}

// rests is called when an execution waits. If more wait than are to be kept, it returns the one that has waited longest, which is to be evicted. The lock of the execution is held.
func (e *Engine) rests(x *exec) (over *exec) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.execs[x.key] == x {
		e.move(x, placeWaiting)
		e.releasedRun(x.key)
	}
	e.cleared(x)
	if len(e.waiting.byRun) > max(e.cfg.MaxWaiting, 0) {
		over, _ = e.waiting.order.Front().Value.(*exec)
		e.waiting.remove(over) // so that nobody else chooses it
	}
	return over
}

// evict drops an execution from memory, if it still waits. Its goroutines end; nothing that they do is recorded.
func (x *exec) evict() {
	var at journal.Time
	evicted := x.leaveIf(ErrEvicted, func() bool {
		at = x.firstDue()
		return x.phase == phaseParked // it may be about to go on
	})
	if evicted {
		x.observeEvicted()
		x.eng.lookBy(at)
	}
}

// freeSuspects returns how many more runs of dead processes may be tried.
func (e *Engine) freeSuspects() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maxSuspects + e.trust - e.suspects
}

// suspected takes a place among the runs whose last owner died. It reports false if there is none.
func (e *Engine) suspected() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.suspects >= maxSuspects+e.trust {
		return false
	}
	e.suspects++
	return true
}

// cleared is called when a run whose last owner died has shown that it does no harm, or is over. The lock of the engine is held.
func (e *Engine) cleared(x *exec) {
	if x.heldSuspect {
		x.heldSuspect = false
		e.suspects--
		e.lookNow()
	}
}

// acquit is called when something that the run did is durable.
func (x *exec) acquit() {
	x.mu.Lock()
	was := x.suspect
	x.suspect = false
	x.mu.Unlock()
	if was {
		x.eng.mu.Lock()
		x.eng.trust++
		x.eng.cleared(x)
		x.eng.mu.Unlock()
	}
}

func (x *exec) isSuspect() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.suspect
}
