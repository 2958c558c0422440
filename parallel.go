package cairn

import (
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// Future is the result of a branch.
type Future[T any] struct {
	inner *engine.Future
	value T
}

// branchCall is a branch that is started.
type branchCall struct {
	spec  engine.BranchSpec
	limit time.Duration // 0: none
}

// Go starts a branch: fn runs in a goroutine of its own, with a Context of its own. A branch is identified by its name
// and how often the name was used before, or by a [Key]. When the workflow returns, branches that nobody has waited for
// end too; nothing that they do from then on is recorded.
func Go[T any](ctx Context, name string, fn func(Context) (T, error), opts ...BranchOption) (*Future[T], error) {
	call := branchCall{spec: engine.BranchSpec{Name: name}}
	for _, o := range opts {
		o.branchOption(&call)
	}
	if call.limit != 0 {
		unlimited := fn
		fn = func(ctx Context) (T, error) {
			limited, stop := WithTimeout(ctx, call.limit)
			defer stop()
			return unlimited(limited)
		}
	}
	return startBranch(ctx, call.spec, fn)
}

func startBranch[T any](ctx Context, spec engine.BranchSpec, fn func(Context) (T, error)) (*Future[T], error) {
	f := &Future[T]{}
	inner, err := ctx.branch().Go(spec, func(b *engine.Branch) (journal.Payload, error) {
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

// Wait waits for the branch and returns what it returned. A deadline of ctx does not end the wait; to limit a branch,
// start it with a Context that has a deadline.
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

// All waits for all futures. The error joins the errors of the branches that failed.
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

// Race waits for the first branch that ends, with success or with an error, and returns what it returned. The others
// have lost: their Contexts end with [ErrLost], and nothing that they do from then on is recorded. The same one wins
// whenever the workflow is executed again.
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

// FirstN waits until m branches have succeeded, and returns their results in the order in which they ended. The others
// have lost, as in a [Race]. If so many fail that m cannot succeed any more, the error joins their errors.
func FirstN[T any](ctx Context, m int, futures ...*Future[T]) ([]T, error) {
	if m < 0 || m > len(futures) {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "%d of %d branches cannot succeed", m, len(futures))
	}
	enough := func(ended []*engine.Future) bool {
		failed := failures(ended)
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

func failures(ended []*engine.Future) int {
	failed := 0
	for _, f := range ended {
		if f.Failed() {
			failed++
		}
	}
	return failed
}

// AsCompleted iterates over branches in the order in which they end; it is the same order whenever the workflow is
// executed again. Each comes with its index in futures. Breaking out of the loop leaves the other branches running.
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

// mapCall is a map over items.
type mapCall struct {
	key      any // func(In) string; nil: by place
	failFast bool
}

// Map calls fn for each item in a branch of its own, at most limit of them at the same time (0: all), and returns the
// results in the order of the items. The error joins the errors of the items that failed; see [FailFast].
//
// The result of a finished item is found by the item's index, or by a key: see [KeyBy]. If another item has that index
// when the workflow is executed again, the run is parked with the code mismatch, because the result belongs to another
// item.
func Map[In, Out any](ctx Context, name string, items []In, limit int, fn func(Context, In) (Out, error), opts ...MapOption) ([]Out, error) {
	var call mapCall
	for _, o := range opts {
		o.mapOption(&call)
	}
	m := mapping[In, Out]{ctx: ctx, name: name, fn: fn, room: ctx.branch().Limit(limit)}
	if call.key != nil {
		key, ok := call.key.(func(In) string)
		if !ok {
			return nil, ctx.branch().Halt(cairnerr.Errorf(cairnerr.CodeMalformed, "map %q: KeyBy got a %T, and the items are %T", name, call.key, items))
		}
		m.key = key
	}
	if call.failFast {
		m.room = nil // it counts them itself
		return m.failFast(items, limit)
	}
	futures := make([]*Future[Out], 0, len(items))
	for _, item := range items {
		f, err := m.start(item)
		if err != nil {
			return nil, err
		}
		futures = append(futures, f)
	}
	return All(ctx, futures...)
}

// mapping is a map that is under way.
type mapping[In, Out any] struct {
	ctx  Context
	name string
	fn   func(Context, In) (Out, error)
	key  func(In) string // nil: by place
	room *engine.Room
}

// start starts the branch of an item, as soon as there is room for it.
func (m *mapping[In, Out]) start(item In) (*Future[Out], error) {
	if err := m.room.Enter(); err != nil {
		return nil, err
	}
	spec := engine.BranchSpec{Name: m.name}
	if m.key != nil {
		spec.Key = m.key(item)
	} else if digest, err := payload.ItemDigest(item); err == nil { // what cannot be stored is not compared
		spec.Item = digest
	}
	return startBranch(m.ctx, spec, func(ctx Context) (Out, error) {
		defer m.room.Leave()
		return m.fn(ctx, item)
	})
}

// failFast starts the items, and ends with the first that fails. What is begun follows from recorded decisions, so it is the same when the workflow is executed again.
func (m *mapping[In, Out]) failFast(items []In, limit int) ([]Out, error) {
	if limit <= 0 {
		limit = len(items)
	}
	out := make([]Out, len(items))
	places := map[*Future[Out]]int{}
	var running []*Future[Out]
	for next := 0; next < len(items) || len(running) > 0; {
		for ; next < len(items) && len(running) < limit; next++ {
			f, err := m.start(items[next])
			if err != nil {
				return nil, err
			}
			places[f] = next
			running = append(running, f)
		}
		// With all items begun only a failure matters; before that each end lets another item begin.
		last := next == len(items)
		ended, err := choose(m.ctx, running, engine.Choice{Name: "map", Close: last, Enough: func(ended []*engine.Future) bool {
			return failures(ended) > 0 || !last && len(ended) > 0
		}})
		if err != nil {
			return nil, err
		}
		var failed []error
		for _, f := range ended {
			if out[places[f]], err = f.result(); err != nil {
				failed = append(failed, err)
			}
		}
		running = slices.DeleteFunc(running, func(f *Future[Out]) bool { return slices.Contains(ended, f) })
		if len(failed) > 0 {
			return nil, errors.Join(append(failed, m.close(running, last))...)
		}
	}
	return out, nil
}

// close lets branches lose that are still running.
func (m *mapping[In, Out]) close(running []*Future[Out], closed bool) error {
	if closed || len(running) == 0 {
		return nil
	}
	_, err := choose(m.ctx, running, engine.Choice{Name: "map", Close: true, Enough: func([]*engine.Future) bool { return true }})
	return err
}
