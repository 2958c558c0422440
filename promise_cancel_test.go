package cairn_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
)

// underWay are primitives that do not come to their end by themselves.
func underWay(begun chan<- string) (waits map[string]func(cairn.Context) error, children []cairn.Definition) {
	nap := func(ctx cairn.Context) (int, error) { return 0, cairn.Sleep(ctx, time.Hour) }
	child := cairn.NewWorkflow("long child", func(ctx cairn.Context, _ int) (int, error) { return nap(ctx) })
	failing := cairn.NewStep("failing", func(context.Context, int) (int, error) { return 0, errors.New("no") }).Retry(cairn.RetryPolicy{Attempts: 9, First: time.Hour})
	never := cairn.NewPoll("never", time.Hour, func(context.Context, int) (int, bool, error) { return 0, false, nil })
	branches := func(ctx cairn.Context) (futures []*cairn.Future[int], err error) {
		for range 2 {
			f, err := cairn.Go(ctx, "nap", nap)
			if err != nil {
				return nil, err
			}
			futures = append(futures, f)
		}
		return futures, nil
	}
	waits = map[string]func(cairn.Context) error{
		"step": func(ctx cairn.Context) error {
			_, err := cairn.Do(ctx, "body", func(ctx context.Context) (int, error) {
				begun <- "step"
				<-ctx.Done()
				return 0, ctx.Err()
			})
			return err
		},
		"retry": func(ctx cairn.Context) error { _, err := failing.Do(ctx, 0); return err },
		"sleep": func(ctx cairn.Context) error { _, err := nap(ctx); return err },
		"deadline": func(ctx cairn.Context) error {
			limited, stop := cairn.WithTimeout(ctx, time.Hour)
			defer stop()
			return cairn.Sleep(limited, 2*time.Hour)
		},
		"poll": func(ctx cairn.Context) error { _, err := never.Wait(ctx, 0); return err },
		"hook": func(ctx cairn.Context) error {
			_, err := cairn.NewHook[int]("hook").Wait(ctx, cairn.Timeout(time.Hour))
			return err
		},
		"child": func(ctx cairn.Context) error { _, err := child.Run(ctx, 0); return err },
		"map": func(ctx cairn.Context) error {
			_, err := cairn.Map(ctx, "item", []int{1, 2, 3}, 2, func(ctx cairn.Context, _ int) (int, error) { return nap(ctx) })
			return err
		},
		"race": func(ctx cairn.Context) error {
			futures, err := branches(ctx)
			if err == nil {
				_, err = cairn.Race(ctx, futures...)
			}
			return err
		},
		"all": func(ctx cairn.Context) error {
			futures, err := branches(ctx)
			if err == nil {
				_, err = cairn.All(ctx, futures...)
			}
			return err
		},
	}
	return waits, []cairn.Definition{child}
}

// TestPromiseCancel cancels runs in the middle of each primitive: it ends with ErrCancelled, the clean-up is done once, and nothing is done after it that is not
// part of it.
func TestPromiseCancel(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		begun := make(chan string, 1)
		waits, children := underWay(begun)
		var cleaned, after atomic.Int32
		count := func(ctx cairn.Context, name string, n *atomic.Int32) error {
			_, err := cairn.Do(ctx, name, func(context.Context) (int, error) { n.Add(1); return 0, nil })
			return err
		}
		wf := cairn.NewWorkflow("cancelled", func(ctx cairn.Context, name string) (string, error) {
			err := waits[name](ctx)
			if !errors.Is(err, cairn.ErrCancelled) {
				return "not cancelled", err
			}
			if err := count(ctx, "after", &after); !errors.Is(err, cairn.ErrCancelled) {
				return "goes on", err
			}
			if err := leaveMarks(ctx, "after"); !errors.Is(err, cairn.ErrCancelled) {
				return "leaves marks", err
			}
			clean, done := cairn.Cleanup(ctx, time.Minute)
			defer done()
			return "", errors.Join(err, count(clean, "clean", &cleaned), leaveMarks(clean, "clean"))
		})
		e := start(append(children, wf)...)
		for name := range waits {
			run, err := wf.Start(t.Context(), e, name)
			require.NoError(t, err)
			if name == "step" {
				<-begun
			} else {
				eventually(t, e, run.ID(), func(info *cairn.RunInfo) bool { return len(info.Waits) > 0 })
			}
			before := cleaned.Load()
			require.NoError(t, run.Cancel(t.Context(), "enough"))
			require.NoError(t, ignoreEnded(run.Cancel(t.Context(), "enough")), "a second time changes nothing")
			out, err := run.Result(within(t))
			require.ErrorIs(t, err, cairn.ErrCancelled, "%s: %s", name, out)
			require.Equal(t, before+1, cleaned.Load(), name)
			require.NoError(t, recordedOnce(historyOf(t, e, run.ID())), name)
			info, err := run.Describe(t.Context())
			require.NoError(t, err)
			require.Equal(t, cairn.StatusCancelled, info.Status, name)
			value, _ := promised.Of(info)
			require.Equal(t, "clean", value, name)
			require.Equal(t, []string{"mark  annotate#2 clean"}, noted(t, e, run.ID(), cairn.AnnotationFilter{}), name)
		}
		require.Zero(t, after.Load())
	})
}

// leaveMarks changes an attribute and makes an annotation.
func leaveMarks(ctx cairn.Context, mark string) error {
	set := cairn.SetAttributes(ctx, promised.Value(mark))
	note := cairn.Annotate(ctx, cairn.Annotation{Name: "mark", Value: mark})
	if set == nil && note == nil {
		return nil
	}
	if !errors.Is(set, cairn.ErrCancelled) || !errors.Is(note, cairn.ErrCancelled) {
		return errors.New("one was made, and the other was not")
	}
	return set
}

func ignoreEnded(err error) error {
	if errors.Is(err, cairn.NewError("run_ended", "")) {
		return nil
	}
	return err
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

// A run that was asked to stop and came to another end says who asked, and why.
func TestCancel_RunEndsInAnotherWay_SaysWhoAsked(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, fails bool) (int, error) {
			if err := cairn.Sleep(ctx, time.Hour); err == nil || !fails {
				return 0, nil
			}
			return 0, errDeclined
		})
		e := start(wf)
		for fails, status := range map[bool]cairn.Status{true: cairn.StatusFailed, false: cairn.StatusCompleted} {
			run, err := wf.Start(t.Context(), e, fails)
			require.NoError(t, err)
			require.NoError(t, run.By("ada").Cancel(t.Context(), "too dear"))
			info, err := run.Wait(within(t))
			require.NoError(t, err)
			require.Equal(t, status, info.Status)
			require.Equal(t, "too dear", info.Reason)
			require.Equal(t, "ada", info.Actor)
		}
	})
}
