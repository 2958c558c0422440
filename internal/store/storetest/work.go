package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Work writes to a database as an engine does: runs that are started, complete steps, open hooks, receive and end, with values of all sizes,
// through a committer.
type Work struct {
	Ledger *Ledger
	Seed   uint64
	Rounds int // 0: until something fails
	// Enough may ask for more rounds than that, until it says true.
	Enough func() bool
	// Largest is the size of the largest value, 400 KB if it is 0.
	Largest int
	// Committed is called after each transaction, before it is acknowledged.
	Committed func()

	committer *commit.Committer
	minter    *journal.Minter
	rnd       *rand.Rand
	bytes     *rand.ChaCha8
	self      journal.ID
	runs      []*worked
}

// worked is a run that has not ended.
type worked struct {
	id    journal.ID
	steps int
	hook  bool
}

const workNamespace = "work"

// works makes the ids of several [Work] of one process differ.
var works atomic.Int64

// Run works, and returns the first error.
func (w *Work) Run(ctx context.Context, st store.Store) (err error) {
	w.rnd = rand.New(rand.NewPCG(w.Seed, 1))
	key := [32]byte{0: byte(w.Seed), 1: byte(w.Seed >> 8)}
	w.bytes = rand.NewChaCha8(key)
	key[2] = byte(works.Add(1))
	w.minter = journal.NewMinter(rand.NewChaCha8(key))
	if w.Largest == 0 {
		w.Largest = 400 << 10
	}
	w.self = w.id()
	cfg := &commit.Config{Now: func() journal.Time { return journal.TimeOf(time.Now()) }}
	if w.Committed != nil {
		cfg.Committed = func(commit.Batch) { w.Committed() }
	}
	w.committer, err = commit.New(ctx, st, w.self, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = w.committer.Abort() }()
	for round := 0; w.Rounds == 0 || round < w.Rounds || w.Enough != nil && !w.Enough(); round++ {
		if err := w.round(ctx); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// round sends some commands at once, each to another run, and waits for all.
func (w *Work) round(ctx context.Context) error {
	type waiting struct {
		*commit.Ticket
		*sent
	}
	var all []waiting
	commands := 1 + w.rnd.IntN(6)*w.rnd.IntN(2)
	if w.rnd.IntN(10) == 0 {
		commands = 16
	}
	for range commands {
		cmd := w.command(len(all))
		s := w.Ledger.send(cmd)
		ticket, err := w.committer.Submit(ctx, cmd)
		if err != nil {
			return err
		}
		all = append(all, waiting{ticket, s})
	}
	for _, t := range all {
		if _, err := t.Wait(ctx); err != nil {
			return err
		}
		w.Ledger.acknowledged(t.sent)
	}
	w.runs = keepOpen(w.runs)
	return nil
}

// command makes one for the n-th run, or for a new one.
func (w *Work) command(n int) *journal.Command {
	if n >= len(w.runs) || len(w.runs) < 8 && w.rnd.IntN(4) == 0 {
		run := &worked{id: w.id()}
		w.runs = append(w.runs, run)
		w.runs[n], w.runs[len(w.runs)-1] = run, w.runs[n]
		return w.owned(run, journal.Event{Data: &journal.RunCreated{Workflow: "w", Input: w.value()}}, journal.Event{Data: &journal.RunStarted{}})
	}
	run := w.runs[n]
	switch w.rnd.IntN(12) {
	case 0:
		id := run.id
		run.id = journal.ID{}
		return &journal.Command{
			Namespace: workNamespace, Run: id, Events: []journal.Event{{Data: &journal.RunCompleted{Output: w.value()}}},
			Guards: journal.Guards{Owner: journal.Ownership{Incarnation: w.self, Epoch: 1}},
		}
	case 1, 2:
		if run.hook {
			return &journal.Command{Namespace: workNamespace, Run: run.id, Events: []journal.Event{{Key: "h", Data: &journal.HookReceived{Payload: w.value()}}}}
		}
		run.hook = true
		token := journal.PrefixHook.Format(w.id())
		return w.owned(run, journal.Event{Key: "h", Data: &journal.HookCreated{Token: token}}, w.step(run))
	case 3:
		return w.owned(run, w.step(run), journal.Event{Data: &journal.Annotated{Name: "note", Value: w.value()}}, w.step(run))
	default:
		return w.owned(run, w.step(run))
	}
}

func (w *Work) step(run *worked) journal.Event {
	run.steps++
	return journal.Event{Key: fmt.Sprintf("step#%d", run.steps), Data: &journal.StepCompleted{Name: "s", Result: w.value()}}
}

func (w *Work) owned(run *worked, events ...journal.Event) *journal.Command {
	return &journal.Command{
		Namespace: workNamespace, Run: run.id, Events: events, Guards: journal.Guards{Owner: journal.Ownership{Incarnation: w.self, Epoch: 1}},
	}
}

// value is mostly small, at times larger than a page, and seldom larger than what is written at once.
func (w *Work) value() journal.Payload {
	size := w.rnd.IntN(200)
	switch w.rnd.IntN(30) {
	case 0:
		size = w.rnd.IntN(w.Largest)
	case 1, 2, 3:
		size = w.rnd.IntN(8 << 10)
	}
	v := make(journal.Payload, 1+size)
	_, _ = w.bytes.Read(v) // it does not fail
	return v
}

func (w *Work) id() journal.ID {
	id, err := w.minter.Mint(journal.TimeOf(time.Now()))
	if err != nil {
		panic(err) // its source does not fail
	}
	return id
}

func keepOpen(runs []*worked) []*worked {
	var open []*worked
	for _, r := range runs {
		if !r.id.IsZero() {
			open = append(open, r)
		}
	}
	return open
}
