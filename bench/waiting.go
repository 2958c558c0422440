package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/cairn-workflow/cairn"
)

// waitingWorkload starts very many runs that sleep, and looks at what they cost: to start, in memory, while nothing happens, and when many
// are due at the same moment.
func waitingWorkload(ctx context.Context, db *database, o options, out *report) error {
	return withEngine(ctx, db, func(e *cairn.Engine, loop *rawLoop) error {
		w := &waitingRuns{
			db: db, e: e, o: o, out: out, n: max(submitters, o.waiting),
			probe: db.loop(execute(e, stepsWorkflow, 1)), raw: db.loop(repeat(submitters, loop.insert)...),
		}
		for _, part := range []func(context.Context) error{w.before, w.start, w.keep, w.rest, w.compareStart, w.wake} {
			if err := part(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// waitingRuns is the workload with what it has seen so far.
type waitingRuns struct {
	db  *database
	e   *cairn.Engine
	o   options
	out *report
	n   int

	probe side // one-step runs, one after the other
	raw   side // raw inserts by as many callers as there are submitters

	alone   slice  // probes while nothing sleeps
	memory  memory // of an engine without runs
	idle    idle   // of an engine without runs
	started slice
	asleep  float64 // seconds from the first start until all slept
}

// memory is what the process has, in bytes.
type memory struct{ asItWas, rss, heap float64 }

// readMemory looks at the memory as it is, and then at what is left when all that is free was given back.
func readMemory() memory {
	m := memory{asItWas: ownRSS()}
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	m.rss, m.heap = ownRSS(), float64(stats.HeapAlloc)
	return m
}

// idle is what a while costs in which nothing is asked for.
type idle struct {
	seconds float64
	use
	own float64 // CPU of this process alone
}

func (w *waitingRuns) doNothing(ctx context.Context) (idle, error) {
	before, own, began := w.db.meter(), ownCPU(), time.Now()
	select {
	case <-time.After(5 * w.o.slice):
		return idle{time.Since(began).Seconds(), w.db.meter().minus(before), ownCPU() - own}, nil
	case <-ctx.Done():
		return idle{}, context.Cause(ctx)
	}
}

// cpuRate returns milliseconds of CPU for each second.
func (i *idle) cpuRate() float64 { return i.cpu / 1000 / i.seconds }

// row is a row of the workload.
func (w *waitingRuns) row(figure string, inFlight int, value, raw float64, unit string) row {
	return row{Bench: "waiting", Figure: figure, Store: w.db.kind, InFlight: inFlight, Value: value, Unit: unit, Raw: raw, Ratio: over(value, raw)}
}

// before looks at an engine without runs that wait. The raw table is not used before the memory was looked at: its cache would be part of that.
func (w *waitingRuns) before(ctx context.Context) error {
	alone, err := turns(ctx, 1, 2*w.o.slice, w.probe)
	if err != nil {
		return err
	}
	w.alone = alone[0][0]
	w.memory = readMemory()
	w.idle, err = w.doNothing(ctx)
	return err
}

// sleepers starts n runs that sleep until a time.
func (w *waitingRuns) sleepers(ctx context.Context, n int, until time.Time) error {
	return submit(n, func(n int) error {
		for range n {
			if _, err := sleepWorkflow.Start(ctx, w.e, until.UnixMilli()); err != nil {
				return err
			}
		}
		return nil
	})
}

// start starts the runs that sleep, while one caller goes on with one-step runs.
func (w *waitingRuns) start(ctx context.Context) error {
	others, ended := make(chan slice, 1), make(chan struct{})
	var probeErr error
	go func() {
		var s slice
		s, probeErr = w.probeUntil(ctx, ended)
		others <- s
	}()
	rested := w.db.store.rested.Load()
	began := time.Now()
	err := w.sleepers(ctx, w.n, began.Add(time.Hour))
	w.started = slice{events: w.n, seconds: time.Since(began).Seconds()}
	close(ended)
	during := <-others
	if err = errors.Join(err, probeErr); err != nil {
		return err
	}
	if err := await(ctx, &w.db.store.rested, rested+int64(w.n)); err != nil {
		return err
	}
	w.asleep = time.Since(began).Seconds()
	r := w.row("others", 1, during.p50(), w.alone.p50(), "us")
	r.P50, r.P99, r.RawP50, r.RawP99 = r.Value, during.quantile(0.99), r.Raw, w.alone.quantile(0.99)
	r.Note = fmt.Sprintf("start to result of %d one-step runs while the others are started; raw: before", during.events)
	return w.out.add(r)
}

// probeUntil goes on with one-step runs until a channel is closed.
func (w *waitingRuns) probeUntil(ctx context.Context, ended <-chan struct{}) (slice, error) {
	var all []slice
	for {
		s, err := w.probe(ctx, w.o.slice/20)
		if err != nil {
			return s, err
		}
		all = append(all, s)
		select {
		case <-ended:
			return total(all), nil
		default:
		}
	}
}

// keep looks at the memory that the runs take.
func (w *waitingRuns) keep(context.Context) error {
	const megabyte = 1 << 20
	m := readMemory()
	r := w.row("rss", w.n, m.rss/megabyte, w.memory.rss/megabyte, "MB")
	r.Bytes = (m.rss - w.memory.rss) / float64(w.n)
	r.Note = fmt.Sprintf("after a GC that gave free memory back, %.0f MB before that; %d goroutines; bytes: for each run; raw: without runs",
		m.asItWas/megabyte, runtime.NumGoroutine())
	if err := w.out.add(r); err != nil {
		return err
	}
	r = w.row("heap", w.n, m.heap/megabyte, w.memory.heap/megabyte, "MB")
	r.Bytes = (m.heap - w.memory.heap) / float64(w.n)
	r.Note = "of Go, after a GC; bytes: for each run; raw: without runs"
	return w.out.add(r)
}

// rest looks at what the runs cost while they sleep.
func (w *waitingRuns) rest(ctx context.Context) error {
	i, err := w.doNothing(ctx)
	if err != nil {
		return err
	}
	r := w.row("idle", w.n, i.cpuRate(), w.idle.cpuRate(), "ms/s")
	r.Statements, r.Transactions, r.Fsyncs, r.Bytes, r.RawBytes = i.statements, i.transactions, i.transactions, i.bytes, w.idle.bytes
	r.Note = fmt.Sprintf("CPU, of this process %.2f; written in %.0f s: %.0f statements, %.0f transactions, %.0f bytes; raw: without runs",
		i.own/1000/i.seconds, i.seconds, i.statements, i.transactions, i.bytes)
	return w.out.add(r)
}

// compareStart compares the start of the runs with raw inserts.
func (w *waitingRuns) compareStart(ctx context.Context) error {
	raw, err := turns(ctx, 1, w.o.slice, w.raw)
	if err != nil {
		return err
	}
	r := w.row("start", submitters, w.started.rate(), raw[0][0].rate(), "runs/s")
	r.Note = fmt.Sprintf("%d runs in %.1f s, all asleep after %.1f s; raw: inserts by as many callers", w.n, w.started.seconds, w.asleep)
	return w.out.add(r)
}

// wake lets many runs be due at the same moment. All must sleep by then; if the machine is too slow for that, they get more time.
func (w *waitingRuns) wake(ctx context.Context) error {
	n := max(submitters, w.n/5)
	lead := time.Duration(3*float64(n)/w.started.rate()*float64(time.Second)) + w.o.slice
	for range 3 {
		due := time.Now().Add(lead)
		rested, ended := w.db.store.rested.Load(), w.db.store.ended.Load()
		if err := w.sleepers(ctx, n, due); err != nil {
			return err
		}
		if time.Now().Before(due) {
			if err := await(ctx, &w.db.store.rested, rested+int64(n)); err != nil {
				return err
			}
		}
		if time.Now().Before(due) {
			return w.awake(ctx, n, due, ended)
		}
		if err := await(ctx, &w.db.store.ended, ended+int64(n)); err != nil {
			return err
		}
		lead *= 2
	}
	return fmt.Errorf("%d runs could not be started within %s", n, lead/2)
}

// awake measures from the moment at which n runs are due until they have all ended.
func (w *waitingRuns) awake(ctx context.Context, n int, due time.Time, ended int64) error {
	select {
	case <-time.After(time.Until(due)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	before := w.db.meter()
	if err := await(ctx, &w.db.store.ended, ended+int64(n)); err != nil {
		return err
	}
	s := slice{events: n, seconds: time.Since(due).Seconds(), use: w.db.meter().minus(before)}
	raw, err := w.raw(ctx, w.o.slice)
	if err != nil {
		return err
	}
	r := compare("waiting", w.db, n, "runs/s", []slice{s}, []slice{raw})
	r.Figure, r.RawP50, r.RawP99, r.CPUPerRun = "wake", 0, 0, r.CPU/1000
	r.Note = fmt.Sprintf("%d runs due at one moment, all ended after %.2f s; raw: inserts by %d callers", n, s.seconds, submitters)
	return w.out.add(r)
}
