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

func TestPoll(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		var looks atomic.Int32
		often := cairn.NewPoll("often", 10*time.Millisecond, func(_ context.Context, n int) (string, bool, error) {
			return "found", looks.Add(1) >= int32(n), nil
		})
		never := cairn.NewPoll("never", 10*time.Millisecond, func(context.Context, int) (string, bool, error) { return "", false, nil }).Timeout(50 * time.Millisecond)
		broken := cairn.NewPoll("broken", time.Hour, func(context.Context, int) (string, bool, error) { return "", false, errDeclined })
		wf := cairn.NewWorkflow("poll", func(ctx cairn.Context, n int) (string, error) {
			out, err := often.Wait(ctx, n)
			if err != nil {
				return "", err
			}
			if _, err := never.Wait(ctx, 0); !errors.Is(err, cairn.ErrTimeout) {
				return "", fmt.Errorf("never: %w", err)
			}
			if _, err := broken.Wait(ctx, 0); !errors.Is(err, errDeclined) {
				return "", fmt.Errorf("broken: %w", err)
			}
			return out, nil
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 5)
		require.NoError(t, err)
		out, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "found", out)
		require.EqualValues(t, 5, looks.Load())
		var events []string
		for event, err := range e.Run(run.ID()).History(t.Context()) {
			require.NoError(t, err)
			if event.Key == "often" {
				events = append(events, event.Type)
			}
		}
		require.Equal(t, []string{"wait_created", "wait_completed"}, events, "looks that find nothing leave no trace")
	})
}

// TestPollNow_FromAnyProcess_ChecksAtOnce calls PollNow in the process that executes the run, and in another one.
func TestPollNow_FromAnyProcess_ChecksAtOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		var arrived atomic.Bool
		var looks atomic.Int32
		poll := cairn.NewPoll("file", time.Hour, func(context.Context, int) (string, bool, error) {
			looks.Add(1)
			return "content", arrived.Load(), nil
		})
		wf := cairn.NewWorkflow("push", func(ctx cairn.Context, _ int) (string, error) { return poll.Wait(ctx, 0) })
		executes, client := start(wf), start()
		for name, e := range map[string]*cairn.Engine{"here": executes, "elsewhere": client} {
			t.Run(name, func(t *testing.T) {
				arrived.Store(false)
				looks.Store(0)
				run, err := wf.Start(t.Context(), e, 0, cairn.Elsewhere())
				require.NoError(t, err)
				require.Eventually(t, func() bool { return looks.Load() == 1 }, 10*time.Second, time.Millisecond)
				arrived.Store(true)
				require.NoError(t, run.PollNow(t.Context()))
				out, err := run.Result(t.Context())
				require.NoError(t, err)
				require.Equal(t, "content", out)
				require.NoError(t, e.Run(run.ID()).PollNow(t.Context()), "it has ended: there is nothing to look for")
				requireCode(t, "malformed", e.Run("run 7").PollNow(t.Context()))
				requireCode(t, "run_not_found", e.Run("wrun_01JD0000000000000000000000").PollNow(t.Context()))
			})
		}
	})
}
