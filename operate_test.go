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

// within returns a context for what should not take long.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until a condition about a run holds.
func eventually(t *testing.T, e *cairn.Engine, run string, holds func(*cairn.RunInfo) bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		info, err := e.Run(run).Describe(t.Context())
		return err == nil && holds(info)
	}, time.Minute, 5*time.Millisecond)
}

// gate is a workflow of two steps, the first of which is under way until it is let go.
type gate struct {
	wf      *cairn.Workflow[string, string]
	begun   chan struct{}
	letGo   chan struct{}
	firsts  atomic.Int32
	seconds atomic.Int32
}

func newGate() *gate {
	g := &gate{begun: make(chan struct{}, 10), letGo: make(chan struct{})}
	first := cairn.NewStep("first", func(_ context.Context, s string) (string, error) {
		g.firsts.Add(1)
		g.begun <- struct{}{}
		<-g.letGo
		return s + "1", nil
	})
	second := cairn.NewStep("second", func(_ context.Context, s string) (string, error) {
		g.seconds.Add(1)
		return s + "2", nil
	})
	g.wf = cairn.NewWorkflow("gate", func(ctx cairn.Context, in string) (string, error) {
		a, err := first.Do(ctx, in)
		if err != nil {
			return "", err
		}
		return second.Do(ctx, a)
	})
	return g
}

// What is under way when a run is paused ends and is recorded; nothing new begins, here or elsewhere, until it is resumed.
func TestPauseWhileAStepIsUnderWay(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		g := newGate()
		e := start(g.wf)
		other := start() // a process that does not execute the run pauses it
		run, err := g.wf.Start(t.Context(), e, "x")
		require.NoError(t, err)
		<-g.begun
		require.NoError(t, other.Run(run.ID()).By("ann").Pause(t.Context(), "look at it"))
		require.NoError(t, other.Run(run.ID()).By("bob").Pause(t.Context(), "again"), "it is paused already")
		info, err := e.Run(run.ID()).Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, cairn.StatusRunning, info.Status)
		require.Equal(t, cairn.PhasePaused, info.Phase)
		require.Equal(t, "paused", string(info.Error.Code))
		require.Equal(t, "look at it", info.Error.Message)
		close(g.letGo)
		require.Eventually(t, func() bool { return len(stepsDone(t, e, run.ID())) == 1 }, 20*time.Second, 5*time.Millisecond)

		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = run.Result(short)
		require.ErrorIs(t, err, context.DeadlineExceeded, "who waits for the result goes on waiting")
		require.Zero(t, g.seconds.Load())

		require.NoError(t, other.Run(run.ID()).By("ann").Resume(t.Context()))
		out, err := run.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, "x12", out)
		require.EqualValues(t, 1, g.firsts.Load(), "the step that was under way was not done again")
		require.EqualValues(t, 1, g.seconds.Load())
	})
}

// stepsDone returns the keys of the steps of a run that are completed.
func stepsDone(t *testing.T, e *cairn.Engine, run string) []string {
	t.Helper()
	var keys []string
	for h, err := range e.Run(run).History(t.Context()) {
		require.NoError(t, err)
		if h.Type == "step_completed" {
			keys = append(keys, h.Key)
		}
	}
	return keys
}

// A run that is paused while it sleeps does not go on when its time has come, but when it is resumed.
func TestPauseWhileASleepEnds(t *testing.T) {
	t.Parallel()
	nap := cairn.NewWorkflow("nap", func(ctx cairn.Context, d time.Duration) (string, error) { return "rested", cairn.Sleep(ctx, d) })
	cairntest.Run(t, func(e *cairntest.Env) {
		run, err := nap.Start(e.Context(), e.Engine(), time.Hour)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, run.Pause(e.Context(), "later"))
		time.Sleep(24 * time.Hour)
		info, err := run.Describe(e.Context())
		require.NoError(t, err)
		require.Equal(t, cairn.PhasePaused, info.Phase)
		require.Len(t, info.Waits, 1)
		require.Equal(t, "sleep", info.Waits[0].Kind)
		resumed := time.Now()
		require.NoError(t, run.Resume(e.Context()))
		out, err := run.Result(e.Context())
		require.NoError(t, err)
		require.Equal(t, "rested", out)
		require.Less(t, time.Since(resumed), time.Minute, "its time was over")
	}, nap)
}

// What comes through a hook while a run is paused is kept.
func TestSendWhilePaused(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		mail := cairn.NewHook[string]("mail")
		wf := cairn.NewWorkflow("reader", func(ctx cairn.Context, _ struct{}) (string, error) { return mail.Wait(ctx, cairn.Timeout(time.Hour)) })
		e := start(wf)
		run, err := wf.Start(t.Context(), e, struct{}{})
		require.NoError(t, err)
		token := ""
		eventually(t, e, run.ID(), func(info *cairn.RunInfo) bool {
			for _, w := range info.Waits {
				token += w.Token
			}
			return token != ""
		})
		require.NoError(t, run.Pause(t.Context(), "later"))
		require.NoError(t, cairn.NewHook[string]("sent").Send(t.Context(), e, token, "hello"))
		info, err := run.Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, cairn.PhasePaused, info.Phase)
		require.NoError(t, run.Resume(t.Context()))
		out, err := run.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, "hello", out)
		require.ErrorContains(t, run.Pause(t.Context(), "too late"), "run_ended")
		require.ErrorContains(t, run.Resume(t.Context()), "run_ended")
	})
}

// A value that comes after the pause is kept, also if the code of the run has not come to wait for it yet.
func TestSendWhilePaused_CodeIsOnItsWay_ValueIsKept(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		mail := cairn.NewHook[string]("mail").Token("mail")
		var first atomic.Bool
		first.Store(true)
		opened, goOn := make(chan struct{}), make(chan struct{})
		wf := cairn.NewWorkflow("reader", func(ctx cairn.Context, _ struct{}) (string, error) {
			open, err := mail.Open(ctx)
			if err != nil {
				return "", err
			}
			if first.CompareAndSwap(true, false) {
				close(opened)
				<-goOn //cairnvet:ignore wait the test holds the code up
			}
			return open.Receive(ctx)
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, struct{}{})
		require.NoError(t, err)
		<-opened
		require.NoError(t, run.Pause(t.Context(), "later"))
		require.NoError(t, mail.Send(t.Context(), e, "mail", "hello"))
		close(goOn)
		require.Eventually(t, func() bool { return e.Stats().Active == 0 }, time.Minute, time.Millisecond)
		info, err := run.Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, cairn.PhasePaused, info.Phase)
		require.NoError(t, run.Resume(t.Context()))
		out, err := run.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, "hello", out)
	})
}

// Who cancels a run that is paused does not want to resume it first: its clean-up runs.
func TestCancelWhilePaused(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		var cleaned atomic.Int32
		wf := cairn.NewWorkflow("sleeper", func(ctx cairn.Context, _ struct{}) (string, error) {
			if err := cairn.Sleep(ctx, time.Hour); err != nil {
				after, done := cairn.Cleanup(ctx, time.Minute)
				defer done()
				_, _ = cairn.Do(after, "clean", func(context.Context) (int, error) { cleaned.Add(1); return 0, nil })
				return "", err
			}
			return "", nil
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, struct{}{})
		require.NoError(t, err)
		eventually(t, e, run.ID(), func(info *cairn.RunInfo) bool { return len(info.Waits) == 1 })
		require.NoError(t, run.Pause(t.Context(), ""))
		require.NoError(t, run.Cancel(t.Context(), "enough"))
		_, err = run.Result(within(t))
		require.ErrorIs(t, err, cairn.ErrCancelled)
		require.EqualValues(t, 1, cleaned.Load())
	})
}

// A run that is to begin later begins then, whatever happens to it before.
func TestStartLater(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("later", func(ctx cairn.Context, _ struct{}) (time.Time, error) { return cairn.Now(ctx), nil })
		e := start(wf)
		begin := time.Now().Add(3 * time.Second)
		run, err := wf.Start(t.Context(), e, struct{}{}, cairn.StartAt(begin))
		require.NoError(t, err)
		paused, err := wf.Start(t.Context(), e, struct{}{}, cairn.StartAt(begin))
		require.NoError(t, err)
		never, err := wf.Start(t.Context(), e, struct{}{}, cairn.StartAfter(time.Hour))
		require.NoError(t, err)
		info, err := run.Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, cairn.StatusPending, info.Status)
		require.Len(t, info.Waits, 1)
		require.Equal(t, "start", info.Waits[0].Kind)
		require.WithinDuration(t, begin, info.Waits[0].Until, time.Millisecond)
		require.NoError(t, paused.Pause(t.Context(), ""))
		require.NoError(t, paused.Resume(t.Context()))
		require.NoError(t, never.Cancel(t.Context(), "not needed"))
		_, err = never.Result(within(t))
		require.ErrorIs(t, err, cairn.ErrCancelled)
		for _, r := range []*cairn.Run[time.Time]{run, paused} {
			_, err := r.Result(within(t))
			require.NoError(t, err)
			info, err := r.Describe(t.Context())
			require.NoError(t, err)
			require.False(t, info.StartedAt.Before(begin.Truncate(time.Millisecond)), "it began %s before its time", begin.Sub(info.StartedAt))
		}
		past, err := wf.Start(t.Context(), e, struct{}{}, cairn.StartAt(time.Now().Add(-time.Hour)))
		require.NoError(t, err)
		_, err = past.Result(within(t))
		require.NoError(t, err)
	})
}

// What is deleted is gone for every process, with its start key; what goes on cannot be deleted.
func TestDelete(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("short", func(ctx cairn.Context, d time.Duration) (string, error) { return "done", cairn.Sleep(ctx, d) })
		e, other := start(wf), start(wf)
		run, err := wf.Start(t.Context(), e, time.Millisecond, cairn.Key("k"))
		require.NoError(t, err)
		_, err = run.Result(within(t))
		require.NoError(t, err)
		require.NoError(t, other.Run(run.ID()).Annotate(t.Context(), cairn.Annotation{Name: "seen"}))
		fork, err := wf.Fork(t.Context(), e, run.ID(), cairn.Fork{From: "sleep"})
		require.NoError(t, err)
		require.NoError(t, e.Run(run.ID()).Delete(t.Context()))
		_, err = run.Result(within(t))
		require.ErrorContains(t, err, "run_not_found")
		for _, gone := range []error{
			other.Run(run.ID()).Annotate(t.Context(), cairn.Annotation{Name: "late"}), other.Run(run.ID()).Cancel(t.Context(), ""),
			other.Run(run.ID()).SetAttributes(t.Context(), amount.Value(1)), e.Run(run.ID()).Delete(t.Context()), other.Run(run.ID()).Pause(t.Context(), ""),
		} {
			require.ErrorContains(t, gone, "run_not_found")
		}
		out, err := fork.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, "done", out, "a fork does not need what it was made of")
		again, err := wf.Start(t.Context(), e, time.Hour, cairn.Key("k"))
		require.NoError(t, err)
		require.NotEqual(t, run.ID(), again.ID())
		require.ErrorContains(t, e.Run(again.ID()).Delete(t.Context()), "has not ended")
	})
}

// A pause while an attempt is under way costs no attempt, also if the run is executed again later.
func TestAPauseCostsNoAttempt(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		var mu sync.Mutex
		var calls []int
		step := cairn.NewStep("slow", func(ctx context.Context, _ int) (string, error) {
			mu.Lock()
			calls = append(calls, cairn.Attempt(ctx))
			mu.Unlock()
			time.Sleep(10 * time.Second) // its start is recorded
			return "", errors.New("no")
		}).Retry(cairn.RetryPolicy{Attempts: 3, First: time.Minute, Factor: 1})
		wf := cairn.NewWorkflow("w", plain(step.Do))
		cairntest.Run(t, func(e *cairntest.Env) {
			run, err := wf.Start(e.Context(), e.Engine(), 0)
			require.NoError(t, err)
			e.Sleep(5 * time.Second)
			require.NoError(t, run.Pause(e.Context(), "later"))
			e.Sleep(time.Second)
			require.NoError(t, run.Resume(e.Context()))
			e.Sleep(20 * time.Second)
			if crash {
				e.Crash()
			}
			again, err := wf.Get(e.Context(), e.Engine(), run.ID())
			require.NoError(t, err)
			_, err = again.Result(e.Context())
			require.ErrorContains(t, err, "no")
			require.Equal(t, []int{1, 2, 3}, calls, "crash: %v", crash)
		}, wf)
	}
}

// A child is not deleted while its parent goes on: that may still want the result.
func TestDeleteOfAChild(t *testing.T) {
	t.Parallel()
	kid := cairn.NewWorkflow("kid", func(cairn.Context, int) (string, error) { return "result", nil })
	wf := cairn.NewWorkflow("parent", func(ctx cairn.Context, _ int) (string, error) {
		c, err := kid.StartChild(ctx, 0)
		if err != nil {
			return "", err
		}
		if _, err := kid.StartChild(ctx, 0, cairn.Detached()); err != nil {
			return "", err
		}
		if err := cairn.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
		return c.Result(ctx)
	})
	cairntest.Run(t, func(e *cairntest.Env) {
		run, err := wf.Start(e.Context(), e.Engine(), 0)
		require.NoError(t, err)
		e.Sleep(time.Minute)
		page, err := e.Engine().List(e.Context(), cairn.Filter{ParentID: run.ID()})
		require.NoError(t, err)
		require.Len(t, page.Runs, 2)
		require.ErrorContains(t, e.Engine().Run(page.Runs[0].ID).Delete(e.Context()), "has not ended and may want its result")
		require.NoError(t, e.Engine().Run(page.Runs[1].ID).Delete(e.Context()), "nobody waits for a detached one")
		out, err := run.Result(e.Context())
		require.NoError(t, err)
		require.Equal(t, "result", out)
		require.NoError(t, e.Engine().Run(page.Runs[0].ID).Delete(e.Context()))
	}, wf, kid)
}

func TestList_PhaseWaiting_FindsRunsThatNobodyExecutes(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		t.Helper()
		busy, leave := make(chan struct{}), make(chan struct{})
		wf := cairn.NewWorkflow("mixed", func(ctx cairn.Context, works bool) (int, error) {
			if !works {
				return 0, cairn.Sleep(ctx, time.Hour)
			}
			return cairn.Do(ctx, "work", func(context.Context) (int, error) {
				close(busy)
				<-leave
				return 0, nil
			})
		})
		e := start(wf)
		defer close(leave)
		_, err := wf.Start(t.Context(), e, true)
		require.NoError(t, err)
		<-busy
		waits, err := wf.Start(t.Context(), e, false)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			page, err := e.List(t.Context(), cairn.Filter{Phase: cairn.PhaseWaiting})
			return err == nil && len(page.Runs) == 1 && page.Runs[0].ID == waits.ID() && page.Runs[0].Phase == cairn.PhaseWaiting
		}, 10*time.Second, 5*time.Millisecond)
		info, err := waits.Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, cairn.PhaseWaiting, info.Phase)
	})
}
