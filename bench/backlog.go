package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn"
)

// submitters start the runs of a backlog.
const submitters = 64

// backlog starts runs of n steps from 64 submitters, and is over when all have ended. Beside it: raw inserts and append, with 1000 callers each.
func backlog(name string, steps int) func(context.Context, *database, options, *report) error {
	return func(ctx context.Context, db *database, o options, out *report) error {
		return withEngine(ctx, db, func(e *cairn.Engine, loop *rawLoop) error {
			events, closeEvents, err := appendBeside(ctx, db, 1000)
			if err != nil {
				return err
			}
			runs := max(submitters, min(o.runs, 20_000/steps))
			all, err := turns(ctx, o.pairs(), o.slice, submitAll(db, e, runs, steps), db.loop(repeat(1000, loop.insert)...), events)
			if err = errors.Join(err, closeEvents()); err != nil {
				return err
			}
			r := compare(name, db, runs, "steps/s", all[0], all[1])
			r.CPUPerRun = r.CPU * float64(steps) / 1000
			r.Append, r.AppendRatio = medianRate(all[2]), ratio(all[0], all[2])
			r.Note = fmt.Sprintf("%d runs of %d steps; CPU %.3f ms/run; append %.0f/s, ratio %.2f", runs, steps, r.CPUPerRun, r.Append, r.AppendRatio)
			return out.add(r)
		})
	}
}

// submitAll is a side that starts runs and waits for all of them. It counts steps.
func submitAll(db *database, e *cairn.Engine, runs, steps int) side {
	return func(ctx context.Context, _ time.Duration) (slice, error) {
		before := db.meter()
		began := time.Now()
		err := submit(runs, func(n int) error {
			mine := make([]*cairn.Run[int], n)
			for i := range mine {
				var err error
				if mine[i], err = stepsWorkflow.Start(ctx, e, steps); err != nil {
					return err
				}
			}
			for _, run := range mine {
				if _, err := run.Result(ctx); err != nil {
					return err
				}
			}
			return nil
		})
		return slice{events: runs * steps, seconds: time.Since(began).Seconds(), use: db.meter().minus(before)}, err
	}
}

// submit lets the submitters each do their part of n at the same time.
func submit(n int, part func(n int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, submitters)
	for i := range errs {
		wg.Go(func() { errs[i] = part((n + i) / submitters) }) // the parts add up to n
	}
	wg.Wait()
	return errors.Join(errs...)
}
