package engine

import (
	"context"
	"errors"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// Pause parks a run by hand: what is under way ends and is recorded, and nothing new is begun until [Engine.Resume]. Timers that are over meanwhile
// count then, and what comes through hooks is kept.
func (e *Engine) Pause(ctx context.Context, run journal.ID, reason, actor string) error {
	if reason == "" {
		reason = "somebody paused the run"
	}
	parked := &journal.RunParked{Error: &cairnerr.Error{Code: cairnerr.CodePaused, Message: reason}, Actor: actor, Asked: true}
	res, err := e.do(ctx, &journal.Command{Namespace: e.namespace, Run: run, Events: []journal.Event{{Data: parked}}})
	if err != nil {
		return err
	}
	if len(res.Appended) == 0 { // it is parked already
		now, err := e.Situation(ctx, run)
		if err == nil && now.Parked != nil && !now.Parked.Asked {
			err = cairnerr.Errorf(cairnerr.CodeIllegalTransition, "the run is parked, and does nothing until it is resumed or another build of the program tries it: "+
				"there is nothing to pause")
		}
		return err
	}
	if x := e.exec(run); x != nil {
		x.observe(nil, res.Appended, false)
		x.dropIfPaused()
		return nil
	}
	e.tellLater(run) // it may be about to be in memory
	return nil
}

// Resume lets a parked run go on.
func (e *Engine) Resume(ctx context.Context, run journal.ID, actor string) error {
	_, err := e.tell(ctx, run, &journal.RunResumed{Actor: actor}, journal.ID{})
	return err
}

// dropIfPaused ends the execution of a run that waits in memory and was paused. It goes on from its journal.
func (x *exec) dropIfPaused() bool {
	return x.leaveIf(ErrEvicted, func() bool { return x.phase == phaseParked && x.memos.paused })
}

// whilePaused waits until the run may begin something new, and reports whether it had to. What ends the branch's context ends that, too. It is asked after a
// barrier: the answer to what was written last tells whether somebody wrote to the run meanwhile.
func (b *Branch) whilePaused() bool {
	paused := b.isPaused()
	if paused {
		b.x.block(&waiter{line: b.line, ctx: b.ctx, ready: func() bool { return !b.x.memos.paused }})
	}
	return paused
}

func (b *Branch) isPaused() bool {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	return b.x.memos.paused
}

// errPaused says that the body of a step was not begun because the run was paused meanwhile.
var errPaused = errors.New("the run is paused")

// notBegun takes back that the body of a step begins: that attempt does not count.
func (s *step) notBegun(recorded bool) {
	if !recorded {
		return
	}
	s.ended(true)
	s.starts = 0
	s.b.add(journal.Event{Key: s.key, Data: &journal.StepRetrying{
		Name: s.spec.Name, RetryAfter: s.b.x.eng.now(), Error: cairnerr.Errorf(cairnerr.CodeStopped, "the run was paused before the step began"),
	}})
}
