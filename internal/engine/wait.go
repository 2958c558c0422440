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
	for _, ch := range waiting {
		own := ended
		ch <- &own
	}
	if parent != nil {
		own := ended
		parent.noteChild(&own)
		parent.wake()
	}
}

// Wait waits until a run has ended, and returns it with its output or error. A run that ends in this process is told at once; for
// others the database is asked from time to time.
func (e *Engine) Wait(ctx context.Context, id journal.ID) (*journal.Run, error) {
	key := store.RunKey{Namespace: e.cfg.Namespace, Run: id}
	n := e.numbers.Add(1)
	var paused journal.Time // by hand: somebody means it to go on
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, e.cfg.Poll) {
		ended, over, here := e.over(key)
		if ended != nil {
			return ended, nil
		}
		look := !here || pause > 10*time.Millisecond // another process may have ended the run
		if look {
			run, err := e.store.Run(ctx, key.Namespace, id, store.ResolveAll)
			if err == nil && run.ParkedAt != 0 && run.ParkedAt != paused {
				paused, err = e.pausedAt(ctx, run)
			}
			if err != nil || run.Status.Terminal() {
				e.notOver(key, over)
				return run, err
			}
		}
		timer := time.NewTimer(pause)
		select {
		case ended = <-over: // nil if the execution here is over for another reason
		case <-timer.C:
		case <-ctx.Done():
		case <-e.ended:
		}
		timer.Stop()
		e.turns.Take("wait", n)
		e.notOver(key, over)
		if ended == nil {
			select {
			case ended = <-over: // it has come, too
			default:
			}
		}
		if ended != nil {
			return ended, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := e.hasEnded(); err != nil && look {
			return nil, err
		}
	}
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

// over returns a run that ended here lately, or a channel that gets it when it ends in this process, and is closed when its execution here is
// over for another reason; and whether it is executed here.
func (e *Engine) over(key store.RunKey) (run *journal.Run, over chan *journal.Run, here bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if run := e.recent.get(key); run != nil {
		return run, nil, true
	}
	over = make(chan *journal.Run, 1)
	e.results[key] = append(e.results[key], over)
	return nil, over, e.execs[key] != nil
}

// notOver takes back what over has arranged.
func (e *Engine) notOver(key store.RunKey, ch chan *journal.Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting := slices.DeleteFunc(e.results[key], func(c chan *journal.Run) bool { return c == ch })
	if len(waiting) == 0 {
		delete(e.results, key)
	} else {
		e.results[key] = waiting
	}
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
