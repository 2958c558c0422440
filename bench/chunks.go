package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-workflow/cairn"
)

// chunkWriters is how many steps write at the same time, each to the stream of its own run.
const chunkWriters = 64

var (
	chunkStream = cairn.NewStream[[]byte]("chunks")

	// lentContexts gets the contexts of steps that are there only to write with them.
	lentContexts = make(chan context.Context)

	lend = cairn.NewStep("lend", func(ctx context.Context, _ int) (bool, error) {
		select {
		case lentContexts <- ctx:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
		<-ctx.Done()
		return false, context.Cause(ctx)
	})

	writerWorkflow = cairn.NewWorkflow("writer", func(ctx cairn.Context, n int) (bool, error) { return lend.Do(ctx, n) })
)

// pens starts runs whose steps write, and returns their contexts and ids. The function ends them.
func pens(ctx context.Context, e *cairn.Engine, n int) (contexts []context.Context, ids []string, stop func() error, err error) {
	var runs []*cairn.Run[bool]
	stop = func() error {
		var all error
		for _, run := range runs {
			all = errors.Join(all, run.Terminate(context.WithoutCancel(ctx), "measured"))
		}
		return all
	}
	for range n {
		run, err := writerWorkflow.Start(ctx, e, 0)
		if err != nil {
			return nil, nil, nil, errors.Join(err, stop())
		}
		runs, ids = append(runs, run), append(ids, run.ID())
		select {
		case c := <-lentContexts:
			contexts = append(contexts, c)
		case <-ctx.Done():
			return nil, nil, nil, errors.Join(context.Cause(ctx), stop())
		}
	}
	return contexts, ids, stop, nil
}

// chunksWorkload writes chunks from 64 steps, each to a stream of its own. Beside it: raw inserts with 64 callers.
func chunksWorkload(ctx context.Context, db *database, o options, out *report) error {
	return withEngine(ctx, db, func(e *cairn.Engine, loop *rawLoop) error { //nolint:contextcheck // steps write with their own
		contexts, _, stop, err := pens(ctx, e, chunkWriters)
		if err != nil {
			return err
		}
		body := make([]byte, rowBytes)
		for i := range body {
			body[i] = byte(i*7919>>3) ^ byte(i) // not to be compressed away
		}
		written, acknowledged := make([]call, chunkWriters), make([]call, chunkWriters)
		for i, step := range contexts {
			written[i] = func(context.Context) error { return chunkStream.Write(step, body) }
			acknowledged[i] = func(context.Context) error {
				return errors.Join(chunkStream.Write(step, body), chunkStream.Flush(step))
			}
		}
		for _, c := range []struct {
			figure, note string
			mine         side
		}{
			{"written", "64 steps write as fast as they may, the last chunk is durable when the time is over", flushed(db.loop(written...), contexts)},
			{"acknowledged", "64 steps wait for each chunk to be durable", db.loop(acknowledged...)},
		} {
			ours, theirs, err := pairs(ctx, o.pairs(), o.slice, c.mine, db.loop(repeat(chunkWriters, loop.insert)...))
			if err != nil {
				return errors.Join(err, stop())
			}
			r := compare("chunks", db, chunkWriters, "chunks/s", ours, theirs)
			r.Figure, r.Note = c.figure, c.note
			if err := out.add(r); err != nil {
				return errors.Join(err, stop())
			}
		}
		return stop()
	})
}

// flushed is a side whose time ends when all that it has written is durable.
func flushed(mine side, contexts []context.Context) side {
	return func(ctx context.Context, d time.Duration) (slice, error) {
		began := time.Now()
		s, err := mine(ctx, d)
		for _, step := range contexts {
			err = errors.Join(err, chunkStream.Flush(step)) //nolint:contextcheck // as above
		}
		s.seconds = time.Since(began).Seconds()
		if err != nil {
			return s, fmt.Errorf("write chunks: %w", err)
		}
		return s, nil
	}
}
