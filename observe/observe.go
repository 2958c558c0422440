// Package observe is how a program sees what an engine does: metrics and traces hang on the functions of [Hooks], and [Stats] has the numbers of
// the moment.
//
// It knows no metrics or tracing library. Package cairnprom shows what it gives to Prometheus, package cairnotel to OpenTelemetry; both are linked
// by who imports them.
//
//	metrics := cairnprom.New(nil)
//	traces, err := cairnotel.New(nil)
//	eng, err := cairn.NewWith(ctx, st, cairn.Config{Observe: observe.Join(metrics.Hooks(), traces.Hooks())}, Checkout)
//
// # Who calls the functions
//
// Functions that return a context are called by the goroutine that needs it: the code that starts a run or sends to a hook, and the run's own. They
// delay that one run, and nothing else of the engine: no lock is held.
// All others, and the functions that those return, are called one after the other by a goroutine of the engine's own, in the order in which
// things happened. Between it and the engine is a queue; what does not fit because the functions are slow is dropped and counted
// ([Stats.ObservationsDropped]). [Hooks.EngineStarted] and [Hooks.EngineStopped] are called by who starts and stops the engine.
//
// A function that panics is logged, once, and the engine goes on. Functions may call the engine.
//
// # What is told
//
// What happens is told, not what the journal has: when code is executed again from its journal, finished steps are not told again. A run
// has no beginning and end in one process, perhaps there are years in between: so what a process does of it is told in pieces
// ([Hooks.Execute]), and the end of the run by who writes it.
package observe

import (
	"context"
	"time"
)

// Hooks are functions that are told what the engine does. Those that are nil cost nothing.
type Hooks struct {
	// Propagator carries what belongs to a trace from who starts a run or sends to a hook, through the journal, into the contexts of steps and children.
	Propagator Propagator

	// EngineStarted is called when an engine is there, and EngineStopped when it ends; who wants to show its [Stats] keeps it meanwhile.
	EngineStarted func(Source)
	// EngineStopped is called once, also if the engine is stopped twice.
	EngineStopped func(Source)

	// StartRun is called when a run, or a child, is to be started. What is in the context that it returns is recorded with the run by the
	// Propagator.
	StartRun func(context.Context, RunStart) (context.Context, func(RunStarted))
	// Execute is called when this process does something of a run: it begins it, goes on with it after a wait, or takes it over. It ends when the run
	// waits, ends, or is another's. The context has what was recorded with the run. It is called late: when the first step begins, or
	// the execution is over, whichever comes first; [Execution.At] is when it began.
	Execute func(context.Context, Execution) (context.Context, func(ExecutionEnd))
	// Attempt is called when the function of a step is about to be called. It gets the context that it returns.
	Attempt func(context.Context, Attempt) (context.Context, func(AttemptEnd))
	// Look is called when the check of a poll is about to be called. It gets the context that it returns.
	Look func(context.Context, Look) (context.Context, func(LookEnd))
	// Send is called when something is to be sent to a hook. What is in the context that it returns is recorded with the delivery by the Propagator.
	Send func(context.Context, Send) (context.Context, func(Sent))

	// Received is called when the code of a run has got something through a hook. The context is that of the execution.
	Received func(context.Context, Received)
	// RunEnded is called by the process that wrote the end of a run. The context has what was recorded with the run.
	RunEnded func(context.Context, RunEnd)
	// RunParked is called when a run is stopped until somebody has looked at it.
	RunParked func(RunParked)
	// RunEvicted is called when a run that waits is dropped from memory.
	RunEvicted func(Run)
	// Committed is called with each transaction of the engine.
	Committed func(Commit)
	// LeaseLost is called when this process has lost its runs, because its peers declared it dead or may be about to.
	LeaseLost func(Lease)
	// PeerDied is called when this process has declared another one dead.
	PeerDied func(Lease)
}

// Propagator puts what belongs to a trace into text that can be recorded, and back into a context. The keys of W3C Trace Context are traceparent and tracestate.
type Propagator interface {
	// Inject adds what the context has to the headers.
	Inject(ctx context.Context, headers map[string]string)
	// Extract returns the context with what the headers have.
	Extract(ctx context.Context, headers map[string]string) context.Context
}

// Run is a run that something happens to.
type Run struct {
	Namespace string
	ID        string
	Workflow  string
	ParentID  string // "": it was not started by another run
	CreatedAt time.Time
	Epoch     int64 // how often it was taken by a process
}

// RunStart is a run that is to be started. It has no id yet.
type RunStart struct {
	Namespace string
	Workflow  string
	ParentID  string // "": it is not a child
	StartKey  string
	At        time.Time
}

// RunStarted is what became of a start.
type RunStarted struct {
	ID       string // of the run; "" if there is an error
	Existing bool   // it was started before, with the same start key
	Err      error
	Took     time.Duration
}

// Begin says why a process does something of a run.
type Begin string

// The reasons to begin.
const (
	BeginStarted   Begin = "started"    // it is new
	BeginResumed   Begin = "resumed"    // it waited in memory
	BeginLoaded    Begin = "loaded"     // it waited, or was given back, and is executed again from its journal
	BeginTakenOver Begin = "taken_over" // its process died
)

// End says why a process does no more of a run.
type End string

// The reasons to end.
const (
	EndWaiting End = "waiting" // the run waits
	EndOver    End = "over"    // the run has ended
	EndParked  End = "parked"  // somebody must look at it
	EndStopped End = "stopped" // the engine stops, and has given it back
	EndLost    End = "lost"    // it is another's now, or was ended from outside
)

// Execution is what one process does of a run between two waits.
type Execution struct {
	Run
	Why Begin
	At  time.Time
}

// ExecutionEnd is the end of an execution.
type ExecutionEnd struct {
	Why  End
	At   time.Time
	Took time.Duration
}

// Attempt is one call of a step's function.
type Attempt struct {
	Run
	Step    string // its name
	Key     string // which one: its branch, name and number
	Attempt int    // from 1
	At      time.Time
}

// Outcome is what became of an attempt.
type Outcome string

// The outcomes of an attempt.
const (
	OutcomeCompleted Outcome = "completed"
	OutcomeRetrying  Outcome = "retrying" // it failed, and is tried again
	OutcomeFailed    Outcome = "failed"   // it failed for good
	OutcomeLost      Outcome = "lost"     // nothing is recorded of it: its branch lost a race, its process its run, or the engine stops
)

// CodeNone stands for the code of an error that has none.
const CodeNone = "error"

// AttemptEnd is the end of an attempt.
type AttemptEnd struct {
	Outcome Outcome
	Err     error         // nil if it completed, and if it is lost
	Code    string        // of the error; [CodeNone] if that has none
	Retry   time.Duration // until the next attempt, if it is tried again
	At      time.Time
	Took    time.Duration
}

// Look is one call of a poll's check.
type Look struct {
	Run
	Poll string // its name
	Key  string // which one: its branch, name and number
	At   time.Time
}

// Found is what a look has found.
type Found string

// What a look can find.
const (
	FoundAnswer  Found = "answer"  // the poll is over
	FoundNothing Found = "nothing" // it looks again
	FoundError   Found = "error"   // the poll is over, and has failed
)

// LookEnd is the end of a look.
type LookEnd struct {
	Found Found
	Err   error
	Code  string // of the error; [CodeNone] if that has none
	At    time.Time
	Took  time.Duration
}

// Send is something that is to be sent to a hook.
type Send struct {
	Namespace string
	At        time.Time
}

// Sent is what became of something that was sent.
type Sent struct {
	RunID string // whose hook took it; "" if there is an error
	Err   error
	Took  time.Duration
}

// Received is something that the code of a run has got through a hook.
type Received struct {
	Run
	Hook    string            // its name
	Headers map[string]string // what the sender's Propagator recorded
	SentAt  time.Time         // when it was written down
	At      time.Time
}

// RunEnd is the end of a run.
type RunEnd struct {
	Run
	Status string // "completed", "failed" or "cancelled"
	Err    error  // why it failed
	Code   string // of the error; [CodeNone] if that has none
	At     time.Time
	Took   time.Duration // since it was created
}

// RunParked is a run that was stopped until somebody has looked at it.
type RunParked struct {
	Run
	Err  error
	Code string
}

// Commit is one transaction of the engine.
type Commit struct {
	Commands int
	Runs     int
	Events   int
	Bytes    int // of payloads
	Took     time.Duration
}

// Lease is about a process that does not own its runs any more.
type Lease struct {
	Incarnation string // the life of the process that is over
}

// Source is an engine that can be asked for its numbers.
type Source interface {
	Stats() Stats
}

// Stats are the numbers of an engine. Those that count do so since it was started.
type Stats struct {
	Namespace string

	Active  int // runs that do something in this process now
	Waiting int // runs that wait in this process's memory
	Queue   int // commands that wait to be committed

	Evicted    int64 // runs that were dropped from memory while they waited
	Parked     int64 // runs that were stopped until somebody has looked at them
	LeasesLost int64 // times that this process lost its runs
	PeersDied  int64 // processes that this one declared dead

	Commands int64 // that were answered
	Refused  int64 // of those, with an error
	Events   int64 // that were written
	Batches  int64 // transactions

	LogLinesDropped     int64 // lines that were to be kept and were not, because the database is slow
	ObservationsDropped int64 // calls of [Hooks] that were left out, because the functions are slow
}
