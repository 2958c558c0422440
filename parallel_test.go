package cairn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
)

func TestRace(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		var counts sync.Map
		step := text(&counts)
		wf := cairn.NewWorkflow("race", func(ctx cairn.Context, _ int) (string, error) {
			slow, err := racer(ctx, "slow", time.Hour, step)
			if err != nil {
				return "", err
			}
			fast, err := racer(ctx, "fast", 30*time.Millisecond, step)
			if err != nil {
				return "", err
			}
			winner, err := cairn.Race(ctx, slow, fast)
			if err != nil {
				return "", err
			}
			if _, err := slow.Wait(ctx); !errors.Is(err, cairn.ErrLost) {
				return "", fmt.Errorf("the loser returned %w", err)
			}
			if err := cairn.Sleep(ctx, 20*time.Millisecond); err != nil {
				return "", err
			}
			after, err := step.Do(ctx, "after")
			return winner + " " + after, err
		})
		out, err := result(t, start(wf), wf, 0)
		require.NoError(t, err)
		require.Equal(t, "fast after", out)
		requireOnce(t, &counts)
	})
}

func TestFirstN_EnoughBranchesSucceed_OthersLose(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("some", func(ctx cairn.Context, failing int) (string, error) {
			var futures []*cairn.Future[int]
			for i := range 5 {
				f, err := cairn.Go(ctx, "voter", func(ctx cairn.Context) (int, error) {
					if err := cairn.Sleep(ctx, time.Duration(10+25*i)*time.Millisecond); err != nil {
						return 0, err
					}
					return cairn.Do(ctx, "vote", func(context.Context) (int, error) {
						if i < failing {
							return 0, cairn.NewError("no_vote", fmt.Sprint("voter ", i))
						}
						return i, nil
					})
				})
				if err != nil {
					return "", err
				}
				futures = append(futures, f)
			}
			votes, err := cairn.FirstN(ctx, 3, futures...)
			slices.Sort(votes) // who is first among those that are due at the same time is left open
			return fmt.Sprint(votes), err
		})
		e := start(wf)
		out, err := result(t, e, wf, 0)
		require.NoError(t, err)
		require.Len(t, strings.Fields(out), 3)
		out, err = result(t, e, wf, 2)
		require.NoError(t, err)
		require.Equal(t, "[2 3 4]", out)
		_, err = result(t, e, wf, 3)
		require.ErrorContains(t, err, "voter 2", "all failures are told")
	})
}

func TestAsCompleted(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		var counts sync.Map
		step := text(&counts)
		hook := cairn.NewHook[string]("go")
		wf := cairn.NewWorkflow("as completed", func(ctx cairn.Context, _ int) (string, error) {
			var futures []*cairn.Future[string]
			for i := range 3 {
				f, err := cairn.Go(ctx, "branch", func(ctx cairn.Context) (string, error) {
					v, err := hook.Token(fmt.Sprint("branch ", i)).Wait(ctx)
					if err != nil {
						return "", err
					}
					return step.Do(ctx, v)
				})
				if err != nil {
					return "", err
				}
				futures = append(futures, f)
			}
			var order []string
			for i, f := range cairn.AsCompleted(ctx, futures...) {
				name, err := f.Wait(ctx)
				if err != nil {
					return "", err
				}
				//cairnvet:ignore loopkey the test is about calls that are found by their position
				seen, err := step.Do(ctx, fmt.Sprint("saw ", i))
				if err != nil {
					return "", err
				}
				order = append(order, name, seen)
			}
			return strings.Join(order, ", "), nil
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		for _, i := range []int{1, 2, 0} {
			require.Eventually(t, func() bool {
				return cairn.NewHook[string]("sent").Send(t.Context(), e, fmt.Sprint("branch ", i), fmt.Sprint("branch ", i)) == nil
			}, 10*time.Second, time.Millisecond)
			require.Eventually(t, func() bool { _, seen := counts.Load(fmt.Sprint("saw ", i)); return seen }, 10*time.Second, time.Millisecond)
		}
		out, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "branch 1, saw 1, branch 2, saw 2, branch 0, saw 0", out)
		requireOnce(t, &counts)
	})
}

func TestMapIsBoundedAndOrdered(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		var now, most atomic.Int32
		wf := cairn.NewWorkflow("map", func(ctx cairn.Context, n int) (int, error) {
			items := make([]int, n)
			for i := range items {
				items[i] = i
			}
			out, err := cairn.Map(ctx, "item", items, 4, func(ctx cairn.Context, i int) (int, error) {
				return cairn.Do(ctx, "work", func(context.Context) (int, error) {
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(time.Millisecond)
					now.Add(-1)
					return i, nil
				})
			}, cairn.KeyBy(func(i int) string { return fmt.Sprint(i) }))
			if err != nil {
				return 0, err
			}
			for i, v := range out {
				if i != v {
					return 0, fmt.Errorf("item %d gave %d", i, v)
				}
			}
			return len(out), nil
		})
		out, err := result(t, start(wf), wf, 60)
		require.NoError(t, err)
		require.Equal(t, 60, out)
		require.LessOrEqual(t, most.Load(), int32(4))
		require.Greater(t, most.Load(), int32(1))
	})
}

// TestALoserThatIsDue has branches whose timers end in the moment in which another one wins.
func TestALoserThatIsDue(t *testing.T) {
	t.Parallel()
	wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
		for range 3 {
			futures := make([]*cairn.Future[int], 6)
			for i := range futures {
				var err error
				//cairnvet:ignore loopkey there are always six
				futures[i], err = cairn.Go(ctx, "nap", func(ctx cairn.Context) (int, error) {
					return i, cairn.Sleep(ctx, time.Duration(5+i%2)*time.Millisecond)
				})
				if err != nil {
					return 0, err
				}
			}
			if _, err := cairn.Race(ctx, futures...); err != nil {
				return 0, err
			}
		}
		return 7, nil
	})
	e := memory(t, cairn.Config{}, wf)
	runs := make([]*cairn.Run[int], 100)
	for i := range runs {
		var err error
		runs[i], err = wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
	}
	for _, run := range runs {
		_, err := run.Result(t.Context())
		require.NoError(t, err)
	}
}
