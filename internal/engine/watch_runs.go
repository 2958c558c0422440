package engine

import (
	"context"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Callers wait for runs: for their end, or for an answer. What happens in this process they are told from memory.
// What happens elsewhere is in the database. One goroutine looks for that, for all callers at once: when the store
// gives a hint, and from time to time, because hints can be lost. Callers that have something to read then do so
// themselves.

// idlePart is the part of its time for which the watcher does not look, at least: 9 of 10.
const idlePart = 9

// mostPause is the longest pause because of a look that took long: if the database held it up, it must not hold up the
// next ones.
const mostPause = 10 * time.Second

// owns reports whether this process executes a run and owns it. The lock is held.
func (e *Engine) owns(key store.RunKey) bool {
	x := e.execs[key]
	return x != nil && x.place == placeActive
}

// watchRun lets the watcher look at a run. The lock is held.
func (e *Engine) watchRun(key store.RunKey) {
	if e.watched[key] {
		return
	}
	e.watched[key] = true
	select {
	case e.watchAny <- struct{}{}:
	default:
	}
}

// unwatchRun ends that if nobody waits for the run any more. The lock is held.
func (e *Engine) unwatchRun(key store.RunKey) {
	if len(e.results[key]) == 0 && len(e.replies[key]) == 0 {
		delete(e.watched, key)
	}
}

// releasedRun is called when a run is not owned any more and waits in memory. Another process may go on with it. The
// lock is held.
func (e *Engine) releasedRun(key store.RunKey) {
	for _, waiting := range e.replies[key] {
		for _, w := range waiting {
			w.watched = true
		}
	}
	if len(e.results[key]) > 0 || len(e.replies[key]) > 0 {
		e.watchRun(key)
	}
}

// watchRuns looks at the runs that callers wait for. It does nothing while there are none.
func (e *Engine) watchRuns() {
	for {
		select {
		case <-e.life.Done():
		case <-e.watchAny:
		}
		e.turns.Take("runs", 0)
		if e.life.Err() != nil {
			return
		}
		e.watchWhileAsked()
	}
}

// watchWhileAsked looks at runs until there are none that somebody waits for.
func (e *Engine) watchWhileAsked() {
	ctx, stop := context.WithCancel(e.life)
	defer stop()
	hints, err := e.store.Notifier().ListenRuns(ctx, e.isOwnWriter)
	if err != nil {
		hints = nil // then the clock has to do
	}
	hinted := map[journal.ID]bool{}
	var free time.Time    // when a hint may be followed
	regular := time.Now() // when all runs are looked at: what happened before the store was asked for hints is seen now
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next := regular
		if len(hinted) > 0 && free.Before(regular) {
			next = free
		}
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
		case run, open := <-hints:
			hinted[run] = open
		case <-timer.C:
		}
		e.turns.Take("runs", 0)
		if ctx.Err() != nil {
			return
		}
		for more := true; more; { // several may have come at once: one look is enough for all
			select {
			case run, open := <-hints:
				hinted[run], more = open, open
			default:
				more = false
			}
		}
		began := time.Now()
		all := !began.Before(regular)
		if !all && (len(hinted) == 0 || began.Before(free)) {
			continue
		}
		runs := e.watchedRuns(hinted, all)
		if all && len(runs) == 0 {
			return
		}
		clear(hinted)
		for namespace, ids := range runs {
			e.In(namespace).lookAtRuns(ctx, ids)
		}
		took := time.Since(began)
		free = time.Now().Add(idlePart * took)
		if all {
			regular = time.Now().Add(max(e.cfg.Poll, min(idlePart*took, mostPause)))
		}
	}
}

// isOwnWriter reports whether a writer belongs to this engine, which tells callers itself.
func (e *Engine) isOwnWriter(writer journal.ID) bool {
	_, own := e.lives.Load(writer)
	return own
}

// watchedRuns returns the runs to look at, by namespace: all of them, or those that were hinted at. The zero id hints at any.
func (e *Engine) watchedRuns(hinted map[journal.ID]bool, all bool) map[string][]journal.ID {
	e.mu.Lock()
	defer e.mu.Unlock()
	runs := map[string][]journal.ID{}
	for key := range e.watched {
		if all || hinted[key.Run] || hinted[journal.ID{}] {
			runs[key.Namespace] = append(runs[key.Namespace], key.Run)
		}
	}
	return runs
}

// lookAtRuns reads how far runs have come, and wakes the callers that have something to read.
func (e *Engine) lookAtRuns(ctx context.Context, runs []journal.ID) {
	heads, err := e.store.Heads(ctx, e.namespace, runs)
	if temporary(cairnerr.CodeOf(err)) || ctx.Err() != nil {
		return // the next look will tell
	}
	found := make(map[journal.ID]*store.RunHead, len(heads))
	for i := range heads {
		found[heads[i].Run] = &heads[i]
	}
	for _, run := range runs {
		e.wakeCallers(store.RunKey{Namespace: e.namespace, Run: run}, found[run])
	}
}

// wakeCallers lets those who wait for a run read it, as far as its head shows that there is news. Nil: the run could
// not be read, or is not there; then they find out why.
func (e *Engine) wakeCallers(key store.RunKey, head *store.RunHead) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var left []*runWaiter
	for _, w := range e.results[key] {
		if head != nil && !head.Status.Terminal() && (head.ParkedAt == 0 || head.ParkedAt == w.paused) {
			left = append(left, w)
			continue
		}
		close(w.over)
	}
	if e.results[key] = left; len(left) == 0 {
		delete(e.results, key)
	}
	e.wakeReplies(key, func(w *replyWaiter) bool {
		return w.watched && (head == nil || head.Status.Terminal() || head.Seq > w.seen)
	})
}
