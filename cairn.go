// Package cairn makes Go functions durable: their steps survive crashes, deploys and years of waiting.
//
// A workflow is an ordinary function. What it does to the world it does in steps; each step's result is written down before the next
// begins. If the process dies, the function is executed again from the beginning, and finished steps return what was written down.
//
//	var Charge = cairn.NewStep("charge", func(ctx context.Context, o Order) (Receipt, error) { … })
//
//	var Checkout = cairn.NewWorkflow("checkout", func(ctx cairn.Context, o Order) (Receipt, error) {
//		r, err := Charge.Do(ctx, o, cairn.Key(o.ID))
//		if err != nil {
//			return r, err
//		}
//		return r, cairn.Sleep(ctx, 24*time.Hour)
//	})
//
//	st, err := sqlite.Open(ctx, "app.db", nil)
//	eng, err := cairn.New(ctx, st, Checkout)
//	run, err := Checkout.Start(ctx, eng, order, cairn.Key(order.ID))
//	receipt, err := run.Result(ctx)
//
// # Rules for workflow functions
//
//   - Everything that can differ between two executions goes into a step: the clock, randomness, files, networks. [Now], [Rand] and [NewID] give
//     what is the same each time.
//   - A [Context] belongs to one goroutine. [Go] starts another one with a Context of its own. Plain go statements, channels and locks are for steps.
//   - Names are permanent. Steps may be added and removed; those that are finished are found by their names, and by keys where a name
//     repeats: see [Key].
//   - What a workflow gets and returns, and its steps too, is encoded: exported fields of structs, as encoding/json would have them.
//   - Deferred functions do no durable calls: they also run when a run that waits is dropped from memory ([ErrEvicted]).
//
// # Steps
//
// A step is done at least once and recorded once. When its process dies in the middle it is done again, with the same [IdempotencyKey]. A
// [RetryPolicy] says what happens to its failures; errors made with [NewError] are recognised by [errors.Is] after a crash as before.
// [Step.Timeout] limits an attempt, [Step.HeartbeatTimeout] its silence; [Progress] tells how far it has come.
//
// # Waiting
//
// A run that waits, for [Sleep], a [Hook], a [Poll] or a [Child], costs a row in the database. Nobody owns it; whoever sees that it is due goes on
// with it. A [WithTimeout] Context limits what is done with it.
//
// # In parallel
//
// [Go] starts a branch, [Future.Wait] and [All] wait for it. [Race], [FirstN] and [AsCompleted] decide by who ends first, and decide the same when
// the workflow is executed again. [Map] works on many items, a bounded number at a time.
//
// # Streams
//
// A [Stream] shows what a run does while it does it. Steps and workflows write to it, readers in any process follow it with [Stream.Read], from its beginning, from
// an index or from its end.
//
// # In your own transaction
//
// [Workflow.StartIn] makes a start part of a database transaction of yours: the run is there if that is committed, and never was if it is rolled back.
//
// # Stopping
//
// [RunHandle.Cancel] ends the run's Context; what must still be done is done under [Cleanup]. [RunHandle.Terminate] ends the run at once. [Engine.Stop] ends the engine: runs
// come to a wait or are given back, and other processes, or the next start, go on with them.
//
// # Seeing what happens
//
// [Logger] returns a logger that says which run, step and attempt a line is from; [Config.KeepLogs] keeps lines with their runs, and [RunHandle.Logs] reads
// them. [Config.Observe] is told what the engine does: packages cairnprom and cairnotel make metrics and traces of it. [Engine.Stats] has numbers,
// [RunHandle.Describe] and [RunHandle.History] what one run does and did.
//
// # Testing
//
// Package cairntest runs workflows in virtual time, with stubs for steps, and with a crash or an eviction at every place where one can happen. It also executes
// code against runs that were recorded with [RunHandle.Export], and shows the first difference.
package cairn

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/observe"
)

// Store is an opened database. sqlite.Open, sqlite.Memory, postgres.Open and open.URL return one, from the packages in
// github.com/cairn-workflow/cairn/store. Nothing else can be one.
type Store interface {
	store.Opened
}

// Engine executes workflows in this process.
type Engine struct{ inner *engine.Engine }

// Definition is what an engine can execute: a [Workflow], or something that brings several.
type Definition interface {
	// Name returns the permanent name, for people.
	Name() string
	// Define tells the engine what there is to execute.
	Define(*Definer)
}

// Definer takes what a [Definition] brings to an engine that is being made.
type Definer struct {
	workflows []*engine.Workflow
	started   []func(*Engine)
	mistakes  []error
}

// Add adds other definitions.
func (d *Definer) Add(definitions ...Definition) {
	for i, def := range definitions {
		if def == nil {
			d.Refuse(cairnerr.Errorf(cairnerr.CodeMalformed, "definition %d of %d is nil", i+1, len(definitions)))
			continue
		}
		def.Define(d)
	}
}

// Refuse says what is wrong with the definition. [New] lists all mistakes at once.
func (d *Definer) Refuse(mistake error) { d.mistakes = append(d.mistakes, mistake) }

// Started lets the definition be told its engine, before it executes anything.
func (d *Definer) Started(tell func(*Engine)) { d.started = append(d.started, tell) }

func (d *Definer) add(w *engine.Workflow) { d.workflows = append(d.workflows, w) }

// Config tunes an engine. The zero value is good for most.
type Config struct {
	// Namespace keeps the runs of different users of one database apart. The engine works in it, and executes its runs. Defaults to "default".
	Namespace string
	// Namespaces are others whose runs the engine executes too; [AllNamespaces]: those of everybody. See [Engine.In].
	Namespaces []string
	// MaxActive is the most runs that do something at the same time; more wait in the database. Defaults to 10,000.
	MaxActive int
	// MaxWaiting is the most waiting runs that are kept in memory with their goroutines; the rest goes on from the journal when it is due.
	// Defaults to 5,000; negative: none.
	MaxWaiting int
	// Poll is how often the engine looks for runs that are due and of which it was not told. Defaults to a second.
	Poll time.Duration
	// Lease is how long a process may show no sign of life before its peers take its runs over. Defaults to 5 seconds.
	Lease time.Duration
	// Strict parks a run when a finished step is asked for with another input than recorded, also where its name is used once, or a timer with
	// another duration. Without it, that is logged.
	Strict bool
	// Build names the build of this program. Runs that another build could not go on with are tried once by this one. Defaults to a digest
	// of the executable.
	Build string
	// Logger gets what the engine has to say: warnings and errors, such as runs that are parked; and what workflows and steps say through
	// [Logger]. Defaults to [slog.Default].
	Logger *slog.Logger
	// KeepLogs keeps what workflows and steps say with their runs, so that [RunHandle.Logs] and "cairn logs" can show it. Defaults to nil: it is not kept.
	KeepLogs *KeepLogs
	// Observe is told what the engine does: metrics and traces. See packages cairnprom and cairnotel, and [observe.Join] for several. Without
	// it, observing costs nothing.
	Observe observe.Hooks
}

// New starts an engine with the workflows that it can execute.
func New(ctx context.Context, st Store, workflows ...Definition) (*Engine, error) {
	return NewWith(ctx, st, Config{}, workflows...)
}

// NewWith is [New] with a configuration. The error lists all mistakes.
func NewWith(ctx context.Context, st Store, cfg Config, workflows ...Definition) (*Engine, error) {
	var d Definer
	inner := store.Of(st)
	if inner == nil {
		d.Refuse(cairnerr.Errorf(cairnerr.CodeMalformed, "an engine needs a store: sqlite.Open, sqlite.Memory, postgres.Open or open.URL"))
	}
	d.Add(workflows...)
	d.mistakes = append(d.mistakes, engine.CheckWorkflows(d.workflows)...)
	if err := errors.Join(d.mistakes...); err != nil {
		return nil, err
	}
	e := &Engine{}
	config := engine.Config{
		Namespace: cfg.Namespace, Namespaces: cfg.Namespaces, MaxActive: cfg.MaxActive, MaxWaiting: cfg.MaxWaiting, Poll: cfg.Poll, Lease: cfg.Lease, Strict: cfg.Strict,
		Logger: cmp.Or(cfg.Logger, slog.Default()), Hooks: cfg.Observe, KeepLogs: (*engine.KeepLogs)(cfg.KeepLogs),
		Ready: func(made *engine.Engine) {
			e.inner = made
			for _, tell := range d.started {
				tell(e)
			}
		},
	}
	if cfg.Build != "" {
		config.Build = func() string { return cfg.Build }
	}
	if _, err := engine.New(ctx, inner, config, d.workflows...); err != nil {
		return nil, err
	}
	return e, nil
}

// Stop ends the engine: it takes no more runs and waits until those that do something come to a wait or their end. When ctx
// ends first, the rest is given back as it is. Nothing is lost. While the database does not answer, or somebody else holds its write lock, giving back may take five seconds
// longer than ctx, and freeing what could not be given back five more.
func (e *Engine) Stop(ctx context.Context) error { return e.inner.Stop(ctx) }

// Stats returns the numbers of the engine: how many runs do something and how many wait, what was committed, and what went wrong.
func (e *Engine) Stats() observe.Stats { return e.inner.Stats() }
