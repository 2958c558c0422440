package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-workflow/cairn"
)

// closedLoop has callers that start a run of n steps and wait for its result, again and again. Beside it: raw inserts by as many callers.
func closedLoop(name string, steps int, callers ...int) func(context.Context, *database, options, *report) error {
	return func(ctx context.Context, db *database, o options, out *report) error {
		return withEngine(ctx, db, func(e *cairn.Engine, loop *rawLoop) error {
			for _, n := range callers {
				r, err := closedCell(ctx, db, o, n, steps, execute(e, stepsWorkflow, steps), loop.insert)
				if err != nil {
					return err
				}
				r.Bench = name
				if err := out.add(r); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// closedCell measures n callers. One alone shows what a run writes; many are also compared with one raw caller, who pays for each commit himself.
func closedCell(ctx context.Context, db *database, o options, n, steps int, run, insert call) (row, error) {
	sides := []side{inSteps(steps, db.loop(repeat(n, run)...)), db.loop(repeat(n, insert)...)}
	if n > 1 {
		sides = append(sides, db.loop(insert))
	}
	all, err := turns(ctx, o.pairs(), o.slice, sides...)
	if err != nil {
		return row{}, err
	}
	r := compare("", db, n, "steps/s", all[0], all[1])
	r.CPUPerRun = r.CPU * float64(steps) / 1000
	r.Note = fmt.Sprintf("p50, p99 of a whole run; CPU %.3f ms/run", r.CPUPerRun)
	if n > 1 {
		r.Single, r.SingleRatio = medianRate(all[2]), ratio(all[0], all[2])
		r.Note += fmt.Sprintf("; one raw caller %.0f/s, ratio %.2f", r.Single, r.SingleRatio)
	} else {
		r.CommitsPerRun = r.Transactions * float64(steps)
		r.Note += fmt.Sprintf("; %.2f commits/run, %d asked for", r.CommitsPerRun, 1+steps)
	}
	return r, nil
}

// inSteps counts steps on a side whose calls are runs.
func inSteps(steps int, runs side) side {
	return func(ctx context.Context, d time.Duration) (slice, error) {
		s, err := runs(ctx, d)
		s.events *= steps
		return s, err
	}
}
