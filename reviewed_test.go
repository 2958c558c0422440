package cairn_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
)

// A pause while an attempt is under way costs no attempt, also if the run is executed again later.
func TestAPauseCostsNoAttempt(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		var mu sync.Mutex
		var calls []int
		step := cairn.NewStep("slow", func(ctx context.Context, _ int) (string, error) {
			mu.Lock()
			calls = append(calls, cairn.Attempt(ctx))
			mu.Unlock()
			time.Sleep(10 * time.Second) // its start is recorded
			return "", errors.New("no")
		}).Retry(cairn.RetryPolicy{Attempts: 3, First: time.Minute, Factor: 1})
		wf := cairn.NewWorkflow("w", step.Do)
		cairntest.Run(t, func(e *cairntest.Env) {
			run, err := wf.Start(e.Context(), e.Engine(), 0)
			require.NoError(t, err)
			e.Sleep(5 * time.Second)
			require.NoError(t, run.Pause(e.Context(), "later"))
			e.Sleep(time.Second)
			require.NoError(t, run.Resume(e.Context()))
			e.Sleep(20 * time.Second)
			if crash {
				e.Crash()
			}
			again, err := wf.Get(e.Context(), e.Engine(), run.ID())
			require.NoError(t, err)
			_, err = again.Result(e.Context())
			require.ErrorContains(t, err, "no")
			require.Equal(t, []int{1, 2, 3}, calls, "crash: %v", crash)
		}, wf)
	}
}

// Two processes that want to wake the same runs get in each other's way, and nobody is told that something was wrong.
func TestTwoProcessesWakeTheSameRuns(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		naps := cairn.NewWorkflow("naps", func(ctx cairn.Context, s string) (string, error) {
			for range 10 {
				if err := cairn.Sleep(ctx, 5*time.Millisecond); err != nil {
					return "", err
				}
			}
			return s, nil
		})
		e, other := start(naps), start(naps)
		runs := make([]*cairn.Run[string], 20)
		for i := range runs {
			var err error
			runs[i], err = naps.Start(t.Context(), e, fmt.Sprint(i))
			require.NoError(t, err)
		}
		for _, run := range runs {
			_, err := run.Result(within(t))
			require.NoError(t, err)
		}
		require.Zero(t, e.Stats().Parked+other.Stats().Parked)
	})
}

// A child is not deleted while its parent goes on: that may still want the result.
func TestDeleteOfAChild(t *testing.T) {
	t.Parallel()
	kid := cairn.NewWorkflow("kid", func(cairn.Context, int) (string, error) { return "result", nil })
	wf := cairn.NewWorkflow("parent", func(ctx cairn.Context, _ int) (string, error) {
		c, err := kid.StartChild(ctx, 0)
		if err != nil {
			return "", err
		}
		if _, err := kid.StartChild(ctx, 0, cairn.Detached()); err != nil {
			return "", err
		}
		if err := cairn.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
		return c.Result(ctx)
	})
	cairntest.Run(t, func(e *cairntest.Env) {
		run, err := wf.Start(e.Context(), e.Engine(), 0)
		require.NoError(t, err)
		e.Sleep(time.Minute)
		page, err := e.Engine().List(e.Context(), cairn.Filter{ParentID: run.ID()})
		require.NoError(t, err)
		require.Len(t, page.Runs, 2)
		require.ErrorContains(t, e.Engine().Delete(e.Context(), page.Runs[0].ID), "has not ended and may want its result")
		require.NoError(t, e.Engine().Delete(e.Context(), page.Runs[1].ID), "nobody waits for a detached one")
		out, err := run.Result(e.Context())
		require.NoError(t, err)
		require.Equal(t, "result", out)
		require.NoError(t, e.Engine().Delete(e.Context(), page.Runs[0].ID))
	}, wf, kid)
}

// A start key stands for one fork: not for another one, nor for a run that is no fork.
func TestForkKeys(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		step := text(&sync.Map{})
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, in string) (string, error) {
			if _, err := step.Key("a").Do(ctx, in); err != nil {
				return "", err
			}
			return step.Key("b").Do(ctx, in)
		})
		e := start(wf)
		source, err := wf.Start(t.Context(), e, "x", cairn.StartKey("order 42"))
		require.NoError(t, err)
		_, err = source.Result(within(t))
		require.NoError(t, err)
		_, err = wf.Fork(t.Context(), e, source.ID(), cairn.Fork{From: "text@a", StartKey: "order 42"})
		require.ErrorContains(t, err, "start_key_conflict")
		fork, err := wf.Fork(t.Context(), e, source.ID(), cairn.Fork{From: "text@a", StartKey: "again"})
		require.NoError(t, err)
		same, err := wf.Fork(t.Context(), e, source.ID(), cairn.Fork{From: "text@a", StartKey: "again"})
		require.NoError(t, err)
		require.Equal(t, fork.ID(), same.ID())
		_, err = wf.Fork(t.Context(), e, source.ID(), cairn.Fork{From: "text@b", StartKey: "again"})
		require.ErrorContains(t, err, "start_key_conflict")
		_, err = wf.Start(t.Context(), e, "x", cairn.StartKey("again"))
		require.ErrorContains(t, err, "start_key_conflict")
	})
}

// What a goroutine says that outlives its step is refused, not lost without a word.
func TestAnnotateAfterTheStep(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		late, ended := make(chan error, 1), make(chan struct{})
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
			return cairn.Do(ctx, "s", func(ctx context.Context) (int, error) {
				go func() { <-ended; late <- cairn.Annotate(ctx, cairn.Annotation{Name: "late"}) }()
				return 0, nil
			})
		})
		_, err := result(t, start(wf), wf, 0)
		require.NoError(t, err)
		close(ended)
		require.ErrorContains(t, <-late, "context_over")
	})
}

// A time that nobody lives to see is not now.
func TestTheFarFuture(t *testing.T) {
	t.Parallel()
	never := time.Unix(math.MaxInt64/2, 0)
	wf := cairn.NewWorkflow("nap", func(ctx cairn.Context, _ int) (int, error) { return 0, cairn.SleepUntil(ctx, never) })
	cairntest.Run(t, func(e *cairntest.Env) {
		later, err := wf.Start(e.Context(), e.Engine(), 0, cairn.StartAt(never))
		require.NoError(t, err)
		sleeps, err := wf.Start(e.Context(), e.Engine(), 0)
		require.NoError(t, err)
		e.Sleep(24 * time.Hour)
		for run, status := range map[*cairn.Run[int]]cairn.Status{later: cairn.StatusPending, sleeps: cairn.StatusRunning} {
			info, err := run.Describe(e.Context())
			require.NoError(t, err)
			require.Equal(t, status, info.Status)
			require.NoError(t, run.Terminate(e.Context(), "enough"))
		}
	}, wf)
}
