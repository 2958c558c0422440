package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/check"
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// TestRequestsBeforeEachBatch lets another process ask for something just before the owner of a run begins a batch, for each batch in turn: what the owner
// remembers of the run is old then. Whatever it writes, the request stays, the views follow from the journal, and the run ends.
func TestRequestsBeforeEachBatch(t *testing.T) {
	t.Parallel()
	requests := map[string][]func(e *engine.Engine, run journal.ID) error{
		"cancel": {func(e *engine.Engine, run journal.ID) error { return e.Cancel(t.Context(), run, "enough", "") }},
		"pause and resume": {
			func(e *engine.Engine, run journal.ID) error { return e.Pause(t.Context(), run, "wait", "") },
			func(e *engine.Engine, run journal.ID) error { return e.Resume(t.Context(), run, "") },
		},
		"send": {func(e *engine.Engine, _ journal.ID) error {
			_, err := e.Deliver(t.Context(), engine.Sending{Token: "t", Key: "early", Payload: journal.Payload("!")})
			return err
		}},
	}
	for name, deeds := range requests {
		for n := range 8 {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				t.Parallel()
				overtake(t, n, deeds)
			})
		}
	}
}

// overtake executes a run in one process. Another one does its deeds before the n-th batch of the first after the start, and before those that follow.
func overtake(t *testing.T, n int, deeds []func(*engine.Engine, journal.ID) error) {
	t.Helper()
	path := t.TempDir() + "/x.db"
	st, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	other, _ := life(t, path)
	var run atomic.Pointer[journal.ID]
	var batches atomic.Int64
	var plan faultstore.Plan = func(op faultstore.Op, _ int) faultstore.Fault { // one batch at a time
		if id := run.Load(); op == faultstore.OpBegin && id != nil {
			if i := int(batches.Add(1)) - 1 - n; i >= 0 && i < len(deeds) {
				_ = deeds[i](other, *id) // it may be too early, or too late
			}
		}
		return faultstore.Fault{}
	}
	wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		nap := func(now journal.Time) journal.Time { return now.Add(20 * time.Millisecond) }
		if err := b.Sleep(engine.TimerSpec{Name: "nap", Until: nap}); err != nil {
			return nil, err
		}
		h, err := b.OpenHook(engine.HookSpec{Name: "h", Token: "t"})
		if err != nil {
			return nil, err
		}
		for range 3 {
			if _, err := h.Receive(b, nil, nil); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}}
	e, err := engine.New(t.Context(), faultstore.Wrap(st, func(journal.ID) faultstore.Plan { return plan }), engine.Config{Poll: 20 * time.Millisecond}, wf)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Stop(context.WithoutCancel(t.Context()))) }()
	id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w"})
	require.NoError(t, err)
	run.Store(&id)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.Eventually(t, func() bool { // it is answered until it ends, and let go on if it rests
		for i := range 3 {
			_, _ = other.Deliver(ctx, engine.Sending{Token: "t", Key: fmt.Sprint(i), Payload: journal.Payload("!")})
		}
		got, err := st.Run(ctx, "default", id, store.ResolveNone)
		if err == nil && got.ParkedAt != 0 && got.Owner.IsZero() {
			_ = other.Resume(ctx, id, "")
		}
		return err == nil && got.Status.Terminal()
	}, time.Minute, 30*time.Millisecond)
	differences, err := check.Views(ctx, st, "default", id, journal.TimeOf(time.Now()))
	require.NoError(t, err)
	require.Empty(t, differences)
}
