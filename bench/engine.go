package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn"
)

// The workflows that the engine's workloads run.
var (
	tiny = cairn.NewStep("step", func(_ context.Context, n int) (int, error) { return n + 1, nil })

	stepsWorkflow = cairn.NewWorkflow("steps", func(ctx cairn.Context, n int) (int, error) {
		v := 0
		for range n {
			var err error
			if v, err = tiny.Do(ctx, v); err != nil {
				return v, err
			}
		}
		return v, nil
	})

	fanWorkflow = cairn.NewWorkflow("fan", func(ctx cairn.Context, n int) (int, error) {
		out, err := cairn.Map(ctx, "branch", make([]int, n), 0, tiny.Do)
		return len(out), err
	})
)

// withEngine runs a measurement with an engine, and beside it the raw loop.
func withEngine(ctx context.Context, db *database, f func(e *cairn.Engine, loop *rawLoop) error) error {
	e, err := cairn.New(ctx, db.store, stepsWorkflow, fanWorkflow)
	if err != nil {
		return err
	}
	loop := startRawLoop(ctx, db.raw)
	defer loop.close()
	err = f(e, loop)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if stopErr := e.Stop(stop); err == nil {
		err = stopErr
	}
	return err
}

// backlog starts runs of n steps from 64 submitters, and is over when all have ended. Beside it: raw inserts with 1000 callers.
func backlog(name string, steps int) func(context.Context, *database, options, *report) error {
	return func(ctx context.Context, db *database, o options, out *report) error {
		return withEngine(ctx, db, func(e *cairn.Engine, loop *rawLoop) error {
			plain := repeat(1000, loop.insert)
			runs := max(64, min(o.runs, 20_000/steps))
			mine := func(ctx context.Context, _ time.Duration) (slice, error) { return submitAll(ctx, db, e, runs, steps) }
			ours, theirs, err := pairs(ctx, max(5, o.seconds/2), o.slice, mine, func(ctx context.Context, d time.Duration) (slice, error) {
				return runSlice(ctx, d, db.meter, plain)
			})
			if err != nil {
				return err
			}
			a, b := total(ours), total(theirs)
			return out.add(row{
				Bench: name, Store: db.kind, InFlight: runs, Value: medianRate(ours), Unit: "steps/s", Raw: medianRate(theirs), Ratio: ratio(ours, theirs),
				Pairs: len(ours), CPU: a.perEvent(a.use.cpu), RawCPU: b.perEvent(b.use.cpu), Bytes: a.perEvent(a.use.bytes), RawBytes: b.perEvent(b.use.bytes),
				Note: fmt.Sprintf("%d runs of %d steps; %.3f ms of CPU for a run", runs, steps, a.perEvent(a.use.cpu)*float64(steps)/1000),
			})
		})
	}
}

// submitAll starts runs and waits for all of them. It counts steps.
func submitAll(ctx context.Context, db *database, e *cairn.Engine, runs, steps int) (slice, error) {
	before := db.meter()
	began := time.Now()
	var wg sync.WaitGroup
	errs := make([]error, 64)
	for i := range errs {
		wg.Go(func() {
			var mine []*cairn.Run[int]
			for range runs / len(errs) {
				run, err := stepsWorkflow.Start(ctx, e, steps)
				if err != nil {
					errs[i] = err
					return
				}
				mine = append(mine, run)
			}
			for _, run := range mine {
				if _, err := run.Result(ctx); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return slice{}, err
		}
	}
	return slice{events: runs / len(errs) * len(errs) * steps, seconds: time.Since(began).Seconds(), use: db.meter().minus(before)}, nil
}

// closedLoop has callers that start a run of n steps and wait for its result, again and again. Beside it: raw inserts by as many callers.
func closedLoop(name string, steps int, callers ...int) func(context.Context, *database, options, *report) error {
	return func(ctx context.Context, db *database, o options, out *report) error {
		return withEngine(ctx, db, func(e *cairn.Engine, loop *rawLoop) error {
			for _, n := range callers {
				call := repeat(n, func(ctx context.Context) error {
					run, err := stepsWorkflow.Start(ctx, e, steps)
					if err == nil {
						_, err = run.Result(ctx)
					}
					return err
				})
				plain := repeat(n, loop.insert)
				ours, theirs, err := pairs(ctx, max(5, o.seconds/2), o.slice,
					func(ctx context.Context, d time.Duration) (slice, error) { return runSlice(ctx, d, db.meter, call) },
					func(ctx context.Context, d time.Duration) (slice, error) { return runSlice(ctx, d, db.meter, plain) })
				if err != nil {
					return err
				}
				a, b := total(ours), total(theirs)
				err = out.add(row{
					Bench: name, Store: db.kind, InFlight: n, Value: medianRate(ours) * float64(steps), Unit: "steps/s", Raw: medianRate(theirs),
					Ratio: ratio(ours, theirs) * float64(steps), Pairs: len(ours), P50: a.quantile(0.5), P99: a.quantile(0.99), RawP50: b.quantile(0.5), RawP99: b.quantile(0.99),
					CPU: a.perEvent(a.use.cpu) / float64(steps), RawCPU: b.perEvent(b.use.cpu), Note: "p50 and p99 are of a whole run, start to result",
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// fanOut runs one run with 500 parallel steps, again and again.
func fanOut(ctx context.Context, db *database, o options, out *report) error {
	return withEngine(ctx, db, func(e *cairn.Engine, loop *rawLoop) error {
		const steps = 500
		call := func(ctx context.Context) error {
			run, err := fanWorkflow.Start(ctx, e, steps)
			if err == nil {
				_, err = run.Result(ctx)
			}
			return err
		}
		ours, theirs, err := pairs(ctx, max(5, o.seconds/2), o.slice,
			func(ctx context.Context, d time.Duration) (slice, error) {
				return runSlice(ctx, d, db.meter, repeat(1, call))
			},
			func(ctx context.Context, d time.Duration) (slice, error) {
				return runSlice(ctx, d, db.meter, repeat(1, loop.insert))
			})
		if err != nil {
			return err
		}
		a, b := total(ours), total(theirs)
		return out.add(row{
			Bench: "fan", Store: db.kind, InFlight: 1, Value: a.quantile(0.5) / 1000, Unit: "ms", Raw: b.quantile(0.5) / 1000, Ratio: a.quantile(0.5) / b.quantile(0.5),
			Pairs: len(ours), P50: a.quantile(0.5), P99: a.quantile(0.99), RawP50: b.quantile(0.5), Note: "one run of 500 parallel steps; the ratio counts raw commits",
		})
	})
}

func repeat(n int, f func(context.Context) error) []func(context.Context) error {
	callers := make([]func(context.Context) error, n)
	for i := range callers {
		callers[i] = f
	}
	return callers
}
