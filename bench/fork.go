package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// forkWorkload forks a long run from its last step again and again. Beside it: the run is loaded, which is its journal read and folded.
func forkWorkload(ctx context.Context, db *database, o options, out *report) error {
	e, err := cairn.New(ctx, store.NewHandle(db.store), fanWorkflow)
	if err != nil {
		return err
	}
	run, err := fanWorkflow.Start(ctx, e, o.steps)
	if err == nil {
		_, err = run.Result(ctx)
	}
	if err = errors.Join(err, stopEngine(ctx, e)); err != nil {
		return err
	}
	tool, err := cairn.New(ctx, store.NewHandle(db.store)) // it executes nothing
	if err != nil {
		return err
	}
	id, err := journal.PrefixRun.Parse(run.ID())
	if err != nil {
		return err
	}
	last := fmt.Sprintf("branch#%d/step", o.steps)
	fork := func(ctx context.Context) error {
		_, err := tool.Run(run.ID()).Fork(ctx, cairn.Fork{Drop: []string{last}})
		return err
	}
	load := func(ctx context.Context) error {
		j, err := db.store.Journal(ctx, "default", id, 0)
		if err == nil {
			_, err = j.State("default")
		}
		return err
	}
	ours, theirs, err := pairs(ctx, o.pairs(), o.slice, db.loop(fork), db.loop(load))
	if err = errors.Join(err, stopEngine(ctx, tool)); err != nil {
		return err
	}
	r := compareLatency("fork", db, ours, theirs)
	r.Value, r.Raw, r.Unit = r.Value/1000, r.Raw/1000, "ms"
	r.Note = fmt.Sprintf("fork of a run of %d steps that keeps all but one; raw: to load it", o.steps)
	return out.add(r)
}
