package cairn

import (
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
)

// Error is an error with a code that survives: in the journal, in another process, over HTTP. Two errors are the same for [errors.Is] when
// their codes are.
type Error = cairnerr.Error

// Code says what went wrong in a word that never changes.
type Code = cairnerr.Code

// NewError defines an error that can be matched with [errors.Is] after a crash as before.
func NewError(code Code, message string) *Error { return &Error{Code: code, Message: message} }

// Errors that the engine returns.
var (
	ErrCancelled    = engine.ErrCancelled
	ErrTimeout      = NewError(cairnerr.CodeTimeout, "not in time")
	ErrHookConflict = NewError(cairnerr.CodeHookConflict, "the token is taken")
	// ErrStreamClosed is the error of a write to a stream that takes no more.
	ErrStreamClosed = NewError(cairnerr.CodeStreamClosed, "the stream is closed")
	// ErrLost ends the Context of a branch that lost a race.
	ErrLost = engine.ErrLost
	// ErrEvicted is the cause of a Context whose run was dropped from memory while it waited; only deferred functions see it. The run goes on
	// from its journal when it is due.
	ErrEvicted = engine.ErrEvicted
)

// CodeOf returns the code of an error: "" for nil, internal if it has none. Package cairnerr has the codes of Cairn.
func CodeOf(err error) Code { return cairnerr.CodeOf(err) }

// NonRetryable wraps an error of a step such that no policy tries the step again. A nil error stays nil.
func NonRetryable(err error) error {
	if err == nil {
		return nil
	}
	return &engine.NonRetryableError{Err: err}
}

// RetryAfter wraps an error of a step, and says when to try again. The step's policy still decides whether. A nil error stays nil.
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
