package cairn

import (
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
)

// Error is an error with a code. The code is kept in the journal, and other processes see the same one. [errors.Is]
// finds two errors equal if their codes are equal.
type Error = cairnerr.Error

// Code is a permanent word that says what went wrong.
type Code = cairnerr.Code

// NewError defines an error that errors.Is recognises also after a crash.
func NewError(code Code, message string) *Error { return &Error{Code: code, Message: message} }

// Errors that the engine returns.
var (
	ErrCancelled    = engine.ErrCancelled
	ErrTimeout      = NewError(cairnerr.CodeTimeout, "not in time")
	ErrHookConflict = NewError(cairnerr.CodeHookConflict, "the token is taken")
	// ErrStreamClosed is returned by a write to a stream that is closed.
	ErrStreamClosed = NewError(cairnerr.CodeStreamClosed, "the stream is closed")
	// ErrLost ends the Context of a branch that lost a race.
	ErrLost = engine.ErrLost
	// ErrEvicted is the cause of a Context whose run was dropped from memory while it waited; only deferred functions see it. The run goes on
	// from its journal when it is due.
	ErrEvicted = engine.ErrEvicted
)

// CodeOf returns the code of an error: "" for nil, "internal" for an error without a code. Package cairnerr has the
// codes of Cairn.
func CodeOf(err error) Code { return cairnerr.CodeOf(err) }

// NonRetryable wraps an error of a step so that the step is not tried again, whatever its policy says. A nil error
// stays nil.
func NonRetryable(err error) error {
	if err == nil {
		return nil
	}
	return &engine.NonRetryableError{Err: err}
}

// RetryAfter wraps an error of a step with the pause before the next attempt. The step's policy still decides whether
// there is one. A nil error stays nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &engine.RetryAfterError{Err: err, After: d}
}

// malformedJSON is the error for JSON that does not fit.
func malformedJSON(what string, err error) error {
	return cairnerr.Errorf(cairnerr.CodeMalformed, "%s does not fit: %w", what, err)
}
