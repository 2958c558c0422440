package store

import (
	"errors"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

var (
	// ErrConflict says that a batch was refused because another writer was faster, or because a run, token or start key exists.
	// Nothing was written; the batch is to be reduced again on what is there now.
	ErrConflict = errors.New("the batch collides with another writer")
	// ErrBusy says that the database asks to try the same batch again: a deadlock, a lock that was not had in time.
	ErrBusy = errors.New("the database is busy")
	// ErrSourceGone says that a fork keeps events of a run that is not there any more. Nothing was written.
	ErrSourceGone = errors.New("the run that is forked is gone")
	// ErrUnknownOutcome says that the connection was lost while a batch was being committed.
	ErrUnknownOutcome = errors.New("it is not known whether the batch was committed")
)

// RunNotFound is the error for a run that does not exist in the namespace.
func RunNotFound(id journal.ID) error {
	return cairnerr.Errorf(cairnerr.CodeRunNotFound, "no run %s", journal.PrefixRun.Format(id))
}

// NotEnded is the error for a run that is to be deleted and has not ended.
func NotEnded(id journal.ID) error {
	return cairnerr.Errorf(cairnerr.CodeIllegalTransition, "%s has not ended: cancel or terminate it before it is deleted", journal.PrefixRun.Format(id))
}

// StartKeyWithoutWorkflow is the error for a filter that cannot be answered: a start key belongs to a workflow.
func StartKeyWithoutWorkflow() error {
	return cairnerr.Errorf(cairnerr.CodeMalformed, "a start key belongs to a workflow: set both in the filter")
}
