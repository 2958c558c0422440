package cairn_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
)

// notes is what a workflow has seen of its Contexts, in order.
type notes struct{ all []string }

func (n *notes) add(ctx context.Context, at string) {
	if ctx.Err() == nil {
		n.all = append(n.all, at+" goes on")
	} else {
		n.all = append(n.all, at+" is over")
	}
}

func (n *notes) String() string { return strings.Join(n.all, ", ") }

// TestContextsEndWhereTheyEnded has code that asks its Context whether it is over. Executed again after a cancel or a deadline, it gets the same
// answers at the same places.
func TestContextsEndWhereTheyEnded(t *testing.T) {
	t.Parallel()
	small := func(ctx cairn.Context, name string) error {
		_, err := cairn.Do(ctx, name, func(context.Context) (int, error) { return 1, nil })
		return err
	}
	again := cairn.NewHook[int]("again")
	wait := func(ctx cairn.Context, token string) error { // the run is dropped here, and executed from the beginning
		clean, stop := cairn.Cleanup(ctx, time.Minute)
		defer stop()
		_, err := again.Token(token).Wait(clean)
		return err
	}

	cancelled := cairn.NewWorkflow("cancelled", func(ctx cairn.Context, token string) (string, error) {
		var seen notes
		seen.add(ctx, "the beginning")
		for _, name := range []string{"a", "b"} {
			if err := small(ctx, name); err != nil {
				return "", err
			}
			seen.add(ctx, name)
		}
		if err := cairn.Sleep(ctx, time.Hour); !errors.Is(err, cairn.ErrCancelled) {
			return "", err
		}
		seen.add(ctx, "the sleep")
		return seen.String(), wait(ctx, token)
	})
	branches := cairn.NewWorkflow("branches", func(ctx cairn.Context, token string) (string, error) {
		var one, other notes
		slow, err := cairn.Go(ctx, "slow", func(ctx cairn.Context) (int, error) {
			one.add(ctx, "the beginning")
			err := cairn.Sleep(ctx, time.Hour)
			one.add(ctx, "the sleep")
			return 0, err
		})
		if err != nil {
			return "", err
		}
		quick, err := cairn.Go(ctx, "quick", func(ctx cairn.Context) (int, error) {
			for _, name := range []string{"a", "b"} {
				if err := small(ctx, name); err != nil {
					return 0, err
				}
				other.add(ctx, name)
			}
			if err := cairn.Sleep(ctx, time.Millisecond); err != nil && ctx.Err() == nil {
				return 0, err
			}
			<-ctx.Done()
			other.add(ctx, "the end")
			return 0, nil
		})
		if err != nil {
			return "", err
		}
		if _, err := cairn.All(ctx, slow, quick); !errors.Is(err, cairn.ErrCancelled) {
			return "", err
		}
		return one.String() + "; " + other.String(), wait(ctx, token)
	})
	limited := cairn.NewWorkflow("limited", func(ctx cairn.Context, token string) (string, error) {
		var seen notes
		short, stop := cairn.WithTimeout(ctx, time.Second)
		defer stop()
		if err := small(short, "a"); err != nil {
			return "", err
		}
		seen.add(short, "a")
		if err := cairn.Sleep(short, time.Hour); !errors.Is(err, cairn.ErrTimeout) {
			return "", err
		}
		seen.add(short, "the sleep")
		seen.add(ctx, "outside")
		return seen.String(), wait(ctx, token)
	})

	recorded := func(t *testing.T, e *cairn.Engine, id, key string) bool {
		t.Helper()
		for event, err := range e.Run(id).History(t.Context()) {
			require.NoError(t, err)
			if event.Key == key {
				return true
			}
		}
		return false
	}
	cases := map[string]struct {
		workflow *cairn.Workflow[string, string]
		want     string
		cancel   string // when this is recorded
	}{
		"cancel":   {cancelled, "the beginning goes on, a goes on, b goes on, the sleep is over", "sleep"},
		"branches": {branches, "the beginning goes on, the sleep is over; a goes on, b goes on, the end is over", "quick/sleep"},
		"deadline": {limited, "a goes on, the sleep is over, outside goes on", ""},
	}
	everywhere(t, func(t *testing.T, start starter) {
		e := start(cancelled, branches, limited)
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				run, err := c.workflow.Start(t.Context(), e, "again-"+name)
				require.NoError(t, err)
				if c.cancel != "" {
					require.Eventually(t, func() bool { return recorded(t, e, run.ID(), c.cancel) }, 10*time.Second, time.Millisecond)
					require.NoError(t, run.Cancel(t.Context(), "enough"))
				}
				for range 3 { // each time, an evicted run is executed from the beginning
					require.Eventually(t, func() bool { _, err := e.HookInfo(t.Context(), "again-"+name); return err == nil }, 10*time.Second, time.Millisecond)
					require.NoError(t, run.PollNow(t.Context()))
				}
				require.NoError(t, cairn.NewHook[int]("sent").Send(t.Context(), e, "again-"+name, 7))
				out, err := run.Result(t.Context())
				require.NoError(t, err)
				require.Equal(t, c.want, out)
			})
		}
	})
}
