package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/observe"
)

// park gives the run back, together with what was not written yet. It is called when the last branch has come to wait.
func (x *exec) park() {
	if x.replay != nil {
		x.replayRests()
		return
	}
	x.drain()
	x.mu.Lock()
	for {
		if !x.begin() {
			x.mu.Unlock()
			return
		}
		if x.phase != phaseRunning || x.active > 0 || x.tellWaiting() {
			x.done(0)
			x.mu.Unlock()
			return
		}
		if x.undrained() { // another branch has written to a stream meanwhile
			x.done(0)
			x.mu.Unlock()
			x.drain()
			x.mu.Lock()
			continue
		}
		cmd := x.owned(x.take())
		final := len(x.out.events) == 0
		if final {
			x.phase, x.poked = phaseParking, false
			cmd.Lease = journal.LeaseRelease
			cmd.Guards.Seq = x.seen // nothing has come from outside that the code has not had
			cmd.WakeAt = x.wish()
		}
		x.mu.Unlock()
		res, err := x.commit(cmd)
		x.mu.Lock()
		switch {
		case err == nil:
			x.done(len(cmd.Events))
			if final {
				x.rested = res.Seq
				x.mu.Unlock()
				x.parked()
				return
			}
		case cairnerr.CodeOf(err) != cairnerr.CodePrecondition:
			x.done(0)
			x.mu.Unlock()
			return // the execution is over
		default:
			x.untake(cmd.Events)
			x.done(0)
			x.mu.Unlock()
			if !x.refresh() {
				return
			}
			x.mu.Lock()
			if x.phase == phaseGone {
				x.mu.Unlock()
				return
			}
			x.phase = phaseRunning
			x.resolve()
			if x.poked { // perhaps because of a mark that it still has
				x.eng.lookNow()
			}
		}
	}
}

// wish returns when the run wants to go on although no row says so, 0: never. The lock is held.
func (x *exec) wish() journal.Time {
	var first journal.Time
	for w := range x.blocked {
		if w.soft && w.at != 0 && (first == 0 || w.at < first) {
			first = w.at
		}
	}
	return first
}

// firstDue returns when the first branch that waits goes on by itself, 0: never. The lock is held.
func (x *exec) firstDue() journal.Time {
	var first journal.Time
	sooner := func(at journal.Time) {
		if at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	for w := range x.blocked {
		sooner(w.at)
	}
	for c := range x.clocks {
		sooner(c.at)
	}
	return first
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
	var over *exec
	if !poked { // with the lock held: whoever wakes it then takes a place after it has given back its own
		over = x.eng.rests(x)
	}
	x.mu.Unlock()
	x.segmentEnds(observe.EndWaiting)
	if !x.dropIfPaused() && poked {
		x.wake()
	}
	if over != nil {
		over.evict()
	}
}

// ring is called when the time of a branch has come.
func (x *exec) ring() {
	x.turns.Take("ring", 0)
	x.wake()
}

// wake goes on with branches whose condition holds. If the run was given back it is claimed first, in the commit that records the end of its timers;
// one that is not due stays. It reports whether the run is executed now.
func (x *exec) wake() bool {
	x.mu.Lock()
	if x.phase != phaseParked {
		x.poked = true
		if x.phase == phaseRunning {
			x.resolve()
		}
		x.mu.Unlock()
		return false
	}
	fired, events := x.rung(x.eng.now())
	if len(events) > 0 && x.foresees() {
		res, err := x.goEarly(x.eng.hard, events, fired)
		return res != nil && err == nil
	}
	cmd := x.claiming(events)
	x.mu.Unlock()
	if !x.eng.works(x) {
		x.parked()
		return false
	}
	res, err := x.commit(cmd)
	switch {
	case cairnerr.CodeOf(err) == cairnerr.CodeNotRunnable:
		x.parked() // too early, or for nothing
		return false
	case err != nil:
		return false // another process has it
	}
	return x.claimed(res, fired)
}

// claiming begins to take the run back. The lock is held.
func (x *exec) claiming(events []journal.Event) *journal.Command {
	x.phase, x.poked = phaseWaking, false
	cmd := x.owned(events)
	cmd.Lease = journal.LeaseClaim
	cmd.Read = journal.Read{Kind: journal.ReadSince, Since: x.seen}
	return cmd
}

// rung returns the branches that wait for a time that has come, and the events that say so. The lock is held.
func (x *exec) rung(now journal.Time) (fired []*waiter, events []journal.Event) {
	for w := range x.blocked {
		if w.due(now) && w.wait != "" && !w.line.isClosed() {
			fired = append(fired, w)
		}
	}
	slices.SortFunc(fired, compareWaiters)
	fired = fired[:min(len(fired), journal.MaxEvents)] // the others follow
	for _, w := range fired {
		events = append(events, journal.Event{Key: w.wait, Data: &journal.WaitCompleted{ResumeAt: w.at}})
	}
	return fired, events
}

// claimed goes on with a run that was taken back, and with the branches whose timers have ended with that.
func (x *exec) claimed(res *journal.Result, fired []*waiter) bool {
	x.mu.Lock()
	if res.Run.Epoch != x.epoch+1 {
		x.streams.known = false // another process has executed it meanwhile
	}
	x.epoch = res.Run.Epoch
	if res.Pushed {
		x.pushed++
	}
	x.mu.Unlock()
	if !x.learn(res.Run, res.Read) {
		return false
	}
	x.lookAtChildren()
	x.segmentBegins(observe.BeginResumed)
	x.mu.Lock()
	if x.phase == phaseGone { // the engine stopped meanwhile
		x.mu.Unlock()
		return false
	}
	x.phase = phaseRunning
	for _, w := range fired {
		w.fired = true
		x.free(w)
	}
	x.noticeCancel()
	x.resolve()
	idle, poked := x.active == 0, x.poked
	x.mu.Unlock()
	if poked { // somebody came while it was being claimed, perhaps because of a mark that it still has
		x.eng.lookNow()
	}
	if idle {
		x.park()
	} else {
		x.send()
	}
	return true
}

// hand gives a run that waits in memory an event from outside, and takes it back in the same commit. It returns nothing if that cannot be done: then
// the event was not written. The error says that nobody knows whether it was; when that is known, the run goes on all the same.
func (x *exec) hand(ctx context.Context, e journal.Event) (*journal.Result, error) {
	x.mu.Lock()
	if x.phase != phaseParked {
		x.mu.Unlock()
		return nil, nil //nolint:nilnil // it was not written
	}
	if x.foresees() && x.takes(&e) {
		return x.goEarly(ctx, []journal.Event{x.received(e)}, nil)
	}
	cmd := x.claiming([]journal.Event{e})
	x.mu.Unlock()
	if !x.eng.works(x) {
		x.parked()
		return nil, nil //nolint:nilnil // nor here
	}
	ticket, err := x.me.committer.Put(ctx, cmd)
	if err != nil {
		x.parked()
		return nil, nil //nolint:nilerr,nilnil // nor here: the other way has the same to say
	}
	ticket.Lead(ctx)
	res, err := ticket.Wait(ctx)
	if ifUnknown(err) != nil {
		go func() { // the caller has given up
			x.turns.Take("handed", 0)
			x.handed(ticket.Wait(x.eng.hard))
		}()
		return nil, err
	}
	x.handed(res, err)
	return res, nil // no result: nor here
}

// handed goes on, or rests again, when it is known whether a run was given an event.
func (x *exec) handed(res *journal.Result, err error) {
	if err != nil {
		x.parked()
		return
	}
	x.claimed(res, nil)
}

// ifUnknown returns an error that says that nobody knows whether something was written. After any other, it was not, and can be tried in another way.
func ifUnknown(err error) error {
	if cairnerr.CodeOf(err) == cairnerr.CodeOutcomeUnknown {
		return err
	}
	return nil
}

// refresh reads what others have written to the run. It reports false if the execution is over.
func (x *exec) refresh() bool {
	for {
		x.mu.Lock()
		seen := x.seen
		x.mu.Unlock()
		j, err := x.eng.store.Journal(x.eng.hard, x.key.Namespace, x.key.Run, seen)
		if err == nil {
			return x.learn(j.Run, j.Events)
		}
		if !temporary(cairnerr.CodeOf(err)) || !x.eng.pause() {
			x.leave(err)
			return false
		}
	}
}

// learn takes note of what others have written. A run with events of a newer program is left to that.
func (x *exec) learn(run *journal.Run, events []journal.Event) bool {
	for i := range events {
		if events[i].Data == nil {
			x.leave(cairnerr.Errorf(cairnerr.CodeUnknownEvent, "event %d was written by a newer program", events[i].Seq))
			return false
		}
	}
	x.observe(run, events, false)
	return true
}

// handOver gives the run back because the engine stops: with what it has done, and due at once. Its goroutines end at their next call.
func (x *exec) handOver() {
	x.mu.Lock()
	if x.phase != phaseRunning || !x.begin() || x.phase != phaseRunning {
		x.mu.Unlock()
		x.leave(ErrStopped)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(x.begun)) { // nobody is to blame that they did not end
		x.put(&line{}, journal.Event{Key: key, Data: &journal.StepRetrying{
			Name: x.begun[key], RetryAfter: x.eng.now(), Error: cairnerr.Errorf(cairnerr.CodeStopped, "the engine was stopped while the step was under way"),
		}})
	}
	cmd := x.owned(x.take())
	cmd.Lease, cmd.WakeAt = journal.LeaseRelease, x.eng.now()
	x.mu.Unlock()
	x.leave(ErrStopped)
	_, _ = x.me.committer.DoAfter(x.eng.hard, cmd, x.unsettled()) // if it fails, the run is freed with the incarnation
}
