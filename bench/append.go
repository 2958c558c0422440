package main

import (
	"context"
	"crypto/rand"
	"fmt"
	randv2 "math/rand/v2"
	"strconv"
	"time"

	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

const (
	namespace = "bench"
	steps     = 10
	perRun    = steps + 3 // events of a run
)

// engine is a committer with the clock and ids of a process.
type engine struct {
	*commit.Committer
	self journal.ID
}

func openEngine(ctx context.Context, db *database) (*engine, error) {
	self, err := journal.NewMinter(rand.Reader).Mint(now())
	if err != nil {
		return nil, err
	}
	c, err := commit.New(ctx, db.store, self, &commit.Config{Now: now})
	if err != nil {
		return nil, err
	}
	return &engine{Committer: c, self: self}, nil
}

func now() journal.Time { return journal.TimeOf(time.Now()) }

func newEntropy(seed [32]byte) *randv2.ChaCha8 { return randv2.NewChaCha8(seed) }

// life is a caller that lives whole runs, one event at a time.
type life struct {
	engine *engine
	minter *journal.Minter
	run    journal.ID
	at     int // the next event of the run
	events int
	result []byte
}

func newLife(e *engine) (*life, error) {
	var seed [32]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return nil, err
	}
	return &life{engine: e, minter: journal.NewMinter(newEntropy(seed)), result: make([]byte, rowBytes)}, nil
}

// step writes the next event of the run, with its payload encoded as the engine would.
func (l *life) step(ctx context.Context) error {
	var e journal.Event
	switch l.at {
	case 0:
		id, err := l.minter.Mint(now())
		if err != nil {
			return err
		}
		l.run = id
		e.Data = &journal.RunCreated{Workflow: "bench"}
	case 1:
		e.Data = &journal.RunStarted{}
	case perRun - 1:
		e.Data = &journal.RunCompleted{}
	default:
		result, err := payload.Encode(l.result)
		if err != nil {
			return err
		}
		e.Key = "step#" + strconv.Itoa(l.at)
		e.Data = &journal.StepCompleted{Name: "step", Attempt: 1, StartedAt: now(), Result: result}
	}
	_, err := l.engine.Do(ctx, &journal.Command{
		Namespace: namespace, Run: l.run, Events: []journal.Event{e},
		Guards: journal.Guards{Owner: journal.Ownership{Incarnation: l.engine.self, Epoch: 1}},
	})
	l.at = (l.at + 1) % perRun
	l.events++
	return err
}

// lives returns callers that live runs.
func lives(e *engine, n int) ([]func(context.Context) error, error) {
	callers := make([]func(context.Context) error, n)
	for i := range callers {
		l, err := newLife(e)
		if err != nil {
			return nil, err
		}
		callers[i] = l.step
	}
	return callers, nil
}

func appendWorkload(ctx context.Context, db *database, o options, out *report) error {
	e, err := openEngine(ctx, db)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close(ctx) }()
	loop := startRawLoop(ctx, db.raw)
	defer loop.close()
	for _, n := range o.callers {
		if err := appendCell(ctx, db, e, loop, n, o, out); err != nil {
			return err
		}
	}
	return nil
}

func appendCell(ctx context.Context, db *database, e *engine, loop *rawLoop, n int, o options, out *report) error {
	callers, err := lives(e, n)
	if err != nil {
		return err
	}
	plain := make([]func(context.Context) error, n)
	for i := range plain {
		plain[i] = loop.insert
	}
	var statements, transactions, events int64
	ours, theirs, err := pairs(ctx, max(5, o.seconds/2), o.slice, func(ctx context.Context, d time.Duration) (slice, error) {
		stmts, stats := db.statements(), e.Stats()
		s, err := runSlice(ctx, d, db.meter, callers)
		after := e.Stats()
		statements += db.statements() - stmts
		transactions += after.Batches - stats.Batches
		events += after.Events - stats.Events
		return s, err
	}, func(ctx context.Context, d time.Duration) (slice, error) { return runSlice(ctx, d, db.meter, plain) })
	if err != nil {
		return err
	}
	a, b := total(ours), total(theirs)
	return out.add(row{
		Bench: "append", Store: db.kind, InFlight: n, Value: medianRate(ours), Unit: "events/s", Raw: medianRate(theirs), Ratio: ratio(ours, theirs),
		Pairs: len(ours), P50: a.quantile(0.5), P99: a.quantile(0.99), RawP50: b.quantile(0.5), RawP99: b.quantile(0.99),
		CPU: a.perEvent(a.use.cpu), RawCPU: b.perEvent(b.use.cpu), Bytes: a.perEvent(a.use.bytes), RawBytes: b.perEvent(b.use.bytes),
		Statements: float64(statements) / float64(max(events, 1)), Transactions: float64(transactions) / float64(max(events, 1)),
	})
}

// growthWorkload appends until the database is large, and compares the first tenth with the last.
func growthWorkload(ctx context.Context, db *database, o options, out *report) error {
	e, err := openEngine(ctx, db)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close(ctx) }()
	const n = 256
	callers, err := lives(e, n)
	if err != nil {
		return err
	}
	var parts [][]slice
	var part []slice
	begin := e.Stats().Events
	for written := int64(0); written < int64(o.events); {
		s, err := runSlice(ctx, o.slice/4, db.meter, callers)
		if err != nil {
			return err
		}
		part = append(part, s)
		written = e.Stats().Events - begin
		if written >= int64(o.events)*int64(len(parts)+1)/10 {
			parts, part = append(parts, part), nil
		}
	}
	first := total(parts[0])
	for i, p := range parts {
		t := total(p)
		err := out.add(row{
			Bench: "growth", Store: db.kind, InFlight: n, Value: t.rate(), Unit: "events/s", Raw: first.rate(), Ratio: t.rate() / first.rate(),
			P50: t.quantile(0.5), P99: t.quantile(0.99), CPU: t.perEvent(t.use.cpu), Bytes: t.perEvent(t.use.bytes),
			Note: fmt.Sprintf("to %d events; raw is the first tenth", o.events*(i+1)/10),
		})
		if err != nil {
			return err
		}
	}
	return nil
}
