package cairn

import (
	"context"
	"time"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// Step is a unit of work whose result is written down. It is done at least once, and its result is recorded once.
type Step[In, Out any] struct {
	fn   func(context.Context, In) (Out, error)
	spec engine.StepSpec
}

// NewStep defines a step. The name is permanent: it is how recorded results are found again.
func NewStep[In, Out any](name string, fn func(context.Context, In) (Out, error)) Step[In, Out] {
	return Step[In, Out]{fn: fn, spec: engine.StepSpec{Name: name}}
}

// RetryPolicy says how often, and when, a step that failed is tried again. Without one, it is not.
type RetryPolicy = engine.Retry

// Name returns the permanent name of the step.
func (s Step[In, Out]) Name() string { return s.spec.Name }

// Retry returns the step with a policy for its failures.
func (s Step[In, Out]) Retry(p RetryPolicy) Step[In, Out] {
	s.spec.Retry = p
	return s
}

// Timeout returns the step with a limit on the time of one attempt.
func (s Step[In, Out]) Timeout(d time.Duration) Step[In, Out] {
	s.spec.Timeout = d
	return s
}

// HeartbeatTimeout returns the step such that an attempt fails if it does not call [Heartbeat] or [Progress] for so long.
func (s Step[In, Out]) HeartbeatTimeout(d time.Duration) Step[In, Out] {
	s.spec.Beat = d
	return s
}

// Key returns the step for one call that is identified by a key of its own, and not by being the n-th use of the name. In the history, slashes in
// it are written as %2F.
func (s Step[In, Out]) Key(key string) Step[In, Out] {
	s.spec.Key = key
	return s
}

// Do does the step, or returns what was recorded when it was done before.
func (s Step[In, Out]) Do(ctx Context, in In) (Out, error) {
	spec, fn := s.spec, s.fn // and not s itself, which would be copied to the heap
	var err error
	if spec.Input, spec.Digest, err = encode(in); err != nil {
		var none Out
		return none, err
	}
	return runStep(ctx, spec, func(ctx context.Context) (Out, error) { return fn(ctx, in) })
}

// encode makes a value storable.
func encode(v any) (p journal.Payload, digest []byte, err error) {
	if p, err = payload.Encode(v); err != nil {
		return nil, nil, err
	}
	digest, err = payload.Digest(p)
	return p, digest, err
}

// Do does a small step that needs no definition: fn is called once, and its result recorded.
func Do[Out any](ctx Context, name string, fn func(context.Context) (Out, error)) (Out, error) {
	return runStep(ctx, engine.StepSpec{Name: name}, fn)
}

func runStep[Out any](ctx Context, spec engine.StepSpec, fn func(context.Context) (Out, error)) (Out, error) {
	var out Out
	p, err := ctx.branch().Step(spec, func(ctx context.Context, info engine.StepInfo) (journal.Payload, error) {
		v, err := fn(engine.WithInfo(ctx, info))
		if err != nil {
			return nil, err
		}
		return payload.Encode(v)
	})
	if err != nil {
		return out, err
	}
	return out, payload.Decode(p, &out)
}

// Attempt returns which attempt of its step the code is in, from 1; 0 outside a step.
func Attempt(ctx context.Context) int { return engine.InfoOf(ctx).Attempt }

// IdempotencyKey returns a text that is the same in all attempts of a step, in whatever process, and in no other step; "" outside a step.
func IdempotencyKey(ctx context.Context) string {
	if info := engine.InfoOf(ctx); info.Key != "" {
		return journal.PrefixStep.Format(info.Step())
	}
	return ""
}

// Heartbeat shows that a long step goes on.
func Heartbeat(ctx context.Context) { engine.InfoOf(ctx).Beat() }

// Progress shows that a long step goes on, and how far it has come: from 0 to 1. [Engine.Describe] shows it while the step is under way.
func Progress(ctx context.Context, fraction float64, note string) {
	engine.InfoOf(ctx).Report(engine.Progress{Fraction: fraction, Note: note})
}
