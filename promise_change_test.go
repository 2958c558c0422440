package cairn_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// deploys is a database on which an engine is stopped and another one started, as when new code is deployed: what waits is executed from the beginning then.
type deploys struct {
	t         *testing.T
	st        cairn.Store
	workflows []cairn.Definition
	e         *cairn.Engine
}

func newDeploys(t *testing.T, workflows ...cairn.Definition) *deploys {
	t.Helper()
	st, err := sqlite.Memory(t.Context(), nil)
	require.NoError(t, err)
	d := &deploys{t: t, st: st, workflows: workflows}
	t.Cleanup(func() { _ = d.e.Stop(context.Background()); _ = st.Close() })
	d.next()
	return d
}

// next stops the engine and starts another one.
func (d *deploys) next() {
	d.t.Helper()
	if d.e != nil {
		require.NoError(d.t, d.e.Stop(d.t.Context()))
	}
	var err error
	d.e, err = cairn.NewWith(d.t.Context(), d.st, cairn.Config{Poll: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}, d.workflows...)
	require.NoError(d.t, err)
}

// waitsFor waits until a run waits for a token.
func waitsFor(t *testing.T, e *cairn.Engine, run, token string) {
	t.Helper()
	require.Eventually(t, func() bool { _, err := e.HookInfo(t.Context(), token); return err == nil }, 20*time.Second, time.Millisecond, token)
	eventually(t, e, run, func(info *cairn.RunInfo) bool {
		for _, w := range info.Waits {
			if w.Token == token {
				return true
			}
		}
		return false
	})
}

// TestPromiseChange changes code around a primitive that a run has done: steps are added before and after it, or it is removed. What is finished is found, and is not
// done again; the run ends well.
func TestPromiseChange(t *testing.T) {
	t.Parallel()
	for name, do := range primitives() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit()
			var version atomic.Int32
			wf := cairn.NewWorkflow("changes", func(ctx cairn.Context, token string) (string, error) {
				if version.Load() == 1 && name != "ids" { // what is added before them moves the time on, and ids with it
					if _, err := k.do(ctx, "new before", token); err != nil {
						return "", err
					}
				}
				if version.Load() < 2 {
					if _, err := do(k, ctx, "once"); err != nil {
						return "", err
					}
				}
				if version.Load() == 1 {
					if _, err := k.do(ctx, "new after", token); err != nil {
						return "", err
					}
				}
				return cairn.NewHook[string]("go").Token(token).Wait(ctx)
			})
			d := newDeploys(t, wf, k.child)
			k.client = func() *cairn.Engine { return d.e }
			for v, token := range map[int32]string{1: "added", 2: "removed"} {
				k.reset()
				version.Store(0)
				d.next()
				run, err := wf.Start(t.Context(), d.e, token)
				require.NoError(t, err)
				waitsFor(t, d.e, run.ID(), token)
				version.Store(v)
				d.next()
				require.NoError(t, cairn.NewHook[string]("sent").Send(t.Context(), d.e, token, "!"))
				run, err = wf.Get(t.Context(), d.e, run.ID())
				require.NoError(t, err)
				out, err := run.Result(within(t))
				require.NoError(t, err, token)
				require.Equal(t, "!", out)
				require.NoError(t, recordedOnce(historyOf(t, d.e, run.ID())), token)
				for _, body := range bodies(name, "once") {
					require.Equal(t, 1, k.done(body), body)
				}
				if v == 1 {
					require.Equal(t, name != "ids", k.done("new before "+token) == 1)
					require.Equal(t, 1, k.done("new after "+token))
				}
			}
		})
	}
}

// TestAnotherKindParks has code that asks for another kind of thing under a name that is recorded. The run is parked and says why; mended, it goes on.
func TestAnotherKindParks(t *testing.T) {
	t.Parallel()
	child := cairn.NewWorkflow("x", func(cairn.Context, string) (string, error) { return "x", nil })
	step := cairn.NewStep("x", func(context.Context, string) (string, error) { return "x", nil })
	poll := cairn.NewPoll("x", time.Minute, func(context.Context, string) (string, bool, error) { return "x", true, nil })
	kinds := map[string]func(cairn.Context, string) (string, error){
		"step": plain(step.Do),
		"wait": plain(poll.Wait),
		"hook": func(ctx cairn.Context, _ string) (string, error) {
			_, err := cairn.NewHook[string]("x").Open(ctx)
			return "x", err
		},
		"child": func(ctx cairn.Context, in string) (string, error) { return child.Run(ctx, in) },
	}
	for was := range kinds {
		for is := range kinds {
			if was == is {
				continue
			}
			t.Run(was+" to "+is, func(t *testing.T) {
				t.Parallel()
				var changed atomic.Bool
				wf := cairn.NewWorkflow("changes", func(ctx cairn.Context, token string) (string, error) {
					kind := kinds[was]
					if changed.Load() {
						kind = kinds[is]
					}
					if _, err := kind(ctx, "in"); err != nil {
						return "", err
					}
					return cairn.NewHook[string]("go").Token(token).Wait(ctx)
				})
				d := newDeploys(t, wf, child)
				run, err := wf.Start(t.Context(), d.e, "token")
				require.NoError(t, err)
				waitsFor(t, d.e, run.ID(), "token")
				changed.Store(true)
				d.next()
				require.NoError(t, cairn.NewHook[string]("sent").Send(t.Context(), d.e, "token", "!"))
				run, err = wf.Get(t.Context(), d.e, run.ID())
				require.NoError(t, err)
				eventually(t, d.e, run.ID(), func(info *cairn.RunInfo) bool { return info.Phase == "parked" })
				info, err := run.Describe(t.Context())
				require.NoError(t, err)
				require.EqualError(t, info.Error, fmt.Sprintf(`mismatch: "x" is recorded as a %s, and the code now wants a %s: fix the code and resume the run, or fork it`, was, is))
				changed.Store(false)
				require.NoError(t, run.Resume(t.Context()))
				out, err := run.Result(within(t))
				require.NoError(t, err)
				require.Equal(t, "!", out)
			})
		}
	}
}

// A decision for a branch that the code does not start any more parks the run.
func TestAWinnerThatIsGone(t *testing.T) {
	t.Parallel()
	k := newKit()
	var changed atomic.Bool
	wf := cairn.NewWorkflow("changes", func(ctx cairn.Context, token string) (string, error) {
		naps := map[string]time.Duration{"fast": time.Millisecond, "slow": time.Hour}
		names := []string{"fast", "slow"}
		if changed.Load() {
			names = []string{"slow"}
		}
		var futures []*cairn.Future[string]
		for _, name := range names {
			f, err := racer(ctx, name, naps[name], k.noting)
			if err != nil {
				return "", err
			}
			futures = append(futures, f)
		}
		if _, err := cairn.Race(ctx, futures...); err != nil {
			return "", err
		}
		return cairn.NewHook[string]("go").Token(token).Wait(ctx)
	})
	d := newDeploys(t, wf)
	run, err := wf.Start(t.Context(), d.e, "token")
	require.NoError(t, err)
	waitsFor(t, d.e, run.ID(), "token")
	changed.Store(true)
	d.next()
	require.NoError(t, cairn.NewHook[string]("sent").Send(t.Context(), d.e, "token", "!"))
	run, err = wf.Get(t.Context(), d.e, run.ID())
	require.NoError(t, err)
	eventually(t, d.e, run.ID(), func(info *cairn.RunInfo) bool { return info.Phase == "parked" })
	info, err := run.Describe(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, info.Error, `"race" was decided for branch "fast", which the code does not start any more`)
	changed.Store(false)
	require.NoError(t, run.Resume(t.Context()))
	_, err = run.Result(within(t))
	require.NoError(t, err)
}

// A change of attributes that is recorded is not made again, also not with another value that changed code gives it.
func TestARecordedChangeOfAttributesStays(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		var executions atomic.Int32
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
			if err := cairn.SetAttributes(ctx, amount.Value(int64(executions.Add(1)))); err != nil {
				return 0, err
			}
			return 0, cairn.Sleep(ctx, 20*time.Millisecond)
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		_, err = run.Result(within(t))
		require.NoError(t, err)
		info, err := run.Describe(t.Context())
		require.NoError(t, err)
		n, _ := amount.Of(info)
		require.EqualValues(t, 1, n)
	})
}
