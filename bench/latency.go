package main

import (
	"context"
	"fmt"

	"github.com/cairn-workflow/cairn"
)

// latencyWorkload takes one run of one step after the other from start to result, on an engine that does nothing else. Beside it: one raw insert
// after the other.
func latencyWorkload(ctx context.Context, db *database, o options, out *report) error {
	return withEngine(ctx, db, func(e *cairn.Engine, loop *rawLoop) error {
		ours, theirs, err := pairs(ctx, o.pairs(), o.slice, db.loop(execute(e, stepsWorkflow, 1)), db.loop(loop.insert))
		if err != nil {
			return err
		}
		r := compareLatency("latency", db, ours, theirs)
		r.Note = fmt.Sprintf("start to result of a one-step run, %.2f commits; the ratio counts raw commits", r.CommitsPerRun)
		return out.add(r)
	})
}

// fanWorkload takes one run with 500 parallel steps after the other. Beside it: one raw insert after the other.
func fanWorkload(ctx context.Context, db *database, o options, out *report) error {
	return withEngine(ctx, db, func(e *cairn.Engine, loop *rawLoop) error {
		ours, theirs, err := pairs(ctx, o.pairs(), o.slice, db.loop(execute(e, fanWorkflow, 500)), db.loop(loop.insert))
		if err != nil {
			return err
		}
		r := compareLatency("fan", db, ours, theirs)
		r.Value, r.Raw, r.Unit = r.Value/1000, r.Raw/1000, "ms"
		r.Note = fmt.Sprintf("one run of 500 parallel steps, %.2f commits; the ratio counts raw commits", r.CommitsPerRun)
		return out.add(r)
	})
}
