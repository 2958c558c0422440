package engine

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/store"
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
	eng   *Engine
	key   store.RunKey
	wf    *Workflow
	input journal.Payload

	ctx    context.Context // ends when the run is cancelled, or the execution is over
	cancel context.CancelCauseFunc
	gone   chan struct{} // closed in phaseGone
	ended  chan struct{} // closed when the root goroutine has ended

	mu       sync.Mutex
	phase    phase
	run      *journal.Run
	epoch    int64
	counted  bool // it takes a place among those that do something; guarded by the engine
	suspect  bool // the run was taken over: starts are recorded
	memos    *memos
	seen     int64 // all events up to here are known
	ahead    map[int64]journal.Event
	pending  []journal.Event            // not submitted yet
	inflight map[chan struct{}]struct{} // commands that were submitted; each channel is closed with the answer
	active   int                        // branches that do something
	blocked  map[*waiter]struct{}
	poked    bool // something happened while the run was being given back
}

// waiter is a branch that waits.
type waiter struct {
	ready func() bool  // whether what it waits for has happened; the lock is held
	at    journal.Time // when that happens by itself; 0: never
	wait  string       // the key of the timer that is then completed, "" if there is none
	fired bool         // the time has come
	inner bool         // it waits for another branch: a cancel does not end that
	unset func()       // stops its clock
	ch    chan struct{}
}

func newExec(e *Engine, key store.RunKey, wf *Workflow, run *journal.Run) *exec {
	x := &exec{
		eng: e, key: key, wf: wf, run: run, epoch: run.Epoch, memos: newMemos(), ahead: map[int64]journal.Event{},
		blocked: map[*waiter]struct{}{}, gone: make(chan struct{}), ended: make(chan struct{}), inflight: map[chan struct{}]struct{}{},
	}
	x.ctx, x.cancel = context.WithCancelCause(e.life)
	return x
}

// start begins to execute the run's code. The run is owned, and its journal known.
func (x *exec) start() {
	x.active = 1
	if x.run.CancelledAt != 0 {
		x.cancel(ErrCancelled)
	}
	go x.main()
}

func (x *exec) main() {
	var out journal.Payload
	var err error
	returned := false
	defer func() {
		defer close(x.ended)
		if p := recover(); p != nil {
			err = &journal.Error{Code: CodePanic, Message: panicText(p), Stack: string(debug.Stack())}
			returned = true
		}
		if x.isGone() {
			return
		}
		if !returned {
			err = journal.Errorf(CodeGoexit, "the workflow's goroutine ended without a result (runtime.Goexit, or t.FailNow?)")
		}
		x.finish(out, err)
	}()
	out, err = x.wf.Run(&Branch{x: x, uses: map[string]int{}}, x.input)
	returned = true
}

func (x *exec) isGone() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.phase == phaseGone
}

// finish writes the end of the run, together with what was not written yet.
func (x *exec) finish(out journal.Payload, err error) {
	x.mu.Lock()
	cancelled := x.run.CancelledAt != 0
	x.mu.Unlock()
	var end journal.Event
	switch {
	case err == nil:
		end.Data = &journal.RunCompleted{Output: out}
	case cancelled && errors.Is(err, ErrCancelled):
		end.Data = &journal.RunCancelled{Reason: err.Error()}
	default:
		end.Data = &journal.RunFailed{Error: journal.AsError(err)}
	}
	x.settle()
	x.mu.Lock()
	events := append(x.take(), end)
	x.mu.Unlock()
	if res, err := x.commit(x.owned(events)); err == nil {
		x.eng.announce(x.key, res.Run, end.Data)
	}
	x.leave(nil)
}

// leave ends the execution: its goroutines end at their next call.
func (x *exec) leave(cause error) {
	x.mu.Lock()
	if x.phase == phaseGone {
		x.mu.Unlock()
		return
	}
	x.phase = phaseGone
	for w := range x.blocked {
		if w.unset != nil {
			w.unset()
		}
	}
	close(x.gone)
	x.mu.Unlock()
	if cause == nil {
		cause = context.Canceled
	}
	x.cancel(cause)
	x.eng.forget(x)
}

// take returns the events that were not submitted yet. The lock is held.
func (x *exec) take() []journal.Event {
	events := x.pending
	x.pending = nil
	return events
}

func (x *exec) owned(events []journal.Event) *journal.Command {
	return &journal.Command{
		Namespace: x.key.Namespace, Run: x.key.Run, Events: events,
		Guards: journal.Guards{Owner: journal.Ownership{Incarnation: x.eng.self, Epoch: x.epoch}},
	}
}

// commit writes a command and learns from the answer. While the database cannot be reached it is tried again. If the run
// is not ours any more, the execution is over and the calling goroutine ends at its next call.
func (x *exec) commit(cmd *journal.Command) (*journal.Result, error) {
	pause := 5 * time.Millisecond
	for {
		res, err := x.eng.committer.Do(x.eng.hard, cmd)
		switch code := journal.CodeOf(err); {
		case err == nil:
			x.observe(res.Run, res.Appended)
			return res, nil
		case temporary(code):
			select {
			case <-time.After(pause):
			case <-x.eng.hard.Done():
				x.leave(err)
				return nil, err
			}
			pause = min(2*pause, time.Second)
		case code == journal.CodePrecondition || code == journal.CodeNotRunnable:
			return nil, err
		default:
			if code != journal.CodeStaleEpoch && code != journal.CodeFenced && code != journal.CodeRunEnded && code != journal.CodeClosed {
				x.eng.logRefusal(x, cmd, err)
			}
			x.leave(err)
			return nil, err
		}
	}
}

// temporary reports whether a command that failed so may be tried again: nothing was written.
func temporary(code journal.Code) bool {
	switch code {
	case journal.CodeUnreachable, journal.CodeDiskFull, journal.CodeReadOnly:
		return true
	default:
		return false
	}
}

// send submits what was not submitted yet, without waiting.
func (x *exec) send() {
	x.mu.Lock()
	events := x.take()
	if len(events) == 0 {
		x.mu.Unlock()
		return
	}
	answered := make(chan struct{})
	x.inflight[answered] = struct{}{}
	x.mu.Unlock()
	cmd := x.owned(events)
	ticket, err := x.eng.committer.Submit(x.eng.hard, cmd)
	go func() {
		var res *journal.Result
		if err == nil {
			res, err = ticket.Wait(x.eng.hard)
		}
		if err == nil {
			x.observe(res.Run, res.Appended)
		} else if !x.isGone() {
			_, _ = x.commit(cmd)
		}
		x.mu.Lock()
		delete(x.inflight, answered)
		x.mu.Unlock()
		close(answered)
	}()
}

// settle waits until everything that was submitted by now is answered.
func (x *exec) settle() {
	x.mu.Lock()
	waits := make([]chan struct{}, 0, len(x.inflight))
	for answered := range x.inflight {
		waits = append(waits, answered)
	}
	x.mu.Unlock()
	for _, answered := range waits {
		select {
		case <-answered:
		case <-x.gone:
			return
		}
	}
}

// barrier makes durable what the run has done so far: an effect follows.
func (x *exec) barrier() {
	x.mu.Lock()
	events := x.take()
	x.mu.Unlock()
	if len(events) > 0 {
		_, _ = x.commit(x.owned(events))
	}
	x.settle()
	x.mu.Lock()
	gap := len(x.ahead) > 0
	x.mu.Unlock()
	if gap { // another process wrote to the run: what is ours comes after something that we have not seen
		x.refresh()
	}
	x.check()
}

// check ends the calling goroutine if the execution is over.
func (x *exec) check() {
	if x.isGone() {
		runtime.Goexit()
	}
}

// observe takes note of events of the run, whoever wrote them.
func (x *exec) observe(run *journal.Run, events []journal.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if run != nil && (run.CancelledAt != 0 || run.Epoch >= x.run.Epoch) {
		x.run = run
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
		x.memos.fold(x.key.Run, &e)
	}
	x.noticeCancel()
	if x.phase == phaseRunning {
		x.resolve()
	} else {
		x.poked = true
	}
}

// noticeCancel ends the contexts of a run that was asked to stop. The lock is held.
func (x *exec) noticeCancel() {
	if x.run.CancelledAt != 0 && x.ctx.Err() == nil {
		x.cancel(ErrCancelled)
	}
}

// resolve lets those branches go on whose condition holds. The lock is held, and the run is owned.
func (x *exec) resolve() {
	now := x.eng.now()
	ready := make([]*waiter, 0, 4)
	for w := range x.blocked {
		if w.due(now) || w.ready() || (x.run.CancelledAt != 0 && !w.inner) {
			ready = append(ready, w)
		}
	}
	slices.SortFunc(ready, func(a, b *waiter) int { return compare(a.wait, b.wait) }) // the order of events must not depend on a map's
	for _, w := range ready {
		w.fired = w.due(now)
		if w.fired && w.wait != "" {
			x.pending = append(x.pending, journal.Event{Key: w.wait, Data: &journal.WaitCompleted{ResumeAt: w.at}})
		}
		delete(x.blocked, w)
		if w.unset != nil {
			w.unset()
			w.unset = nil
		}
		x.active++
		close(w.ch)
	}
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

func (w *waiter) due(now journal.Time) bool { return w.at != 0 && w.at <= now }

// block waits. If every branch waits, the run is given back.
func (x *exec) block(w *waiter) {
	w.ch = make(chan struct{})
	x.mu.Lock()
	if x.phase == phaseGone {
		x.mu.Unlock()
		runtime.Goexit()
	}
	x.blocked[w] = struct{}{}
	x.active--
	x.resolve()
	if _, waits := x.blocked[w]; waits && w.at != 0 {
		w.unset = x.eng.timers.set(w.at, func() { go x.wake() })
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
		runtime.Goexit()
	}
}
