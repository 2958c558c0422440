package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

func open(t *testing.T, path string, wfs ...*engine.Workflow) *engine.Engine {
	t.Helper()
	st, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	e, err := engine.New(t.Context(), st, engine.Config{Poll: 50 * time.Millisecond}, wfs...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = e.Stop(ctx)
		_ = st.Close()
	})
	return e
}

func value(s string) engine.StepBody {
	return func(context.Context, engine.StepInfo) (journal.Payload, error) { return journal.Payload(s), nil }
}

func TestSteps(t *testing.T) {
	t.Parallel()
	wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, in journal.Payload) (journal.Payload, error) {
		out := string(in)
		for i := range 3 {
			p, err := b.Step(engine.StepSpec{Name: "s"}, value(fmt.Sprint(i)))
			if err != nil {
				return nil, err
			}
			out += string(p)
		}
		if err := b.Sleep(engine.TimerSpec{Name: "nap", Until: func(now journal.Time) journal.Time { return now.Add(30 * time.Millisecond) }}); err != nil {
			return nil, err
		}
		return journal.Payload(out), nil
	}}
	e := open(t, t.TempDir()+"/x.db", wf)
	id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w", Input: journal.Payload("in")})
	require.NoError(t, err)
	run, err := e.Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "in012", string(run.Output))
}

func TestHookRetryBranches(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	tokens := make(chan string, 1)
	wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		h, err := b.OpenHook(engine.HookSpec{Name: "approve"})
		if err != nil {
			return nil, err
		}
		tokens <- h.Token()
		p, err := h.Receive(b, func(now journal.Time) journal.Time { return now.Add(time.Minute) }, nil)
		if err != nil {
			return nil, err
		}
		var futs []*engine.Future
		for i := range 5 {
			f, err := b.Go(engine.BranchSpec{Name: "branch"}, func(b *engine.Branch) (journal.Payload, error) {
				return b.Step(engine.StepSpec{Name: "flaky", Retry: engine.Retry{Attempts: 3, First: 5 * time.Millisecond}},
					func(_ context.Context, info engine.StepInfo) (journal.Payload, error) {
						tries.Add(1)
						if info.Attempt < 3 {
							return nil, errors.New("not yet")
						}
						return journal.Payload(fmt.Sprint(i)), nil
					})
			})
			if err != nil {
				return nil, err
			}
			futs = append(futs, f)
		}
		out := string(p.Payload)
		for _, f := range futs {
			p, err := b.Wait(f)
			if err != nil {
				return nil, err
			}
			out += string(p)
		}
		return journal.Payload(out), nil
	}}
	e := open(t, t.TempDir()+"/x.db", wf)
	id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w"})
	require.NoError(t, err)
	token := <-tokens
	_, err = e.Deliver(t.Context(), engine.Sending{Token: token, Key: "k", Payload: journal.Payload("yes")})
	require.NoError(t, err)
	run, err := e.Wait(t.Context(), id)
	require.NoError(t, err)
	require.Nil(t, run.Error)
	require.Equal(t, "yes01234", string(run.Output))
	require.EqualValues(t, 15, tries.Load())
}

// TestOrphans has a child whose start its parent did not live to write down. A cancel of the parent finds it, and so does Terminate; one that goes on
// by itself is left alone.
func TestOrphans(t *testing.T) {
	t.Parallel()
	sleep := func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		return nil, b.Sleep(engine.TimerSpec{Name: "nap", Until: func(now journal.Time) journal.Time { return now.Add(time.Hour) }})
	}
	ends := map[string]func(e *engine.Engine, run journal.ID) error{
		"cancel":    func(e *engine.Engine, run journal.ID) error { return e.Cancel(t.Context(), run, "enough", "") },
		"terminate": func(e *engine.Engine, run journal.ID) error { return e.Terminate(t.Context(), run, "enough", "") },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := open(t, t.TempDir()+"/x.db", &engine.Workflow{Name: "parent", Run: sleep}, &engine.Workflow{Name: "child", Run: sleep})
			id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "parent"})
			require.NoError(t, err)
			parent, err := e.Store().Run(t.Context(), e.Namespace(), id, store.ResolveNone)
			require.NoError(t, err)
			var children []journal.ID
			for _, key := range []string{"step_1", "step_2.detached"} {
				child, err := e.Start(t.Context(), engine.StartRequest{Workflow: "child", Parent: parent, StartKey: key, Digest: []byte{1}})
				require.NoError(t, err)
				children = append(children, child)
			}
			time.Sleep(5 * time.Millisecond) // the cancel comes later than they
			require.NoError(t, end(e, id))
			run, err := e.Wait(t.Context(), children[0])
			require.NoError(t, err)
			require.Equal(t, journal.StatusCancelled, run.Status)
			other, err := e.Store().Run(t.Context(), e.Namespace(), children[1], store.ResolveNone)
			require.NoError(t, err)
			require.Equal(t, journal.StatusRunning, other.Status)
		})
	}
}

// TestStopTwice stops an engine from two sides: both come back when it has stopped.
func TestStopTwice(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		return b.Step(engine.StepSpec{Name: "s"}, func(context.Context, engine.StepInfo) (journal.Payload, error) { <-release; return nil, nil })
	}}
	e := open(t, t.TempDir()+"/x.db", wf)
	id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w"})
	require.NoError(t, err)
	stopped := make(chan error, 2)
	for range 2 {
		go func() { stopped <- e.Stop(context.WithoutCancel(t.Context())) }()
	}
	require.Never(t, func() bool { return len(stopped) > 0 }, 50*time.Millisecond, 5*time.Millisecond)
	close(release)
	require.NoError(t, <-stopped)
	require.NoError(t, <-stopped)
	run, err := e.Store().Run(t.Context(), e.Namespace(), id, store.ResolveNone)
	require.NoError(t, err)
	require.Equal(t, journal.StatusCompleted, run.Status)
}
