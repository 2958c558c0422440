package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// TestPoison has a step that kills its process whenever it is begun: the run is parked, and goes on when somebody has mended that.
func TestPoison(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Memory(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	var mended atomic.Bool
	begun := make(chan struct{})
	wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		return b.Step(engine.StepSpec{Name: "deadly"}, func(ctx context.Context, _ engine.StepInfo) (journal.Payload, error) {
			if !mended.Load() {
				begun <- struct{}{}
				<-ctx.Done() // the process is killed
			}
			return journal.Payload("alive"), nil
		})
	}}
	begin := func() *engine.Engine {
		e, err := engine.New(t.Context(), st, engine.Config{Poll: 10 * time.Millisecond}, wf)
		require.NoError(t, err)
		return e
	}
	e := begin()
	id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w"})
	require.NoError(t, err)
	deaths := 0
	parked := func() bool {
		run, err := st.Run(t.Context(), "default", id, store.ResolveNone)
		require.NoError(t, err)
		return run.ParkedAt != 0
	}
	for !parked() {
		select {
		case <-begun:
			deaths++
			require.NoError(t, st.Fence(t.Context(), e.Kill()))
			e = begin()
		case <-time.After(10 * time.Millisecond):
		}
	}
	require.Equal(t, 4, deaths, "the first start is not written down, the next three are")
	now, err := e.Situation(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, cairnerr.CodePoison, now.Parked.Error.Code)
	mended.Store(true)
	otherBuild := func() string { return "another build" }
	other, err := engine.New(t.Context(), st, engine.Config{Poll: 10 * time.Millisecond, Build: otherBuild}, wf)
	require.NoError(t, err)
	time.Sleep(250 * time.Millisecond)
	require.True(t, parked(), "another build does not try what may kill it")
	require.NoError(t, other.Stop(t.Context()))
	require.NoError(t, e.Resume(t.Context(), id, "somebody"))
	run, err := e.Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "alive", string(run.Output))
	require.NoError(t, e.Stop(t.Context()))
}

// TestAStoppedEngineIsNotADeadOne stops an engine in the middle of a step: the run is given back with what it has done, and is no suspect.
func TestAStoppedEngineIsNotADeadOne(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Memory(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	begun, hold := make(chan struct{}, 2), true
	wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		if _, err := b.Step(engine.StepSpec{Name: "first"}, func(context.Context, engine.StepInfo) (journal.Payload, error) { return nil, nil }); err != nil {
			return nil, err
		}
		return b.Step(engine.StepSpec{Name: "second"}, func(ctx context.Context, _ engine.StepInfo) (journal.Payload, error) {
			begun <- struct{}{}
			if hold {
				<-ctx.Done()
				return nil, ctx.Err() // must not be taken for a failure
			}
			return journal.Payload("done"), nil
		})
	}}
	first, err := engine.New(t.Context(), st, engine.Config{}, wf)
	require.NoError(t, err)
	id, err := first.Start(t.Context(), engine.StartRequest{Workflow: "w"})
	require.NoError(t, err)
	<-begun
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_ = first.Stop(over)
	run, err := st.Run(t.Context(), "default", id, store.ResolveNone)
	require.NoError(t, err)
	require.True(t, run.Owner.IsZero())
	require.Greater(t, run.WakeAt, journal.WakeAfterDeath, "due, and not as the run of a dead process")

	hold = false
	second, err := engine.New(t.Context(), st, engine.Config{}, wf)
	require.NoError(t, err)
	run, err = second.Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "done", string(run.Output))
	require.NoError(t, second.Stop(t.Context()))
}

// TestOrderlyRestarts stops engines again and again in the middle of a long step: nobody takes it for poison, and no attempt is used up.
func TestOrderlyRestarts(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Memory(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	begun, last := make(chan struct{}, 1), atomic.Bool{}
	wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		return b.Step(engine.StepSpec{Name: "long", Timeout: time.Hour, Retry: engine.Retry{Attempts: 2}}, func(ctx context.Context, info engine.StepInfo) (journal.Payload, error) {
			if last.Load() {
				return journal.Payload{byte('0' + info.Attempt)}, nil
			}
			begun <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		})
	}}
	var id journal.ID
	for n := range 6 {
		e, err := engine.New(t.Context(), st, engine.Config{Poll: 10 * time.Millisecond}, wf)
		require.NoError(t, err)
		if n == 0 {
			id, err = e.Start(t.Context(), engine.StartRequest{Workflow: "w"})
			require.NoError(t, err)
		}
		if n == 5 {
			run, err := e.Wait(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, "1", string(run.Output), "it is still the first attempt")
			require.NoError(t, e.Stop(t.Context()))
			return
		}
		<-begun
		last.Store(n == 4)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		_ = e.Stop(over)
	}
}
