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
	name string
	key  string
	fn   func(context.Context, In) (Out, error)
	opts engine.StepSpec
}

// NewStep defines a step. The name is permanent: it is how recorded results are found again.
func NewStep[In, Out any](name string, fn func(context.Context, In) (Out, error)) Step[In, Out] {
	return Step[In, Out]{name: name, fn: fn}
}

// RetryPolicy says how often, and when, a step that failed is tried again.
type RetryPolicy = engine.Retry

// Retry returns the step with a policy for its failures.
func (s Step[In, Out]) Retry(p RetryPolicy) Step[In, Out] {
	s.opts.Retry = p
	return s
}

// Timeout returns the step with a limit on the time of one attempt.
func (s Step[In, Out]) Timeout(d time.Duration) Step[In, Out] {
	s.opts.Timeout = d
	return s
}

// Key returns the step for one call that is identified by a key of its own, and not by being the n-th use of the name.
func (s Step[In, Out]) Key(key string) Step[In, Out] {
	s.key = key
	return s
}

// Do does the step, or returns what was recorded when it was done before.
func (s Step[In, Out]) Do(ctx Context, in In) (Out, error) {
	var out Out
	input, err := payload.Encode(in)
	if err != nil {
		return out, err
	}
	digest, err := payload.Digest(input)
	if err != nil {
		return out, err
	}
	spec := s.opts
	spec.Name, spec.Key, spec.Input, spec.Digest = s.name, s.key, input, digest
	return runStep[Out](ctx, spec, func(ctx context.Context) (Out, error) { return s.fn(ctx, in) })
}

// Do does a small step that needs no definition: fn is called once, and its result recorded.
func Do[Out any](ctx Context, name string, fn func(context.Context) (Out, error)) (Out, error) {
	return runStep[Out](ctx, engine.StepSpec{Name: name}, fn)
}

func runStep[Out any](ctx Context, spec engine.StepSpec, fn func(context.Context) (Out, error)) (Out, error) {
	var out Out
	p, err := ctx.branch().Step(spec, func(ctx context.Context, info engine.StepInfo) (journal.Payload, error) {
		v, err := fn(withInfo(ctx, info))
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

type infoKey struct{}

func withInfo(ctx context.Context, info engine.StepInfo) context.Context {
	return context.WithValue(ctx, infoKey{}, info)
}

// Attempt returns which attempt of its step the code is in, from 1; 0 outside a step.
func Attempt(ctx context.Context) int {
	info, _ := ctx.Value(infoKey{}).(engine.StepInfo)
	return info.Attempt
}

// IdempotencyKey returns a text that is the same in all attempts of a step, in whatever process, and in no other step; "" outside a step.
func IdempotencyKey(ctx context.Context) string {
	info, ok := ctx.Value(infoKey{}).(engine.StepInfo)
	if !ok {
		return ""
	}
	return journal.PrefixStep.Format(info.Step)
}
