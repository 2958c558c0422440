package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/turn"
	"github.com/cairn-workflow/cairn/observe"
)

// phase is where an execution is.
type phase uint8

const (
	phaseRunning phase = iota // this process owns the run
	phaseParking              // the run is being given back
	phaseParked               // nobody owns the run; the goroutines are a cache
	phaseWaking               // the run is being claimed again
	phaseGone                 // the goroutines end: the run has ended, or another process has it
)

// exec is one run being executed by this process.
type exec struct {
	eng   *Engine // in the namespace of the run
	turns turn.Taker
	me    *incarnation // who owns the run while it is active
	key   store.RunKey
	wf    *Workflow
	input journal.Payload
	seed  journal.ID   // what derived ids and randomness follow from
	began journal.Time // what the code takes for its beginning

	headers map[string]string // what belongs to the starter's trace
	why     observe.Begin     // it was taken
	segment atomic.Pointer[segment]
	before  map[string]int64 // the last event of each branch when the run was taken, where that matters

	ctx    context.Context // ends when the run is cancelled, or the execution is over
	bare   context.Context // ends when the execution is over: clean-up after a cancel happens here
	cancel context.CancelCauseFunc
	over   context.CancelCauseFunc
	gone   chan struct{} // closed in phaseGone

	place       place    // guarded by the engine
	tokens      []string // of its hooks; guarded by the engine
	heldSuspect bool     // it takes a place among the suspects; guarded by the engine

	mu       sync.Mutex
	phase    phase
	run      *journal.Run
	epoch    int64
	claim    *commit.Ticket // with which the run was taken back, until that is durable; see early.go
	later    []func()       // what is done when it is
	died     bool           // the last owner did
	suspect  bool           // that, and nothing was written since: starts are written down before the bodies
	memos    *memos
	seen     int64 // all events up to here are known
	rested   int64 // the last event when the run was given back; run is as it was then
	ahead    map[int64]journal.Event
	out      outbox
	active   int // lines that do something
	lines    map[*line]struct{}
	blocked  map[*waiter]struct{}
	clocks   map[*clock]struct{}
	children map[journal.ID]*childWait  // that somebody waits for
	attached map[journal.ID]string      // that end with the run, and their keys
	ended    int64                      // branches that have ended so far
	poked    bool                       // something happened while the run was being given back
	sets     []journal.AttrChange       // changes of attributes in this execution
	begun    map[string]string          // names of the steps whose starts are recorded and that are under way, by key
	progress map[string]Progress        // of the steps that do something now
	pushed   int64                      // how often somebody asked for polls to look now
	noticed  bool                       // that the run was asked to stop
	ending   bool                       // its function has returned
	asks     int                        // how often the code has got something from the journal
	held     []*held                    // ends of contexts that the code has not come to yet, by their place in the journal
	repeated map[string]bool            // names that were used again without a key, by the key of their first use
	drifted  map[string]*cairnerr.Error // first uses whose record was made for another input
	replay   *replay                    // what a recorded run is compared with; nil: the run is really executed
	streams  runStreams
}

func newExec(e *Engine, me *incarnation, key store.RunKey, wf *Workflow, run *journal.Run) *exec {
	x := &exec{
		eng: e.In(key.Namespace), turns: e.turns.Of("execution", e.numbers.Add(1)), me: me, key: key, wf: wf, run: run, epoch: run.Epoch, memos: newMemos(), ahead: map[int64]journal.Event{},
		out: outbox{answered: make(chan struct{})}, lines: map[*line]struct{}{}, blocked: map[*waiter]struct{}{},
		gone: make(chan struct{}), seed: key.Run, began: run.CreatedAt,
		active: 1, // its code: it may be told of something before that begins, and must not come to rest then
	}
	x.streams.known = run.Epoch <= 1                 // nobody has executed it before
	x.bare, x.over = context.WithCancelCause(e.hard) // a stop of the engine ends it only together with the execution
	x.ctx, x.cancel = context.WithCancelCause(x.bare)
	return x
}

// bornAs takes over what the run was created with. A fork repeats the ids, the randomness and the time of the run that it was made of.
func (x *exec) bornAs(d *journal.RunCreated) {
	x.input, x.headers = d.Input, d.Headers
	if !d.Seed.IsZero() {
		x.seed, x.began = d.Seed, d.SeedAt
	}
}

// start begins to execute the run's code. The run is owned, and its journal known.
func (x *exec) start() {
	root := newLine(x, nil, "", x.began)
	root.ctx = x.ctx
	x.mu.Lock()
	x.noticeCancel()
	x.lines[root] = struct{}{}
	root.mark = x.out.added
	root.counted = true
	x.mu.Unlock()
	x.segmentBegins(x.why)
	go x.main(&Branch{line: root, ctx: root.ctx})
}

func (x *exec) main(b *Branch) {
	x.turns.Take(b.path, 0)
	roomyToCommit()
	var out journal.Payload
	var err error
	returned := false
	defer func() {
		p := recover()
		if x.isGone() {
			return
		}
		if bug := bugOf(p, returned, err, "the workflow's goroutine"); bug != nil {
			b.stopFor(bug)
			return
		}
		x.end(b, out, err)
	}()
	out, err = x.wf.Run(b, x.input)
	returned = true
}

func panicError(p any) *cairnerr.Error {
	return &cairnerr.Error{Code: cairnerr.CodePanic, Message: fmt.Sprint(p), Stack: string(debug.Stack())}
}

func (x *exec) isGone() bool {
	select {
	case <-x.gone:
		return true
	default:
		return false
	}
}

// end writes the end of the run, together with what was not written yet.
func (x *exec) end(b *Branch, out journal.Payload, err error) {
	b.used.Store(true) // a context that is kept beyond its run is of no use
	x.mu.Lock()
	unread := x.noticed && x.memos.request == nil
	x.mu.Unlock()
	if unread && !x.refresh() {
		return
	}
	x.mu.Lock()
	x.ending = true
	request := x.memos.request
	parent := x.mayHaveChildren()
	x.mu.Unlock()
	end := journal.Event{Data: endOf(request, out, err)}
	if x.replay != nil {
		x.replayedTo(b, end.Data)
		return
	}
	if parent { // nobody waits for its children any more
		x.endChildren()
	}
	x.drain()
	res, commitErr := x.writeLast(end, journal.LeaseKeep)
	if commitErr == nil {
		x.segmentEnds(observe.EndOver)
		x.eng.observeEnd(x.key, res.Run, end.Data, x.headers)
		x.eng.announce(x.key, res.Run, end.Data)
	}
	x.leave(nil)
}

// endOf returns the end that a run comes to with what its function returned. Request says that it was asked to stop.
func endOf(request *journal.CancelRequested, out journal.Payload, err error) journal.Data {
	if err == nil {
		err = journal.CheckPayload("the output of the run", "", out)
	}
	switch {
	case err == nil:
		return &journal.RunCompleted{Output: out}
	case request != nil && (errors.Is(err, ErrCancelled) || errors.Is(err, context.Canceled)):
		return &journal.RunCancelled{Reason: request.Reason, Actor: request.Actor, Error: cleanUpError(err)}
	default:
		return &journal.RunFailed{Error: asFailure(err)}
	}
}

// cleanUpError returns what a cancelled run has to say beyond that it was cancelled, nil: nothing.
func cleanUpError(err error) *cairnerr.Error {
	failure := asFailure(err)
	if failure.Message == ErrCancelled.Message || failure.Message == context.Canceled.Error() {
		return nil
	}
	return failure
}

// leave ends the execution: its goroutines end at their next call.
func (x *exec) leave(cause error) {
	x.leaveIf(cause, func() bool { return true })
}

// leaveIf ends the execution if a condition holds, which is asked with the lock held. It reports whether it did.
func (x *exec) leaveIf(cause error, holds func() bool) bool {
	x.mu.Lock()
	if x.phase == phaseGone || !holds() {
		x.mu.Unlock()
		return false
	}
	x.phase = phaseGone
	for w := range x.blocked {
		w.unset()
	}
	for c := range x.clocks {
		c.unset()
	}
	close(x.gone)
	x.mu.Unlock()
	if cause == nil {
		cause = context.Canceled
	}
	x.over(cause)
	x.segmentEnds(segmentEnd(cause))
	x.eng.forget(x)
	return true
}

// check ends the calling goroutine if the execution is over.
func (x *exec) check() {
	if x.isGone() {
		runtime.Goexit()
	}
}

func (x *exec) owned(events []journal.Event) *journal.Command {
	return &journal.Command{
		Namespace: x.key.Namespace, Run: x.key.Run, Events: events,
		Guards: journal.Guards{Owner: journal.Ownership{Incarnation: x.me.id, Epoch: x.epoch}},
	}
}

// commit writes a command and learns from the answer. While the database cannot be reached it is tried again. If the run
// is not ours any more, the execution is over and the calling goroutine ends at its next call.
func (x *exec) commit(cmd *journal.Command) (*journal.Result, error) {
	pause := 5 * time.Millisecond
	for {
		claim := x.unsettled()
		res, err := x.me.committer.DoAfter(x.eng.hard, cmd, claim)
		switch code := cairnerr.CodeOf(err); {
		case err == nil:
			x.settled(claim, nil)
			x.observe(res.Run, res.Appended, true)
			x.wrote(res.Appended)
			return res, nil
		case temporary(code):
			select {
			case <-time.After(pause):
			case <-x.eng.hard.Done():
				x.leave(err)
				return nil, err
			}
			pause = min(2*pause, time.Second)
		case code == cairnerr.CodePrecondition || code == cairnerr.CodeNotRunnable:
			return nil, err
		default:
			switch {
			case code == cairnerr.CodeFenced:
				x.eng.reborn(x.me)
			case code == cairnerr.CodeStaleEpoch || code == cairnerr.CodeRunEnded || code == cairnerr.CodeClosed:
			case cmd.Lease == journal.LeaseClaim: // somebody else was faster, and has written what this process wanted to
			default:
				x.refused(cmd, err)
			}
			x.leave(err)
			return nil, err
		}
	}
}

// refused parks a run that did something impossible, so that somebody looks at it: its code, or this program, has a mistake.
func (x *exec) refused(cmd *journal.Command, err error) {
	x.eng.logRefusal(x, cmd, err)
	for i := range cmd.Events {
		if cmd.Events[i].Data.EventType() == journal.EventRunParked {
			return // that was what was refused
		}
	}
	park := x.owned([]journal.Event{{Data: &journal.RunParked{Error: cairnerr.AsError(err), Build: x.eng.build()}}})
	park.Lease = journal.LeaseRelease // also if it is paused
	if _, parkErr := x.me.committer.DoAfter(x.eng.hard, park, x.unsettled()); parkErr == nil {
		x.observeParked(err)
	}
}

// wrote is called when events of the run are durable.
func (x *exec) wrote(events []journal.Event) {
	x.eng.replied(x.key.Run, events)
	for i := range events {
		if t := events[i].Type; t != journal.EventStepStarted && t != journal.EventRunStarted {
			x.acquit()
			return
		}
	}
}

// temporary reports whether a command that failed so may be tried again: nothing was written.
func temporary(code cairnerr.Code) bool {
	switch code {
	case cairnerr.CodeUnreachable, cairnerr.CodeDiskFull, cairnerr.CodeReadOnly:
		return true
	default:
		return false
	}
}

// observe takes note of events of the run. Of the steps that the code has just done itself nothing is kept: it does not ask for them again.
func (x *exec) observe(run *journal.Run, events []journal.Event, own bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if run != nil && (run.CancelledAt != 0 || run.Epoch >= x.run.Epoch) {
		cancelled := x.run.CancelledAt
		x.run = run
		x.markCancelled(cancelled) // answers may come in another order than they were given
	}
	for i := range events {
		if events[i].Seq > x.seen {
			x.ahead[events[i].Seq] = events[i]
		}
	}
	for {
		e, ok := x.ahead[x.seen+1]
		if !ok {
			break
		}
		delete(x.ahead, e.Seq)
		x.seen++
		if own && x.memos.isOutcome(&e) {
			continue
		}
		x.memos.fold(x.key.Run, &e)
		if e.Type == journal.EventRunResumed {
			x.pushed++ // a run that is paused cannot be marked
		}
		if m := x.memos.byKey[e.Key]; own && m != nil {
			m.asked = true
		}
	}
	x.noticeCancel()
	if x.phase == phaseRunning {
		x.resolve()
	} else if x.stirs() {
		x.poked = true
	}
}

// markCancelled notes when the run was asked to stop, 0: it was not. The lock is held.
func (x *exec) markCancelled(at journal.Time) {
	if at != 0 && x.run.CancelledAt == 0 {
		next := *x.run
		next.CancelledAt = at
		x.run = &next
	}
}

// noteRun takes over what somebody else changed about the run itself: a cancel.
func (x *exec) noteRun(run *journal.Run) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.markCancelled(run.CancelledAt)
	if x.phase == phaseRunning {
		x.noticeCancel()
		x.resolve()
	}
}
