package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// life is one process: an engine with a store of its own.
func life(t *testing.T, path string, wfs ...*engine.Workflow) (*engine.Engine, store.Store) {
	t.Helper()
	return plannedLife(t, path, func(faultstore.Op, int) faultstore.Fault { return faultstore.Fault{} }, wfs...)
}

// plannedLife is a process whose writers follow a plan. The store that it returns has none.
func plannedLife(t *testing.T, path string, plan faultstore.Plan, wfs ...*engine.Workflow) (*engine.Engine, store.Store) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	e, err := engine.New(t.Context(), faultstore.Wrap(st, func(journal.ID) faultstore.Plan { return plan }), engine.Config{Poll: 20 * time.Millisecond, Lease: 2 * time.Second}, wfs...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = e.Stop(ctx)
		_ = st.Close()
	})
	return e, st
}

// counted is a workflow of n steps, each of which counts how often its body ran.
func counted(n int, count *sync.Map, hold func(run journal.ID, step int)) *engine.Workflow {
	return &engine.Workflow{Name: "counted", Run: func(b *engine.Branch, in journal.Payload) (journal.Payload, error) {
		out := string(in)
		for i := range n {
			p, err := b.Step(engine.StepSpec{Name: "s"}, func(_ context.Context, info engine.StepInfo) (journal.Payload, error) {
				c, _ := count.LoadOrStore(fmt.Sprint(info.Run, info.Key), new(atomic.Int32))
				c.(*atomic.Int32).Add(1)
				hold(info.Run, i)
				return journal.Payload(fmt.Sprint(i)), nil
			})
			if err != nil {
				return nil, err
			}
			out += string(p)
		}
		return journal.Payload(out), nil
	}}
}

// TestAPeerTakesOver kills a process in the middle of runs: a peer that was there all the time ends them, and what was finished
// before is not done again.
func TestAPeerTakesOver(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	var count sync.Map
	stuck := make(chan struct{})
	var reached sync.WaitGroup
	const runs, at = 20, 3
	reached.Add(runs)
	doomed, _ := life(t, path, counted(6, &count, func(_ journal.ID, step int) {
		if step == at {
			reached.Done()
			<-stuck
		}
	}))
	var ids []journal.ID
	for range runs {
		id, err := doomed.Start(t.Context(), engine.StartRequest{Workflow: "counted", Input: journal.Payload("in ")})
		require.NoError(t, err)
		ids = append(ids, id)
	}
	reached.Wait()
	peer, _ := life(t, path, counted(6, &count, func(journal.ID, int) {}))
	doomed.Kill()
	close(stuck)
	for _, id := range ids {
		run, err := peer.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Nil(t, run.Error)
		require.Equal(t, "in 012345", string(run.Output))
	}
	count.Range(func(key, n any) bool {
		times := n.(*atomic.Int32).Load()
		require.LessOrEqual(t, times, int32(2), "%v", key)
		return true
	})
	for _, id := range ids {
		for step := range at { // durable before the kill
			key := "s"
			if step > 0 {
				key = fmt.Sprintf("s#%d", step+1)
			}
			n, ok := count.Load(fmt.Sprint(id, key))
			require.True(t, ok)
			require.EqualValues(t, 1, n.(*atomic.Int32).Load(), "a step that was finished is not done again")
		}
	}
}

// TestWaitsSurvive stops a process whose runs wait for a timer and for a hook: the next one goes on with them.
func TestWaitsSurvive(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	wf := &engine.Workflow{Name: "waits", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		h, err := b.OpenHook(engine.HookSpec{Name: "approve", Token: "the-token"})
		if err != nil {
			return nil, err
		}
		if err := b.Sleep(engine.TimerSpec{Name: "nap", Until: func(now journal.Time) journal.Time { return now.Add(300 * time.Millisecond) }}); err != nil {
			return nil, err
		}
		d, err := h.Receive(b, nil, nil)
		return d.Payload, err
	}}
	bubble.Run(t, func(t *testing.T) {
		t.Helper()
		first, st := life(t, path, wf)
		id, err := first.Start(t.Context(), engine.StartRequest{Workflow: "waits"})
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		run, err := st.Run(t.Context(), "default", id, store.ResolveNone)
		require.NoError(t, err)
		require.Zero(t, run.Owner, "it waits, and nobody owns it")
		require.NotZero(t, run.WakeAt)
		require.NoError(t, first.Stop(t.Context()))

		second, _ := life(t, path, wf)
		_, err = second.Deliver(t.Context(), engine.Sending{Token: "the-token", Payload: journal.Payload("yes")})
		require.NoError(t, err)
		run, err = second.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Nil(t, run.Error)
		require.Equal(t, "yes", string(run.Output))
	})
}

func TestATimeoutIsDecidedByTheJournal(t *testing.T) {
	t.Parallel()
	wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		h, err := b.OpenHook(engine.HookSpec{Name: "h"})
		if err != nil {
			return nil, err
		}
		_, err = h.Receive(b, func(now journal.Time) journal.Time { return now.Add(20 * time.Millisecond) }, nil)
		return nil, err
	}}
	e, _ := life(t, t.TempDir()+"/x.db", wf)
	id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w"})
	require.NoError(t, err)
	run, err := e.Wait(t.Context(), id)
	require.NoError(t, err)
	require.NotNil(t, run.Error)
	require.Equal(t, cairnerr.CodeTimeout, run.Error.Error.Code)
}

func TestCancelReachesTheCode(t *testing.T) {
	t.Parallel()
	waiting := make(chan struct{})
	wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		close(waiting)
		return nil, b.Sleep(engine.TimerSpec{Name: "long", Until: func(now journal.Time) journal.Time { return now.Add(time.Hour) }})
	}}
	e, st := life(t, t.TempDir()+"/x.db", wf)
	id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w"})
	require.NoError(t, err)
	<-waiting
	require.NoError(t, e.Cancel(t.Context(), id, "enough", "me"))
	run, err := e.Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, journal.StatusCancelled, run.Status)
	events, err := st.Events(t.Context(), "default", store.EventFilter{Run: id, Resolve: store.ResolveAll}, store.Page{})
	require.NoError(t, err)
	require.Equal(t, journal.EventRunCancelled, events.Data[len(events.Data)-1].Type)
}

func TestFailures(t *testing.T) {
	t.Parallel()
	step := func(b *engine.Branch, body func() error) (journal.Payload, error) {
		return b.Step(engine.StepSpec{Name: "s"}, func(context.Context, engine.StepInfo) (journal.Payload, error) { return nil, body() })
	}
	tests := map[string]struct {
		run  func(b *engine.Branch) (journal.Payload, error)
		code cairnerr.Code
		bug  bool // in the workflow's own code: the run is parked
	}{
		"a panic":           {func(*engine.Branch) (journal.Payload, error) { panic("boom") }, cairnerr.CodePanic, true},
		"a panic in a step": {func(b *engine.Branch) (journal.Payload, error) { return step(b, func() error { panic("boom") }) }, cairnerr.CodePanic, false},
		"an error with code": {func(b *engine.Branch) (journal.Payload, error) {
			return step(b, func() error { return cairnerr.Errorf("declined", "no") })
		}, "declined", false},
		"a bad name": {func(b *engine.Branch) (journal.Payload, error) {
			return b.Step(engine.StepSpec{Name: "a/b"}, nil)
		}, cairnerr.CodeMalformed, true},
		"a key used twice": {func(b *engine.Branch) (journal.Payload, error) {
			if _, err := b.Step(engine.StepSpec{Name: "s", Key: "k"}, value("1")); err != nil {
				return nil, err
			}
			return b.Step(engine.StepSpec{Name: "s", Key: "k"}, value("2"))
		}, cairnerr.CodeDuplicateKey, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) { return test.run(b) }}
			e, _ := life(t, t.TempDir()+"/x.db", wf)
			id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w"})
			require.NoError(t, err)
			run, err := e.Wait(t.Context(), id)
			if test.bug {
				require.Equal(t, cairnerr.CodeParked, cairnerr.CodeOf(err), "%v", err)
				now, err := e.Situation(t.Context(), id)
				require.NoError(t, err)
				require.Equal(t, test.code, now.Parked.Error.Code)
				require.NotEmpty(t, now.Parked.Error.Stack)
				return
			}
			require.NoError(t, err)
			require.Equal(t, journal.StatusFailed, run.Status)
			require.Equal(t, test.code, run.Error.Error.Code)
		})
	}
}

// TestChangedCodeIsParked executes a run with code that wants a sleep where a step is recorded.
func TestChangedCodeIsParked(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	nap := func(now journal.Time) journal.Time { return now.Add(200 * time.Millisecond) }
	first, _ := life(t, path, &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		if _, err := b.Step(engine.StepSpec{Name: "x"}, value("1")); err != nil {
			return nil, err
		}
		return nil, b.Sleep(engine.TimerSpec{Name: "nap", Until: nap})
	}})
	id, err := first.Start(t.Context(), engine.StartRequest{Workflow: "w"})
	require.NoError(t, err)
	require.NoError(t, first.Stop(t.Context()))
	_, st := life(t, path, &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		return nil, b.Sleep(engine.TimerSpec{Name: "x", Until: nap})
	}})
	require.Eventually(t, func() bool {
		run, err := st.Run(t.Context(), "default", id, store.ResolveNone)
		return err == nil && run.ParkedAt != 0
	}, 5*time.Second, 5*time.Millisecond)
}
