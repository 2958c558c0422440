package cairn_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
)

// TestAParentLeavesChildrenBehind ends a parent, and cancels another, that do not wait for their children.
func TestAParentLeavesChildrenBehind(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		child := cairn.NewWorkflow("child", func(ctx cairn.Context, _ string) (int, error) { return 0, cairn.Sleep(ctx, time.Hour) })
		parent := cairn.NewWorkflow("parent", func(ctx cairn.Context, wait time.Duration) (int, error) {
			for range 2 {
				if _, err := child.StartChild(ctx, ""); err != nil {
					return 0, err
				}
			}
			return 0, cairn.Sleep(ctx, wait)
		})
		e := start(parent, child)
		children := func(run *cairn.Run[int], status cairn.Status) int {
			page, err := e.List(t.Context(), cairn.Filter{ParentID: run.ID(), Status: []cairn.Status{status}})
			require.NoError(t, err)
			return len(page.Runs)
		}
		short, err := parent.Start(t.Context(), e, time.Millisecond)
		require.NoError(t, err)
		_, err = short.Result(t.Context())
		require.NoError(t, err)
		require.Eventually(t, func() bool { return children(short, cairn.StatusCancelled) == 2 }, 10*time.Second, 5*time.Millisecond)

		long, err := parent.Start(t.Context(), e, time.Hour)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return children(long, cairn.StatusRunning) == 2 }, 10*time.Second, 5*time.Millisecond)
		require.NoError(t, long.Cancel(t.Context(), "enough"))
		_, err = long.Result(t.Context())
		require.ErrorIs(t, err, cairn.ErrCancelled)
		require.Eventually(t, func() bool { return children(long, cairn.StatusCancelled) == 2 }, 10*time.Second, 5*time.Millisecond)
	})
}

// TestTheChildOfALoser has a branch lose a race while it waits for a child. The child is asked to stop although its parent goes on; one that is
// detached is not.
func TestTheChildOfALoser(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		decide := cairn.NewHook[int]("decide").Token("decide")
		child := cairn.NewWorkflow("child", func(ctx cairn.Context, _ int) (int, error) { return 0, cairn.Sleep(ctx, time.Hour) })
		parent := cairn.NewWorkflow("parent", func(ctx cairn.Context, token string) (int, error) {
			slow, err := cairn.Go(ctx, "slow", func(ctx cairn.Context) (int, error) {
				if _, err := child.StartChild(ctx, 1, cairn.Detached()); err != nil {
					return 0, err
				}
				return child.Run(ctx, 2)
			})
			if err != nil {
				return 0, err
			}
			quick, err := cairn.Go(ctx, "quick", func(ctx cairn.Context) (int, error) { return decide.Wait(ctx) })
			if err != nil {
				return 0, err
			}
			if _, err := cairn.Race(ctx, slow, quick); err != nil {
				return 0, err
			}
			return cairn.NewHook[int]("go").Token(token).Wait(ctx)
		})
		e := start(parent, child)
		run, err := parent.Start(t.Context(), e, "go")
		require.NoError(t, err)
		states := func() map[cairn.Status]int {
			page, err := e.List(t.Context(), cairn.Filter{ParentID: run.ID()})
			require.NoError(t, err)
			n := map[cairn.Status]int{}
			for _, r := range page.Runs {
				n[r.Status]++
			}
			return n
		}
		require.Eventually(t, func() bool { return states()[cairn.StatusRunning] == 2 }, time.Minute, 5*time.Millisecond)
		require.Eventually(t, func() bool { return decide.Send(t.Context(), e, "decide", 1) == nil }, time.Minute, 5*time.Millisecond)
		require.Eventually(t, func() bool { return states()[cairn.StatusCancelled] == 1 }, time.Minute, 5*time.Millisecond)
		require.Eventually(t, func() bool { return cairn.NewHook[int]("sent").Send(t.Context(), e, "go", 7) == nil }, time.Minute, 5*time.Millisecond)
		out, err := run.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, 7, out)
		require.Equal(t, map[cairn.Status]int{cairn.StatusCancelled: 1, cairn.StatusRunning: 1}, states())
	})
}

// stubborn is a child that ends when it is asked to.
func stubborn() *cairn.Workflow[int, int] {
	return cairn.NewWorkflow("child", func(ctx cairn.Context, n int) (int, error) { return n, cairn.Sleep(ctx, time.Hour) })
}

// requireNoneLeft waits until no child of the runs goes on.
func requireNoneLeft(t *testing.T, e *cairn.Engine, runs ...*cairn.Run[int]) {
	t.Helper()
	for _, run := range runs {
		require.Eventually(t, func() bool {
			page, err := e.List(t.Context(), cairn.Filter{ParentID: run.ID(), Status: []cairn.Status{cairn.StatusPending, cairn.StatusRunning}})
			require.NoError(t, err)
			return len(page.Runs) == 0
		}, 10*time.Second, 5*time.Millisecond)
	}
}

// TestAChildThatComesTooLate has branches that start children in the moment in which they lose a race, or in which their run ends.
func TestAChildThatComesTooLate(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		child := stubborn()
		loser := cairn.NewWorkflow("loser", func(ctx cairn.Context, _ int) (int, error) {
			slow, err := cairn.Go(ctx, "slow", func(ctx cairn.Context) (int, error) { return child.Run(ctx, 1) })
			if err != nil {
				return 0, err
			}
			quick, err := cairn.Go(ctx, "quick", func(cairn.Context) (int, error) { return 0, nil })
			if err != nil {
				return 0, err
			}
			if _, err := cairn.Race(ctx, slow, quick); err != nil {
				return 0, err
			}
			return 0, cairn.Sleep(ctx, 20*time.Millisecond)
		})
		leaver := cairn.NewWorkflow("leaver", func(ctx cairn.Context, _ int) (int, error) {
			_, err := cairn.Go(ctx, "starts", func(ctx cairn.Context) (int, error) {
				for {
					//cairnvet:ignore loopkey all children are the same
					if _, err := child.StartChild(ctx, 1); err != nil {
						return 0, err
					}
				}
			})
			if err != nil {
				return 0, err
			}
			return 0, cairn.Sleep(ctx, 20*time.Millisecond)
		})
		e := start(loser, leaver, child)
		var runs []*cairn.Run[int]
		for i := range 12 {
			wf := loser
			if i%4 == 0 {
				wf = leaver
			}
			run, err := wf.Start(t.Context(), e, 0)
			require.NoError(t, err)
			runs = append(runs, run)
		}
		for _, run := range runs {
			_, err := run.Result(t.Context())
			require.NoError(t, err)
		}
		requireNoneLeft(t, e, runs...)
	})
}

// TestAChildUnderADeadline has a parent that waits for a child for a while only. One that belongs to it is stopped; one that is detached is not, and what
// the parent got when it asked stays what it got.
func TestAChildUnderADeadline(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		long := stubborn()
		short := cairn.NewWorkflow("short", func(ctx cairn.Context, n int) (int, error) { return n, cairn.Sleep(ctx, 2*time.Second) })
		nobody := cairn.NewWorkflow("nobody", func(cairn.Context, int) (int, error) { return 0, nil })
		within := func(ctx cairn.Context, f func(cairn.Context) error) (bool, error) {
			limited, stop := cairn.WithTimeout(ctx, 100*time.Millisecond)
			defer stop()
			err := f(limited)
			if errors.Is(err, cairn.ErrTimeout) {
				return true, nil
			}
			return false, err
		}
		parent := cairn.NewWorkflow("parent", func(ctx cairn.Context, _ int) (string, error) {
			stopped, err := within(ctx, func(ctx cairn.Context) error { _, err := long.Run(ctx, 1); return err })
			if err != nil {
				return "", err
			}
			never, err := within(ctx, func(ctx cairn.Context) error { _, err := nobody.Run(ctx, 1, cairn.Elsewhere()); return err })
			if err != nil {
				return "", err
			}
			c, err := short.StartChild(ctx, 42, cairn.Detached())
			if err != nil {
				return "", err
			}
			early, err := within(ctx, func(ctx cairn.Context) error { _, err := c.Result(ctx); return err })
			if err != nil {
				return "", err
			}
			n, err := c.Result(ctx)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(stopped, never, early, n), cairn.Sleep(ctx, 20*time.Millisecond)
		})
		out, err := result(t, start(parent, long, short), parent, 0)
		require.NoError(t, err)
		require.Equal(t, "true true true 42", out)
	})
}

// TestIDsAfterAChild has two branches ask for one child, and make ids then: they are the same in each execution.
func TestIDsAfterAChild(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		var mu sync.Mutex
		var seen []string
		child := cairn.NewWorkflow("child", func(ctx cairn.Context, n int) (int, error) { return n, cairn.Sleep(ctx, 20*time.Millisecond) })
		parent := cairn.NewWorkflow("parent", func(ctx cairn.Context, _ int) (int, error) {
			c, err := child.StartChild(ctx, 21)
			if err != nil {
				return 0, err
			}
			ids, err := cairn.Map(ctx, "asks", []int{1, 2}, 0, func(ctx cairn.Context, _ int) (string, error) {
				if _, err := c.Result(ctx); err != nil {
					return "", err
				}
				return cairn.NewID(ctx), nil
			})
			if err != nil {
				return 0, err
			}
			mu.Lock()
			seen = append(seen, fmt.Sprint(ids))
			mu.Unlock()
			return 0, cairn.Sleep(ctx, 20*time.Millisecond)
		})
		_, err := result(t, start(parent, child), parent, 0)
		require.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		for _, ids := range seen {
			require.Equal(t, seen[0], ids)
		}
	})
}

func TestChildren(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		var started atomic.Int32
		child := cairn.NewWorkflow("child", func(ctx cairn.Context, n int) (string, error) {
			if _, err := cairn.Do(ctx, "begin", func(context.Context) (int, error) { started.Add(1); return 0, nil }); err != nil {
				return "", err
			}
			if err := cairn.Sleep(ctx, 20*time.Millisecond); err != nil {
				return "", err
			}
			if n < 0 {
				return "", errDeclined
			}
			return fmt.Sprint(n, cairn.ParentID(ctx) == cairn.RootID(ctx)), nil
		})
		parent := cairn.NewWorkflow("parent", func(ctx cairn.Context, n int) (string, error) {
			first, err := child.StartChild(ctx, n)
			if err != nil {
				return "", err
			}
			second, err := child.Run(ctx, n+1)
			if err != nil {
				return "", err
			}
			out, err := first.Result(ctx)
			if err != nil {
				return "", err
			}
			_, err = child.Run(ctx, -1)
			if !errors.Is(err, errDeclined) {
				return "", fmt.Errorf("the child's error is %w", err)
			}
			return out + ", " + second, nil
		})
		e := start(parent, child)
		out, err := result(t, e, parent, 1)
		require.NoError(t, err)
		require.Equal(t, "1 true, 2 true", out)
		require.EqualValues(t, 3, started.Load(), "each child was started once")
		page, err := e.List(t.Context(), cairn.Filter{Workflow: "child"})
		require.NoError(t, err)
		require.Len(t, page.Runs, 3)
	})
}

func TestCancelCascades(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		child := cairn.NewWorkflow("child", func(ctx cairn.Context, _ int) (int, error) {
			err := cairn.Sleep(ctx, time.Hour)
			clean, done := cairn.Cleanup(ctx, time.Minute)
			defer done()
			_, cleanErr := cairn.Do(clean, "clean up", func(context.Context) (int, error) { return 0, nil })
			return 0, errors.Join(err, cleanErr)
		})
		parent := cairn.NewWorkflow("parent", func(ctx cairn.Context, _ int) (int, error) {
			if _, err := child.StartChild(ctx, 0, cairn.Detached(), cairn.Attributes(map[string]string{"detached": "yes"})); err != nil {
				return 0, err
			}
			return child.Run(ctx, 0, cairn.Attributes(map[string]string{"detached": "no"}))
		})
		e := start(parent, child)
		run, err := parent.Start(t.Context(), e, 0)
		require.NoError(t, err)
		list := func(detached string) *cairn.RunInfo {
			page, err := e.List(t.Context(), cairn.Filter{Workflow: "child", Attributes: map[string]string{"detached": detached}})
			require.NoError(t, err)
			if len(page.Runs) == 0 {
				return nil
			}
			return page.Runs[0]
		}
		require.Eventually(t, func() bool { return list("no") != nil }, 10*time.Second, 5*time.Millisecond)
		require.NoError(t, run.Cancel(t.Context(), "enough"))
		_, err = run.Result(t.Context())
		require.ErrorIs(t, err, cairn.ErrCancelled)
		info := list("no")
		require.Equal(t, cairn.StatusCancelled, info.Status, "the child is asked to stop, and waited for")
		require.Equal(t, run.ID(), info.ParentID)
		var cleaned bool
		for event, err := range e.Run(info.ID).History(t.Context()) {
			require.NoError(t, err)
			cleaned = cleaned || event.Key == "clean up" && event.Type == "step_completed"
		}
		require.True(t, cleaned, "clean-up runs after a cancel")
		require.Equal(t, cairn.StatusRunning, list("yes").Status, "a detached child goes on")
	})
}

func TestTerminateCascades(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		child := cairn.NewWorkflow("child", func(ctx cairn.Context, _ int) (int, error) { return 0, cairn.Sleep(ctx, time.Hour) })
		parent := cairn.NewWorkflow("parent", func(ctx cairn.Context, _ int) (int, error) { return child.Run(ctx, 0) })
		e := start(parent, child)
		run, err := parent.Start(t.Context(), e, 0)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			info, err := run.Describe(t.Context())
			require.NoError(t, err)
			return len(info.Waits) == 1 && info.Waits[0].Kind == "child"
		}, 10*time.Second, 5*time.Millisecond)
		info, err := run.Describe(t.Context())
		require.NoError(t, err)
		require.NoError(t, run.Terminate(t.Context(), "enough"))
		ended, err := e.Run(info.Waits[0].ChildID).Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, cairn.StatusCancelled, ended.Status)
	})
}

// Children are identified by their keys; a key is used once.
func TestChildKeys(t *testing.T) {
	t.Parallel()
	child := cairn.NewWorkflow("child", func(ctx cairn.Context, s string) (string, error) { return s, cairn.Sleep(ctx, time.Second) })
	parent := cairn.NewWorkflow("parent", func(ctx cairn.Context, twice bool) (string, error) {
		a, err := child.StartChild(ctx, "a", cairn.Key("one"))
		if err != nil {
			return "", err
		}
		b, err := child.Run(ctx, "b", cairn.Key("two"))
		if err != nil {
			return "", err
		}
		first, err := a.Result(ctx)
		if err != nil {
			return "", err
		}
		if twice {
			_, err = child.StartChild(ctx, "c", cairn.Key("one"))
		}
		return first + b, err
	})
	out, _, err := ended(t, parent, false, child)
	require.NoError(t, err)
	require.Equal(t, "ab", out)
	_, _, err = ended(t, parent, true, child)
	require.ErrorContains(t, err, "duplicate_key: ")
}
