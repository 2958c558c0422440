package engine

import (
	"container/list"
	"context"
	"slices"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// announce gives the result of a run that ended here to those who wait for it, so that they need not read it.
func (e *Engine) announce(key store.RunKey, run *journal.Run, end journal.Data) {
	ended := *run
	store.RunOutcome(&ended, end)
	e.mu.Lock()
	waiting := e.results[key]
	delete(e.results, key)
	e.recent.put(key, &ended)
	parent := e.execs[store.RunKey{Namespace: key.Namespace, Run: run.Parent}]
	e.mu.Unlock()
	for _, w := range waiting {
		own := ended
		w.over <- &own
	}
	if parent != nil {
		own := ended
		parent.noteChild(&own)
		parent.wake()
	}
}

// Wait waits until a run has ended, and returns it with its output or error. When the run ends in this process, the
// caller is told from memory. It reads the database only if this process does not own the run, or if there is news: see
// watchRuns.
func (e *Engine) Wait(ctx context.Context, id journal.ID) (*journal.Run, error) {
	key := store.RunKey{Namespace: e.namespace, Run: id}
	n := e.numbers.Add(1)
	var paused journal.Time // by hand: somebody means it to go on
	for look := false; ; look = true {
		ended, w := e.awaitRun(key, look, paused)
		if ended != nil {
			return ended, nil
		}
		if look = look || w.watched; look {
			stopped := e.hasEnded()
			run, err := e.store.Run(ctx, key.Namespace, id, store.ResolveAll)
			if err == nil && run.ParkedAt != 0 && run.ParkedAt != paused {
				paused, err = e.pausedAt(ctx, run)
			}
			if err == nil && !run.Status.Terminal() {
				err = stopped
			}
			if err != nil || run.Status.Terminal() {
				e.leaveRun(key, w)
				return run, err
			}
		}
		ended, err := e.told(ctx, w, n)
		e.leaveRun(key, w)
		if ended != nil || err != nil {
			return ended, err
		}
	}
}

// runWaiter is a caller that waits for a run.
type runWaiter struct {
	over    chan *journal.Run // gets the run when it ends here; it is closed if there may be something to read
	watched bool              // watchRuns looks at the run
	paused  journal.Time      // since when the run was paused by hand, as far as the caller knows
}

// told waits until a caller is told of the end of its run. It returns nothing if the caller has to look.
func (e *Engine) told(ctx context.Context, w *runWaiter, n int64) (ended *journal.Run, err error) {
	var look <-chan time.Time
	if !w.watched { // this process owns the run, but it may be declared dead, or another one may end the run
		timer := time.NewTimer(e.cfg.Poll)
		defer timer.Stop()
		look = timer.C
	}
	select {
	case ended = <-w.over:
	case <-look:
	case <-ctx.Done():
	case <-e.ended:
	}
	e.turns.Take("wait", n)
	if ended == nil {
		select {
		case ended = <-w.over: // it has come, too
		default:
		}
	}
	if ended == nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return ended, nil
}

// hasEnded is the error of who waits for something when the engine was stopped.
func (e *Engine) hasEnded() error {
	select {
	case <-e.ended:
		return errStopped()
	default:
		return nil
	}
}

func errStopped() error { return cairnerr.Errorf(cairnerr.CodeClosed, "the engine was stopped") }

// pausedAt returns since when a run is paused by hand. The error says that it is parked for another reason, and needs somebody who looks at it.
func (e *Engine) pausedAt(ctx context.Context, run *journal.Run) (journal.Time, error) {
	now, err := e.Situation(ctx, run.ID)
	if err == nil && now.Parked != nil && !now.Parked.Asked {
		err = cairnerr.Errorf(cairnerr.CodeParked, "%s is parked, and goes on after Resume: %s", journal.PrefixRun.Format(run.ID), now.Parked.Error)
	}
	return run.ParkedAt, err
}

// awaitRun returns a run that ended here lately, or begins to wait for it. A run that this process does not own is
// watched in the database, and so is any other if the caller asks for that.
func (e *Engine) awaitRun(key store.RunKey, watch bool, paused journal.Time) (*journal.Run, *runWaiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if run := e.recent.get(key); run != nil {
		return run, nil
	}
	w := &runWaiter{over: make(chan *journal.Run, 1), watched: watch || !e.owns(key), paused: paused}
	e.results[key] = append(e.results[key], w)
	if w.watched {
		e.watchRun(key)
	}
	return nil, w
}

// leaveRun ends waiting.
func (e *Engine) leaveRun(key store.RunKey, w *runWaiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if waiting := slices.DeleteFunc(e.results[key], func(o *runWaiter) bool { return o == w }); len(waiting) > 0 {
		e.results[key] = waiting
		return
	}
	delete(e.results, key)
	e.unwatchRun(key)
}

// The most that is remembered of runs that ended here.
const (
	maxRecentBytes  = 32 << 20
	maxRecentOutput = 4096 // of one output
)

// recent remembers the results of runs that ended here lately: who starts many and then asks for their results need not read them all. The end of a run
// is final, so what is remembered stays true.
type recent struct {
	order list.List // of store.RunKey, the oldest first
	runs  map[store.RunKey]*journal.Run
	bytes int
}

func newRecent() *recent { return &recent{runs: map[store.RunKey]*journal.Run{}} }

func (r *recent) put(key store.RunKey, run *journal.Run) {
	if len(run.Output) > maxRecentOutput || r.runs[key] != nil {
		return
	}
	r.runs[key] = run
	r.bytes += recentBytes(run)
	for r.order.PushBack(key); r.bytes > maxRecentBytes; {
		if oldest, ok := r.order.Remove(r.order.Front()).(store.RunKey); ok {
			r.drop(oldest)
		}
	}
}

// drop forgets a run.
func (r *recent) drop(key store.RunKey) {
	if run := r.runs[key]; run != nil {
		r.bytes -= recentBytes(run)
		delete(r.runs, key)
	}
}

// recentBytes is roughly what remembering a run costs.
func recentBytes(run *journal.Run) int { return 800 + len(run.Output) }

// get returns a copy: what is returned may be changed by its owner.
func (r *recent) get(key store.RunKey) *journal.Run {
	run := r.runs[key]
	if run == nil {
		return nil
	}
	own := *run
	own.Output = slices.Clone(run.Output)
	return &own
}
