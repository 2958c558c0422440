package engine

import "github.com/cairn-workflow/cairn/internal/journal"

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
)

// ErrCancelled is the cause of a context whose run was asked to stop.
var ErrCancelled = &journal.Error{Code: CodeCancelled, Message: "the run was cancelled"}
