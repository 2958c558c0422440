package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// primary returns SQLite's own code for an error, without its extension; 0 if the error is not SQLite's.
func primary(err error) int { return extended(err) & 0xff }

// extended returns the whole code.
func extended(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// classify gives an error of the database the code that Cairn has for it.
func classify(op string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, ok := errors.AsType[*cairnerr.Error](err); ok {
		return err
	}
	code := cairnerr.CodeInternal
	switch primary(err) {
	case lib.SQLITE_FULL:
		code = cairnerr.CodeDiskFull
	case lib.SQLITE_READONLY:
		code = cairnerr.CodeReadOnly
	case lib.SQLITE_NOTADB:
		code = cairnerr.CodeSchemaForeign
	case lib.SQLITE_CORRUPT:
		code = cairnerr.CodeCorrupt
	case lib.SQLITE_CANTOPEN, lib.SQLITE_PERM, lib.SQLITE_IOERR, lib.SQLITE_AUTH:
		code = cairnerr.CodeUnreachable
	}
	if errors.Is(err, sql.ErrConnDone) || err.Error() == "sql: database is closed" {
		code = cairnerr.CodeClosed
	}
	return cairnerr.Errorf(code, "sqlite: %s: %w", op, err)
}

// isConstraint reports whether a unique key refused a row.
func isConstraint(err error) bool { return primary(err) == lib.SQLITE_CONSTRAINT }

// retryBusy repeats what another connection's lock kept from happening, until it happens or ctx ends. SQLite could wait by
// itself (busy_timeout), but would block a thread, know nothing of ctx, and sleep in real time inside a simulation.
func retryBusy(ctx context.Context, do func() error) error {
	pause := 500 * time.Microsecond
	for {
		err := do()
		if code := primary(err); code != lib.SQLITE_BUSY && code != lib.SQLITE_LOCKED {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		pause = min(2*pause, 2*time.Millisecond) // a busy writer leaves small gaps
	}
}

func errorsJoin(errs ...error) error {
	err := errors.Join(errs...)
	if u, ok := err.(interface{ Unwrap() []error }); ok && len(u.Unwrap()) == 1 {
		return u.Unwrap()[0]
	}
	return err
}

func closedStore() error { return cairnerr.Errorf(cairnerr.CodeClosed, "the store was closed") }
