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

func TestDeadline(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		hook := cairn.NewHook[int]("never")
		wf := cairn.NewWorkflow("deadline", func(ctx cairn.Context, _ int) (string, error) {
			within, cancel := cairn.WithTimeout(ctx, time.Hour)
			if err := cairn.Sleep(within, 10*time.Millisecond); err != nil {
				return "", err
			}
			cancel()
			for _, wait := range []func(cairn.Context) error{
				func(ctx cairn.Context) error { return cairn.Sleep(ctx, time.Hour) },
				func(ctx cairn.Context) error { _, err := hook.Wait(ctx); return err },
				func(ctx cairn.Context) error {
					_, err := cairn.Do(ctx, "hang", func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, context.Cause(ctx) })
					return err
				},
			} {
				within, cancel := cairn.WithTimeout(ctx, 30*time.Millisecond)
				if err := wait(within); !errors.Is(err, cairn.ErrTimeout) {
					return "", fmt.Errorf("no timeout: %w", err)
				}
				//cairnvet:ignore loopkey it fails before it is recorded
				if _, err := cairn.Do(within, "late", func(context.Context) (int, error) { return 0, nil }); !errors.Is(err, cairn.ErrTimeout) {
					return "", fmt.Errorf("after the timeout: %w", err)
				}
				cancel()
			}
			return cairn.Do(ctx, "after", func(context.Context) (string, error) { return "done", nil })
		})
		out, err := result(t, start(wf), wf, 0)
		require.NoError(t, err)
		require.Equal(t, "done", out)
	})
}

func TestTimeAndRandomnessReplay(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		type drawn struct {
			Times []time.Time
			IDs   []string
			N     []uint64
		}
		var mu sync.Mutex
		var executions []drawn
		wf := cairn.NewWorkflow("draw", func(ctx cairn.Context, _ int) (drawn, error) {
			var d drawn
			draw := func() {
				id := cairn.NewID(ctx)
				random := cairn.Rand(ctx)
				d.Times, d.IDs, d.N = append(d.Times, cairn.Now(ctx)), append(d.IDs, id), append(d.N, random.Uint64(), random.Uint64())
			}
			defer func() { mu.Lock(); executions = append(executions, d); mu.Unlock() }()
			draw()
			if _, err := cairn.Do(ctx, "step", func(context.Context) (int, error) { time.Sleep(5 * time.Millisecond); return 0, nil }); err != nil {
				return d, err
			}
			draw()
			if err := cairn.Sleep(ctx, 20*time.Millisecond); err != nil {
				return d, err
			}
			draw()
			return d, nil
		})
		out, err := result(t, start(wf), wf, 0)
		require.NoError(t, err)
		require.Len(t, out.Times, 3)
		require.True(t, out.Times[0].Before(out.Times[1]) && out.Times[1].Before(out.Times[2]), "%v", out.Times)
		require.NotEqual(t, out.IDs[0], out.IDs[1])
		mu.Lock()
		defer mu.Unlock()
		for _, d := range executions {
			require.Equal(t, out.Times[:len(d.Times)], d.Times)
			require.Equal(t, out.IDs[:len(d.IDs)], d.IDs)
			require.Equal(t, out.N[:len(d.N)], d.N)
		}
	})
}

// TestNowAfterATimeout looks at the time after a hook's timeout, in each execution.
func TestNowAfterATimeout(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		var mu sync.Mutex
		var seen []time.Duration
		hook := cairn.NewHook[int]("never")
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
			before := cairn.Now(ctx)
			if _, err := hook.Wait(ctx, cairn.Timeout(20*time.Millisecond)); !errors.Is(err, cairn.ErrTimeout) {
				return 0, fmt.Errorf("no timeout: %w", err)
			}
			mu.Lock()
			seen = append(seen, cairn.Now(ctx).Sub(before))
			mu.Unlock()
			return 0, cairn.Sleep(ctx, 20*time.Millisecond)
		})
		_, err := result(t, start(wf), wf, 0)
		require.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		require.GreaterOrEqual(t, seen[0], 20*time.Millisecond)
		for _, d := range seen {
			require.Equal(t, seen[0], d)
		}
	})
}

// TestACleanUpHasAnEnd has a clean-up that waits for what never comes.
func TestACleanUpHasAnEnd(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
			err := cairn.Sleep(ctx, time.Hour)
			clean, done := cairn.Cleanup(ctx, 50*time.Millisecond)
			defer done()
			if _, never := cairn.NewHook[int]("never").Wait(clean); !errors.Is(never, cairn.ErrTimeout) {
				return 0, never
			}
			return 0, err
		})
		run, err := wf.Start(t.Context(), start(wf), 0)
		require.NoError(t, err)
		require.NoError(t, run.Cancel(t.Context(), "enough"))
		_, err = run.Result(t.Context())
		require.ErrorIs(t, err, cairn.ErrCancelled)
	})
}

// TestIDsAfterARetry cuts a step short that waits for its next attempt: ids that are made then are the same in each execution.
func TestIDsAfterARetry(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		var mu sync.Mutex
		var seen []string
		failing := cairn.NewStep("failing", func(context.Context, int) (int, error) { return 0, errors.New("no") }).Retry(cairn.RetryPolicy{Attempts: 9, First: time.Hour})
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
			_, failed := failing.Do(ctx, 0)
			clean, done := cairn.Cleanup(ctx, time.Minute)
			defer done()
			id := cairn.NewID(clean)
			mu.Lock()
			seen = append(seen, id)
			mu.Unlock()
			return 0, errors.Join(failed, cairn.Sleep(clean, 20*time.Millisecond))
		})
		run, err := wf.Start(t.Context(), start(wf), 0)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			info, err := run.Describe(t.Context())
			return err == nil && len(info.Waits) == 1 && info.Waits[0].Kind == "retry"
		}, 10*time.Second, time.Millisecond)
		time.Sleep(20 * time.Millisecond) // so that the cancel has another time than the attempt
		require.NoError(t, run.Cancel(t.Context(), "enough"))
		_, err = run.Result(t.Context())
		require.ErrorIs(t, err, cairn.ErrCancelled)
		mu.Lock()
		defer mu.Unlock()
		for _, id := range seen {
			require.Equal(t, seen[0], id)
		}
	})
}

// TestTheErrorOfAContextIsACancel returns what a Context says when its run was cancelled.
func TestTheErrorOfAContextIsACancel(t *testing.T) {
	t.Parallel()
	wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
	run, err := wf.Start(t.Context(), memory(t, cairn.Config{}, wf), 0)
	require.NoError(t, err)
	require.NoError(t, run.Cancel(t.Context(), "enough"))
	_, err = run.Result(t.Context())
	require.ErrorIs(t, err, cairn.ErrCancelled)
}
