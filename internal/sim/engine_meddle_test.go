package sim_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/sim"
	"github.com/cairn-workflow/cairn/store"
	"github.com/cairn-workflow/cairn/store/check"
)

// meddle pauses runs and lets them go on, notes things about them and changes their attributes, until it is stopped. Then no run is paused.
func (w *engineWorld) meddle(stop chan struct{}, st store.Store, ids []journal.ID) {
	ctx := w.t.Context()
	e, err := engine.New(ctx, st, engine.Config{Namespace: "default", Entropy: sim.NewActor(w.seed, "meddler")})
	require.NoError(w.t, err)
	a := sim.NewActor(w.seed, "what the meddler does")
	for over := false; !over; {
		select {
		case <-stop:
			over = true
			continue
		case <-time.After(time.Duration(1+a.Pick(700)) * time.Millisecond):
		}
		id := ids[a.Pick(len(ids))]
		switch a.Pick(5) {
		case 0, 1:
			_ = e.Pause(ctx, id, "look at it", "meddler") // it may have ended
		case 2:
			_ = e.Resume(ctx, id, "meddler")
		case 3:
			_ = e.SetAttributes(ctx, id, []journal.AttrChange{{Key: "meddler", Value: fmt.Sprint(a.Pick(3))}})
		case 4:
			require.NoError(w.t, e.Annotate(ctx, id, &journal.Annotated{Name: "seen", Actor: "meddler"}), "seed %d", w.seed)
		}
	}
	for _, id := range ids {
		_ = e.Resume(ctx, id, "meddler")
	}
	require.NoError(w.t, e.Stop(ctx))
}

// forkAll forks each run that has ended, from one of its keys on or without it: whatever the fork keeps, it comes to the same result.
func (w *engineWorld) forkAll(eng *engine.Engine, st store.Store, ids []journal.ID) {
	ctx := w.t.Context()
	a := sim.NewActor(w.seed, "forks")
	for i, id := range ids {
		keys := w.keysOf(st, id)
		if len(keys) == 0 {
			continue
		}
		key := keys[a.Pick(len(keys))]
		spec := journal.ForkSpec{From: key}
		if a.Pick(2) == 0 {
			spec = journal.ForkSpec{Drop: []string{key}}
		}
		fork := w.fork(eng, id, spec)
		wait, cancel := context.WithTimeout(ctx, time.Hour)
		run, err := eng.Wait(wait, fork)
		cancel()
		require.NoError(w.t, err, "seed %d: fork of run %d: %+v", w.seed, i, spec)
		if run.Error != nil {
			require.NoError(w.t, run.Error.Error, "seed %d: fork of run %d: %+v", w.seed, i, spec)
		}
		require.Equal(w.t, w.reference(fmt.Sprint(i)), string(run.Output), "seed %d: fork of run %d: %+v", w.seed, i, spec)
		differences, err := check.Views(ctx, st, "default", fork, journal.TimeOf(time.Now()))
		require.NoError(w.t, err)
		require.Empty(w.t, differences, "seed %d: fork of run %d", w.seed, i)
	}
}

// fork forks a run; the key makes sure that a fork whose answer was lost is not made twice.
func (w *engineWorld) fork(eng *engine.Engine, id journal.ID, spec journal.ForkSpec) journal.ID {
	spec.StartKey = "fork of " + id.String()
	for {
		fork, err := eng.Fork(w.t.Context(), id, "random", spec)
		if journal.CodeOf(err) != journal.CodeDiskFull {
			require.NoError(w.t, err, "seed %d", w.seed)
			return fork
		}
		time.Sleep(time.Millisecond)
	}
}

// keysOf returns the keys of a run, in the order of its journal.
func (w *engineWorld) keysOf(st store.Store, id journal.ID) []string {
	j, err := st.Journal(w.t.Context(), "default", id, 0)
	require.NoError(w.t, err)
	var keys []string
	for i := range j.Events {
		if key := j.Events[i].Key; key != "" && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}
