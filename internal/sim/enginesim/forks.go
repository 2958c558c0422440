package enginesim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/sim"
	"github.com/cairn-workflow/cairn/internal/store"
)

// forkAll forks runs that have ended, from one of their keys on or without it: whatever the fork keeps, it comes to the same result.
func (w *world) forkAll(eng *engine.Engine) {
	a := sim.NewActor(w.plan.Seed, "forks")
	for i, id := range w.ids {
		keys := w.keysOf(id)
		if len(keys) == 0 || w.audit.runs[id].cancelled {
			continue
		}
		key := keys[a.Pick(len(keys))]
		spec := journal.ForkSpec{From: key}
		if a.Pick(2) == 0 {
			spec = journal.ForkSpec{Drop: []string{key}}
		}
		spec.StartKey = "fork of " + id.String() // one whose answer was lost is not made twice
		fork, err := eng.Fork(context.Background(), id, "random", spec)
		if err != nil {
			w.fail("fork of %s: %w", w.nameOf(id), err)
			continue
		}
		w.name(fork, "fork of "+w.nameOf(id))
		w.awaitEnd(eng, fork, w.reference(fmt.Sprint(w.plan.Runs[i])))
	}
}

// keysOf returns the keys of a run, in the order of its journal.
func (w *world) keysOf(id journal.ID) []string {
	var keys []string
	for _, e := range w.audit.runs[id].events {
		if e.Key != "" && !slices.Contains(keys, e.Key) {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// replays is how many beginnings of each journal the code is held against, beside the whole.
const replays = 4

// replayAll holds the code against the journals of all runs, as they are and as they were after some of their events: whatever happened to the processes, the
// code does what was recorded, and goes on from wherever a record stops.
func (w *world) replayAll(eng *engine.Engine) {
	a := sim.NewActor(w.plan.Seed, "replays")
	for _, id := range sortedIDs(w.audit.runs) {
		events := w.audit.runs[id].events
		if w.audit.runs[id].cancelled {
			continue
		}
		for k := range replays + 1 {
			n := len(events)
			if k > 0 {
				n = 1 + a.Pick(n)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			difference, err := eng.ReplayEvents(ctx, namespace, id, events[:n])
			cancel()
			if err != nil || difference != nil {
				w.fail("replay of %s after event %d: %v, %v", w.nameOf(id), n, difference, err)
				return
			}
		}
	}
}

// allRuns returns the runs in the database: those that were started, their children, forks.
func allRuns(st store.Store) ([]*journal.Run, error) {
	list, err := st.Runs(context.Background(), namespace, store.RunFilter{}, store.Page{Limit: store.MaxLimit})
	return list.Data, err
}
