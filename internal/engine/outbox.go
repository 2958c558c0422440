package engine

import (
	"runtime"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// outbox holds what a run has done and its journal does not have yet.
//
// Events are kept back until an effect depends on them, and one command of a run is on its way at a time. So a run with hundreds of
// branches commits as often as the database can, not as often as it has branches; and the journal has the events in the order in
// which they were put here, which is what races are decided by.
type outbox struct {
	events   []journal.Event
	added    int64         // events ever put here
	written  int64         // of those, how many are in the journal
	busy     bool          // a command is on its way
	answered chan struct{} // closed, and made anew, with each answer
	waits    int64         // how often somebody has waited for that
	sending  bool          // a goroutine writes all there is
}

// put adds an event of a line, which from then on depends on it. The lock is held.
func (x *exec) put(l *line, e journal.Event) {
	x.out.events = append(x.out.events, e)
	x.out.added++
	l.mark = x.out.added
}

// take returns the next events to write, as many as fit into a command with one more. The lock is held.
func (x *exec) take() []journal.Event {
	o := &x.out
	n := min(len(o.events), journal.MaxEvents-1)
	events := o.events[:n:n]
	if n == len(o.events) {
		o.events = nil
	} else {
		o.events = o.events[n:]
	}
	return events
}

// untake puts events back that could not be written. The lock is held.
func (x *exec) untake(events []journal.Event) { x.out.events = append(events, x.out.events...) }

// begin waits until no command is on its way, and reserves the way. It reports false if the execution is over. The lock is held.
func (x *exec) begin() bool {
	for x.out.busy && x.phase != phaseGone {
		x.await()
	}
	if x.phase == phaseGone {
		return false
	}
	x.out.busy = true
	return true
}

// await waits for the next answer. The lock is held, and given up meanwhile.
func (x *exec) await() {
	answered := x.out.answered
	x.out.waits++
	n := x.out.waits
	x.mu.Unlock()
	select {
	case <-answered:
	case <-x.gone:
	}
	x.turns.Take("answer", n)
	x.mu.Lock()
}

// done gives the way free. The lock is held.
func (x *exec) done(written int) {
	x.out.written += int64(written)
	x.out.busy = false
	close(x.out.answered)
	x.out.answered = make(chan struct{})
}

// flush writes until the first n events ever put into the outbox are in the journal, and the run is known to be ours, or the execution is over.
func (x *exec) flush(n int64) {
	x.drain()
	defer x.settle() // with what was written, if anything was
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.out.written < n && x.phase != phaseGone && x.replay == nil {
		if x.out.busy {
			x.await()
			continue
		}
		x.out.busy = true
		events := x.take()
		x.mu.Unlock()
		_, err := x.commit(x.owned(events))
		x.mu.Lock()
		if err != nil {
			events = nil
		}
		x.done(len(events))
	}
}

// barrier makes durable what a line has done and seen so far: an effect follows. What other lines did meanwhile need not be.
func (x *exec) barrier(l *line) {
	x.mu.Lock()
	n := l.mark
	clean := x.out.written >= n && x.phase == phaseRunning && len(x.ahead) == 0 && x.claim == nil
	x.mu.Unlock()
	if clean {
		return
	}
	x.flush(n)
	x.mu.Lock()
	gap := len(x.ahead) > 0
	x.mu.Unlock()
	if gap { // another process wrote to the run: what is ours comes after something that we have not seen
		x.refresh()
	}
	x.check()
}

// barrierAll makes durable all that the run has done, and learns what others have written to it.
func (x *exec) barrierAll() {
	x.mu.Lock()
	n := x.out.added
	x.mu.Unlock()
	x.flush(n)
	x.mu.Lock()
	gap := len(x.ahead) > 0
	x.mu.Unlock()
	if gap {
		x.refresh()
	}
	x.check()
}

// send writes what there is without waiting.
func (x *exec) send() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.out.sending || len(x.out.events) == 0 || x.replay != nil {
		return
	}
	x.out.sending = true
	go func() {
		x.turns.Take("send", 0)
		runtime.Gosched() // other branches may be about to add something: it goes into the same command
		x.mu.Lock()
		for x.out.written < x.out.added && x.phase != phaseGone {
			n := x.out.added
			x.mu.Unlock()
			x.flush(n)
			x.mu.Lock()
		}
		x.out.sending = false
		x.mu.Unlock()
	}()
}

// writeLast writes all there is and one more event, in the order of their making.
func (x *exec) writeLast(last journal.Event, lease journal.Lease) (*journal.Result, error) {
	x.mu.Lock()
	for {
		if !x.begin() {
			x.mu.Unlock()
			return nil, cairnerr.Errorf(cairnerr.CodeClosed, "the execution is over")
		}
		events := x.take()
		final := len(x.out.events) == 0
		n := len(events)
		if final {
			events = append(events, last)
		}
		x.mu.Unlock()
		cmd := x.owned(events)
		if final {
			cmd.Lease = lease
		}
		res, err := x.commit(cmd)
		x.mu.Lock()
		if err != nil {
			n = 0
		}
		x.done(n)
		if err != nil || final {
			x.mu.Unlock()
			return res, err
		}
	}
}
