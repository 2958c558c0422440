package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/internal/store"
)

const (
	// It is looked whether a transaction of the user's has ended after the first pause and then after longer ones, up to the last: most transactions
	// are short. That reads a flag in memory.
	firstPause = time.Millisecond
	lastPause  = 20 * time.Millisecond
	// watchAfter is for how long runs are looked for in the database after their transaction has ended: its commit may still be under way.
	// Those that come later are found by who looks from time to time.
	watchAfter = time.Second
	// watchKeys is the most runs of one transaction that are looked for: one of them is enough for a hint.
	watchKeys = 16
)

// watcher gives a hint when a transaction of the user's has brought new runs. SQLite itself tells nobody.
type watcher struct {
	s *Store

	mu    sync.Mutex
	open  map[*sql.Tx]*watched
	pause time.Duration
}

// watched is a transaction in which runs were started.
type watched struct {
	runs  []store.RunKey
	ended time.Time     // when that was seen
	pause time.Duration // between the looks after that
	next  time.Time
}

// watch looks for a run when its transaction has ended.
func (w *watcher) watch(ctx context.Context, tx *sql.Tx, run store.RunKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[*sql.Tx]*watched{}
		w.s.asides.run(ctx, w.run)
	}
	x := w.open[tx]
	if x == nil {
		x = &watched{pause: firstPause}
		w.open[tx] = x
	}
	if len(x.runs) == watchKeys {
		x.runs = x.runs[1:]
	}
	x.runs = append(x.runs, run)
	w.pause = firstPause
}

// run watches while there is something to watch and the store is open.
func (w *watcher) run(ctx context.Context) {
	timer := time.NewTimer(firstPause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		news := map[string]bool{}
		for tx, runs := range w.ended(ctx) {
			came := w.look(ctx, runs)
			maps.Copy(news, came)
			w.forget(tx, came)
		}
		w.s.hub.tell(slices.Sorted(maps.Keys(news))) // all at once: how many hints they become must not be up to chance
		pause, more := w.next()
		if !more {
			return
		}
		timer.Reset(pause)
	}
}

// next returns the pause before the next look, and whether there is something to look for.
func (w *watcher) next() (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.open) == 0 || w.s.closed.Load() {
		w.open = nil
		return 0, false
	}
	w.pause = min(w.pause*5/4, lastPause)
	return w.pause, true
}

// ended returns the runs of transactions that have ended and that are to be looked for now.
func (w *watcher) ended(ctx context.Context) map[*sql.Tx][]store.RunKey {
	w.mu.Lock()
	defer w.mu.Unlock()
	ended := map[*sql.Tx][]store.RunKey{}
	now := time.Now()
	for tx, x := range w.open {
		if x.ended.IsZero() && over(ctx, tx) {
			x.ended, x.next = now, now
		}
		if !x.ended.IsZero() && !now.Before(x.next) {
			ended[tx] = slices.Clone(x.runs)
			x.next = now.Add(x.pause)
			x.pause *= 2
		}
	}
	return ended
}

// look returns the namespaces in which a run has come.
func (w *watcher) look(ctx context.Context, runs []store.RunKey) map[string]bool {
	came := map[string]bool{}
	for _, run := range runs {
		if !came[run.Namespace] && w.there(ctx, run) {
			came[run.Namespace] = true
		}
	}
	return came
}

// forget drops the runs of namespaces for which a hint is given. After a while it drops all.
func (w *watcher) forget(tx *sql.Tx, came map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.open[tx]
	x.runs = slices.DeleteFunc(x.runs, func(run store.RunKey) bool { return came[run.Namespace] })
	if len(x.runs) == 0 || time.Since(x.ended) > watchAfter {
		delete(w.open, tx)
	}
}

// there reports whether a run is committed.
func (w *watcher) there(ctx context.Context, run store.RunKey) bool {
	ctx, cancel := context.WithTimeout(ctx, watchAfter)
	defer cancel()
	ns, ok, err := w.s.namespaceNo(ctx, run.Namespace)
	if err != nil || !ok {
		return false
	}
	var found int
	return w.s.one(ctx, []any{&found}, `select 1 from cairn_runs where ns = ? and id = ?`, ns, run.Run[:]) == nil
}

// over reports whether a transaction has ended, or is just about to be committed. The statement is of no database, so that an open transaction
// refuses it before it comes to the driver: nothing is executed, and the user can go on with it meanwhile.
func over(ctx context.Context, tx *sql.Tx) bool {
	err := tx.StmtContext(ctx, new(sql.Stmt)).Close() //nolint:sqlclosecheck // it was not prepared anywhere
	return errors.Is(err, sql.ErrTxDone)
}
