package engine

import (
	"context"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// A run that waits in memory does not wait for the disk to go on. What it waited for, a payload or the end of a timer, is put into the committer's queue
// together with the claim of the run, and the code goes on at once with what the journal will say. What it does next is put into the queue behind that. So one
// commit has both, and who sends something to a run that then ends waits for one sync of the disk and not for two.
//
// Nobody notices: effects wait for the claim as they wait for what is in the outbox (see flush), and so does what the code says to its logger. If the claim is refused,
// because another process was faster, then so is all that rests on it, and the execution, which is a cache, is dropped.

// earlyFor is how long the code may go on before its claim is committed in any case: a sender does not wait for code that computes.
const earlyFor = time.Millisecond

// foresees reports whether it is known what a claim of the run would find, if nobody else has written to it: no more than it was given back with. The lock is held.
func (x *exec) foresees() bool {
	if x.replay != nil || x.rested != x.seen || len(x.ahead) > 0 || x.memos.parked != nil || len(x.memos.closed) > 0 {
		return false
	}
	for _, w := range x.children {
		if w.ended == nil { // who takes the run looks at its children: their ends are not in its journal
			return false
		}
	}
	return true
}

// takes reports whether an event from outside is a payload that its hook takes. The lock is held.
func (x *exec) takes(e *journal.Event) bool {
	d, ok := e.Data.(*journal.HookReceived)
	if !ok || d.Check() != nil {
		return false
	}
	h := x.memos.hooks[e.Entity]
	return h != nil && h.token == d.Token && !h.disposed && (!h.once || len(h.received) == 0) && !x.memos.senders[d.Sender]
}

// received returns a delivery with the time that the code will see.
func (x *exec) received(e journal.Event) journal.Event {
	if d, ok := e.Data.(*journal.HookReceived); ok {
		next := *d
		next.At = x.eng.now()
		e.Data = &next
	}
	return e
}

// goEarly takes the run back with events that it waited for, lets the code go on, and then sees to it that this becomes durable. It returns nothing if it was not
// written. The error says that nobody knows whether it was. The lock is held, and given up.
func (x *exec) goEarly(ctx context.Context, events []journal.Event, fired []*waiter) (*journal.Result, error) {
	cmd := x.claiming(events)
	cmd.Read, cmd.Guards.Seq = journal.Read{}, x.seen
	foreseen := x.answerTo(cmd)
	x.mu.Unlock()
	if !x.eng.works(x) {
		x.parked()
		return nil, nil //nolint:nilnil // it was not written
	}
	claim, err := x.me.committer.Put(ctx, cmd)
	switch code := cairnerr.CodeOf(err); {
	case code == cairnerr.CodeClosed || code == cairnerr.CodeFenced: // it is over for the incarnation
		x.settled(nil, err)
		return nil, nil //nolint:nilnil // nor here
	case err != nil:
		x.parked()
		return nil, nil //nolint:nilerr,nilnil // nor here: the other way has the same to say
	}
	x.mu.Lock()
	x.claim = claim
	x.mu.Unlock()
	x.claimed(foreseen, fired)
	res, err := claim.WaitOrLead(ctx, earlyFor)
	if ifUnknown(err) != nil {
		go func() { // the caller has given up
			x.turns.Take("claim", 0)
			_, err := claim.Wait(x.eng.hard)
			x.settled(claim, err)
		}()
		return nil, err
	}
	x.settled(claim, err)
	return res, nil // no result: nor here
}

// answerTo returns what the answer to a claim will be, if it is accepted: the guards leave no other. The lock is held.
func (x *exec) answerTo(cmd *journal.Command) *journal.Result {
	run := *x.run
	run.Owner, run.Epoch, run.WakeAt = x.me.id, x.epoch+1, 0
	res := &journal.Result{Run: &run, Read: make([]journal.Event, len(cmd.Events))}
	for i, e := range cmd.Events {
		e.Type, e.Seq = e.Data.EventType(), x.seen+int64(i)+1
		res.Read[i] = e
	}
	return res
}

// unsettled returns the claim that is not known to be durable, nil if there is none.
func (x *exec) unsettled() *commit.Ticket {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.claim
}

// settle waits until the claim is durable, or the execution is over.
func (x *exec) settle() {
	x.mu.Lock()
	claim := x.claim
	if claim == nil {
		x.mu.Unlock()
		return
	}
	x.out.waits++
	n := x.out.waits
	x.mu.Unlock()
	claim.Lead(x.eng.hard)
	select {
	case <-claim.Done():
	case <-x.gone:
	}
	x.turns.Take("settle", n)
	select {
	case <-claim.Done():
		_, err := claim.Wait(x.eng.hard)
		x.settled(claim, err)
	default: // the execution is over
	}
}

// Settle waits until all that the code was given is durable. It may have been given something that never was: then it does not go on.
func (b *Branch) Settle() {
	b.x.settle()
	b.x.check()
}

// IsSettled reports whether all that the code was given is durable.
func (b *Branch) IsSettled() bool { return b.x.unsettled() == nil }

// whenSettled calls a function when the claim is durable, and not at all if it never is.
func (x *exec) whenSettled(f func()) {
	x.mu.Lock()
	early := x.claim != nil
	if early {
		x.later = append(x.later, f)
	}
	x.mu.Unlock()
	if !early {
		f()
	}
}

// settled takes note of what became of a claim. With one that was refused, the execution is over: what it has done since is not true.
func (x *exec) settled(claim *commit.Ticket, err error) {
	if err != nil {
		if cairnerr.CodeOf(err) == cairnerr.CodeFenced {
			x.eng.reborn(x.me)
		}
		x.leave(err)
		x.eng.lookNow() // the run may be due
		return
	}
	x.mu.Lock()
	var later []func()
	if x.claim == claim {
		x.claim, x.later, later = nil, nil, x.later
	}
	x.mu.Unlock()
	for _, f := range later {
		f()
	}
}
