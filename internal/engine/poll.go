package engine

import (
	"time"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/store"
)

// lookNow asks the poller to look for due runs.
func (e *Engine) lookNow() {
	select {
	case e.look <- struct{}{}:
	default:
	}
}

// poll looks for runs that are due: when it is asked to, when another process hints at something, and from time to time.
func (e *Engine) poll() {
	hints, err := e.store.Notifier().Listen(e.life)
	if err != nil {
		hints = nil
	}
	tick := time.NewTicker(e.cfg.Poll)
	defer tick.Stop()
	for {
		e.takeDue()
		select {
		case <-e.life.Done():
			return
		case <-e.look:
		case <-hints:
		case <-tick.C:
		}
	}
}

// takeDue takes the runs that are due, as many as there is room for.
func (e *Engine) takeDue() {
	names := make([]string, 0, len(e.workflows))
	for name := range e.workflows {
		names = append(names, name)
	}
	const page = 200
	for e.life.Err() == nil {
		due, err := e.store.Due(e.life, store.DueFilter{Namespace: e.cfg.Namespace, Workflows: names, Now: e.now(), Owner: e.self, Limit: page})
		if err != nil {
			return // the next look will tell
		}
		took := false
		for _, run := range due {
			took = e.takeOne(run) || took
		}
		if len(due) < page || !took {
			return
		}
	}
}

// takeOne wakes a run that is in memory, or claims it and executes it from the beginning.
func (e *Engine) takeOne(run store.DueRun) bool {
	key := store.RunKey{Namespace: run.Namespace, Run: run.Run}
	e.mu.Lock()
	x := e.execs[key]
	e.mu.Unlock()
	if x != nil {
		if run.Owner == e.self {
			x.mu.Lock()
			running := x.phase == phaseRunning
			x.mu.Unlock()
			if running {
				x.refresh()
			}
			return false
		}
		x.wake()
		return true
	}
	if !e.admit() {
		return false
	}
	if e.claim(key, run.WakeAt == store.WakeAfterDeath) {
		return true
	}
	e.release()
	return false
}

// claim takes a run and starts to execute it. It reports whether it took it. In a run whose last owner died while it was doing something, a
// step may be what killed it: there starts are written down before the bodies run.
func (e *Engine) claim(key store.RunKey, suspect bool) bool {
	cmd := &journal.Command{Namespace: key.Namespace, Run: key.Run, Lease: journal.LeaseClaim}
	cmd.Guards.Owner.Incarnation = e.self
	if _, err := e.committer.Do(e.life, cmd); err != nil {
		return false
	}
	j, err := e.store.Journal(e.hard, key.Namespace, key.Run, 0)
	if err != nil || j.Run.Owner != e.self {
		return false
	}
	for i := range j.Events {
		if j.Events[i].Data == nil {
			return false // a newer program's: it stays ours until we are gone, and does nothing
		}
	}
	wf := e.workflows[j.Run.Workflow]
	x := newExec(e, key, wf, j.Run)
	x.suspect = suspect
	if created, ok := j.Events[0].Data.(*journal.RunCreated); ok {
		x.input = created.Input
	}
	x.observe(j.Run, j.Events)
	if j.Run.Status == journal.StatusPending {
		x.pending = append(x.pending, journal.Event{Data: &journal.RunStarted{}})
	}
	e.keep(x)
	x.start()
	return true
}
