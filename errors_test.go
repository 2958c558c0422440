package cairn_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
)

func TestAWrappedErrorSaysItsCodeOnce(t *testing.T) {
	t.Parallel()
	wf := cairn.NewWorkflow("w", func(cairn.Context, int) (int, error) { return 0, fmt.Errorf("charge: %w", errDeclined) })
	_, err := result(t, memory(t, cairn.Config{}, wf), wf, 0)
	require.EqualError(t, err, "card_declined: charge: the card was declined")
}

// fussy is an error that cannot be asked anything when it is a nil pointer.
type fussy struct{ says string }

func (e *fussy) Error() string { return e.says }

// touchy is an error that panics when it is compared.
type touchy struct{}

func (touchy) Error() string { return "touchy" }

func (touchy) Is(error) bool { panic("do not compare me") }

// unusable are errors that panic when they are asked something.
func unusable() map[string]error {
	return map[string]error{"nil pointer": (*fussy)(nil), "nil of ours": (*cairn.Error)(nil), "compared": touchy{}}
}

// TestErrorsThatCannotBeUsed returns errors that panic when they are asked what they say, from all code that can return one: it fails as it would with any other error, and
// nothing else does.
func TestErrorsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		t.Helper()
		var bodies atomic.Int32
		step := cairn.NewStep("step", func(_ context.Context, kind string) (int, error) {
			bodies.Add(1)
			return 1, unusable()[kind]
		}).Retry(cairn.RetryPolicy{Attempts: 3, First: time.Millisecond})
		poll := cairn.NewPoll("poll", time.Millisecond, func(_ context.Context, kind string) (int, bool, error) { return 1, true, unusable()[kind] })
		returned := cairn.NewWorkflow("returned", func(_ cairn.Context, kind string) (int, error) { return 1, unusable()[kind] })
		caught := cairn.NewWorkflow("caught", func(ctx cairn.Context, kind string) ([]cairn.Code, error) {
			_, inStep := step.Do(ctx, kind)
			_, inPoll := poll.Wait(ctx, kind)
			return []cairn.Code{cairnerr.CodeOf(inStep), cairnerr.CodeOf(inPoll)}, nil
		})
		branched := cairn.NewWorkflow("branched", func(ctx cairn.Context, kind string) (int, error) {
			f, err := cairn.Go(ctx, "branch", func(cairn.Context) (int, error) { return 1, unusable()[kind] })
			if err != nil {
				return 0, err
			}
			return f.Wait(ctx)
		})
		e := start(returned, caught, branched)
		for kind := range unusable() {
			_, err := result(t, e, returned, kind)
			requireCode(t, "parked", err)
			require.ErrorContains(t, err, "panic: ")
			_, err = result(t, e, branched, kind)
			requireCode(t, "parked", err)
			require.ErrorContains(t, err, "panic: ")
			bodies.Store(0)
			codes, err := result(t, e, caught, kind)
			require.NoError(t, err)
			require.Equal(t, []cairn.Code{cairnerr.CodePanic, cairnerr.CodePanic}, codes)
			require.EqualValues(t, 3, bodies.Load(), "its policy holds")
		}
	})
}

func TestRetryAfterNothing(t *testing.T) {
	t.Parallel()
	require.NoError(t, cairn.RetryAfter(nil, time.Second))
}

func errOf[T any](_ T, err error) error { return err }
