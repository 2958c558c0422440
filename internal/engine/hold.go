package engine

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// A cancel, or the end of a deadline, has a place in the journal. When code is executed again, its contexts must not end before it has come
// as far as it had then: otherwise code that asks ctx.Err() takes another path. So what ends a context is held back until every branch has
// come to its place, where it waits for the others.

const (
	// maxHold is how long something is held back while the code asks for nothing: it may wait for the context itself, or have changed, and never ask
	// for what is recorded.
	maxHold = time.Second

	// frontier is where the journal ends.
	frontier = math.MaxInt64
)

// held is an end of a context that the branches have not come to yet.
type held struct {
	seq  int64 // where it is in the journal
	tell func()
	asks int // how often the code had been given something when that was last looked at
}

// hold ends a context when the code has come to that place of the journal. The lock is held.
func (x *exec) hold(seq int64, tell func()) {
	h := &held{seq: seq, tell: tell, asks: x.asks}
	x.held = append(x.held, h)
	slices.SortStableFunc(x.held, func(a, b *held) int { return cmp.Compare(a.seq, b.seq) })
	x.watchHeld(h)
}

func (x *exec) watchHeld(h *held) {
	x.eng.timers.set(x.eng.now().Add(maxHold), func() { go x.heldLong(h) })
}

// heldLong ends a context although not every branch waits at its place, unless they have come on meanwhile.
func (x *exec) heldLong(h *held) {
	x.turns.Take("held", h.seq)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase == phaseGone || !slices.Contains(x.held, h) {
		return
	}
	if h.asks != x.asks {
		h.asks = x.asks
		x.watchHeld(h)
		return
	}
	for slices.Contains(x.held, h) { // and those before it
		x.tellFirst()
	}
}

// tellFirst ends the context that is next. The lock is held.
func (x *exec) tellFirst() {
	h := x.held[0]
	x.held = x.held[1:]
	h.tell()
	if x.phase == phaseRunning {
		x.resolve()
	}
}

// tellWaiting ends contexts as long as every branch waits. It reports whether one goes on. The lock is held.
func (x *exec) tellWaiting() bool {
	for len(x.held) > 0 && x.active == 0 {
		x.tellFirst()
	}
	return x.active > 0
}

// repeats reports whether the journal has something before a place that the code has not asked for yet. The lock is held.
func (x *exec) repeats(seq int64) bool {
	for key, m := range x.memos.byKey {
		if m.completed != 0 && m.completed < seq && !m.asked && !x.memos.lost(key) {
			return true
		}
	}
	return false
}

// lost reports whether a key belongs to a branch that lost a race: nobody asks for it again.
func (m *memos) lost(key string) bool {
	for path := range m.closed {
		if strings.HasPrefix(key, path) {
			return true
		}
	}
	return false
}

// reach is called before the branch gets something that is at a place of the journal. If its context ended before that, it waits for it.
func (b *Branch) reach(seq int64) {
	x := b.x
	x.mu.Lock()
	wait := false
	if len(x.held) > 0 && b.ctx.Err() == nil {
		first, _ := b.cut()
		if first == 0 && x.noticed && !b.sheltered {
			first = x.cancelSeq()
		}
		wait = first != 0 && first < seq
	}
	x.mu.Unlock()
	if wait {
		x.block(&waiter{line: b.line, ctx: b.ctx, ready: never})
	}
}

// cancelSeq is where in the journal the run was asked to stop, as far as that is known. The lock is held.
func (x *exec) cancelSeq() int64 {
	if seq := x.memos.cancelled; seq != 0 {
		return seq
	}
	return frontier - 1
}

// noticeCancel ends the contexts of a run that was asked to stop. The lock is held.
func (x *exec) noticeCancel() {
	if x.run.CancelledAt == 0 || x.noticed {
		return
	}
	x.noticed = true
	go x.passCancelOn(x.openChildren(func(string) bool { return true }), x.run.CancelledAt)
	if seq := x.cancelSeq(); len(x.lines) == 0 || x.repeats(seq) {
		x.hold(seq, func() { x.cancel(ErrCancelled) })
	} else {
		x.cancel(ErrCancelled)
	}
}
