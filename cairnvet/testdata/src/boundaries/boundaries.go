// Package boundaries has code that is, and code that is not, a part of a workflow.
package boundaries

import (
	"context"
	"slices"
	"time"

	"github.com/cairn-workflow/cairn"
)

// Alias is a Context by another name.
type Alias = cairn.Context

func aliased(_ Alias) { _ = time.Now() } // want `time.Now in`

func generic[T any](_ T, ctx cairn.Context) { _ = time.Now() } // want `time.Now in`

type service struct{}

func (service) method(cairn.Context) { _ = time.Now() } // want `time.Now in`

func (service) step(context.Context) { _ = time.Now() }

func unnamed(cairn.Context) func() time.Time {
	return func() time.Time { return time.Now() } // want `time.Now in`
}

func callback(ctx cairn.Context, times []time.Time) {
	slices.SortFunc(times, func(a, b time.Time) int { return a.Compare(time.Now()) }) // want `time.Now in`
}

var declared = cairn.Declare[int, int]("declared")

func bind() {
	_ = time.Now()
	declared.Bind(func(ctx cairn.Context, n int) (int, error) {
		_ = time.Now() // want `time.Now in`
		return n, nil
	})
}

// A function of the user that gets a Context may do in a step what it is given.
func inStep(ctx cairn.Context) {
	quickly(ctx, func() { _ = time.Now() })
	body := func() { _ = time.Now() }
	quickly(ctx, body)
	withPlainContext(func(context.Context) { _ = time.Now() })
}

func quickly(ctx cairn.Context, f func()) {
	_, _ = cairn.Do(ctx, "quickly", func(context.Context) (int, error) {
		f()
		return 0, nil
	})
}

func withPlainContext(f func(context.Context)) { f(context.Background()) }

func neither() { _ = time.Now() }
