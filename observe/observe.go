// Package observe is how a program sees what an engine does: the engine calls the functions of [Hooks], which make
// metrics and traces, and [Stats] has the current counters.
//
// It depends on no metrics or tracing library. Package cairnprom is for Prometheus, package cairnotel for
// OpenTelemetry; only programs that import them link them.
//
//	metrics := cairnprom.New()
//	traces, err := cairnotel.New(nil)
//	eng, err := cairn.NewWith(ctx, st, cairn.Config{Observe: observe.Join(metrics.Hooks(), traces.Hooks())}, Checkout)
//
// # Who calls the functions
//
// Functions that return a context are called by the goroutine that needs the context: the code that starts a run or
// sends to a hook, or the run's own goroutine. They delay only that run: no lock is held. All other functions, and the
// functions that those return, are called one after the other by one goroutine of the engine, in the order in which
// things happened. A queue feeds that goroutine; if the functions are slow and the queue is full, calls are dropped and
// counted ([Stats.ObservationsDropped]). [Hooks.EngineStarted] and [Hooks.EngineStopped] are called by the goroutine
// that starts and stops the engine.
//
// A function that panics is logged, once, and the engine goes on. Functions may call the engine.
//
// # What is reported
//
// The functions are called for what happens, not for what the journal has: when code is executed again from its
// journal, finished steps are not reported again. A run may begin and end in different processes, with years in
// between. So each process reports its executions of the run ([Hooks.Execute]), and the process that writes the end of
// the run reports that end.
package observe

import (
	"context"
	"time"
)

// Hooks are functions that the engine calls to report what it does. Functions that are nil cost nothing.
type Hooks struct {
	// Propagator carries the trace context from the code that starts a run or sends to a hook, through the journal,
	// into the contexts of steps and children.
	Propagator Propagator

	// EngineStarted is called when an engine has started, and EngineStopped when it ends. Keep the Source in between to
	// read its [Stats].
	EngineStarted func(Source)
	// EngineStopped is called once, also if the engine is stopped twice.
	EngineStopped func(Source)

	// StartRun is called before a run or a child is started. The Propagator records values of the returned context with
	// the run.
	StartRun func(context.Context, RunStart) (context.Context, func(RunStarted))
	// Execute is called when this process executes a run: it begins the run, goes on with it after a wait, or takes it
	// over. The execution ends when the run waits, ends, or belongs to another process. The context has what was
	// recorded with the run. Execute is called late: when the first step begins or the execution is over, whichever
	// comes first; [Execution.At] is when it began.
	Execute func(context.Context, Execution) (context.Context, func(ExecutionEnd))
	// Attempt is called before the function of a step, which gets the returned context.
	Attempt func(context.Context, Attempt) (context.Context, func(AttemptEnd))
	// Look is called before the check of a poll, which gets the returned context.
	Look func(context.Context, Look) (context.Context, func(LookEnd))
	// Send is called before a value is sent to a hook. The Propagator records values of the returned context with the
	// delivery.
	Send func(context.Context, Send) (context.Context, func(Sent))

	// Received is called when the code of a run has received a value from a hook. The context is that of the execution.
	Received func(context.Context, Received)
	// RunEnded is called by the process that wrote the end of a run. The context has what was recorded with the run.
	RunEnded func(context.Context, RunEnd)
	// RunParked is called when a run is parked.
	RunParked func(RunParked)
	// RunEvicted is called when a run that waits is dropped from memory.
	RunEvicted func(Run)
	// Committed is called with each transaction of the engine.
	Committed func(Commit)
	// LeaseLost is called when this process has lost its runs, because its peers declared it dead, or may do so soon.
	LeaseLost func(Lease)
	// PeerDied is called when this process has declared another one dead.
	PeerDied func(Lease)
}

// Propagator turns the trace context into text that can be recorded, and back. The keys of W3C Trace Context are
// traceparent and tracestate.
type Propagator interface {
	// Inject adds the trace context of ctx to the headers.
	Inject(ctx context.Context, headers map[string]string)
	// Extract returns ctx with the trace context of the headers.
	Extract(ctx context.Context, headers map[string]string) context.Context
}

// Run identifies the run that a report is about.
type Run struct {
	Namespace string
	ID        string
	Workflow  string
	ParentID  string // "": it was not started by another run
	CreatedAt time.Time
	Epoch     int64 // how often a process has claimed it
}

// RunStart is a run that is to be started. It has no id yet.
type RunStart struct {
	Namespace string
	Workflow  string
	ParentID  string // "": it is not a child
	StartKey  string
	At        time.Time
}

// RunStarted is the outcome of a start.
type RunStarted struct {
	ID       string // of the run; "" if there is an error
	Existing bool   // it was started before, with the same start key
	Err      error
	Took     time.Duration
}

// Begin says why an execution of a run begins.
type Begin string

// The reasons to begin.
const (
	BeginStarted   Begin = "started"    // it is new
	BeginResumed   Begin = "resumed"    // it waited in memory
	BeginLoaded    Begin = "loaded"     // it waited, or was released, and is executed again from its journal
	BeginTakenOver Begin = "taken_over" // its process died
)

// End says why an execution of a run ends.
type End string

// The reasons to end.
const (
	EndWaiting End = "waiting" // the run waits
	EndOver    End = "over"    // the run has ended
	EndParked  End = "parked"  // somebody must look at it
	EndStopped End = "stopped" // the engine stops, and has released it
	EndLost    End = "lost"    // another process owns it now, or it was ended from outside
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

// Outcome is the outcome of an attempt.
type Outcome string

// The outcomes of an attempt.
const (
	OutcomeCompleted Outcome = "completed"
	OutcomeRetrying  Outcome = "retrying" // it failed, and is tried again
	OutcomeFailed    Outcome = "failed"   // it failed for good
	OutcomeLost      Outcome = "lost"     // nothing of it is recorded: its branch lost a race, its process lost the run, or the engine stops
)

// CodeNone is used as the code of an error that has none.
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

// Found is the outcome of a look.
type Found string

// The outcomes of a look.
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

// Send is a value that is about to be sent to a hook.
type Send struct {
	Namespace string
	At        time.Time
}

// Sent is the outcome of a send.
type Sent struct {
	RunID string // whose hook took it; "" if there is an error
	Err   error
	Took  time.Duration
}

// Received is a value that the code of a run has received from a hook.
type Received struct {
	Run
	Hook    string            // its name
	Headers map[string]string // what the sender's Propagator recorded
	SentAt  time.Time         // when it was recorded
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

// RunParked is a run that was parked.
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
	Incarnation string // the incarnation that is over
}

// Source is an engine whose counters can be read.
type Source interface {
	Stats() Stats
}

// Stats are the counters of an engine. Totals count from its start.
type Stats struct {
	Namespace string

	Active  int // runs that are active in this process now
	Waiting int // runs that wait in this process's memory
	Queue   int // commands that wait to be committed

	Evicted    int64 // runs that were dropped from memory while they waited
	Parked     int64 // runs that were parked
	LeasesLost int64 // times that this process lost its runs
	PeersDied  int64 // processes that this one declared dead

	Commands int64 // that were answered
	Refused  int64 // of those, with an error
	Events   int64 // that were written
	Batches  int64 // transactions

	LogLinesDropped     int64 // lines that were not kept, because the database is slow
	ObservationsDropped int64 // calls of [Hooks] that were dropped, because the functions are slow
}
