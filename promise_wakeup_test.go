package cairn_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
)

// TestNothingLeftBehindWakesARun has runs whose branches lost, or whose waits were cut short, and that then wait for something else: they are not executed
// again for timers that nobody waits for any more.
func TestNothingLeftBehindWakesARun(t *testing.T) {
	t.Parallel()
	short := func(ctx cairn.Context, wait func(cairn.Context) error) error {
		limited, stop := cairn.WithTimeout(ctx, 10*time.Millisecond)
		defer stop()
		if err := wait(limited); !errors.Is(err, cairn.ErrTimeout) {
			return fmt.Errorf("no timeout: %w", err)
		}
		return nil
	}
	later := 700 * time.Millisecond // when what is left behind would be due, and not before the others also on a slow machine
	nap := func(ctx cairn.Context) error { return cairn.Sleep(ctx, later) }
	never := cairn.NewHook[int]("never")
	failing := cairn.NewStep("failing", func(context.Context, int) (int, error) { return 0, errors.New("no") }).Retry(cairn.RetryPolicy{Attempts: 9, First: later})
	lose := func(wait func(cairn.Context) error) func(cairn.Context) error {
		return func(ctx cairn.Context) error {
			slow, err := cairn.Go(ctx, "slow", func(ctx cairn.Context) (int, error) { return 0, wait(ctx) })
			if err != nil {
				return err
			}
			fast, err := cairn.Go(ctx, "fast", func(ctx cairn.Context) (int, error) { return 0, cairn.Sleep(ctx, 10*time.Millisecond) })
			if err != nil {
				return err
			}
			_, err = cairn.Race(ctx, slow, fast)
			return err
		}
	}
	waits := map[string]func(cairn.Context) error{
		"a sleep": nap,
		"a hook":  func(ctx cairn.Context) error { _, err := never.Wait(ctx, cairn.Timeout(later)); return err },
		"a retry": func(ctx cairn.Context) error { _, err := failing.Do(ctx, 0); return err },
		"a poll": func(ctx cairn.Context) error {
			_, err := cairn.NewPoll("poll", time.Hour, func(context.Context, int) (int, bool, error) { return 0, false, nil }).Timeout(later).Wait(ctx, 0)
			return err
		},
	}
	for name, wait := range waits {
		for how, leave := range map[string]func(cairn.Context) error{
			"cut short": func(ctx cairn.Context) error { return short(ctx, wait) },
			"lost":      lose(wait),
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				var executions atomic.Int32
				done := cairn.NewHook[int]("done")
				wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
					executions.Add(1)
					if err := leave(ctx); err != nil {
						return 0, err
					}
					return done.Token("done").Wait(ctx)
				})
				e := memory(t, cairn.Config{MaxWaiting: -1, Poll: 5 * time.Millisecond}, wf)
				run, err := wf.Start(t.Context(), e, 0)
				require.NoError(t, err)
				require.Eventually(t, func() bool { _, err := e.HookInfo(t.Context(), "done"); return err == nil }, 10*time.Second, time.Millisecond)
				require.NoError(t, waitUnowned(t, run))
				before := executions.Load()
				for began := time.Now(); time.Since(began) < later+50*time.Millisecond; {
					require.NoError(t, waitUnowned(t, run))
				}
				require.LessOrEqual(t, executions.Load(), before+1)
				require.NoError(t, cairn.NewHook[int]("sent").Send(t.Context(), e, "done", 7))
				out, err := run.Result(t.Context())
				require.NoError(t, err)
				require.Equal(t, 7, out)
			})
		}
	}
}

// TestATimeoutStaysATimeout cancels a run after a deadline has passed: executed again, the code takes the same path.
func TestATimeoutStaysATimeout(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		var refunds atomic.Int32
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (string, error) {
			limited, stop := cairn.WithTimeout(ctx, 20*time.Millisecond)
			err := cairn.Sleep(limited, time.Hour)
			stop()
			if !errors.Is(err, cairn.ErrTimeout) {
				return "the timeout is forgotten", nil
			}
			if _, err := cairn.Do(ctx, "charge", func(context.Context) (int, error) { return 1, nil }); err != nil {
				return "", err
			}
			if err := cairn.Sleep(ctx, time.Hour); err != nil {
				clean, done := cairn.Cleanup(ctx, time.Minute)
				defer done()
				_, cleanErr := cairn.Do(clean, "refund", func(context.Context) (int, error) { refunds.Add(1); return 1, nil })
				return "", errors.Join(err, cleanErr)
			}
			return "", nil
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			info, err := run.Describe(t.Context())
			return err == nil && len(info.Waits) == 1 && info.Waits[0].Key == "sleep#2"
		}, 10*time.Second, time.Millisecond)
		require.NoError(t, run.Cancel(t.Context(), "enough"))
		_, err = run.Result(t.Context())
		require.ErrorIs(t, err, cairn.ErrCancelled)
		require.EqualValues(t, 1, refunds.Load())
	})
}

// TestAChildIsAskedTwice asks for the result of a child one after the other, and from two branches.
func TestAChildIsAskedTwice(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		child := cairn.NewWorkflow("child", func(ctx cairn.Context, n int) (int, error) { return n, cairn.Sleep(ctx, 20*time.Millisecond) })
		parent := cairn.NewWorkflow("parent", func(ctx cairn.Context, _ int) (int, error) {
			c, err := child.StartChild(ctx, 21)
			if err != nil {
				return 0, err
			}
			f, err := cairn.Go(ctx, "beside", c.Result)
			if err != nil {
				return 0, err
			}
			first, err := c.Result(ctx)
			if err != nil {
				return 0, err
			}
			second, err := f.Wait(ctx)
			if err != nil {
				return 0, err
			}
			third, err := c.Result(ctx)
			return first + second + third, err
		})
		out, err := result(t, start(parent, child), parent, 0)
		require.NoError(t, err)
		require.Equal(t, 63, out)
	})
}

// TestStopStorm stops an engine while runs wake up, wait and end: nothing panics, and another engine ends them all.
func TestStopStorm(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, n int) (int, error) {
			for range 5 {
				if err := cairn.Sleep(ctx, time.Duration(1+n%7)*time.Millisecond); err != nil {
					return 0, err
				}
			}
			return n, nil
		})
		e := start(wf)
		var ids []string
		for i := range 100 {
			run, err := wf.Start(t.Context(), e, i)
			require.NoError(t, err)
			ids = append(ids, run.ID())
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		_ = e.Stop(over)
		next := start(wf)
		for i, id := range ids {
			run, err := wf.Get(t.Context(), next, id)
			require.NoError(t, err)
			out, err := run.Result(t.Context())
			require.NoError(t, err)
			require.Equal(t, i, out)
		}
	})
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

// TestNoWakeUpIsLeftToTheLastResort evicts runs at each of many short sleeps, on an engine that does not look by itself. One run alone is not helped by the
// looks that others cause; with several, one goes to sleep while the engine looks for another.
func TestNoWakeUpIsLeftToTheLastResort(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			wf := cairn.NewWorkflow("w", func(ctx cairn.Context, n int) (int, error) {
				for i := range 120 {
					if err := cairn.Sleep(ctx, time.Duration(1+(n+i)%4)*time.Millisecond); err != nil {
						return 0, err
					}
				}
				return n, nil
			})
			e := memory(t, cairn.Config{MaxWaiting: -1, Poll: time.Hour}, wf)
			runs := make([]*cairn.Run[int], n)
			for i := range runs {
				var err error
				runs[i], err = wf.Start(t.Context(), e, i)
				require.NoError(t, err)
			}
			for i, run := range runs {
				out, err := run.Result(t.Context())
				require.NoError(t, err)
				require.Equal(t, i, out)
			}
		})
	}
}
