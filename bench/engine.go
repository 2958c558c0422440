package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/store"
)

// The workflows that the engine's workloads run.
var (
	tiny = cairn.NewStep("step", func(_ context.Context, n int) (int, error) { return n + 1, nil })

	stepsWorkflow = cairn.NewWorkflow("steps", func(ctx cairn.Context, n int) (int, error) {
		v := 0
		for range n {
			var err error
			//cairnvet:ignore loopkey the benchmark measures calls without keys
			if v, err = tiny.Do(ctx, v); err != nil {
				return v, err
			}
		}
		return v, nil
	})

	fanWorkflow = cairn.NewWorkflow("fan", func(ctx cairn.Context, n int) (int, error) {
		out, err := cairn.Map(ctx, "branch", make([]int, n), 0, func(ctx cairn.Context, i int) (int, error) { return tiny.Do(ctx, i) })
		return len(out), err
	})

	hookWorkflow = cairn.NewWorkflow("hook", func(ctx cairn.Context, token string) (int, error) {
		return cairn.NewHook[int]("answer").Token(token).Wait(ctx)
	})

	// The input is a time, in milliseconds.
	sleepWorkflow = cairn.NewWorkflow("sleep", func(ctx cairn.Context, until int64) (bool, error) {
		return true, cairn.SleepUntil(ctx, time.UnixMilli(until))
	})
)

// withEngine runs a measurement with an engine, and beside it the raw loop.
func withEngine(ctx context.Context, db *database, f func(e *cairn.Engine, loop *rawLoop) error) error {
	e, err := cairn.New(ctx, store.NewHandle(db.store), stepsWorkflow, fanWorkflow, hookWorkflow, sleepWorkflow, writerWorkflow)
	if err != nil {
		return err
	}
	loop := startRawLoop(ctx, db.raw)
	defer loop.close()
	return errors.Join(f(e, loop), stopEngine(ctx, e))
}

func stopEngine(ctx context.Context, e *cairn.Engine) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return e.Stop(ctx)
}

// execute is a call that starts a run and waits for its result.
func execute[In, Out any](e *cairn.Engine, w *cairn.Workflow[In, Out], in In) call {
	return func(ctx context.Context) error {
		run, err := w.Start(ctx, e, in)
		if err != nil {
			return err
		}
		if _, err = run.Result(ctx); err != nil { // say what became of a run that never ended
			info, _ := run.Describe(context.WithoutCancel(ctx))
			return fmt.Errorf("%s: %w: %+v; engine %+v", run.ID(), err, info, e.Stats())
		}
		return nil
	}
}

// patience is how long a workload waits for something that should be a matter of seconds.
const patience = 2 * time.Minute

// await waits until a count of the store has come to n.
func await(ctx context.Context, count *atomic.Int64, n int64) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); count.Load() < n; {
		if time.Since(began) > patience {
			return fmt.Errorf("%d runs are still not where they should be", n-count.Load())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
