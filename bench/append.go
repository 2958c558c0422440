package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	randv2 "math/rand/v2"
	"strconv"
	"time"

	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
	"github.com/cairn-workflow/cairn/internal/store"
)

const (
	namespace = "bench"
	perRun    = 10 + 3 // events of a run: ten steps
)

// engine is a committer with the clock and ids of a process.
type engine struct {
	*commit.Committer
	self journal.ID
}

func openEngine(ctx context.Context, st store.Store) (*engine, error) {
	self, err := journal.NewMinter(rand.Reader).Mint(now())
	if err != nil {
		return nil, err
	}
	c, err := commit.New(ctx, st, self, &commit.Config{Now: now})
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
func lives(e *engine, n int) ([]call, error) {
	callers := make([]call, n)
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
	e, err := openEngine(ctx, db.store)
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
	ours, theirs, err := pairs(ctx, o.pairs(), o.slice, db.loop(callers...), db.loop(repeat(n, loop.insert)...))
	if err != nil {
		return err
	}
	return out.add(compare("append", db, n, "events/s", ours, theirs))
}

// appendBeside is the side of append with n callers on an empty store beside that of the database. Close it when it is not needed any more.
func appendBeside(ctx context.Context, db *database, n int) (mine side, closeBoth func() error, err error) {
	st, err := db.place("beside").open(ctx)
	if err != nil {
		return nil, nil, err
	}
	e, err := openEngine(ctx, st)
	if err != nil {
		return nil, nil, errors.Join(err, st.Close())
	}
	closeBoth = func() error { return errors.Join(e.Close(context.WithoutCancel(ctx)), st.Close()) }
	callers, err := lives(e, n)
	if err != nil {
		return nil, nil, errors.Join(err, closeBoth())
	}
	return db.loop(callers...), closeBoth, nil
}

// growthWorkload appends until the database is large, and compares the first tenth with the last.
func growthWorkload(ctx context.Context, db *database, o options, out *report) error {
	e, err := openEngine(ctx, db.store)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close(ctx) }()
	const n = 256
	callers, err := lives(e, n)
	if err != nil {
		return err
	}
	fill := db.loop(callers...)
	var parts [][]slice
	var part []slice
	begin := e.Stats().Events
	for written := int64(0); written < int64(o.events); {
		s, err := fill(ctx, o.slice/4)
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
			P50: t.p50(), P99: t.quantile(0.99), CPU: t.perEvent(t.use.cpu), Bytes: t.perEvent(t.use.bytes),
			Note: fmt.Sprintf("to %d events; raw is the first tenth", o.events*(i+1)/10),
		})
		if err != nil {
			return err
		}
	}
	return nil
}
