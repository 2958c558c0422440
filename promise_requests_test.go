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

// A value with a sender's key is received once, however often and from wherever it is sent; the key with another value is refused.
func TestSentTwiceReceivedOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("reader", func(ctx cairn.Context, token string) (string, error) {
			h, err := cairn.NewHook[string]("mail").Token(token).Open(ctx)
			if err != nil {
				return "", err
			}
			all := ""
			for len(all) < 4 {
				next, err := h.Receive(ctx)
				if err != nil {
					return "", err
				}
				all += next
			}
			return all, nil
		})
		e, other := start(wf), start()
		run, err := wf.Start(t.Context(), e, "box")
		require.NoError(t, err)
		waitsFor(t, e, run.ID(), "box")
		for range 3 {
			for _, from := range []*cairn.Engine{e, other} {
				require.NoError(t, cairn.NewHook[string]("sent").Send(t.Context(), from, "box", "a", cairn.Key("one")))
			}
		}
		requireCode(t, "receipt_conflict", cairn.NewHook[string]("sent").Send(t.Context(), e, "box", "x", cairn.Key("one")))
		require.NoError(t, cairn.NewHook[string]("sent").Send(t.Context(), e, "box", "b", cairn.Key("two")))
		for range 2 { // without a key they are two
			require.NoError(t, cairn.NewHook[string]("sent").Send(t.Context(), e, "box", "c"))
		}
		out, err := run.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, "abcc", out)
		require.Error(t, cairn.NewHook[string]("sent").Send(t.Context(), e, "box", "d", cairn.Key("three")), "nothing is received after the end")
	})
}

// Of several senders to a hook for one value, one wins, and the others are told so.
func TestOneSenderWins(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("vote", func(ctx cairn.Context, token string) (int, error) {
			h, err := cairn.NewHook[int]("vote").Once().Token(token).Open(ctx)
			if err != nil {
				return 0, err
			}
			n, err := h.Receive(ctx)
			if err != nil {
				return 0, err
			}
			_, err = cairn.NewHook[int]("go").Token("go").Wait(ctx) // the first hook stays open
			return n, err
		})
		e, other := start(wf), start()
		run, err := wf.Start(t.Context(), e, "vote")
		require.NoError(t, err)
		waitsFor(t, e, run.ID(), "vote")
		var senders sync.WaitGroup
		errs := make([]error, 10)
		for i := range errs {
			senders.Go(func() {
				errs[i] = cairn.NewHook[int]("sent").Send(t.Context(), []*cairn.Engine{e, other}[i%2], "vote", i)
			})
		}
		senders.Wait()
		winner := -1
		for i, err := range errs {
			if err == nil {
				require.Negative(t, winner, "two have won")
				winner = i
				continue
			}
			requireCode(t, "hook_consumed", err)
		}
		require.Eventually(t, func() bool { return cairn.NewHook[int]("sent").Send(t.Context(), e, "go", 1) == nil }, 20*time.Second, 5*time.Millisecond)
		out, err := run.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, winner, out)
	})
}

// Many starts with one key, in two processes, are one run.
func TestStartedOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		var bodies atomic.Int32
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, n int) (int, error) {
			return cairn.Do(ctx, "s", func(context.Context) (int, error) { bodies.Add(1); return n, nil })
		})
		e, other := start(wf), start(wf)
		var starters sync.WaitGroup
		ids, errs := make([]string, 20), make([]error, 20)
		for i := range ids {
			starters.Go(func() {
				run, err := wf.Start(t.Context(), []*cairn.Engine{e, other}[i%2], 7, cairn.Key("one"))
				if errs[i] = err; err == nil {
					ids[i] = run.ID()
				}
			})
		}
		starters.Wait()
		require.NoError(t, errors.Join(errs...))
		for _, id := range ids {
			require.Equal(t, ids[0], id)
		}
		run, err := wf.Get(t.Context(), e, ids[0])
		require.NoError(t, err)
		_, err = run.Result(within(t))
		require.NoError(t, err)
		require.EqualValues(t, 1, bodies.Load())
		_, err = wf.Start(t.Context(), other, 8, cairn.Key("one"))
		requireCode(t, "start_key_conflict", err)
	})
}

// nights is a workflow that sleeps, and cleans up when it is cancelled.
type nights struct {
	t       *testing.T
	wf      *cairn.Workflow[time.Duration, string]
	cleaned atomic.Int32
}

func newNights(t *testing.T) *nights {
	t.Helper()
	n := &nights{t: t}
	n.wf = cairn.NewWorkflow("night", func(ctx cairn.Context, d time.Duration) (string, error) {
		if _, err := cairn.Do(ctx, "begin", func(context.Context) (int, error) { return 0, nil }); err != nil {
			return "", err
		}
		if err := cairn.Sleep(ctx, d); err != nil {
			clean, done := cairn.Cleanup(ctx, time.Minute)
			defer done()
			_, undone := cairn.Do(clean, "clean", func(context.Context) (int, error) { n.cleaned.Add(1); return 0, nil })
			return "", errors.Join(err, undone)
		}
		return "rested", nil
	})
	return n
}

// start starts a run and lets a minute pass.
func (n *nights) start(e *cairntest.Env) *cairn.Run[string] {
	n.t.Helper()
	run, err := n.wf.Start(e.Context(), e.Engine(), time.Hour)
	require.NoError(n.t, err)
	e.Sleep(time.Minute)
	return run
}

// kill kills the process, and returns the run as the next one has it.
func (n *nights) kill(e *cairntest.Env, run *cairn.Run[string]) *cairn.Run[string] {
	n.t.Helper()
	e.Crash()
	run, err := n.wf.Get(e.Context(), e.Engine(), run.ID())
	require.NoError(n.t, err)
	return run
}

func TestACancelSurvivesAKill(t *testing.T) {
	t.Parallel()
	n := newNights(t)
	cairntest.Run(t, func(e *cairntest.Env) {
		run := n.start(e)
		require.NoError(t, run.Cancel(e.Context(), "enough"))
		run = n.kill(e, run)
		_, err := run.Result(e.Context())
		require.ErrorIs(t, err, cairn.ErrCancelled)
		require.GreaterOrEqual(t, n.cleaned.Load(), int32(1))
		e.RequireSteps(run.ID(), "begin", "clean")
	}, n.wf)
}

func TestAPauseSurvivesAKill(t *testing.T) {
	t.Parallel()
	n := newNights(t)
	cairntest.Run(t, func(e *cairntest.Env) {
		run := n.start(e)
		require.NoError(t, run.Pause(e.Context(), "later"))
		run = n.kill(e, run)
		e.Sleep(24 * time.Hour)
		info, err := run.Describe(e.Context())
		require.NoError(t, err)
		require.Equal(t, cairn.PhasePaused, info.Phase)
		require.NoError(t, run.Resume(e.Context()))
		run = n.kill(e, run)
		out, err := run.Result(e.Context())
		require.NoError(t, err)
		require.Equal(t, "rested", out)
		requireCode(t, "run_ended", run.Resume(e.Context()))
	}, n.wf)
}

func TestALaterStartSurvivesAKill(t *testing.T) {
	t.Parallel()
	n := newNights(t)
	cairntest.Run(t, func(e *cairntest.Env) {
		begin := time.Now().Add(time.Hour)
		run, err := n.wf.Start(e.Context(), e.Engine(), time.Hour, cairn.StartAt(begin), cairn.Key("later"))
		require.NoError(t, err)
		run = n.kill(e, run)
		same, err := n.wf.Start(e.Context(), e.Engine(), time.Hour, cairn.StartAfter(time.Minute), cairn.Key("later"))
		require.NoError(t, err)
		require.Equal(t, run.ID(), same.ID())
		_, err = run.Result(e.Context())
		require.NoError(t, err)
		info, err := run.Describe(e.Context())
		require.NoError(t, err)
		require.Equal(t, begin.UTC(), info.StartedAt.UTC(), "it begins when the first start said")
	}, n.wf)
}

func TestAForkSurvivesAKill(t *testing.T) {
	t.Parallel()
	n := newNights(t)
	cairntest.Run(t, func(e *cairntest.Env) {
		run := n.start(e)
		_, err := run.Result(e.Context())
		require.NoError(t, err)
		again := cairn.Fork{From: "sleep", StartKey: "again"}
		fork, err := n.wf.Fork(e.Context(), e.Engine(), run.ID(), again)
		require.NoError(t, err)
		began := time.Now()
		fork = n.kill(e, fork)
		same, err := n.wf.Fork(e.Context(), e.Engine(), run.ID(), again)
		require.NoError(t, err)
		require.Equal(t, fork.ID(), same.ID())
		_, err = fork.Result(e.Context())
		require.NoError(t, err)
		require.Equal(t, time.Hour, time.Since(began).Round(time.Minute), "it sleeps again")
		e.RequireSteps(fork.ID(), "begin")
	}, n.wf)
}

func TestATerminateSurvivesAKill(t *testing.T) {
	t.Parallel()
	n := newNights(t)
	cairntest.Run(t, func(e *cairntest.Env) {
		run := n.start(e)
		require.NoError(t, run.Terminate(e.Context(), "at once"))
		run = n.kill(e, run)
		e.Sleep(24 * time.Hour)
		info, err := run.Describe(e.Context())
		require.NoError(t, err)
		require.Equal(t, cairn.StatusCancelled, info.Status)
		require.Zero(t, n.cleaned.Load(), "there is no clean-up")
		e.RequireSteps(run.ID(), "begin")
	}, n.wf)
}

func TestADeleteSurvivesAKill(t *testing.T) {
	t.Parallel()
	n := newNights(t)
	cairntest.Run(t, func(e *cairntest.Env) {
		run := n.start(e)
		_, err := run.Result(e.Context())
		require.NoError(t, err)
		require.NoError(t, e.Engine().Run(run.ID()).Delete(e.Context()))
		e.Crash()
		_, err = e.Engine().Run(run.ID()).Describe(e.Context())
		requireCode(t, "run_not_found", err)
		requireCode(t, "run_not_found", e.Engine().Run(run.ID()).Delete(e.Context()))
	}, n.wf)
}

// TestTwoProcessesSendInTurns lets two processes send to one run in turns. What each remembers of the run is old then, and its code goes on with what has to be refused: still
// everything arrives, once and in order.
func TestTwoProcessesSendInTurns(t *testing.T) {
	t.Parallel()
	const sends = 20
	everywhere(t, func(t *testing.T, start starter) {
		gathers := cairn.NewWorkflow("gathers", func(ctx cairn.Context, token string) ([]int, error) {
			h, err := cairn.NewHook[int]("numbers").Token(token).Open(ctx)
			if err != nil {
				return nil, err
			}
			var all []int
			for range sends {
				n, err := h.Receive(ctx)
				if err != nil {
					return nil, err
				}
				all = append(all, n)
			}
			return all, nil
		})
		processes := []*cairn.Engine{start(gathers), start(gathers)}
		run, err := gathers.Start(t.Context(), processes[0], "numbers")
		require.NoError(t, err)
		var want []int
		for i := range sends {
			send := func() error { return cairn.NewHook[int]("sent").Send(t.Context(), processes[i%2], "numbers", i) }
			if i == 0 {
				require.Eventually(t, func() bool { return send() == nil }, 10*time.Second, 5*time.Millisecond, "the hook is open")
			} else {
				require.NoError(t, send())
			}
			want = append(want, i)
		}
		got, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}
