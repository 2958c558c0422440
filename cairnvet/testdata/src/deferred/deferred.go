// Package deferred defers calls.
package deferred

import (
	"context"
	"time"

	"github.com/cairn-workflow/cairn"
)

var refund = cairn.NewStep("refund", func(ctx context.Context, n int) (int, error) {
	defer undo(ctx)
	return n, nil
})

func undo(context.Context) {}

func release(ctx cairn.Context) error { return nil }

func durable(ctx cairn.Context, hook cairn.Hook[int]) error {
	defer refund.Do(ctx, 1) // want `refund.Do is a durable call in a deferred function, which also runs when the run is dropped from memory: call it before the function returns, with a Context of cairn.Cleanup if .* \[deferred\]`
	defer release(ctx)      // want `release is a durable call in a deferred function`
	defer func() {
		clean, done := cairn.Cleanup(ctx, time.Minute) // want `cairn.Cleanup is a durable call`
		defer done()
		_, _ = refund.Do(clean, 1) // want `refund.Do is a durable call`
		func() {
			_ = cairn.Sleep(clean, 1) // want `cairn.Sleep is a durable call`
		}()
	}()
	give := func() { _, _ = refund.Do(ctx, 1) }
	defer give() // want `give is a durable call`
	open, err := hook.Open(ctx)
	if err != nil {
		return err
	}
	defer open.Close(ctx) // want `open.Close is a durable call`
	words := cairn.NewStream[string]("words")
	defer words.Close(ctx) // want `words.Close is a durable call`
	_, err = cairn.Go(ctx, "branch", func(ctx cairn.Context) (int, error) {
		defer release(ctx) // want `release is a durable call`
		return 0, nil
	})
	return err
}

func handed(ctx cairn.Context) {
	defer func(ctx cairn.Context) { // want `this function is a durable call in a deferred function`
		println(cairn.RunID(ctx))
	}(ctx)
}

func stops(ctx cairn.Context) (n int, err error) {
	within, stop := cairn.WithTimeout(ctx, time.Hour)
	defer stop()
	clean, done := cairn.Cleanup(ctx, time.Minute)
	defer done()
	defer func() { done() }()
	defer undo(ctx)
	defer func() {
		println(cairn.RunID(ctx), cairn.Now(ctx).String(), context.Cause(ctx), n)
	}()
	defer println(refund.Do(ctx, 1)) // done now
	defer begin(ctx)()               // done now; what it returns is deferred
	_, _ = refund.Do(clean, 1)
	return cairn.Do(within, "step", func(ctx context.Context) (int, error) {
		defer undo(ctx)
		return 1, nil
	})
}

func begin(cairn.Context) func() { return func() {} }
