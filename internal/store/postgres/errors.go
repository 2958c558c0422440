package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/store"
)

// The conditions that PostgreSQL reports and Cairn knows.
const (
	stateNotRun           = "22012" // division by zero: the writer's row was not moved on
	stateMiscounted       = "22P02" // text that is no number: not all rows were found as expected
	stateNoSource         = "22007" // text that is no date: a fork keeps events that are not there
	stateBadText          = "22021" // a NUL byte, or not UTF-8
	stateUnique           = "23505"
	stateReadOnly         = "25006"
	stateSerialization    = "40001"
	stateDeadlock         = "40P01"
	stateUndefinedColumn  = "42703"
	stateDuplicateSchema  = "42P06"
	stateDuplicateTable   = "42P07"
	stateUndefinedTable   = "42P01"
	stateDuplicateObject  = "42710"
	stateDiskFull         = "53100"
	stateTooManyConns     = "53300"
	stateLockNotAvailable = "55P03"
	classConnection       = "08"
	classOperator         = "57P" // shutdown, crash, starting up
)

// sqlState returns PostgreSQL's code for an error, "" if the error is not PostgreSQL's.
func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// fatal reports whether the connection ended with the error: it broke, or the server closed it.
func fatal(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return true
	}
	severity := e.SeverityUnlocalized
	if severity == "" {
		severity = e.Severity
	}
	return severity != "ERROR"
}

// classify gives an error of the database the code that Cairn has for it.
func classify(op string, err error) error {
	var known *cairnerr.Error
	var connect *pgconn.ConnectError
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.As(err, &connect): // also if its time was over: that was the connection's, not the caller's
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return cairnerr.Errorf(codeOf(err), "postgres: %s: %w", op, err)
}

func codeOf(err error) cairnerr.Code {
	switch state := sqlState(err); {
	case strings.Contains(err.Error(), "closed pool"):
		return cairnerr.CodeClosed
	case state == stateDiskFull:
		return cairnerr.CodeDiskFull
	case state == stateReadOnly:
		return cairnerr.CodeReadOnly
	case state == stateBadText:
		return cairnerr.CodeMalformed
	case unreachable(err):
		return cairnerr.CodeUnreachable
	default:
		return cairnerr.CodeInternal
	}
}

// unreachable reports whether the database could not be reached, or went away.
func unreachable(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	switch state := sqlState(err); {
	case errors.As(err, &connect), errors.As(err, &network), errors.Is(err, pgconn.ErrConnClosed):
		return true
	case state == "":
		return brokenPipe(err)
	default:
		return state == stateTooManyConns || strings.HasPrefix(state, classConnection) || strings.HasPrefix(state, classOperator)
	}
}

// brokenPipe reports errors of the connection that have no better type: what the driver gives back after the other end
// has closed the connection, and nothing else that is not PostgreSQL's own.
func brokenPipe(err error) bool {
	message := err.Error()
	for _, part := range []string{"EOF", "conn closed", "closed network connection", "conn busy", "broken pipe", "connection reset"} {
		if strings.Contains(message, part) {
			return true
		}
	}
	return false
}

// retryable reports whether the same may succeed later.
func retryable(err error) bool {
	switch sqlState(err) {
	case stateSerialization, stateDeadlock, stateLockNotAvailable:
		return true
	default:
		return unreachable(err)
	}
}

// refusal tells what a batch that PostgreSQL refused came to. Nothing of it was written.
func refusal(err error) error {
	switch sqlState(err) {
	case stateUnique, stateMiscounted:
		return fmt.Errorf("%w: %w", store.ErrConflict, err)
	case stateNoSource:
		return fmt.Errorf("%w: %w", store.ErrSourceGone, err)
	case stateSerialization, stateDeadlock, stateLockNotAvailable:
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	default:
		return classify("commit", err)
	}
}

// raced reports that somebody else created the same thing at the same time.
func raced(err error) bool {
	switch sqlState(err) {
	case stateUnique, stateDuplicateSchema, stateDuplicateTable, stateDuplicateObject:
		return true
	default:
		return false
	}
}
