package cairn_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/store"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// TestALoserThatIsDue has branches whose timers end in the moment in which another one wins.
func TestALoserThatIsDue(t *testing.T) {
	t.Parallel()
	wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
		for range 3 {
			futures := make([]*cairn.Future[int], 6)
			for i := range futures {
				var err error
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

// TestACleanUpHasAnEnd has a clean-up that waits for what never comes.
func TestACleanUpHasAnEnd(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
			err := cairn.Sleep(ctx, time.Hour)
			clean, done := cairn.Cleanup(ctx, 50*time.Millisecond)
			defer done()
			if _, never := cairn.NewHook[int]("never").Wait(clean, 0); !errors.Is(never, cairn.ErrTimeout) {
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
			id, err := cairn.NewID(clean)
			mu.Lock()
			seen = append(seen, id)
			mu.Unlock()
			return 0, errors.Join(failed, err, cairn.Sleep(clean, 20*time.Millisecond))
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

// TestAskAHookThatCloses asks through a hook that is closed without an answer.
func TestAskAHookThatCloses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
			if _, err := cairn.NewHook[int]("question").Token("t").Wait(ctx, 0); err != nil {
				return 0, err
			}
			return 0, cairn.Sleep(ctx, time.Hour)
		})
		e := start(wf)
		_, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		require.Eventually(t, func() bool { _, err := e.HookInfo(t.Context(), "t"); return err == nil }, 10*time.Second, time.Millisecond)
		_, err = cairn.Ask[int, int](t.Context(), e, "t", "", 1)
		require.ErrorContains(t, err, "hook_not_found")
	})
}

// unreachable is a store whose writers cannot reach the database once down is closed.
type unreachable struct {
	store.Store
	down chan struct{}
}

func (s *unreachable) OpenWriter(ctx context.Context, incarnation journal.ID, number int) (store.Writer, error) {
	w, err := s.Store.OpenWriter(ctx, incarnation, number)
	return &unreachableWriter{w, s.down}, err
}

type unreachableWriter struct {
	store.Writer
	down chan struct{}
}

func (w *unreachableWriter) Begin(ctx context.Context, now journal.Time) (store.Tx, error) {
	select {
	case <-w.down:
		return nil, journal.Errorf(journal.CodeUnreachable, "the database is down")
	default:
		return w.Writer.Begin(ctx, now)
	}
}

// TestStopWithoutADatabase stops an engine that cannot write any more: it comes back.
func TestStopWithoutADatabase(t *testing.T) {
	t.Parallel()
	inner, err := sqlite.Memory(t.Context(), nil)
	require.NoError(t, err)
	st := &unreachable{inner, make(chan struct{})}
	began := make(chan struct{}, 1000)
	wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
		for {
			_, err := cairn.Do(ctx, "s", func(context.Context) (int, error) {
				select {
				case began <- struct{}{}:
				default:
				}
				return 0, nil
			})
			if err != nil {
				return 0, err
			}
		}
	})
	e, err := cairn.New(t.Context(), st, wf)
	require.NoError(t, err)
	_, err = wf.Start(t.Context(), e, 0)
	require.NoError(t, err)
	<-began
	close(st.down)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- e.Stop(ctx) }()
	select {
	case <-stopped:
	case <-time.After(30 * time.Second):
		require.Fail(t, "it has not come back")
	}
}
