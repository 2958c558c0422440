package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/store"
)

// window is how many steps one figure of the workload steps is the average of.
const window = 100

// stepsWorkload runs one run of very many steps, and compares what a step costs at its beginning and at its end. Then the run goes on in
// another engine, which must read all of them.
func stepsWorkload(ctx context.Context, db *database, o options, out *report) error {
	l := newLongRun(max(3*window, o.steps))
	var parts [3][]slice     // the first steps, some of the middle, the last: of each pass
	var replays [2][]float64 // of the long run, and of one with a single step
	limit := time.Now().Add(3 * time.Duration(o.seconds) * time.Second)
	for pass := 0; pass <= o.pairs(); pass++ {
		if pass >= 3 && time.Now().After(limit) {
			break // a pass may take long
		}
		goOn, err := l.pass(ctx, db)
		if err != nil {
			return err
		}
		if pass == 0 {
			continue // it warms up
		}
		for i, from := range l.windows() {
			parts[i] = append(parts[i], l.window(from))
		}
		for i := range replays {
			replays[i] = append(replays[i], goOn[i])
		}
	}
	for i, from := range l.windows() {
		all, first := total(parts[i]), total(parts[0])
		err := out.add(row{
			Bench: "steps", Figure: fmt.Sprintf("%d-%d", from+1, from+window), Store: db.kind, InFlight: 1, Unit: "us/step", Pairs: len(parts[i]),
			Value: medianOf(parts[i], (*slice).cost), Raw: medianOf(parts[0], (*slice).cost), Ratio: medianRatio(parts[i], parts[0], (*slice).cost),
			P50: all.p50(), P99: all.quantile(0.99), RawP50: first.p50(), Note: fmt.Sprintf("average of %d steps of a run of %d; raw: the first", window, l.n),
		})
		if err != nil {
			return err
		}
	}
	long, short := median(replays[0]), median(replays[1])
	return out.add(row{
		Bench: "steps", Figure: "replay", Store: db.kind, InFlight: 1, Value: long, Unit: "ms", Raw: short, Ratio: over(long, short), Pairs: len(replays[0]),
		Note: fmt.Sprintf("send to result in an engine that has not seen the run, after %d steps; raw: after 1", l.n),
	})
}

// longRun is a run of many steps, one after the other, that then waits for a hook.
type longRun struct {
	n        int
	at       []time.Time // when each step was done
	step     cairn.Step[int, int]
	workflow *cairn.Workflow[int, int]
}

func newLongRun(n int) *longRun {
	l := &longRun{n: n, at: make([]time.Time, n)}
	l.step = cairn.NewStep("step", l.note)
	l.workflow = cairn.NewWorkflow("long", l.live)
	return l
}

// note is the step.
func (l *longRun) note(_ context.Context, i int) (int, error) {
	l.at[i] = time.Now()
	return i, nil
}

// live is the workflow.
func (l *longRun) live(ctx cairn.Context, n int) (int, error) {
	for i := range n {
		//cairnvet:ignore loopkey the benchmark measures calls without keys
		if _, err := l.step.Do(ctx, i); err != nil {
			return i, err
		}
	}
	return cairn.NewHook[int]("answer").Token(longToken(n)).Wait(ctx)
}

func longToken(n int) string { return fmt.Sprintf("long-%d", n) }

// windows are where the steps begin that are looked at: at the beginning, around a tenth, and at the end. The last step is not followed by another.
func (l *longRun) windows() [3]int {
	return [3]int{0, max(window, l.n/10-window/2), l.n - 1 - window}
}

// window returns how long the steps took from one on, each until the next was done.
func (l *longRun) window(from int) slice {
	s := slice{events: window, seconds: l.at[from+window].Sub(l.at[from]).Seconds()}
	for i := from; i < from+window; i++ {
		s.latencies = append(s.latencies, l.at[i+1].Sub(l.at[i]))
	}
	return s
}

// pass lives through the run once: its steps in one engine, its end in another. It returns how many milliseconds the end took, with all steps and with one.
func (l *longRun) pass(ctx context.Context, db *database) (goOn [2]float64, err error) {
	first, err := cairn.New(ctx, store.NewHandle(db.store), l.workflow)
	if err != nil {
		return goOn, err
	}
	lengths := [2]int{l.n, 1}
	var ids [2]string
	for i := len(lengths) - 1; i >= 0 && err == nil; i-- { // the times of the long run stay
		ids[i], err = l.toHook(ctx, db, first, lengths[i])
	}
	if err = errors.Join(err, stopEngine(ctx, first)); err != nil {
		return goOn, err
	}
	second, err := cairn.New(ctx, store.NewHandle(db.store), l.workflow)
	if err != nil {
		return goOn, err
	}
	for i := range lengths {
		if goOn[i], err = l.fromHook(ctx, second, ids[i], lengths[i]); err != nil {
			break
		}
	}
	return goOn, errors.Join(err, stopEngine(ctx, second))
}

// toHook starts a run, and returns its id when it waits.
func (l *longRun) toHook(ctx context.Context, db *database, e *cairn.Engine, n int) (string, error) {
	rested := db.store.rested.Load()
	run, err := l.workflow.Start(ctx, e, n)
	if err != nil {
		return "", err
	}
	return run.ID(), await(ctx, &db.store.rested, rested+1)
}

// fromHook lets a run that waits come to its end, and returns how many milliseconds that takes.
func (l *longRun) fromHook(ctx context.Context, e *cairn.Engine, id string, n int) (float64, error) {
	run, err := l.workflow.Get(ctx, e, id)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := cairn.NewHook[int]("sent").Send(ctx, e, longToken(n), n); err != nil {
		return 0, err
	}
	_, err = run.Result(ctx)
	return float64(time.Since(began).Microseconds()) / 1000, err
}
