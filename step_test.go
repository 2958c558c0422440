package cairn_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
)

// ended runs a workflow in virtual time, and returns its result and how long it took.
func ended[In, Out any](t *testing.T, wf *cairn.Workflow[In, Out], in In, others ...cairn.Definition) (out Out, took time.Duration, err error) {
	t.Helper()
	cairntest.Run(t, func(e *cairntest.Env) {
		began := time.Now()
		run, startErr := wf.Start(e.Context(), e.Engine(), in)
		require.NoError(t, startErr)
		out, err = run.Result(e.Context())
		took = time.Since(began)
	}, append(others, wf)...)
	return out, took, err
}

// A step's timeout ends an attempt, which is tried again; a body that ignores it is waited for, and its result counts.
func TestStepTimeout(t *testing.T) {
	t.Parallel()
	slow := func(hangs int) cairn.Step[int, int] {
		return cairn.NewStep("slow", func(ctx context.Context, _ int) (int, error) {
			if n := cairn.Attempt(ctx); n > hangs {
				return n, nil
			}
			<-ctx.Done()
			return 0, ctx.Err()
		}).Timeout(time.Minute).Retry(cairn.RetryPolicy{Attempts: 3, First: time.Second})
	}
	out, took, err := ended(t, cairn.NewWorkflow("w", plain(slow(2).Do)), 0)
	require.NoError(t, err)
	require.Equal(t, 3, out)
	require.Equal(t, 2*time.Minute+3*time.Second, took, "two attempts of a minute, pauses of a second and of two")
	_, _, err = ended(t, cairn.NewWorkflow("w", plain(slow(3).Do)), 0)
	require.ErrorIs(t, err, cairn.ErrTimeout)
	require.EqualError(t, err, `timeout: step "slow" took longer than 1m0s`)

	deaf := cairn.NewStep("deaf", func(context.Context, int) (int, error) { time.Sleep(time.Hour); return 7, nil }).Timeout(time.Minute)
	out, took, err = ended(t, cairn.NewWorkflow("w", plain(deaf.Do)), 0)
	require.NoError(t, err)
	require.Equal(t, 7, out)
	require.Equal(t, time.Hour, took)
}

// A step that must show that it goes on fails when it does not.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	for name, beat := range map[string]func(context.Context, int){
		"heartbeat": func(ctx context.Context, _ int) { cairn.Heartbeat(ctx) },
		"progress":  func(ctx context.Context, i int) { cairn.Progress(ctx, float64(i)/10, "goes on") },
	} {
		alive := cairn.NewStep("alive", func(ctx context.Context, _ int) (int, error) {
			for i := range 10 {
				time.Sleep(50 * time.Second)
				beat(ctx, i)
			}
			return 7, ctx.Err()
		}).HeartbeatTimeout(time.Minute)
		out, took, err := ended(t, cairn.NewWorkflow("w", plain(alive.Do)), 0)
		require.NoError(t, err, name)
		require.Equal(t, 7, out, name)
		require.Equal(t, 500*time.Second, took, name)
	}
	silent := cairn.NewStep("silent", func(ctx context.Context, _ int) (int, error) { <-ctx.Done(); return 0, ctx.Err() }).HeartbeatTimeout(time.Minute)
	_, took, err := ended(t, cairn.NewWorkflow("w", plain(silent.Do)), 0)
	require.EqualError(t, err, `timeout: step "silent" has shown no heartbeat for 1m0s`)
	require.Equal(t, time.Minute, took)
}

// A policy says how often a step is tried, and when; an error can say when, too.
func TestRetryPolicies(t *testing.T) {
	t.Parallel()
	errBusy := cairn.NewError("busy", "come back later")
	for name, c := range map[string]struct {
		policy cairn.RetryPolicy
		fails  error
		want   time.Duration // of all pauses
		tries  int
	}{
		"none":        {cairn.RetryPolicy{}, errBusy, 0, 1},
		"doubled":     {cairn.RetryPolicy{Attempts: 4, First: time.Second}, errBusy, 7 * time.Second, 4},
		"by a factor": {cairn.RetryPolicy{Attempts: 4, First: time.Second, Factor: 3}, errBusy, 13 * time.Second, 4},
		"bounded":     {cairn.RetryPolicy{Attempts: 5, First: time.Second, Max: 2 * time.Second}, errBusy, 7 * time.Second, 5},
		"never":       {cairn.RetryPolicy{Attempts: 5, First: time.Second, Never: []cairn.Code{"busy"}}, fmt.Errorf("wrapped: %w", errBusy), 0, 1},
		"retry after": {cairn.RetryPolicy{Attempts: 3, First: time.Second}, cairn.RetryAfter(errBusy, time.Hour), 2 * time.Hour, 3},
	} {
		tries := 0
		step := cairn.NewStep("s", func(context.Context, int) (int, error) { tries++; return 0, c.fails }).Retry(c.policy)
		_, took, err := ended(t, cairn.NewWorkflow("w", plain(step.Do)), 0)
		require.ErrorIs(t, err, errBusy, name)
		require.Equal(t, c.want, took, name)
		require.Equal(t, c.tries, tries, name)
	}
}

func TestSleepUntil(t *testing.T) {
	t.Parallel()
	wf := cairn.NewWorkflow("w", func(ctx cairn.Context, d time.Duration) (time.Duration, error) {
		before := cairn.Now(ctx)
		err := cairn.SleepUntil(ctx, before.Add(d))
		return cairn.Now(ctx).Sub(before), err
	})
	for d, want := range map[time.Duration]time.Duration{24 * time.Hour: 24 * time.Hour, -time.Hour: 0, 0: 0} {
		out, took, err := ended(t, wf, d)
		require.NoError(t, err)
		require.Equal(t, want, out)
		require.Equal(t, want, took)
	}
}

// The limit on the silence of a step does not hide what the step failed with.
func TestAHeartbeatTimeoutKeepsTheErrorOfItsStep(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		step := cairn.NewStep("charge", func(context.Context, int) (int, error) { return 0, errDeclined }).
			HeartbeatTimeout(time.Minute).Retry(cairn.RetryPolicy{Attempts: 3, Never: []cairn.Code{errDeclined.Code}})
		wf := cairn.NewWorkflow("w", plain(step.Do))
		_, err := result(t, start(wf), wf, 0)
		requireCode(t, errDeclined.Code, err)
	})
}
