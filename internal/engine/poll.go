package engine

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// lookNow asks the poller to look for due runs.
func (e *Engine) lookNow() {
	select {
	case e.look <- struct{}{}:
	default:
	}
}

// lookBy asks the poller to look no later than at a time.
func (e *Engine) lookBy(at journal.Time) {
	if at != 0 && int64(at) < e.nextLook.Load() {
		e.lookNow()
	}
}

// poll looks for runs that are due: when it is asked to, when another process hints at something, when the next run is due, and from time to time.
func (e *Engine) poll() {
	var hints <-chan string
	if !e.scope.IsEmpty() { // an engine that executes nothing has nothing to be told
		var err error
		if hints, err = e.store.Notifier().Listen(e.life); err != nil {
			hints = nil
		}
	}
	e.turns.Take("poll", 0)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait := e.cfg.Poll
		e.nextLook.Store(math.MaxInt64) // who goes to sleep while this looks will be looked for again
		before := e.now()
		e.takeDue()
		if next, err := e.store.NextDue(e.life, before); err == nil && next != 0 {
			if ms := int64(next - e.now()); ms < wait.Milliseconds() { // compared before it is a duration, which ends after 292 years
				wait = max(time.Duration(ms)*time.Millisecond, 0)
			}
		}
		e.nextLook.Store(int64(e.now().Add(wait)))
		timer.Reset(wait)
		select {
		case <-e.life.Done():
		case <-e.look:
		case <-hints:
		case <-timer.C:
		}
		e.turns.Take("poll", 0)
		if e.life.Err() != nil {
			return
		}
		select { // several may have come at once: one look is enough for all
		case <-e.look:
		default:
		}
		select {
		case <-hints:
		default:
		}
	}
}

// takeDue takes the runs that are due, as many as there is room for. Runs of dead processes are few at a time, and do not hold up the others.
func (e *Engine) takeDue() {
	if e.scope.IsEmpty() {
		return
	}
	f := store.DueFilter{Scope: e.scope, Owner: e.self().id, Now: journal.WakeAfterDeath}
	e.takePages(f, func() int { return min(e.freeSuspects(), 200) }) // one that shows that it does no harm asks for the next
	f.From, f.Now = journal.WakeAfterDeath+1, e.now()
	e.takePages(f, func() int { return 200 })
}

// takePages takes runs that are due, a page at a time, with as many as there is room for. Those that cannot be taken or told just now, such as runs of a newer program, do not hide
// those behind them: after the first page more are asked for.
func (e *Engine) takePages(f store.DueFilter, room func() int) {
	refused := map[journal.ID]bool{}
	for range 50 { // then others have their turn: timers, hints, stopping
		page := room()
		f.Limit = page + len(refused)
		if page <= 0 {
			return
		}
		due, err := e.store.Due(e.life, f)
		if err != nil {
			return // the next look will tell
		}
		last, before := len(due) < f.Limit, len(refused)
		due = slices.DeleteFunc(due, func(d store.DueRun) bool { return refused[d.Run] })
		for i, took := range e.takeAll(due) {
			if !took {
				refused[due[i].Run] = true
			}
		}
		if none := len(refused) == before+len(due); last || none && e.full() {
			return
		}
	}
}

// takeAll takes runs, or tells those that this process executes. It reports with which of them it did so.
func (e *Engine) takeAll(due []store.DueRun) []bool {
	took := make([]bool, len(due))
	var all sync.WaitGroup
	for i, run := range due { // beside each other, so that their claims share commits
		all.Go(func() {
			e.turns.Take("due", int64(i))
			took[i] = e.takeOne(run)
		})
	}
	all.Wait()
	return took
}

// takeOne wakes a run that is in memory, or claims it and executes it from the beginning.
func (e *Engine) takeOne(run store.DueRun) bool {
	key := store.RunKey{Namespace: run.Namespace, Run: run.Run}
	e.mu.Lock()
	x, self := e.execs[key], e.me.id
	e.mu.Unlock()
	switch {
	case x != nil && run.Owner == self:
		return x.heed()
	case x != nil:
		return x.wake()
	case !run.Owner.IsZero():
		return false
	case !e.admit():
		return false
	}
	suspect := run.WakeAt == journal.WakeAfterDeath
	if suspect && !e.suspected() {
		e.release()
		return false
	}
	if e.claim(key, suspect) {
		return true
	}
	e.release()
	if suspect {
		e.mu.Lock()
		e.suspects--
		e.mu.Unlock()
	}
	return false
}

// heed is called when something may have happened to a run that this process executes. The mark that says so is taken away in the commit that reads what happened: what comes
// later marks the run again. The run does not come to rest before it was told. It reports whether it was; one that is just being given back keeps its mark.
func (x *exec) heed() bool {
	x.mu.Lock()
	if x.phase != phaseRunning {
		x.mu.Unlock()
		return x.wake()
	}
	x.active++
	cmd := x.owned(nil)
	cmd.Lease, cmd.Read = journal.LeaseHeed, journal.Read{Kind: journal.ReadSince, Since: x.seen}
	x.mu.Unlock()
	res, err := x.me.committer.DoAfter(x.eng.hard, cmd, x.unsettled())
	for temporary(cairnerr.CodeOf(err)) && !x.isGone() && x.eng.pause() {
		res, err = x.me.committer.DoAfter(x.eng.hard, cmd, x.unsettled())
	}
	told := err == nil && x.learn(res.Run, res.Read)
	if told {
		x.lookAtChildren()
	}
	x.mu.Lock()
	x.active--
	if told && res.Pushed {
		x.pushed++
	}
	running := x.phase == phaseRunning
	if running {
		x.resolve()
	}
	idle := running && x.active == 0
	x.mu.Unlock()
	if idle {
		x.park()
	}
	return told
}

// claim takes a run and starts to execute it. It reports whether it took it. In a run whose last owner died while it was doing something, a
// step may be what killed it: there starts are written down before the bodies run.
func (e *Engine) claim(key store.RunKey, suspect bool) bool {
	e.mu.Lock()
	me := e.me
	e.claiming[key] = false
	e.mu.Unlock()
	x := e.claimAs(me, key, suspect)
	e.mu.Lock()
	news := e.claiming[key]
	delete(e.claiming, key)
	taken := x != nil && e.keep(x)
	e.mu.Unlock()
	if taken {
		x.start()
		if news {
			x.heed()
		}
	}
	return x != nil
}

// tellLater is called when something came for a run that is not in memory. It may be about to be: then it reports true, and the run is told.
func (e *Engine) tellLater(run journal.ID) bool {
	key := store.RunKey{Namespace: e.namespace, Run: run}
	e.mu.Lock()
	_, claims := e.claiming[key]
	if claims {
		e.claiming[key] = true
	}
	x := e.execs[key] // since a moment
	e.mu.Unlock()
	if x != nil {
		x.heed()
	}
	return claims
}

// claimAs takes a run, and returns its execution, which has not begun. It returns nil if somebody else has it.
func (e *Engine) claimAs(me *incarnation, key store.RunKey, suspect bool) *exec {
	cmd := &journal.Command{Namespace: key.Namespace, Run: key.Run, Lease: journal.LeaseClaim, Read: journal.Read{Kind: journal.ReadSince}}
	cmd.Guards.Owner.Incarnation = me.id
	res, err := me.committer.Do(e.life, cmd)
	if err != nil || len(res.Read) == 0 {
		if cairnerr.CodeOf(err) == cairnerr.CodeFenced {
			e.reborn(me)
		}
		return nil
	}
	created, ok := res.Read[0].Data.(*journal.RunCreated)
	if !ok {
		return nil
	}
	if res.Run.Status == journal.StatusPending && created.StartAt > e.now() {
		e.notYet(me, key, res.Run.Epoch, created.StartAt)
		return nil
	}
	x := newExec(e, me, key, e.workflows[created.Workflow], res.Run)
	x.died, x.suspect = suspect, suspect
	x.bornAs(created)
	x.why = beginOf(res.Run, suspect)
	x.before = lastOf(res.Read)
	if !x.learn(res.Run, res.Read) {
		return nil // a newer program's: it stays ours until we are gone, and does nothing
	}
	x.heldSuspect = suspect
	if res.Run.Status == journal.StatusPending {
		x.out.events, x.out.added = append(x.out.events, journal.Event{Data: &journal.RunStarted{}}), 1
	}
	return x
}

// notYet gives a run back that is to begin later: something came for it meanwhile. While the database cannot be reached it is tried again: nobody else takes
// a run whose owner lives.
func (e *Engine) notYet(me *incarnation, key store.RunKey, epoch int64, at journal.Time) {
	release := &journal.Command{
		Namespace: key.Namespace, Run: key.Run, Lease: journal.LeaseRelease, WakeAt: at,
		Guards: journal.Guards{Owner: journal.Ownership{Incarnation: me.id, Epoch: epoch}},
	}
	for {
		_, err := me.committer.Do(e.hard, release)
		if !temporary(cairnerr.CodeOf(err)) || !e.pause() {
			break // with any other error, the run is not ours
		}
	}
	e.lookBy(at)
}
