// Package cairnerr has the errors of Cairn: one struct, and the codes by which programs tell them apart.
//
//	if cairn.CodeOf(err) == cairnerr.CodeRunNotFound { … }
//
// A code never changes. It is kept across crashes, processes and HTTP, so errors.Is and the code of an error mean the
// same everywhere. The tables in docs/errors.md say what each code means and what to do about it.
package cairnerr

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
)

// Code is a permanent word that says what went wrong. Programs match on it; people read the message. Programs may have
// codes of their own; the codes below are Cairn's.
type Code string

// The codes of Cairn. The table in docs/errors.md says what to do about each.
const (
	CodeMalformed         Code = "malformed"            // the input cannot be read
	CodeUnknownEvent      Code = "unknown_event"        // an event type that this program does not know
	CodeUnsupported       Code = "unsupported"          // known, but not allowed in this place
	CodeSpecNotSupported  Code = "spec_not_supported"   // a World spec version above what this program reads
	CodeFormatTooNew      Code = "format_too_new"       // a file of a format that this program does not read yet
	CodePayloadTooLarge   Code = "payload_too_large"    // a value above the limit
	CodeLimitExceeded     Code = "limit_exceeded"       // a name, key, token or count above its limit
	CodeRunNotFound       Code = "run_not_found"        // no such run in this namespace
	CodeRunExists         Code = "run_exists"           // the run was created before
	CodeRunEnded          Code = "run_ended"            // the run has ended: the event came too late
	CodeRunGone           Code = "run_gone"             // the run has ended: stop working on it
	CodeIllegalTransition Code = "illegal_transition"   // the run's status does not allow the event
	CodeStartKeyConflict  Code = "start_key_conflict"   // the start key was used with another input
	CodeStepNotFound      Code = "step_not_found"       // no such step in the run
	CodeStepExists        Code = "step_exists"          // the step was created before
	CodeStepFinished      Code = "step_finished"        // the step has its outcome already
	CodeTooEarly          Code = "too_early"            // the step's retry time has not come
	CodeHookNotFound      Code = "hook_not_found"       // no such hook, or it was disposed of
	CodeHookExists        Code = "hook_exists"          // the hook was created before
	CodeHookConsumed      Code = "hook_consumed"        // the single-use token was used
	CodeHookExpired       Code = "hook_expired"         // the token's time is over
	CodeValueRefused      Code = "value_refused"        // the value does not fit the type that the hook takes
	CodeReceiptConflict   Code = "receipt_conflict"     // the sender's key was used with another payload or hook
	CodeWaitNotFound      Code = "wait_not_found"       // no such wait in the run
	CodeWaitExists        Code = "wait_exists"          // the wait was created before
	CodeWaitCompleted     Code = "wait_completed"       // the wait is over already
	CodeAttributeExists   Code = "attribute_exists"     // the same attribute change was recorded before
	CodeEventNotFound     Code = "event_not_found"      // no such event in the run
	CodeMessageNotFound   Code = "message_not_found"    // no such message in the queue
	CodeStreamNotFound    Code = "stream_not_found"     // nothing was ever written to such a stream of the run
	CodeStreamClosed      Code = "stream_closed"        // the stream takes no more chunks
	CodeStaleEpoch        Code = "stale_epoch"          // another process owns the run
	CodeNotRunnable       Code = "not_runnable"         // the run cannot be claimed now
	CodeStaleDelivery     Code = "stale_delivery"       // the message was delivered again, or is done
	CodePrecondition      Code = "precondition_failed"  // a guard of the command does not hold
	CodeFenced            Code = "fenced"               // this process was declared dead by its peers
	CodeClosed            Code = "closed"               // the component was shut down
	CodeOutcomeUnknown    Code = "outcome_unknown"      // the caller gave up before the outcome was known
	CodeForeignTx         Code = "foreign_transaction"  // the user's transaction is not one of the engine's database
	CodeTxOver            Code = "transaction_over"     // the user's transaction was ended, or has failed
	CodeTxConflict        Code = "transaction_conflict" // the user's transaction collides with another: it must be repeated
	CodeSchemaTooNew      Code = "schema_too_new"       // the database was written by a newer, incompatible program
	CodeSchemaForeign     Code = "schema_foreign"       // the database holds something that is not Cairn's
	CodeUnreachable       Code = "database_unreachable" // no connection to the database
	CodeDiskFull          Code = "disk_full"            // the database has no space left
	CodeReadOnly          Code = "database_read_only"   // the database cannot be written
	CodeCorrupt           Code = "database_corrupt"     // the database has data that Cairn cannot have written
	CodeInternal          Code = "internal"             // a bug, or an error without a code
)

// The codes of errors in the execution of a workflow. The table in docs/errors.md says what to do about each.
const (
	CodePanic             Code = "panic"              // workflow or step code panicked
	CodeGoexit            Code = "goexit"             // a goroutine of a workflow ended without a result
	CodeDecode            Code = "decode_failed"      // a recorded value does not fit the type that the code has for it
	CodeEncode            Code = "encode_failed"      // a value cannot be stored
	CodeTimeout           Code = "timeout"            // not in time
	CodeCancelled         Code = "cancelled"          // the run was asked to stop
	CodeMismatch          Code = "mismatch"           // the code does not do what was recorded
	CodePoison            Code = "poison"             // a step was begun several times and never ended
	CodeConcurrentContext Code = "concurrent_context" // two durable calls at the same time on one Context
	CodeDuplicateKey      Code = "duplicate_key"      // an explicit key was used twice
	CodeHookConflict      Code = "hook_conflict"      // the token is taken by another hook
	CodeDuplicateName     Code = "duplicate_name"     // two workflows have the same name
	CodeContextOver       Code = "context_over"       // a Context was used after its workflow or branch had returned
	CodeLost              Code = "lost"               // another branch won the race
	CodeEvicted           Code = "evicted"            // the run was dropped from memory while it waited
	CodeInWorkflow        Code = "in_workflow"        // a call that is not for workflow code
	CodeParked            Code = "parked"             // the run waits for somebody to look at it
	CodePaused            Code = "paused"             // the run was paused by hand
	CodeStopped           Code = "stopped"            // the engine was stopped
	CodeNotRegistered     Code = "not_registered"     // no workflow of this name in this process
	CodeNotInRun          Code = "not_in_run"         // a call that is only for steps and workflows
)

// The codes of flows. The table in docs/errors.md says what to do about each.
const (
	CodeTokenInvalid    Code = "token_invalid"     // the token stands for no flow that waits
	CodePauseOver       Code = "pause_over"        // the pause was answered, or has no attempts left
	CodeFlowChanged     Code = "flow_changed"      // the code of the flow does not fit the paused flow any more
	CodeFlowNotAllowed  Code = "flow_not_allowed"  // the handler does not serve this flow
	CodeStateTooLarge   Code = "state_too_large"   // the context has no room in a token
	CodeLoopLimit       Code = "loop_limit"        // a turn did too many items
	CodeTooManyRequests Code = "too_many_requests" // the caller must wait
)

// httpStatus maps Cairn's codes to HTTP. A code that is not here is a user's own: it describes
// the outcome of their work, not of the request. (Numbers, because this package imports no net/http.)
var httpStatus = map[Code]int{
	CodeMalformed:         400,
	CodeUnknownEvent:      400,
	CodeUnsupported:       400,
	CodeSpecNotSupported:  400,
	CodeFormatTooNew:      400,
	CodePayloadTooLarge:   413,
	CodeLimitExceeded:     400,
	CodeRunNotFound:       404,
	CodeRunExists:         409,
	CodeRunEnded:          409,
	CodeRunGone:           410,
	CodeIllegalTransition: 409,
	CodeStartKeyConflict:  409,
	CodeStepNotFound:      404,
	CodeStepExists:        409,
	CodeStepFinished:      409,
	CodeTooEarly:          425,
	CodeHookNotFound:      404,
	CodeHookExists:        409,
	CodeHookConsumed:      410,
	CodeHookExpired:       410,
	CodeValueRefused:      422,
	CodeReceiptConflict:   409,
	CodeWaitNotFound:      404,
	CodeWaitExists:        409,
	CodeWaitCompleted:     409,
	CodeAttributeExists:   409,
	CodeEventNotFound:     404,
	CodeMessageNotFound:   404,
	CodeStreamNotFound:    404,
	CodeStreamClosed:      409,
	CodeStaleEpoch:        409,
	CodeNotRunnable:       409,
	CodeStaleDelivery:     409,
	CodePrecondition:      412,
	CodeFenced:            503,
	CodeClosed:            503,
	CodeOutcomeUnknown:    504,
	CodeForeignTx:         400,
	CodeTxOver:            409,
	CodeTxConflict:        409,
	CodeSchemaTooNew:      503,
	CodeSchemaForeign:     503,
	CodeUnreachable:       503,
	CodeDiskFull:          507,
	CodeReadOnly:          503,
	CodeCorrupt:           500,
	CodeInternal:          500,
	CodePanic:             500,
	CodeDecode:            409,
	CodeEncode:            409,
	CodeGoexit:            500,
	CodeTimeout:           504,
	CodeCancelled:         409,
	CodeLost:              409,
	CodeEvicted:           503,
	CodeMismatch:          409,
	CodeParked:            409,
	CodePaused:            409,
	CodeStopped:           503,
	CodePoison:            409,
	CodeConcurrentContext: 400,
	CodeContextOver:       400,
	CodeInWorkflow:        400,
	CodeNotInRun:          400,
	CodeNotRegistered:     400,
	CodeDuplicateKey:      400,
	CodeHookConflict:      409,
	CodeDuplicateName:     400,
	CodeTokenInvalid:      410,
	CodePauseOver:         410,
	CodeFlowChanged:       409,
	CodeFlowNotAllowed:    403,
	CodeStateTooLarge:     413,
	CodeLoopLimit:         500,
	CodeTooManyRequests:   429,
}

// Status returns the HTTP status that goes with the code; a code that is not Cairn's gives 500.
func (c Code) Status() int {
	if s, ok := httpStatus[c]; ok {
		return s
	}
	return httpStatus[CodeInternal]
}

// Known reports whether the code is one of Cairn's own.
func (c Code) Known() bool {
	_, known := httpStatus[c]
	return known
}

// Error is the one error of Cairn, in memory, in the journal and on the wire.
//
// errors.Is finds two errors equal if their codes are equal: an error that a step returned still matches after a crash,
// in another process and over HTTP.
type Error struct {
	Code      Code              `cbor:"1,keyasint,omitempty" json:"code,omitempty"`
	Message   string            `cbor:"2,keyasint,omitempty" json:"message"`
	Stack     string            `cbor:"3,keyasint,omitempty" json:"stack,omitempty"`
	Retryable bool              `cbor:"4,keyasint,omitempty" json:"retryable,omitempty"`
	Details   map[string]string `cbor:"5,keyasint,omitempty" json:"details,omitempty"`

	cause error
}

// Errorf returns an error with the given code. A %w in format keeps the cause for [errors.Is] in this process.
func Errorf(code Code, format string, args ...any) *Error {
	wrapped := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: wrapped.Error(), cause: errors.Unwrap(wrapped)}
}

// Error implements error.
func (e *Error) Error() string {
	if e.Code == "" {
		return e.Message
	}
	return string(e.Code) + ": " + e.Message
}

// Is reports whether target is an error with the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && e.Code != "" && t.Code == e.Code
}

// Unwrap returns the cause, if it happened in this process.
func (e *Error) Unwrap() error { return e.cause }

// Status returns the HTTP status of the error.
func (e *Error) Status() int { return e.Code.Status() }

// With returns a copy of the error with one more detail.
func (e *Error) With(key, value string) *Error {
	next := *e
	next.Details = make(map[string]string, len(e.Details)+1)
	maps.Copy(next.Details, e.Details)
	next.Details[key] = value
	return &next
}

// CodeOf returns the code of the first [Error] in err's chain: "" for nil, [CodeInternal] if there is none.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Code != "" {
		return e.Code
	}
	return CodeInternal
}

// AsError returns err as an *Error; an error without a code gets [CodeInternal]. Nil stays nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeInternal, Message: err.Error(), cause: err}
}

// ReadError reads an error that was stored as JSON. Older writers stored plain strings: those become the message.
func ReadError(stored []byte) *Error {
	if len(stored) == 0 || string(stored) == "null" {
		return nil
	}
	var e Error
	if err := json.Unmarshal(stored, &e); err == nil && (e.Message != "" || e.Code != "") {
		return &e
	}
	var text string
	if err := json.Unmarshal(stored, &text); err == nil {
		return &Error{Message: text}
	}
	return &Error{Message: string(stored)}
}
