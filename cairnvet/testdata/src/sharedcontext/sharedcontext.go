// Package sharedcontext uses contexts of others.
package sharedcontext

import (
	"context"

	"github.com/cairn-workflow/cairn"
)

var charge = cairn.NewStep("charge", func(context.Context, int) (int, error) { return 0, nil })

func branches(ctx cairn.Context, numbers []int) error {
	_, _ = cairn.Go(ctx, "a", func(cairn.Context) (int, error) {
		return charge.Do(ctx, 1) // want `ctx belongs to the workflow around this branch: a branch uses the Context that it gets \[sharedcontext\]`
	})
	_, _ = cairn.Go(ctx, "a", func(own cairn.Context) (int, error) {
		_, _ = charge.Do(own, 1)
		return charge.Do(ctx, 1) // want `ctx belongs to the workflow around this branch`
	}, cairn.Key("key"))
	_, _ = cairn.Map(ctx, "a", numbers, 0, func(_ cairn.Context, n int) (int, error) {
		return charge.Do(ctx, n) // want `ctx belongs`
	})
	_, _ = cairn.Map(ctx, "a", numbers, 0, func(_ cairn.Context, n int) (int, error) {
		func() {
			_, _ = charge.Do(ctx, n) // want `ctx belongs`
		}()
		return n, nil
	}, cairn.KeyBy(func(int) string { return cairn.RunID(ctx) }))
	work := func(own cairn.Context) (int, error) {
		return charge.Do(ctx, 1) // want `ctx belongs`
	}
	_, err := cairn.Go(ctx, "b", work)
	return err
}

func nested(ctx cairn.Context) error {
	_, err := cairn.Go(ctx, "outer", func(middle cairn.Context) (int, error) {
		within, done := cairn.WithTimeout(middle, 1)
		defer done()
		_, err := cairn.Go(within, "inner", func(inner cairn.Context) (int, error) {
			_ = cairn.Sleep(inner, 1)
			_ = cairn.Sleep(within, 1) // want `within belongs`
			return charge.Do(ctx, 1)   // want `ctx belongs`
		})
		return 0, err
	})
	return err
}

type holder struct{ ctx cairn.Context }

func steps(ctx cairn.Context, h holder) (int, error) {
	_, _ = cairn.Do(ctx, "a", func(context.Context) (int, error) {
		return charge.Do(ctx, 1) // want `ctx belongs to the workflow: the body of a step uses the context.Context that it gets`
	})
	_, _ = cairn.Do(ctx, "b", func(context.Context) (int, error) {
		logged(ctx)                // want `ctx belongs to the workflow: the body of a step`
		return charge.Do(h.ctx, 1) // want `ctx belongs to the workflow: the body of a step`
	})
	body := func(context.Context) (int, error) {
		return charge.Do(ctx, 1) // want `ctx belongs to the workflow: the body of a step`
	}
	_, _ = cairn.Do(ctx, "c", body)
	inline := cairn.NewStep("d", func(_ context.Context, n int) (int, error) {
		return n, ctx.Err() // want `ctx belongs`
	})
	_, _ = inline.Do(ctx, 1)
	poll := cairn.NewPoll("e", 1, func(context.Context, int) (int, bool, error) {
		return 0, true, cairn.Sleep(ctx, 1) // want `ctx belongs`
	})
	return poll.Wait(ctx, 1)
}

func fine(ctx cairn.Context, h holder) (int, error) {
	_, _ = cairn.Go(ctx, "a", func(ctx cairn.Context) (int, error) { return charge.Do(ctx, 1) })
	_, _ = cairn.Go(ctx, "b", func(own cairn.Context) (int, error) {
		h.ctx = own
		return charge.Do(h.ctx, 1)
	})
	each := func(n int) { _, _ = charge.Do(ctx, n) }
	each(1)
	own(ctx, func(inner cairn.Context) { _, _ = charge.Do(ctx, 1) }) // who knows when it is called
	runID := cairn.RunID(ctx)
	return cairn.Do(ctx, "c", func(ctx context.Context) (int, error) {
		logged(ctx)
		return len(runID), nil
	})
}

func own(ctx cairn.Context, f func(cairn.Context)) { f(ctx) }

func logged(context.Context) {}
