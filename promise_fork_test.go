package cairn_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
)

// TestPromiseFork forks runs that have done each primitive twice, from between the two: what came before is kept, and what came later is done again, once.
func TestPromiseFork(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		k := newKit()
		wf := cairn.NewWorkflow("twice", func(ctx cairn.Context, name string) (string, error) {
			before, err := primitives()[name](k, ctx, "before "+name)
			if err != nil {
				return "", err
			}
			if _, err := k.do(ctx, "again", name); err != nil {
				return "", err
			}
			after, err := primitives()[name](k, ctx, "after "+name)
			return before + ", " + after, err
		})
		e := start(wf, k.child)
		k.client = func() *cairn.Engine { return e }
		sources, forks := map[string]*cairn.Run[string]{}, map[string]*cairn.Run[string]{}
		for name := range primitives() {
			run, err := wf.Start(t.Context(), e, name)
			require.NoError(t, err)
			sources[name] = run
		}
		want := map[string]string{}
		for name, run := range sources {
			out, err := run.Result(within(t))
			require.NoError(t, err, name)
			want[name] = out
			forks[name], err = wf.Fork(t.Context(), e, run.ID(), cairn.Fork{From: "again", Reason: "to see", Actor: "ann"})
			require.NoError(t, err, name)
		}
		for name, run := range forks {
			out, err := run.Result(within(t))
			require.NoError(t, err, name)
			require.Equal(t, want[name], out, name)
			require.NoError(t, recordedOnce(historyOf(t, e, run.ID())), name)
			require.Equal(t, 2, k.done("again "+name))
			for _, body := range bodies(name, "before "+name) {
				require.Equal(t, 1, k.done(body), "%s of %s is kept", body, name)
			}
			for _, body := range bodies(name, "after "+name) {
				require.Equal(t, 2, k.done(body), "%s of %s is done again", body, name)
			}
		}
		children, err := e.List(t.Context(), cairn.Filter{ParentID: forks["child"].ID()})
		require.NoError(t, err)
		require.Len(t, children.Runs, 1, "of the two children, one is kept as a result, and one is started again")
		require.Equal(t, []string{"cairn.fork ann  to see", "step  noting@after annotations after annotations", "workflow  annotate#2 after annotations"},
			noted(t, e, forks["annotations"].ID(), cairn.AnnotationFilter{}), "what was noted about the source stays with the source")
		info, err := forks["attributes"].Describe(t.Context())
		require.NoError(t, err)
		value, _ := promised.Of(info)
		require.Equal(t, "after attributes", value)
	})
}

// A fork has the attributes that its source had where it begins.
func TestAForkHasTheAttributesOfItsBeginning(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
			if err := cairn.SetAttributes(ctx, promised.Value("early"), amount.Value(1)); err != nil {
				return 0, err
			}
			if err := cairn.Sleep(ctx, time.Millisecond); err != nil {
				return 0, err
			}
			if _, err := cairn.NewHook[string]("go").Wait(ctx); err != nil {
				return 0, err
			}
			return 0, cairn.SetAttributes(ctx, promised.Value("late"), amount.Remove())
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0, cairn.WithAttributes(customer.Value("ada")))
		require.NoError(t, err)
		(&mixed{}).mail(t, e, run.ID(), "go on")
		_, err = run.Result(within(t))
		require.NoError(t, err)
		fork, err := wf.Fork(t.Context(), e, run.ID(), cairn.Fork{From: "sleep"})
		require.NoError(t, err)
		eventually(t, e, fork.ID(), func(info *cairn.RunInfo) bool { return len(info.Waits) == 1 && info.Waits[0].Kind == "hook" })
		info, err := fork.Describe(t.Context())
		require.NoError(t, err)
		value, _ := promised.Of(info)
		n, _ := amount.Of(info)
		who, _ := customer.Of(info)
		require.Equal(t, "early", value)
		require.EqualValues(t, 1, n)
		require.Equal(t, "ada", who)
	})
}

// A fork of a run that was cancelled keeps what came before the request, and nothing of the clean-up: it goes on where the run was.
func TestForkOfACancelledRun(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		var counts sync.Map
		step := text(&counts)
		wf := cairn.NewWorkflow("order", func(ctx cairn.Context, _ int) (string, error) {
			for _, what := range []string{"charge", "tell"} {
				if _, err := step.Do(ctx, what, cairn.Key(what)); err != nil {
					return "", err
				}
			}
			address, err := cairn.NewHook[string]("address").Wait(ctx)
			if err != nil {
				clean, done := cairn.Cleanup(ctx, time.Minute)
				defer done()
				_, undone := step.Do(clean, "refund", cairn.Key("refund"))
				return "", errors.Join(err, undone)
			}
			return "shipped to " + address, nil
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		eventually(t, e, run.ID(), func(info *cairn.RunInfo) bool { return len(info.Waits) == 1 })
		require.NoError(t, run.Cancel(t.Context(), "a mistake"))
		_, err = run.Result(within(t))
		require.ErrorIs(t, err, cairn.ErrCancelled)
		requireOnce(t, &counts)
		for _, f := range []cairn.Fork{{From: "address"}, {Drop: []string{"text@tell"}}} {
			fork, err := wf.Fork(t.Context(), e, run.ID(), f)
			require.NoError(t, err)
			(&mixed{}).mail(t, e, fork.ID(), "Oslo")
			out, err := fork.Result(within(t))
			require.NoError(t, err)
			require.Equal(t, "shipped to Oslo", out)
			require.Equal(t, []string{"text@charge", "text@tell"}, stepsDone(t, e, fork.ID()))
		}
		for what, want := range map[string]int32{"charge": 1, "tell": 2, "refund": 1} {
			n, _ := counts.Load(what)
			require.Equal(t, want, n.(*atomic.Int32).Load(), what)
		}
	})
}

// A fork of a child is a run of its own: it has no parent, which has the outcome of the child that it started.
func TestForkOfAChild(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		k := newKit()
		parent := cairn.NewWorkflow("parent", func(ctx cairn.Context, tag string) (string, error) { return k.child.Run(ctx, tag) })
		e := start(parent, k.child)
		run, err := parent.Start(t.Context(), e, "x")
		require.NoError(t, err)
		_, err = run.Result(within(t))
		require.NoError(t, err)
		page, err := e.List(t.Context(), cairn.Filter{ParentID: run.ID()})
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
		fork, err := k.child.Fork(t.Context(), e, page.Runs[0].ID, cairn.Fork{From: "child"})
		require.NoError(t, err)
		_, err = fork.Result(within(t))
		require.NoError(t, err)
		info, err := fork.Describe(t.Context())
		require.NoError(t, err)
		require.Empty(t, info.ParentID)
		require.Equal(t, fork.ID(), info.RootID)
		require.Equal(t, 2, k.done("child x"))
	})
}

// A fork of a run that is paused is not: the pause stays with its source.
func TestForkOfAPausedRun(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		g := newGate()
		close(g.letGo)
		wait := cairn.NewHook[string]("go")
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, in string) (string, error) {
			out, err := g.wf.Run(ctx, in)
			if err != nil {
				return "", err
			}
			more, err := wait.Wait(ctx)
			return out + more, err
		})
		e := start(wf, g.wf)
		run, err := wf.Start(t.Context(), e, "x")
		require.NoError(t, err)
		eventually(t, e, run.ID(), func(info *cairn.RunInfo) bool { return len(info.Waits) == 1 && info.Waits[0].Kind == "hook" })
		require.NoError(t, run.Pause(t.Context(), "look at it"))
		fork, err := wf.Fork(t.Context(), e, run.ID(), cairn.Fork{From: "go"})
		require.NoError(t, err)
		(&mixed{}).mail(t, e, fork.ID(), "!")
		out, err := fork.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, "x12!", out)
		require.EqualValues(t, 1, g.firsts.Load())
		info, err := run.Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, cairn.PhasePaused, info.Phase)
	})
}

// The idempotency key of a step is the same in all its attempts and in each process, and no other step has it, in no other run and in no fork.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	keys := map[string][]string{}
	step := cairn.NewStep("s", func(ctx context.Context, tag string) (string, error) {
		key := cairn.IdempotencyKey(ctx)
		mu.Lock()
		keys[tag] = append(keys[tag], key)
		n := len(keys[tag])
		mu.Unlock()
		switch n {
		case 1:
			return "", errors.New("once more")
		case 2:
			<-ctx.Done() // the process is killed
		}
		return key, nil
	}).Retry(cairn.RetryPolicy{Attempts: 5, First: time.Second})
	wf := cairn.NewWorkflow("w", plain(step.Do))
	cairntest.Run(t, func(e *cairntest.Env) {
		run, err := wf.Start(e.Context(), e.Engine(), "a")
		require.NoError(t, err)
		e.Sleep(time.Minute)
		e.Crash()
		run, err = wf.Get(e.Context(), e.Engine(), run.ID())
		require.NoError(t, err)
		first, err := run.Result(e.Context())
		require.NoError(t, err)
		require.Equal(t, []string{first, first, first}, keys["a"], "two attempts, and one in another process")
		fork, err := wf.Fork(e.Context(), e.Engine(), run.ID(), cairn.Fork{From: "s"})
		require.NoError(t, err)
		second, err := fork.Result(e.Context())
		require.NoError(t, err)
		require.NotEqual(t, first, second)
		other, err := wf.Start(e.Context(), e.Engine(), "a")
		require.NoError(t, err)
		third, err := other.Result(e.Context())
		require.NoError(t, err)
		require.NotContains(t, []string{first, second}, third)
		require.Empty(t, cairn.IdempotencyKey(e.Context()))
	}, wf)
}
