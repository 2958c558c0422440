package cairn

import (
	"errors"
	"iter"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// Future is the result of a branch.
type Future[T any] struct {
	inner *engine.Future
	value T
}

// Go starts a branch: fn runs in a goroutine of its own, with a Context of its own. The name, and how often it is used, identify it. A branch that
// nobody has waited for when the workflow returns ends with it, without a trace of what it does from then on.
func Go[T any](ctx Context, name string, fn func(Context) (T, error)) (*Future[T], error) {
	return GoKey(ctx, name, "", fn)
}

// GoKey is [Go] with a key of its own for the branch, instead of being the n-th use of the name.
func GoKey[T any](ctx Context, name, key string, fn func(Context) (T, error)) (*Future[T], error) {
	f := &Future[T]{}
	inner, err := ctx.branch().Go(name, key, func(b *engine.Branch) (journal.Payload, error) {
		v, err := fn(newContext(b))
		f.value = v
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	f.inner = inner
	return f, nil
}

// Wait waits for the branch and returns what it returned. A deadline of ctx does not end the wait: start the branch with it.
func (f *Future[T]) Wait(ctx Context) (T, error) {
	if _, err := ctx.branch().Wait(f.inner); err != nil {
		var none T
		return none, err
	}
	return f.value, nil
}

// result returns what the branch returned. One that lost a race may still be about to return something: that does not count.
func (f *Future[T]) result() (T, error) {
	if _, err := f.inner.Result(); err != nil {
		var none T
		return none, err
	}
	return f.value, nil
}

// All waits for all futures. The error joins those of the branches that failed.
func All[T any](ctx Context, futures ...*Future[T]) ([]T, error) {
	out := make([]T, len(futures))
	inner := make([]*engine.Future, len(futures))
	for i, f := range futures {
		inner[i] = f.inner
	}
	if err := ctx.branch().WaitAll(inner); err != nil {
		return out, err
	}
	errs := make([]error, len(futures))
	for i, f := range futures {
		out[i], errs[i] = f.result()
	}
	return out, errors.Join(errs...)
}

// Race waits for the first branch that ends, well or not, and returns what it returned. The others have lost: their Contexts end with [ErrLost], and
// nothing that they do from then on is recorded. The same one wins whenever the workflow is executed again.
func Race[T any](ctx Context, futures ...*Future[T]) (T, error) {
	var none T
	if len(futures) == 0 {
		return none, cairnerr.Errorf(cairnerr.CodeMalformed, "a race needs a branch")
	}
	first, err := choose(ctx, futures, engine.Choice{Name: "race", Close: true, Enough: func(ended []*engine.Future) bool { return len(ended) > 0 }})
	if err != nil {
		return none, err
	}
	return first[0].result()
}

// Some waits until m branches have ended well, and returns what they returned, in the order in which they ended. The others have lost, as in
// a [Race]. If so many fail that m cannot succeed any more, the error joins theirs.
func Some[T any](ctx Context, m int, futures ...*Future[T]) ([]T, error) {
	if m < 0 || m > len(futures) {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "%d of %d branches cannot succeed", m, len(futures))
	}
	enough := func(ended []*engine.Future) bool {
		failed := 0
		for _, f := range ended {
			if f.Failed() {
				failed++
			}
		}
		return len(ended)-failed >= m || failed > len(futures)-m
	}
	ended, err := choose(ctx, futures, engine.Choice{Name: "some", Close: true, Enough: enough})
	if err != nil {
		return nil, err
	}
	var out []T
	var errs []error
	for _, f := range ended {
		if v, err := f.result(); err != nil {
			errs = append(errs, err)
		} else if len(out) < m {
			out = append(out, v)
		}
	}
	if len(out) < m {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

// AsCompleted iterates over branches in the order in which they end; it is the same order whenever the workflow is executed again. Each is
// given with its place among the futures. Who leaves the loop early leaves the other branches running.
func AsCompleted[T any](ctx Context, futures ...*Future[T]) iter.Seq2[int, *Future[T]] {
	return func(yield func(int, *Future[T]) bool) {
		rest := make(map[*Future[T]]int, len(futures))
		for i, f := range futures {
			rest[f] = i
		}
		for len(rest) > 0 {
			left := make([]*Future[T], 0, len(rest))
			for _, f := range futures {
				if _, waits := rest[f]; waits {
					left = append(left, f)
				}
			}
			ended, err := choose(ctx, left, engine.Choice{Name: "next", Enough: func(ended []*engine.Future) bool { return len(ended) > 0 }})
			if err != nil {
				return // this branch has lost itself; every further call says so
			}
			for _, f := range ended {
				i := rest[f]
				delete(rest, f)
				if !yield(i, f) {
					return
				}
			}
		}
	}
}

func choose[T any](ctx Context, futures []*Future[T], c engine.Choice) ([]*Future[T], error) {
	inner := make([]*engine.Future, len(futures))
	byInner := make(map[*engine.Future]*Future[T], len(futures))
	for i, f := range futures {
		inner[i] = f.inner
		byInner[f.inner] = f
	}
	ended, err := ctx.branch().Choose(c, inner)
	out := make([]*Future[T], len(ended))
	for i, f := range ended {
		out[i] = byInner[f]
	}
	return out, err
}

// Map calls fn for each item in a branch of its own, at most limit of them at the same time (0: all), and returns the results in the order of the
// items. The error joins those of the items that failed.
func Map[In, Out any](ctx Context, name string, items []In, limit int, fn func(Context, In) (Out, error)) ([]Out, error) {
	return mapItems(ctx, name, items, limit, func(int) string { return "" }, fn)
}

// MapKey is [Map] with a key for each item: what is finished is found by it, also if the items come in another order when the
// workflow is executed again.
func MapKey[In, Out any](ctx Context, name string, items []In, limit int, key func(In) string, fn func(Context, In) (Out, error)) ([]Out, error) {
	return mapItems(ctx, name, items, limit, func(i int) string { return key(items[i]) }, fn)
}

func mapItems[In, Out any](ctx Context, name string, items []In, limit int, key func(int) string, fn func(Context, In) (Out, error)) ([]Out, error) {
	futures := make([]*Future[Out], len(items))
	room := ctx.branch().Limit(limit)
	for i, item := range items {
		if err := room.Enter(); err != nil {
			return nil, err
		}
		f, err := GoKey(ctx, name, key(i), func(ctx Context) (Out, error) {
			defer room.Leave()
			return fn(ctx, item)
		})
		if err != nil {
			return nil, err
		}
		futures[i] = f
	}
	return All(ctx, futures...)
}
