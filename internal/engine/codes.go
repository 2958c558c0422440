package engine

import (
	"errors"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// The codes of what can go wrong in a run's execution.
const (
	CodePanic             journal.Code = "panic"
	CodeGoexit            journal.Code = "goexit"
	CodeTimeout           journal.Code = "timeout"
	CodeCancelled         journal.Code = "cancelled"
	CodeMismatch          journal.Code = "mismatch"
	CodePoison            journal.Code = "poison"
	CodeConcurrentContext journal.Code = "concurrent_context"
	CodeDuplicateKey      journal.Code = "duplicate_key"
	CodeHookConflict      journal.Code = "hook_conflict"
	CodeDuplicateName     journal.Code = "duplicate_name"
	CodeContextOver       journal.Code = "context_over"
	CodeLost              journal.Code = "lost"
	CodeEvicted           journal.Code = "evicted"
	CodeInWorkflow        journal.Code = "in_workflow"
	CodeParked            journal.Code = "parked"
	CodePaused            journal.Code = "paused"
	CodeStopped           journal.Code = "stopped"
	CodeNotRegistered     journal.Code = "not_registered"
	CodeNotInRun          journal.Code = "not_in_run"
)

// ErrLost is the cause of a context whose branch lost a race.
var ErrLost = &journal.Error{Code: CodeLost, Message: "another branch was faster"}

// ErrEvicted is the cause of a context whose run was dropped from memory while it waited. It goes on from the journal when it is due.
var ErrEvicted = &journal.Error{Code: CodeEvicted, Message: "the run was dropped from memory"}

// ErrStopped is the cause of a context whose engine stops.
var ErrStopped = errors.New("the engine stops")

// ErrCancelled is the cause of a context whose run was asked to stop.
var ErrCancelled = &journal.Error{Code: CodeCancelled, Message: "the run was cancelled"}
