package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/store/postgres"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// The workflow of Cairn's own benchmark.
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
)

// cairnSystem is Cairn as it comes, through its public package.
type cairnSystem struct {
	store  cairn.Store
	engine *cairn.Engine
}

func openCairn(ctx context.Context, s setup) (system, error) {
	var (
		st  cairn.Store
		err error
	)
	if s.store == "postgres" {
		st, err = postgres.Open(ctx, s.url, nil)
	} else {
		st, err = sqlite.Open(ctx, filepath.Join(s.dir, "cairn.db"), nil)
	}
	if err != nil {
		return nil, err
	}
	engine, err := cairn.New(context.WithoutCancel(ctx), st, stepsWorkflow)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return &cairnSystem{store: st, engine: engine}, nil
}

func (c *cairnSystem) complete(ctx context.Context, runs, steps int) error {
	return submit(ctx, runs, func(ctx context.Context, n int) error {
		mine := make([]*cairn.Run[int], n)
		for i := range mine {
			var err error
			if mine[i], err = stepsWorkflow.Start(ctx, c.engine, steps); err != nil {
				return err
			}
		}
		for _, run := range mine {
			done, err := run.Result(ctx)
			if err != nil {
				return err
			}
			if done != steps {
				return fmt.Errorf("a run did %d of %d steps", done, steps)
			}
		}
		return nil
	})
}

// check has nothing to do: each result was waited for.
func (c *cairnSystem) check(context.Context, int) error { return nil }

func (c *cairnSystem) close(ctx context.Context) error {
	return errors.Join(c.engine.Stop(ctx), c.store.Close())
}
