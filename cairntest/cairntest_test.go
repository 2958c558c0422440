package cairntest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
)

var (
	sendMail = cairn.NewStep("send mail", func(_ context.Context, to string) (string, error) {
		return "", errors.New("there is no mail server in a test")
	})

	remind = cairn.NewWorkflow("remind", func(ctx cairn.Context, to string) (string, error) {
		begin := cairn.Now(ctx)
		if err := cairn.Sleep(ctx, 365*24*time.Hour); err != nil {
			return "", err
		}
		out, err := sendMail.Do(ctx, to)
		return out + " after " + cairn.Now(ctx).Sub(begin).String(), err
	})
)

func TestAYearInMilliseconds(t *testing.T) {
	t.Parallel()
	cairntest.Run(t, func(e *cairntest.Env) {
		cairntest.Stub(e, sendMail, func(_ context.Context, to string) (string, error) { return "mail to " + to, nil })
		run, err := remind.Start(e.Context(), e.Engine(), "ada")
		require.NoError(t, err)
		out, err := run.Result(e.Context())
		require.NoError(t, err)
		require.Equal(t, "mail to ada after 8760h0m0s", out)
		e.RequireSteps(run.ID(), "send mail")
		e.RequireEvent(run.ID(), "wait_completed", "sleep")
	}, remind)
}

func TestCrash(t *testing.T) {
	t.Parallel()
	cairntest.Run(t, func(e *cairntest.Env) {
		cairntest.Stub(e, sendMail, func(_ context.Context, to string) (string, error) { return "mail to " + to, nil })
		run, err := remind.Start(e.Context(), e.Engine(), "ada")
		require.NoError(t, err)
		e.Sleep(time.Hour)
		e.Crash()
		run, err = remind.Get(e.Context(), e.Engine(), run.ID())
		require.NoError(t, err)
		out, err := run.Result(e.Context())
		require.NoError(t, err)
		require.Equal(t, "mail to ada after 8760h0m0s", out)
	}, remind)
}

var (
	double = cairn.NewStep("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil }).
		Retry(cairn.RetryPolicy{Attempts: 3, First: time.Second})
	answer = cairn.NewHook[int]("answer").Token("the answer")

	half = cairn.NewWorkflow("half", func(ctx cairn.Context, n int) (int, error) {
		if err := cairn.Sleep(ctx, time.Minute); err != nil {
			return 0, err
		}
		return cairn.Do(ctx, "halve", func(context.Context) (int, error) { return n / 2, nil })
	})

	// everything uses most of what there is.
	everything = cairn.NewWorkflow("everything", func(ctx cairn.Context, n int) ([]int, error) {
		first, err := double.Do(ctx, n)
		if err != nil {
			return nil, err
		}
		if err := cairn.Sleep(ctx, 24*time.Hour); err != nil {
			return nil, err
		}
		mapped, err := cairn.Map(ctx, "item", []int{1, 2, 3}, 2, func(ctx cairn.Context, i int) (int, error) {
			if err := cairn.Sleep(ctx, time.Duration(i)*time.Second); err != nil {
				return 0, err
			}
			return double.Do(ctx, i)
		})
		if err != nil {
			return nil, err
		}
		slow, err := cairn.Go(ctx, "slow", func(ctx cairn.Context) (int, error) { return 0, cairn.Sleep(ctx, time.Hour) })
		if err != nil {
			return nil, err
		}
		fast, err := cairn.Go(ctx, "fast", func(ctx cairn.Context) (int, error) { return double.Do(ctx, 50) })
		if err != nil {
			return nil, err
		}
		won, err := cairn.Race(ctx, slow, fast)
		if err != nil {
			return nil, err
		}
		got, err := answer.Wait(ctx, cairn.Timeout(48*time.Hour))
		if err != nil {
			return nil, err
		}
		child, err := half.Run(ctx, 84)
		if err != nil {
			return nil, err
		}
		return append(mapped, first, won, got, child), nil
	})
)

func drive(e *cairntest.Env) { cairntest.Send(e, "the answer", "once", 42) }

func TestCrashEverywhere(t *testing.T) {
	t.Parallel()
	crashes := cairntest.CrashEverywhere(t, everything, 5, cairntest.With(half), cairntest.Drive(drive))
	require.Greater(t, crashes, 20)
	t.Logf("%d crashes", crashes)
}

func TestEvictEverywhere(t *testing.T) {
	t.Parallel()
	cairntest.EvictEverywhere(t, everything, 5, cairntest.With(half), cairntest.Drive(drive))
}

// plain is a call without its options, where a function of two arguments is wanted.
func plain[In, Out, O any](call func(cairn.Context, In, ...O) (Out, error)) func(cairn.Context, In) (Out, error) {
	return func(ctx cairn.Context, in In) (Out, error) { return call(ctx, in) }
}
