package cairn

import (
	"context"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// Step is a unit of work. It is done at least once, and its result is recorded once.
type Step[In, Out any] struct {
	fn   func(context.Context, In) (Out, error)
	spec engine.StepSpec
}

// NewStep defines a step. The name is permanent: it is how recorded results are found again.
func NewStep[In, Out any](name string, fn func(context.Context, In) (Out, error)) Step[In, Out] {
	return Step[In, Out]{fn: fn, spec: engine.StepSpec{Name: name}}
}

// Unlimited is a number of attempts without a limit, for [RetryPolicy].
const Unlimited = engine.Unlimited

// RetryPolicy says how often, and when, a step that failed is tried again. Without a policy, it is not tried again. An
// error wrapped with [NonRetryable] is never tried again; an error wrapped with [RetryAfter] sets the pause itself.
type RetryPolicy struct {
	// Attempts is how often the step is tried in all; 0 and 1: once; [Unlimited]: until it succeeds.
	Attempts int
	// First is the pause before the second attempt.
	First time.Duration
	// Max is the longest pause. Defaults to 0: no limit.
	Max time.Duration
	// Factor multiplies the pause after each attempt. Defaults to 2.
	Factor float64
	// Jitter is the share of the pause, 0 to 1, by which it may be longer or shorter.
	Jitter float64
	// Never are the codes of errors that are not tried again.
	Never []Code
}

// Name returns the permanent name of the step.
func (s Step[In, Out]) Name() string { return s.spec.Name }

// Retry returns the step with a policy for its failures.
func (s Step[In, Out]) Retry(p RetryPolicy) Step[In, Out] {
	s.spec.Retry = engine.Retry(p)
	return s
}

// Timeout returns the step with a limit on the time of one attempt.
func (s Step[In, Out]) Timeout(d time.Duration) Step[In, Out] {
	s.spec.Timeout = d
	return s
}

// HeartbeatTimeout returns the step with a limit on the time that an attempt may go without calling [Heartbeat] or
// [Progress].
func (s Step[In, Out]) HeartbeatTimeout(d time.Duration) Step[In, Out] {
	s.spec.Beat = d
	return s
}

// Do does the step, or returns its recorded result if it was done before.
func (s Step[In, Out]) Do(ctx Context, in In, opts ...StepOption) (Out, error) {
	spec, fn := s.spec, s.fn // and not s itself, which would be copied to the heap
	var out Out
	var err error
	if spec.Input, spec.Digest, err = ctx.branch().EncodeDigest("the input of step "+spec.Name, in); err != nil {
		return out, err
	}
	spec.Same = same[In]
	if fn == nil {
		return runStep[Out](ctx, spec, opts, nil)
	}
	return runStep(ctx, spec, opts, func(ctx context.Context) (Out, error) { return fn(ctx, in) })
}

// same reports whether a recorded value, read as today's type, is the present one.
func same[T any](recorded, now journal.Payload) bool { return payload.Same(recorded, new(T), now) }

// Do does a small step that needs no definition: it calls fn and records the result.
func Do[Out any](ctx Context, name string, fn func(context.Context) (Out, error), opts ...StepOption) (Out, error) {
	return runStep(ctx, engine.StepSpec{Name: name}, opts, fn)
}

func runStep[Out any](ctx Context, spec engine.StepSpec, opts []StepOption, fn func(context.Context) (Out, error)) (Out, error) {
	for _, o := range opts {
		o.stepOption(&spec)
	}
	var out Out
	if fn == nil {
		return out, ctx.branch().Halt(cairnerr.Errorf(cairnerr.CodeMalformed, "step %q has no function", spec.Name))
	}
	spec.Into = &out
	_, err := ctx.branch().Step(spec, func(ctx context.Context, info engine.StepInfo) (journal.Payload, error) {
		v, err := fn(engine.WithInfo(ctx, info))
		if err != nil {
			return nil, err
		}
		return engine.Result("the result of step "+info.Key, v)
	})
	return out, err
}

// Attempt returns the number of the current attempt of a step, from 1; 0 outside a step.
func Attempt(ctx context.Context) int { return engine.InfoOf(ctx).Attempt }

// IdempotencyKey returns a text that is the same in all attempts of a step, in whatever process, and in no other step; "" outside a step.
func IdempotencyKey(ctx context.Context) string {
	if info := engine.InfoOf(ctx); info.Key != "" {
		return journal.PrefixStep.Format(info.Step())
	}
	return ""
}

// Heartbeat shows that a long attempt of a step is alive; see [HeartbeatTimeout].
func Heartbeat(ctx context.Context) { engine.InfoOf(ctx).Beat() }

// Progress shows that a long attempt of a step is alive, and how far it has come: from 0 to 1. [RunHandle.Describe]
// shows it while the step is under way.
func Progress(ctx context.Context, fraction float64, note string) {
	engine.InfoOf(ctx).Report(engine.Progress{Fraction: fraction, Note: note})
}
