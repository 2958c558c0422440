package cairn

import (
	"context"
	"time"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// Poll is a check that is repeated until it succeeds: has the file arrived, is the build done. Checks that find nothing leave no trace; the outcome is
// one event. Between two checks the run waits like any other, and costs nothing.
type Poll[In, Out any] struct {
	spec  engine.PollSpec
	check func(context.Context, In) (Out, bool, error)
}

// NewPoll defines a poll. The check returns true when its value is the answer, and an error when checking again is
// useless. With an interval of 0 it is repeated only when somebody calls [RunHandle.PollNow].
func NewPoll[In, Out any](name string, every time.Duration, check func(context.Context, In) (Out, bool, error)) Poll[In, Out] {
	return Poll[In, Out]{spec: engine.PollSpec{Name: name, Every: every}, check: check}
}

// Name returns the permanent name of the poll.
func (p Poll[In, Out]) Name() string { return p.spec.Name }

// Retry returns the poll with a policy for checks that fail: see [Retry].
func (p Poll[In, Out]) Retry(policy RetryPolicy) Poll[In, Out] {
	p.spec.Retry = engine.Retry(policy)
	return p
}

// Timeout returns the poll with a time limit: it fails with [ErrTimeout] if it has no answer after d.
func (p Poll[In, Out]) Timeout(d time.Duration) Poll[In, Out] {
	p.spec.Until = within(d)
	return p
}

// Wait waits until the check succeeds. It checks at once, then at each interval, and whenever somebody calls [RunHandle.PollNow].
func (p Poll[In, Out]) Wait(ctx Context, in In, opts ...PollOption) (Out, error) {
	spec, check := p.spec, p.check
	for _, o := range opts {
		o.pollOption(&spec)
	}
	var out Out
	var err error
	if spec.Input, spec.Digest, err = ctx.branch().EncodeDigest("the input of poll "+spec.Name, in); err != nil {
		return out, err
	}
	spec.Same, spec.Into = same[In], &out
	_, err = ctx.branch().Poll(spec, func(ctx context.Context, info engine.StepInfo) (journal.Payload, bool, error) {
		v, ready, err := check(engine.WithInfo(ctx, info), in)
		if err != nil || !ready {
			return nil, false, err
		}
		encoded, err := engine.Result("the result of poll "+info.Key, v)
		return encoded, err == nil, err
	})
	return out, err
}
