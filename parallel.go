package cairn

import (
	"errors"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// Future is the result of a branch.
type Future[T any] struct {
	inner *engine.Future
	value *T
}

// Go starts a branch: fn runs in a goroutine of its own, with a Context of its own. The name, and how often it is used, identify it.
func Go[T any](ctx Context, name string, fn func(Context) (T, error)) (*Future[T], error) {
	return goKey(ctx, name, "", fn)
}

func goKey[T any](ctx Context, name, key string, fn func(Context) (T, error)) (*Future[T], error) {
	f := &Future[T]{value: new(T)}
	inner, err := ctx.branch().Go(name, key, func(b *engine.Branch) (journal.Payload, error) {
		v, err := fn(newContext(b))
		*f.value = v
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	f.inner = inner
	return f, nil
}

// Wait waits for the branch and returns what it returned.
func (f *Future[T]) Wait(ctx Context) (T, error) {
	_, err := ctx.branch().Wait(f.inner)
	return *f.value, err
}

// All waits for all futures. The error joins those of the branches that failed.
func All[T any](ctx Context, futures ...*Future[T]) ([]T, error) {
	out := make([]T, len(futures))
	var errs []error
	for i, f := range futures {
		v, err := f.Wait(ctx)
		out[i] = v
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// Map calls fn for each item, at most limit of them at the same time (0: all), and returns the results in the order of the items.
func Map[In, Out any](ctx Context, name string, items []In, limit int, fn func(Context, In) (Out, error)) ([]Out, error) {
	if limit <= 0 || limit > len(items) {
		limit = len(items)
	}
	futures := make([]*Future[Out], 0, len(items))
	for i, item := range items {
		if i >= limit { // the oldest that still runs makes room
			if _, err := futures[i-limit].Wait(ctx); err != nil && ctx.Err() != nil {
				break
			}
		}
		f, err := Go(ctx, name, func(ctx Context) (Out, error) { return fn(ctx, item) })
		if err != nil {
			return nil, err
		}
		futures = append(futures, f)
	}
	return All(ctx, futures...)
}
