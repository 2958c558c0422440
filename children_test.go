package cairn_test

import (
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
			quick, err := cairn.Go(ctx, "quick", func(ctx cairn.Context) (int, error) { return 0, cairn.Sleep(ctx, 300*time.Millisecond) })
			if err != nil {
				return 0, err
			}
			if _, err := cairn.Race(ctx, slow, quick); err != nil {
				return 0, err
			}
			return cairn.NewHook[int]("go").Token(token).Wait(ctx, 0)
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
		require.Eventually(t, func() bool { return states()[cairn.StatusCancelled] == 1 }, 10*time.Second, 5*time.Millisecond)
		require.Eventually(t, func() bool { return cairn.Send(t.Context(), e, "go", "", 7) == nil }, 10*time.Second, 5*time.Millisecond)
		out, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, 7, out)
		require.Equal(t, map[cairn.Status]int{cairn.StatusCancelled: 1, cairn.StatusRunning: 1}, states())
	})
}
