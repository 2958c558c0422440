package engine

import (
	"runtime"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// park gives the run back, together with what was not written yet. It is called by the branch that was the last to wait.
func (x *exec) park() {
	for {
		x.settle()
		x.mu.Lock()
		if len(x.inflight) > 0 { // a start that was written down late, say
			x.mu.Unlock()
			continue
		}
		if x.phase != phaseRunning || x.active > 0 {
			x.mu.Unlock()
			return
		}
		x.phase, x.poked = phaseParking, false
		cmd := x.owned(x.take())
		cmd.Lease = journal.LeaseRelease
		cmd.Guards.Seq = x.seen // nothing has come from outside that the code has not had
		x.mu.Unlock()
		_, err := x.commit(cmd)
		if err == nil {
			x.parked()
			return
		}
		if journal.CodeOf(err) != journal.CodePrecondition {
			return // the execution is over
		}
		x.mu.Lock()
		x.pending = append(cmd.Events, x.pending...)
		x.mu.Unlock()
		if !x.refresh() {
			return
		}
		x.mu.Lock()
		x.phase = phaseRunning
		x.resolve()
		x.mu.Unlock()
	}
}

// parked is called when the run was given back.
func (x *exec) parked() {
	x.mu.Lock()
	if x.phase == phaseGone {
		x.mu.Unlock()
		return
	}
	x.phase = phaseParked
	poked := x.poked
	x.mu.Unlock()
	x.eng.rests(x)
	if poked {
		x.wake()
	}
}

// wake goes on with branches whose condition holds. If the run was given back it is claimed first; one that is not due stays.
func (x *exec) wake() {
	x.mu.Lock()
	if x.phase != phaseParked {
		x.poked = true
		if x.phase == phaseRunning {
			x.resolve()
		}
		x.mu.Unlock()
		return
	}
	x.phase = phaseWaking
	cmd := x.owned(nil)
	cmd.Lease = journal.LeaseClaim
	x.mu.Unlock()

	res, err := x.commit(cmd)
	switch {
	case journal.CodeOf(err) == journal.CodeNotRunnable:
		x.parked() // too early, or for nothing
		return
	case err != nil:
		return // another process has it
	}
	x.eng.works(x)
	x.mu.Lock()
	x.epoch = res.Run.Epoch
	behind := res.Seq != x.seen
	x.mu.Unlock()
	if behind && !x.refresh() {
		return
	}
	x.mu.Lock()
	x.phase = phaseRunning
	x.noticeCancel()
	x.resolve()
	idle := x.active == 0
	x.mu.Unlock()
	if idle {
		x.park()
	}
}

// refresh reads what others have written to the run.
func (x *exec) refresh() bool {
	x.mu.Lock()
	seen := x.seen
	x.mu.Unlock()
	j, err := x.eng.store.Journal(x.eng.hard, x.key.Namespace, x.key.Run, seen)
	if err != nil {
		if x.eng.hard.Err() == nil && temporary(journal.CodeOf(err)) {
			return x.refresh()
		}
		x.leave(err)
		return false
	}
	for i := range j.Events {
		if j.Events[i].Data == nil { // written by a newer program: leave the run to it
			x.leave(journal.Errorf(journal.CodeUnknownEvent, "event %d was written by a newer program", j.Events[i].Seq))
			return false
		}
	}
	x.observe(j.Run, j.Events)
	return true
}

// parkForGood stops the run until somebody has looked at it, and ends the calling goroutine.
func (x *exec) parkForGood(reason *journal.Error) {
	x.settle()
	x.mu.Lock()
	events := append(x.take(), journal.Event{Data: &journal.RunParked{Error: reason}})
	x.mu.Unlock()
	_, _ = x.commit(x.owned(events))
	x.leave(reason)
	runtime.Goexit()
}
