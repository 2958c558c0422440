// Package cairntest tests workflows: in virtual time, with stubs for steps, and with a crash or an eviction at every place where one can
// happen. It needs no server, only go test.
//
//	func TestReminder(t *testing.T) {
//		cairntest.Run(t, func(e *cairntest.Env) {
//			cairntest.Stub(e, SendMail, func(context.Context, Mail) (string, error) { return "sent", nil })
//			run, err := Reminder.Start(e.Context(), e.Engine(), "ada")
//			require.NoError(t, err)
//			out, err := run.Result(e.Context()) // sleeps a year, in milliseconds
//			…
//			e.RequireSteps(run.ID(), "send mail")
//		}, Reminder)
//	}
//
// [Replay] checks the code of today against recorded runs: can they go on?
//
// A test runs in a bubble of package [testing/synctest]: its clock moves when every goroutine waits. So steps must not do real I/O there, such
// as calling a server; stub those that do.
package cairntest

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// Env is the environment of one test: a database in memory, and an engine that can be crashed.
type Env struct {
	t         testing.TB
	ctx       context.Context
	workflows []cairn.Definition
	waiting   int
	store     *crasher
	ended     chan struct{} // closed when the run that everything is about has ended; never in [Run]

	mu     sync.Mutex
	stubs  map[string]stub
	engine *cairn.Engine
	inner  *engine.Engine
	alive  context.Context    // ends when the engine is replaced
	bury   context.CancelFunc // ends alive
}

type stub = func(context.Context, journal.Payload) (journal.Payload, error)

// Run runs a test in virtual time, with an engine that has the workflows.
func Run(t *testing.T, test func(e *Env), workflows ...cairn.Definition) {
	t.Helper()
	bubble.Run(t, func(t *testing.T) {
		t.Helper()
		e := newEnv(t, workflows, 0)
		e.open(fault{})
		e.begin()
		defer e.end()
		test(e)
	})
}

func newEnv(tb testing.TB, workflows []cairn.Definition, waiting int) *Env {
	tb.Helper()
	return &Env{t: tb, ctx: tb.Context(), workflows: workflows, waiting: waiting, ended: make(chan struct{}), stubs: map[string]stub{}}
}

// open opens a database in memory, on which processes die at the place of the fault.
func (e *Env) open(f fault) {
	e.t.Helper()
	st, err := sqlite.Memory(e.ctx, nil)
	if err != nil {
		e.t.Fatalf("open a database in memory: %v", err)
	}
	e.store = newCrasher(f, st)
}

// forever is the interval of what happens in the background in production: in virtual time it would keep the clock busy.
const forever = 100 * 365 * 24 * time.Hour

// begin starts an engine.
func (e *Env) begin() {
	e.t.Helper()
	hooks := &engine.Testing{
		Stub:      e.stub,
		BodyEnded: e.store.bodyEnded,
		Started: func(inner *engine.Engine) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.inner = inner
		},
	}
	eng, err := cairn.NewWith(engine.WithTesting(e.ctx, hooks), store.NewHandle(e.store), cairn.Config{Poll: forever, Lease: forever, MaxWaiting: e.waiting, Logger: slog.New(slog.DiscardHandler)}, e.workflows...)
	if err != nil {
		e.t.Fatalf("start an engine: %v", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.engine = eng
	if e.bury != nil {
		e.bury()
	}
	e.alive, e.bury = context.WithCancel(e.ctx)
}

// current returns the engine, and a context that ends when another one has taken its place.
func (e *Env) current() (*engine.Engine, context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inner, e.alive
}

// end stops the engine and closes the database.
func (e *Env) end() {
	over, cancel := context.WithCancel(context.WithoutCancel(e.ctx))
	cancel() // what still runs is given back at once
	if err := e.Engine().Stop(over); err != nil && over.Err() == nil {
		e.t.Errorf("stop the engine: %v", err)
	}
	e.bury()
	if err := e.store.Close(); err != nil {
		e.t.Errorf("close the database: %v", err)
	}
}

// Context returns the context of the test.
func (e *Env) Context() context.Context { return e.ctx }

// Engine returns the current engine; after a crash it is a new one.
func (e *Env) Engine() *cairn.Engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.engine
}

// Crash ends the engine as kill -9 would, and starts another one, which goes on with its runs.
func (e *Env) Crash() {
	e.t.Helper()
	inner, _ := e.current()
	if err := e.store.Fence(e.ctx, inner.Kill()); err != nil {
		e.t.Fatalf("declare the engine dead: %v", err)
	}
	e.begin()
}

// Sleep lets virtual time pass.
func (e *Env) Sleep(d time.Duration) { time.Sleep(d) }

// Stub replaces the function of a step in this test.
func Stub[In, Out any](e *Env, step cairn.Step[In, Out], fn func(context.Context, In) (Out, error)) {
	e.setStub(step.Name(), func(ctx context.Context, input journal.Payload) (journal.Payload, error) {
		var in In
		if err := payload.Decode(input, &in); err != nil {
			return nil, err
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		return payload.Encode(out)
	})
}

// StubInline replaces the function of a step that has no definition: a call of [cairn.Do].
func StubInline[Out any](e *Env, name string, fn func(context.Context) (Out, error)) {
	e.setStub(name, func(ctx context.Context, _ journal.Payload) (journal.Payload, error) {
		out, err := fn(ctx)
		if err != nil {
			return nil, err
		}
		return payload.Encode(out)
	})
}

func (e *Env) setStub(name string, s stub) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stubs[name] = s
}

func (e *Env) stub(name string) stub {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stubs[name]
}

// Send sends a value to a hook, and waits, in virtual time, until a hook takes it. Key makes sure that it is received
// once, also if the engine crashes meanwhile. In [CrashEverywhere] a crash can lose the acknowledgement of a value that
// was received: no hook takes it again then, and Send returns when the run has ended.
func Send[T any](e *Env, token, key string, v T) {
	e.t.Helper()
	for {
		next := e.store.nextCommit() // before the look, so that none is missed
		_, alive := e.current()
		err := cairn.NewHook[T]("sent").Send(e.ctx, e.Engine(), token, v, cairn.Key(key))
		switch code := cairnerr.CodeOf(err); {
		case err == nil:
			return
		case code != cairnerr.CodeHookNotFound && code != cairnerr.CodeClosed && code != cairnerr.CodeOutcomeUnknown:
			e.t.Errorf("send to hook %q: %v", token, err)
			return
		}
		select {
		case <-next:
		case <-alive.Done(): // another engine
		case <-e.ended:
			return
		case <-e.ctx.Done():
			return
		}
	}
}

// History returns what happened to a run.
func (e *Env) History(runID string) []*cairn.HistoryEvent {
	e.t.Helper()
	var events []*cairn.HistoryEvent
	for event, err := range e.Engine().Run(runID).History(e.ctx) {
		if err != nil {
			e.t.Fatalf("read the history of %s: %v", runID, err)
		}
		events = append(events, event)
	}
	return events
}

// Steps returns the keys of the steps that a run has completed, in the order of its journal.
func (e *Env) Steps(runID string) []string {
	e.t.Helper()
	var keys []string
	for _, event := range e.History(runID) {
		if event.Type == journal.EventStepCompleted.String() {
			keys = append(keys, event.Key)
		}
	}
	return keys
}

// RequireSteps fails the test unless the run has completed exactly these steps, in this order.
func (e *Env) RequireSteps(runID string, keys ...string) {
	e.t.Helper()
	if got := e.Steps(runID); !slices.Equal(got, keys) {
		e.t.Fatalf("%s completed the steps %q, not %q", runID, got, keys)
	}
}

// RequireEvent fails the test unless the history has an event of this type with this key; the key "" means the run
// itself.
func (e *Env) RequireEvent(runID, eventType, key string) {
	e.t.Helper()
	for _, event := range e.History(runID) {
		if event.Type == eventType && event.Key == key {
			return
		}
	}
	e.t.Fatalf("%s has no %s of %q", runID, eventType, key)
}
