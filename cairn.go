// Package cairn makes Go functions durable: their steps survive crashes, deploys and years of waiting.
//
// A workflow is an ordinary function. It touches the outside world only in steps; the result of each step is recorded
// before the next one begins. If the process dies, the function is executed again from the beginning, and finished
// steps return their recorded results.
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
//   - Everything that can differ between two executions goes into a step: the clock, randomness, files, networks.
//     [Now], [Rand] and [NewID] return the same values each time.
//   - A [Context] belongs to one goroutine. [Go] starts another one with a Context of its own. Use plain go
//     statements, channels and locks only in steps.
//   - Names are permanent. Steps may be added and removed; the result of a finished step is found by its name, and by
//     its key where a name repeats: see [Key].
//   - Inputs and results of workflows and steps are encoded: exported fields of structs, as in encoding/json.
//   - Deferred functions must not make durable calls: they also run when a waiting run is dropped from memory
//     ([ErrEvicted]).
//
// # Steps
//
// A step is done at least once, and its result is recorded once. If its process dies in the middle, the step is done
// again, with the same [IdempotencyKey]. A [RetryPolicy] says whether a step that failed is tried again. errors.Is
// recognises an error made with [NewError] also after a crash. [Step.Timeout] limits the time of an attempt,
// [Step.HeartbeatTimeout] the time without a heartbeat. [Progress] reports how far an attempt has come.
//
// # Waiting
//
// A run that waits for a [Sleep], a [Hook], a [Poll] or a [Child] costs only a row in the database. No process owns it;
// when it is due, any process can go on with it. A Context from [WithTimeout] limits the calls that are made with it.
//
// # In parallel
//
// [Go] starts a branch, [Future.Wait] and [All] wait for it. [Race], [FirstN] and [AsCompleted] depend on which branch
// ends first, and have the same outcome when the workflow is executed again. [Map] works on many items, a bounded
// number at a time.
//
// # Streams
//
// A [Stream] shows values of a run while the run goes on. Steps and workflows write to it; readers in any process
// follow it with [Stream.Read], from its beginning, from an index or from its end.
//
// # In your own transaction
//
// [Workflow.StartIn] makes a start part of a database transaction of yours: the run exists if the transaction is
// committed, and never existed if it is rolled back.
//
// # Stopping
//
// [RunHandle.Cancel] ends the run's Context; clean-up that must still happen uses a Context from [Cleanup].
// [RunHandle.Terminate] ends the run at once. [Engine.Stop] stops the engine: each run reaches a wait or is released,
// and another process, or the next start of this one, goes on with it.
//
// # Seeing what happens
//
// [Logger] returns a logger that says which run, step and attempt a line is from; [Config.KeepLogs] keeps lines with
// their runs, and [RunHandle.Logs] reads them. [Config.Observe] is told what the engine does: packages cairnprom and
// cairnotel turn that into metrics and traces. [Engine.Stats] has counters. [RunHandle.Describe] shows what one run
// does now, [RunHandle.History] what it did.
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
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/observe"
)

// Store is an opened database. sqlite.Open, sqlite.Memory, postgres.Open and open.URL return one, from the packages in
// github.com/cairn-workflow/cairn/store. Other packages cannot implement it.
type Store interface {
	store.Opened
}

// Engine executes workflows in this process.
type Engine struct{ inner *engine.Engine }

// Definition is what an engine can execute: a [Workflow], or something that brings several.
type Definition interface {
	// Name returns the permanent name, for people.
	Name() string
	// Define adds what the engine can execute.
	Define(*Definer)
}

// Definer collects what a [Definition] brings to a new engine.
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

// Refuse reports a mistake in the definition. [New] lists all mistakes at once.
func (d *Definer) Refuse(mistake error) { d.mistakes = append(d.mistakes, mistake) }

// Started registers a function that gets the engine before the engine executes anything.
func (d *Definer) Started(tell func(*Engine)) { d.started = append(d.started, tell) }

func (d *Definer) add(w *engine.Workflow) { d.workflows = append(d.workflows, w) }

// Config tunes an engine. The zero value suits most programs.
type Config struct {
	// Namespace keeps the runs of different users of one database apart. The engine works in it, and executes its runs. Defaults to "default".
	Namespace string
	// Namespaces are further namespaces whose runs the engine executes; [AllNamespaces] means all. See [Engine.In].
	Namespaces []string
	// MaxActive is how many runs may be active at the same time; further runs wait in the database. Defaults to 10,000.
	MaxActive int
	// MaxWaiting is how many waiting runs are kept in memory with their goroutines; the others go on from the journal
	// when they are due. Defaults to 5,000; negative: none.
	MaxWaiting int
	// Poll is how often the engine looks for due runs that it was not notified about. Defaults to a second.
	Poll time.Duration
	// Lease is how long a process may show no heartbeat before its peers take its runs over. Defaults to 5 seconds.
	Lease time.Duration
	// Strict parks a run when a finished step is called with another input than recorded, even if its name is used only
	// once, or when a timer is called with another duration. Without it, the difference is logged.
	Strict bool
	// Build names the build of this program. Runs that another build could not go on with are tried once by this one. Defaults to a digest
	// of the executable.
	Build string
	// Logger gets the log lines of the engine (warnings and errors, such as parked runs), and the lines that workflows
	// and steps write with [Logger]. Defaults to [slog.Default].
	Logger *slog.Logger
	// KeepLogs stores the log lines of workflows and steps with their runs, so that [RunHandle.Logs] and "cairn logs"
	// can show them. Defaults to nil: they are not stored.
	KeepLogs *KeepLogs
	// Observe is told what the engine does: metrics and traces. See packages cairnprom and cairnotel, and [observe.Join] for several. Without
	// it, observing costs nothing.
	Observe observe.Hooks
}

// minLease is the shortest lease. A shorter one would expire while the database answers.
const minLease = 10 * time.Millisecond

// mistakes returns all that is wrong with the numbers.
func (c *Config) mistakes() (mistakes []error) {
	mistake := func(format string, args ...any) {
		mistakes = append(mistakes, cairnerr.Errorf(cairnerr.CodeMalformed, format, args...))
	}
	if c.Lease != 0 && c.Lease < minLease {
		mistake("Config.Lease is %s: it must be at least %s", c.Lease, minLease)
	}
	if c.Poll < 0 {
		mistake("Config.Poll is %s: it must not be negative", c.Poll)
	}
	if c.MaxActive < 0 {
		mistake("Config.MaxActive is %d: it must not be negative", c.MaxActive)
	}
	if k := c.KeepLogs; k != nil && (k.MaxLines < 0 || k.MaxBytes < 0) {
		mistake("Config.KeepLogs has a negative limit")
	}
	if err := journal.CheckText("Config.Build", c.Build, journal.MaxName); err != nil {
		mistakes = append(mistakes, err)
	}
	return mistakes
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
	d.mistakes = append(d.mistakes, cfg.mistakes()...)
	d.mistakes = append(d.mistakes, engine.CheckNamespaces(cmp.Or(cfg.Namespace, "default"), cfg.Namespaces)...)
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

// Stop stops the engine: it takes no more runs, and waits until each active run waits or has ended. If ctx ends first,
// the remaining runs are released as they are. Nothing is lost. If the database does not answer, or somebody else holds
// its write lock, releasing may take five seconds longer than ctx, and freeing what could not be released five more.
func (e *Engine) Stop(ctx context.Context) error { return e.inner.Stop(ctx) }

// Stats returns the counters of the engine: active and waiting runs, commits, and failures.
func (e *Engine) Stats() observe.Stats { return e.inner.Stats() }
