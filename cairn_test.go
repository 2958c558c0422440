package cairn_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/store/open"
	"github.com/cairn-workflow/cairn/store/postgres"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(workerURL); url != "" {
		panic(work(url)) // it ends when it is killed
	}
	if url := os.Getenv(starterURL); url != "" {
		panic(startAndDie(url, os.Getenv(starterEnd)))
	}
	pgtest.Main(m)
}

// onEveryStore runs a test on each database. open starts an engine as a process of its own.
func onEveryStore(t *testing.T, test func(t *testing.T, open func(...cairn.Definition) *cairn.Engine)) {
	t.Helper()
	engine := func(t *testing.T, st cairn.Store, err error, workflows []cairn.Definition) *cairn.Engine {
		t.Helper()
		require.NoError(t, err)
		e, err := cairn.NewWith(t.Context(), st, cairn.Config{Poll: 20 * time.Millisecond}, workflows...)
		require.NoError(t, err)
		t.Cleanup(func() {
			replayAll(t, e, workflows)
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			_ = e.Stop(ctx)
			_ = st.Close()
		})
		return e
	}
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		test(t, func(workflows ...cairn.Definition) *cairn.Engine {
			st, err := postgres.Open(t.Context(), url, nil)
			return engine(t, st, err, workflows)
		})
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "x.db")
		test(t, func(workflows ...cairn.Definition) *cairn.Engine {
			st, err := sqlite.Open(t.Context(), path, nil)
			return engine(t, st, err, workflows)
		})
	})
}

type order struct {
	ID    string
	Items []int
}

var errDeclined = cairn.NewError("card_declined", "the card was declined")

// TestAnOrder goes through most of what there is: steps with retries, a map, an approval by hook, a sleep, errors with codes.
func TestAnOrder(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, open func(...cairn.Definition) *cairn.Engine) {
		var charges atomic.Int32
		charge := cairn.NewStep("charge", func(ctx context.Context, o order) (string, error) {
			charges.Add(1)
			if cairn.Attempt(ctx) < 2 {
				return "", errors.New("try again")
			}
			return "receipt for " + o.ID, nil
		}).Retry(cairn.RetryPolicy{Attempts: 3, First: time.Millisecond}).Timeout(time.Minute)
		approved := cairn.NewHook[bool]("approved")
		tokens := make(chan string, 1)
		checkout := cairn.NewWorkflow("checkout", func(ctx cairn.Context, o order) (string, error) {
			receipt, err := charge.Do(ctx, o, cairn.Key(o.ID))
			if err != nil {
				return "", err
			}
			doubled, err := cairn.Map(ctx, "item", o.Items, 2, func(ctx cairn.Context, n int) (int, error) {
				return cairn.Do(ctx, "double", func(context.Context) (int, error) { return 2 * n, nil })
			})
			if err != nil {
				return "", err
			}
			h, err := approved.Once().Open(ctx)
			if err != nil {
				return "", err
			}
			tokens <- h.Token() //cairnvet:ignore wait it has room, and the test needs the token
			ok, err := h.Receive(ctx, cairn.Timeout(time.Hour))
			if err != nil || !ok {
				return "", errors.Join(err, errDeclined)
			}
			if err := cairn.Sleep(ctx, 10*time.Millisecond); err != nil {
				return "", err
			}
			return fmt.Sprint(receipt, doubled), nil
		})
		e := open(checkout)
		o := order{ID: "o-1", Items: []int{1, 2, 3, 4, 5}}
		run, err := checkout.Start(t.Context(), e, o, cairn.Key(o.ID))
		require.NoError(t, err)
		again, err := checkout.Start(t.Context(), e, o, cairn.Key(o.ID))
		require.NoError(t, err)
		require.Equal(t, run.ID(), again.ID(), "the same key and input is the same run")
		_, err = checkout.Start(t.Context(), e, order{ID: "other"}, cairn.Key(o.ID))
		require.ErrorIs(t, err, cairn.NewError("start_key_conflict", ""))
		require.NoError(t, cairn.NewHook[bool]("sent").Send(t.Context(), e, <-tokens, true))
		out, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "receipt for o-1[2 4 6 8 10]", out)
		require.EqualValues(t, 2, charges.Load())
	})
}

// TestAnErrorsCodeSurvives matches an error that a step returned, as the caller of another process sees it.
func TestAnErrorsCodeSurvives(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, open func(...cairn.Definition) *cairn.Engine) {
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
			_, err := cairn.Do(ctx, "charge", func(context.Context) (int, error) { return 0, errDeclined })
			if !errors.Is(err, errDeclined) {
				return 0, errors.New("the workflow does not recognise the error")
			}
			return 0, fmt.Errorf("checkout: %w", err)
		})
		run, err := wf.Start(t.Context(), open(wf), 0)
		require.NoError(t, err)
		_, err = run.Result(t.Context())
		require.ErrorIs(t, err, errDeclined)
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, open func(...cairn.Definition) *cairn.Engine) {
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) { return 0, cairn.Sleep(ctx, time.Hour) })
		run, err := wf.Start(t.Context(), open(wf), 0)
		require.NoError(t, err)
		require.NoError(t, run.Cancel(t.Context(), "enough"))
		_, err = run.Result(t.Context())
		require.ErrorIs(t, err, cairn.ErrCancelled)
	})
}

// starter starts an engine as a process of its own.
type starter func(workflows ...cairn.Definition) *cairn.Engine

// everywhere runs a test on each database, and on each with runs that stay in memory while they wait and with runs that do not.
func everywhere(t *testing.T, test func(t *testing.T, start starter)) {
	t.Helper()
	for _, kind := range []string{"postgres", "sqlite"} {
		for mode, waiting := range map[string]int{"kept": 0, "evicted": -1} {
			t.Run(kind+" "+mode, func(t *testing.T) {
				t.Parallel()
				where := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
				if kind == "postgres" {
					where = pgtest.URL(t)
				}
				test(t, func(workflows ...cairn.Definition) *cairn.Engine {
					st, err := open.URL(t.Context(), where)
					require.NoError(t, err)
					e, err := cairn.NewWith(t.Context(), st, cairn.Config{Poll: 20 * time.Millisecond, MaxWaiting: waiting}, workflows...)
					require.NoError(t, err)
					t.Cleanup(func() {
						replayAll(t, e, workflows)
						ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
						defer cancel()
						_ = e.Stop(ctx)
						_ = st.Close()
					})
					return e
				})
			})
		}
	}
}

// text is a step that returns its input, and counts how often it is done.
func text(counts *sync.Map) cairn.Step[string, string] {
	return cairn.NewStep("text", func(_ context.Context, s string) (string, error) {
		n, _ := counts.LoadOrStore(s, new(atomic.Int32))
		n.(*atomic.Int32).Add(1)
		return s, nil
	})
}

// requireOnce checks that each of the steps was done once.
func requireOnce(t *testing.T, counts *sync.Map) {
	t.Helper()
	counts.Range(func(s, n any) bool {
		require.EqualValues(t, 1, n.(*atomic.Int32).Load(), "step %v", s)
		return true
	})
}

func result[In, Out any](t *testing.T, e *cairn.Engine, wf *cairn.Workflow[In, Out], in In) (Out, error) {
	t.Helper()
	run, err := wf.Start(t.Context(), e, in)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return run.Result(ctx)
}

// racer sleeps and then returns its name.
func racer(ctx cairn.Context, name string, d time.Duration, step cairn.Step[string, string]) (*cairn.Future[string], error) {
	return cairn.Go(ctx, name, func(ctx cairn.Context) (string, error) {
		if err := cairn.Sleep(ctx, d); err != nil {
			return "", err
		}
		return step.Do(ctx, name)
	})
}

// plain is a call without its options, where a function of two arguments is wanted.
func plain[In, Out, O any](call func(cairn.Context, In, ...O) (Out, error)) func(cairn.Context, In) (Out, error) {
	return func(ctx cairn.Context, in In) (Out, error) { return call(ctx, in) }
}
