package cairntest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
	"github.com/cairn-workflow/cairn/internal/bubble"
)

// code is a version of a workflow whose input is a number and whose output a text.
type code = func(ctx cairn.Context, n int) (string, error)

// named returns the workflow that has several versions.
func named(fn code) *cairn.Workflow[int, string] { return cairn.NewWorkflow("versioned", fn) }

// record executes a version, lets act play the outside, and returns the run as it is then.
func record(t *testing.T, fn code, act func(*cairntest.Env, *cairn.Run[string])) []byte {
	t.Helper()
	var recorded bytes.Buffer
	wf := named(fn)
	cairntest.Run(t, func(e *cairntest.Env) {
		run, err := wf.Start(e.Context(), e.Engine(), 7)
		require.NoError(t, err)
		act(e, run)
		require.NoError(t, e.Engine().Run(run.ID()).Export(e.Context(), &recorded))
	}, wf, half)
	return recorded.Bytes()
}

// toTheEnd waits until the run has ended, however.
func toTheEnd(e *cairntest.Env, run *cairn.Run[string]) { _, _ = run.Result(e.Context()) }

// aDay lets a day pass.
func aDay(e *cairntest.Env, _ *cairn.Run[string]) { e.Sleep(24 * time.Hour) }

// aMoment lets less time pass than it takes until the start of a long step is recorded.
func aMoment(e *cairntest.Env, _ *cairn.Run[string]) { e.Sleep(500 * time.Millisecond) }

// replay holds a version against a record, in virtual time, and returns what [cairntest.Replay] would say.
func replay(t *testing.T, recorded []byte, fn code) (err error) {
	t.Helper()
	bubble.Run(t, func(t *testing.T) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err = cairntest.ReplayFrom(ctx, bytes.NewReader(recorded), named(fn))
	})
	return err
}

// step is a step that returns its name and input.
func step(name string) cairn.Step[int, string] {
	return cairn.NewStep(name, func(_ context.Context, n int) (string, error) { return fmt.Sprint(name, " ", n), nil })
}

// untouched is step for code that is replayed: its body must not run.
func untouched(t *testing.T, name string) cairn.Step[int, string] {
	t.Helper()
	return cairn.NewStep(name, func(_ context.Context, n int) (string, error) {
		t.Errorf("the body of step %s runs in a replay", name)
		return "", nil
	})
}

// steps does steps one after the other, with the workflow's input, and returns the last result.
func steps(all ...cairn.Step[int, string]) code {
	return func(ctx cairn.Context, n int) (out string, err error) {
		for _, s := range all {
			//cairnvet:ignore loopkey each step has a name of its own
			if out, err = s.Do(ctx, n); err != nil {
				return "", err
			}
		}
		return out, nil
	}
}

// sleeps is the code, and a sleep of a week at its end.
func sleeps(fn code) code {
	return func(ctx cairn.Context, n int) (string, error) {
		out, err := fn(ctx, n)
		if err != nil {
			return "", err
		}
		return out, cairn.Sleep(ctx, 7*24*time.Hour)
	}
}

func TestReplayShowsTheFirstDifference(t *testing.T) {
	t.Parallel()
	for name, test := range differences() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			act := test.act
			if act == nil {
				act = toTheEnd
			}
			recorded := record(t, test.was, act)
			require.NoError(t, replay(t, recorded, test.was), "the code that was recorded")
			err := replay(t, recorded, test.is)
			require.Error(t, err)
			failure, ok := errors.AsType[*cairn.Error](err)
			require.True(t, ok)
			require.Equal(t, cairn.Code("mismatch"), failure.Code)
			require.Equal(t, "the code does not do what was recorded\n"+strings.TrimPrefix(strings.ReplaceAll(test.want, "\n\t\t\t\t", "\n"), "\n"), failure.Message)
		})
	}
}

// noDifference are changes that the record allows.
func noDifference(t *testing.T) map[string]struct {
	was, is code
	act     func(*cairntest.Env, *cairn.Run[string])
} {
	t.Helper()
	a, b, extra := step("a"), step("b"), untouched(t, "extra")
	return map[string]struct {
		was, is code
		act     func(*cairntest.Env, *cairn.Run[string])
	}{
		"other bodies":           {was: steps(a, b), is: steps(untouched(t, "a"), untouched(t, "b"))},
		"another order of names": {was: func(ctx cairn.Context, n int) (string, error) { _, err := steps(a, b)(ctx, n); return "", err }, is: func(ctx cairn.Context, n int) (string, error) { _, err := steps(b, a)(ctx, n); return "", err }},
		"other policies":         {was: steps(a), is: steps(a.Retry(cairn.RetryPolicy{Attempts: 9}).Timeout(time.Hour))},
		"more to do at the end": {was: sleeps(steps(a)), is: func(ctx cairn.Context, n int) (string, error) {
			_, _ = sleeps(steps(a))(ctx, n)
			return extra.Do(ctx, n)
		}, act: aDay},
		"an end where the record has none": {was: func(ctx cairn.Context, n int) (string, error) { _, _ = a.Do(ctx, n); return "", longStep(ctx) }, is: steps(a), act: aMoment},
		"a step that is under way":         {was: func(ctx cairn.Context, n int) (string, error) { return "", longStep(ctx) }, is: steps(extra), act: aMoment},
		"terminated after a cancel": {was: stubborn, is: func(ctx cairn.Context, n int) (string, error) { _, _ = stubborn(ctx, n); return extra.Do(ctx, n) }, act: func(e *cairntest.Env, run *cairn.Run[string]) {
			e.Sleep(time.Hour)
			_ = run.Cancel(e.Context(), "")
			e.Sleep(time.Hour)
			_ = run.Terminate(e.Context(), "")
		}},
		"terminated": {was: sleeps(steps(a)), is: func(ctx cairn.Context, n int) (string, error) {
			_, _ = sleeps(steps(a))(ctx, n)
			return extra.Do(ctx, n)
		}, act: func(e *cairntest.Env, run *cairn.Run[string]) { aDay(e, run); _ = run.Terminate(e.Context(), "enough") }},
	}
}

// stubborn sleeps on when it is cancelled.
func stubborn(ctx cairn.Context, _ int) (string, error) {
	if err := cairn.Sleep(ctx, 24*time.Hour); err == nil {
		return "", nil
	}
	clean, done := cairn.Cleanup(ctx, 365*24*time.Hour)
	defer done()
	return "", cairn.Sleep(clean, 30*24*time.Hour)
}

// longStep does a step that takes a month.
func longStep(ctx cairn.Context) error {
	_, err := cairn.Do(ctx, "long", func(ctx context.Context) (string, error) {
		select {
		case <-time.After(30 * 24 * time.Hour):
			return "", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	return err
}

func TestReplayAllowsWhatTheRecordAllows(t *testing.T) {
	t.Parallel()
	for name, test := range noDifference(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			act := test.act
			if act == nil {
				act = toTheEnd
			}
			recorded := record(t, test.was, act)
			require.NoError(t, replay(t, recorded, test.was), "the code that was recorded")
			require.NoError(t, replay(t, recorded, test.is), string(recorded))
		})
	}
}

func TestReplayOfFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wf := named(steps(step("a")))
	cairntest.Run(t, func(e *cairntest.Env) {
		for i := range 2 {
			run, err := wf.Start(e.Context(), e.Engine(), i)
			require.NoError(t, err)
			toTheEnd(e, run)
			e.Export(run.ID(), filepath.Join(dir, fmt.Sprint(i)+".jsonl"))
		}
	}, wf)
	cairntest.Replay(t, filepath.Join(dir, "0.jsonl"), wf)
	cairntest.Replay(t, filepath.Join(dir, "*.jsonl"), wf)

	file, err := os.Open(filepath.Join(dir, "1.jsonl"))
	require.NoError(t, err)
	defer file.Close() //nolint:errcheck // it was only read
	require.NoError(t, cairntest.ReplayFrom(t.Context(), file, wf), "in real time")
	require.ErrorContains(t, cairntest.ReplayFrom(t.Context(), file, wf), "line 1: the file is empty")
	_, err = file.Seek(0, 0)
	require.NoError(t, err)
	require.ErrorContains(t, cairntest.ReplayFrom(t.Context(), file, half), `not_registered: the record is of workflow "versioned"`)
}

// TestReplayOfARunThatNeverBegan: no code was executed, so none is compared.
func TestReplayOfARunThatNeverBegan(t *testing.T) {
	t.Parallel()
	var recorded bytes.Buffer
	cairntest.Run(t, func(e *cairntest.Env) {
		run, err := named(nil).Start(e.Context(), e.Engine(), 7, cairn.Elsewhere())
		require.NoError(t, err)
		require.NoError(t, run.Cancel(e.Context(), "never mind"))
		require.NoError(t, e.Engine().Run(run.ID()).Export(e.Context(), &recorded))
	})
	require.Contains(t, recorded.String(), `"status":"cancelled"`)
	require.NoError(t, replay(t, recorded.Bytes(), func(cairn.Context, int) (string, error) { t.Error("the code is executed"); return "", nil }))
}

// TestReplayOfAParkedRun: a run that was parked because its code had changed shows the difference, and none when the code is mended.
func TestReplayOfAParkedRun(t *testing.T) {
	t.Parallel()
	good := sleeps(steps(step("a"), step("a")))
	bad := sleeps(inputs(8, 7))
	var changed atomic.Bool
	both := func(ctx cairn.Context, n int) (string, error) {
		if changed.Load() {
			return bad(ctx, n)
		}
		return good(ctx, n)
	}
	recorded := record(t, both, func(e *cairntest.Env, run *cairn.Run[string]) {
		e.Sleep(time.Hour)
		changed.Store(true)
		e.Crash()
		e.Sleep(7 * 24 * time.Hour)
		info, err := run.Describe(e.Context())
		require.NoError(t, err)
		require.Equal(t, cairn.PhaseParked, info.Phase)
	})
	require.Contains(t, string(recorded), `"phase":"parked"`)
	require.NoError(t, replay(t, recorded, good))
	require.ErrorContains(t, replay(t, recorded, bad), "event 3, \"a\": another input\n  - event 3: step_completed \"a\", input 7\n  + the code asks for step \"a\", input 8")
}

// TestReplayOfBranchesThatNobodyWaitsFor: how far they came is recorded, and where they stopped is left open.
func TestReplayOfBranchesThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	left := func(ctx cairn.Context, n int) (string, error) {
		for _, name := range []string{"x", "y"} {
			_, err := cairn.Go(ctx, name, func(ctx cairn.Context) (string, error) {
				if _, err := step("a").Do(ctx, n); err != nil {
					return "", err
				}
				return "", longStep(ctx)
			})
			if err != nil {
				return "", err
			}
		}
		return "left", cairn.Sleep(ctx, 500*time.Millisecond)
	}
	recorded := record(t, left, toTheEnd)
	require.Contains(t, string(recorded), `"key":"y/a"`)
	for range 10 {
		require.NoError(t, replay(t, recorded, left))
	}
}

// TestReplayTouchesNothing lets code that asks for everything at once go on where a record stops.
func TestReplayTouchesNothing(t *testing.T) {
	t.Parallel()
	recorded := record(t, func(ctx cairn.Context, _ int) (string, error) { return "", longStep(ctx) }, aMoment)
	child := cairn.NewWorkflow("child", func(cairn.Context, int) (string, error) { t.Error("a child is started"); return "", nil })
	poll := cairn.NewPoll("poll", time.Second, func(context.Context, int) (string, bool, error) {
		t.Error("a check runs")
		return "", true, nil
	}).Timeout(time.Hour)
	var reached atomic.Int32
	everything := []code{
		plain(untouched(t, "step").Do),
		plain(untouched(t, "retried").Retry(cairn.RetryPolicy{Attempts: 3}).Timeout(time.Minute).Do),
		plain(poll.Wait),
		func(ctx cairn.Context, n int) (string, error) { return child.Run(ctx, n) },
		func(ctx cairn.Context, _ int) (string, error) { return "", cairn.Sleep(ctx, time.Nanosecond) },
		func(ctx cairn.Context, _ int) (string, error) {
			return cairn.NewHook[string]("hook").Wait(ctx, cairn.Timeout(time.Minute))
		},
		func(ctx cairn.Context, n int) (string, error) {
			limited, stop := cairn.WithTimeout(ctx, time.Nanosecond)
			defer stop()
			return untouched(t, "limited").Do(limited, n)
		},
	}
	wf := named(func(ctx cairn.Context, n int) (string, error) {
		for i, fn := range everything {
			_, err := cairn.Go(ctx, fmt.Sprint("branch ", i), func(ctx cairn.Context) (string, error) {
				reached.Add(1)
				out, err := fn(ctx, n)
				t.Errorf("branch %d goes on, with %q and %v", i, out, err)
				return out, err
			})
			if err != nil {
				return "", err
			}
		}
		return "", cairn.Sleep(ctx, time.Hour)
	})
	bubble.Run(t, func(t *testing.T) {
		t.Helper()
		require.NoError(t, cairntest.ReplayFrom(t.Context(), bytes.NewReader(recorded), wf, child))
	})
	require.EqualValues(t, len(everything), reached.Load())
}

// TestReplayKnowsNoTime: what waits for a time waits for ever, however long ago that was.
func TestReplayKnowsNoTime(t *testing.T) {
	t.Parallel()
	var over atomic.Bool // in a replay
	waits := func(wait func(cairn.Context) error) code {
		return func(ctx cairn.Context, _ int) (string, error) {
			if err := wait(ctx); over.Load() && context.Cause(ctx) == nil {
				t.Errorf("the wait is over, with %v", err)
			}
			return "", nil
		}
	}
	for name, fn := range map[string]code{
		"a sleep": waits(func(ctx cairn.Context) error { return cairn.Sleep(ctx, time.Hour) }),
		"a hook": waits(func(ctx cairn.Context) error {
			_, err := cairn.NewHook[int]("hook").Wait(ctx, cairn.Timeout(time.Hour))
			return err
		}),
		"a poll": waits(func(ctx cairn.Context) error {
			never := cairn.NewPoll("never", time.Minute, func(context.Context, int) (int, bool, error) { return 0, false, nil })
			_, err := never.Timeout(time.Hour).Wait(ctx, 1)
			return err
		}),
		"a deadline": waits(func(ctx cairn.Context) error {
			limited, stop := cairn.WithTimeout(ctx, time.Hour)
			defer stop()
			return cairn.Sleep(limited, 24*time.Hour)
		}),
	} {
		recorded := record(t, fn, func(e *cairntest.Env, _ *cairn.Run[string]) { e.Sleep(time.Minute) })
		over.Store(true)
		require.NoError(t, cairntest.ReplayFrom(t.Context(), bytes.NewReader(recorded), named(fn)), name) // in real time, in which the year 2000 is over
		over.Store(false)
	}
}
