package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/cairn-workflow/cairn"
)

// hookWorkload sends something to one waiting run after the other, and waits for its result. Beside it: one raw insert after the other.
func hookWorkload(ctx context.Context, db *database, o options, out *report) error {
	return withEngine(ctx, db, func(e *cairn.Engine, loop *rawLoop) error {
		h := &hookRuns{db: db, e: e}
		ours, theirs, err := pairs(ctx, o.pairs(), o.slice, h.answer, db.loop(loop.insert))
		if err != nil {
			return err
		}
		r := compareLatency("hook", db, ours, theirs)
		r.Note = fmt.Sprintf("send to result of a run that waits for a hook, %.2f commits; the ratio counts raw commits", r.CommitsPerRun)
		return out.add(r)
	})
}

// hookRuns are runs that wait for a hook.
type hookRuns struct {
	db    *database
	e     *cairn.Engine
	made  int
	token []string
	runs  []*cairn.Run[int]
}

// answer is a side. Making the runs and letting them come to wait is not measured, nor part of the time.
func (h *hookRuns) answer(ctx context.Context, d time.Duration) (slice, error) {
	var all []slice
	for spent := 0.0; len(all) == 0 || spent < d.Seconds(); {
		if err := h.prepare(ctx, 20); err != nil {
			return slice{}, err
		}
		s := slice{events: len(h.runs)}
		before, began := h.db.meter(), time.Now()
		for i, run := range h.runs {
			at := time.Now()
			if err := cairn.NewHook[int]("sent").Send(ctx, h.e, h.token[i], i); err != nil {
				return s, err
			}
			if _, err := run.Result(ctx); err != nil {
				return s, err
			}
			s.latencies = append(s.latencies, time.Since(at))
		}
		s.seconds, s.use = time.Since(began).Seconds(), h.db.meter().minus(before)
		spent += s.seconds
		all = append(all, s)
	}
	return total(all), nil
}

// prepare makes n runs, and returns when all of them wait.
func (h *hookRuns) prepare(ctx context.Context, n int) error {
	h.runs, h.token = h.runs[:0], h.token[:0]
	rested := h.db.store.rested.Load()
	for range n {
		h.made++
		token := "hook-" + strconv.Itoa(h.made)
		run, err := hookWorkflow.Start(ctx, h.e, token)
		if err != nil {
			return err
		}
		h.runs, h.token = append(h.runs, run), append(h.token, token)
	}
	return await(ctx, &h.db.store.rested, rested+int64(n))
}
