package cairn_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/store/open"
)

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

func TestSome(t *testing.T) {
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
			votes, err := cairn.Some(ctx, 3, futures...)
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
					v, err := hook.Token(fmt.Sprint("branch ", i)).Wait(ctx, 0)
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
				return cairn.Send(t.Context(), e, fmt.Sprint("branch ", i), "", fmt.Sprint("branch ", i)) == nil
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
			out, err := cairn.MapKey(ctx, "item", items, 4, func(i int) string { return fmt.Sprint(i) }, func(ctx cairn.Context, i int) (int, error) {
				return cairn.Do(ctx, "work", func(context.Context) (int, error) {
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(time.Millisecond)
					now.Add(-1)
					return i, nil
				})
			})
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
			if _, err := child.StartChild(ctx, 0, cairn.Detached(), cairn.ChildAttributes(map[string]string{"detached": "yes"})); err != nil {
				return 0, err
			}
			return child.Run(ctx, 0, cairn.ChildAttributes(map[string]string{"detached": "no"}))
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
		for event, err := range e.History(t.Context(), info.ID) {
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
		ended, err := e.Describe(t.Context(), info.Waits[0].ChildID)
		require.NoError(t, err)
		require.Equal(t, cairn.StatusCancelled, ended.Status)
	})
}

func TestPoll(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		var looks atomic.Int32
		often := cairn.NewPoll("often", 10*time.Millisecond, func(_ context.Context, n int) (string, bool, error) {
			return "found", looks.Add(1) >= int32(n), nil
		})
		never := cairn.NewPoll("never", 10*time.Millisecond, func(context.Context, int) (string, bool, error) { return "", false, nil }).Within(50 * time.Millisecond)
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
		for event, err := range e.History(t.Context(), run.ID()) {
			require.NoError(t, err)
			if event.Key == "often" {
				events = append(events, event.Type)
			}
		}
		require.Equal(t, []string{"wait_created", "wait_completed"}, events, "looks that find nothing leave no trace")
	})
}

// TestPush pushes a run, from the process that executes it and from another one.
func TestPush(t *testing.T) {
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
				require.NoError(t, run.Push(t.Context()))
				out, err := run.Result(t.Context())
				require.NoError(t, err)
				require.Equal(t, "content", out)
				require.NoError(t, e.Push(t.Context(), run.ID()), "it has ended: there is nothing to look for")
				requireCode(t, "malformed", e.Push(t.Context(), "run 7"))
				requireCode(t, "run_not_found", e.Push(t.Context(), "wrun_01JD0000000000000000000000"))
			})
		}
	})
}

func TestAsk(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		counter := cairn.NewHook[int]("counter").Token("the counter").Metadata("adds up")
		wf := cairn.NewWorkflow("counter", func(ctx cairn.Context, _ int) (int, error) {
			h, err := counter.Open(ctx)
			if err != nil {
				return 0, err
			}
			sum := 0
			for {
				r, err := h.ReceiveRequest(ctx, 0)
				if err != nil {
					return 0, err
				}
				if r.Value < 0 {
					return sum, r.Refuse(ctx, errDeclined)
				}
				sum += r.Value
				if err := r.Reply(ctx, sum); err != nil {
					return 0, err
				}
			}
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		var info *cairn.HookInfo
		require.Eventually(t, func() bool {
			info, err = e.HookInfo(t.Context(), "the counter")
			return err == nil
		}, 10*time.Second, time.Millisecond)
		var about string
		require.NoError(t, info.Metadata(&about))
		require.Equal(t, "adds up", about)
		require.Equal(t, run.ID(), info.RunID)

		other := cairn.NewWorkflow("other", func(ctx cairn.Context, _ int) (int, error) { _, err := counter.Open(ctx); return 0, err })
		_, err = result(t, start(other), other, 0)
		require.ErrorIs(t, err, cairn.ErrHookConflict)

		for i, want := range []int{1, 3, 6} {
			got, err := cairn.Ask[int, int](t.Context(), e, "the counter", fmt.Sprint("key ", i), i+1)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		got, err := cairn.Ask[int, int](t.Context(), e, "the counter", "key 1", 2)
		require.NoError(t, err)
		require.Equal(t, 3, got, "the same key has the same answer")
		_, err = cairn.Ask[int, int](t.Context(), e, "the counter", "", -1)
		require.ErrorIs(t, err, errDeclined)
		sum, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, 6, sum)
	})
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		hook := cairn.NewHook[int]("never")
		wf := cairn.NewWorkflow("deadline", func(ctx cairn.Context, _ int) (string, error) {
			within, cancel, err := cairn.WithTimeout(ctx, time.Hour)
			if err != nil {
				return "", err
			}
			if err := cairn.Sleep(within, 10*time.Millisecond); err != nil {
				return "", err
			}
			cancel()
			for _, wait := range []func(cairn.Context) error{
				func(ctx cairn.Context) error { return cairn.Sleep(ctx, time.Hour) },
				func(ctx cairn.Context) error { _, err := hook.Wait(ctx, 0); return err },
				func(ctx cairn.Context) error {
					_, err := cairn.Do(ctx, "hang", func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, context.Cause(ctx) })
					return err
				},
			} {
				within, cancel, err := cairn.WithTimeout(ctx, 30*time.Millisecond)
				if err != nil {
					return "", err
				}
				if err := wait(within); !errors.Is(err, cairn.ErrTimeout) {
					return "", fmt.Errorf("no timeout: %w", err)
				}
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
			draw := func() error {
				id, err := cairn.NewID(ctx)
				if err != nil {
					return err
				}
				random, err := cairn.Rand(ctx)
				if err != nil {
					return err
				}
				d.Times, d.IDs, d.N = append(d.Times, cairn.Now(ctx)), append(d.IDs, id), append(d.N, random.Uint64(), random.Uint64())
				return nil
			}
			defer func() { mu.Lock(); executions = append(executions, d); mu.Unlock() }()
			if err := draw(); err != nil {
				return d, err
			}
			if _, err := cairn.Do(ctx, "step", func(context.Context) (int, error) { time.Sleep(5 * time.Millisecond); return 0, nil }); err != nil {
				return d, err
			}
			if err := draw(); err != nil {
				return d, err
			}
			if err := cairn.Sleep(ctx, 20*time.Millisecond); err != nil {
				return d, err
			}
			return d, draw()
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

// TestACancelWithManyErrors cancels a run whose error is longer than a reason may be.
func TestACancelWithManyErrors(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, n int) (int, error) {
			_, err := cairn.Map(ctx, "item", make([]int, n), 0, func(ctx cairn.Context, _ int) (int, error) { return 0, cairn.Sleep(ctx, time.Hour) })
			return 0, err
		})
		run, err := wf.Start(t.Context(), start(wf), 60)
		require.NoError(t, err)
		require.NoError(t, run.Cancel(t.Context(), "enough"))
		_, err = run.Result(t.Context())
		require.ErrorIs(t, err, cairn.ErrCancelled)
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
			if _, err := hook.Wait(ctx, 20*time.Millisecond); !errors.Is(err, cairn.ErrTimeout) {
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

func TestAWrappedErrorSaysItsCodeOnce(t *testing.T) {
	t.Parallel()
	wf := cairn.NewWorkflow("w", func(cairn.Context, int) (int, error) { return 0, fmt.Errorf("charge: %w", errDeclined) })
	_, err := result(t, memory(t, cairn.Config{}, wf), wf, 0)
	require.EqualError(t, err, "card_declined: charge: the card was declined")
}

// The limit on the silence of a step does not hide what the step failed with.
func TestAHeartbeatTimeoutKeepsTheErrorOfItsStep(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		step := cairn.NewStep("charge", func(context.Context, int) (int, error) { return 0, errDeclined }).
			HeartbeatTimeout(time.Minute).Retry(cairn.RetryPolicy{Attempts: 3, Never: []cairn.Code{errDeclined.Code}})
		wf := cairn.NewWorkflow("w", step.Do)
		_, err := result(t, start(wf), wf, 0)
		requireCode(t, errDeclined.Code, err)
	})
}
