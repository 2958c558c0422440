package cli

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// advice says what to do about an error: every error ends with a next step.
func advice(err error) string {
	e, ok := errors.AsType[*cairnerr.Error](err)
	if errors.Is(err, fs.ErrNotExist) {
		if ok && e.Code == cairnerr.CodeUnreachable {
			return "check that the path is right: --store or " + storeVariable + " names the database"
		}
		return "check that the path is right"
	}
	if !ok {
		return "try again; if the error stays, report it with the output of: cairn version"
	}
	if e.Details["line"] != "" && e.Code != cairnerr.CodeFormatTooNew && e.Code != cairnerr.CodeUnknownEvent {
		return "export the run again: cairn export RUN -o FILE" // the file was cut off, or edited
	}
	switch e.Code {
	case cairnerr.CodeIllegalTransition, cairnerr.CodeRunEnded, cairnerr.CodeNotRunnable:
		return "cairn runs show RUN tells what state the run is in"
	case cairnerr.CodeRunNotFound:
		return "check the id and --namespace, and that --store names the right database; cairn runs lists what there is"
	case cairnerr.CodeFormatTooNew, cairnerr.CodeUnknownEvent:
		return "upgrade cairn: a newer version has written this"
	case cairnerr.CodeMalformed:
		return "correct the value, or leave it out to use the default"
	case cairnerr.CodeUnreachable:
		if strings.HasPrefix(e.Message, "postgres:") {
			return "check that the server runs, and that address, user, password and database are right; psql takes the same URL"
		}
		return "check that the path is right and that you may read the file; SQLite must also be able to make files beside it"
	case cairnerr.CodeSchemaForeign:
		return "check that this is the right database; name another one with --store"
	case cairnerr.CodeSchemaTooNew:
		return "upgrade cairn: a newer version has written this database"
	case cairnerr.CodeStepNotFound:
		return "cairn runs show RUN lists the keys of steps, cairn export RUN has all of them"
	case cairnerr.CodeStartKeyConflict:
		return "use another key, or the same input as the first time"
	case cairnerr.CodeLimitExceeded:
		return "make it smaller: docs/limits.md has the limits"
	case cairnerr.CodeReadOnly:
		if strings.HasPrefix(e.Message, "sqlite:") || strings.HasPrefix(e.Message, "postgres:") {
			return "you may not write to this database: do it as the user that your program runs as"
		}
		return "start your program once: it brings the database up to date"
	case cairnerr.CodeStreamNotFound:
		return "cairn stream RUN lists the streams of a run; --follow waits for one that comes later"
	case cairnerr.CodeDiskFull:
		return "make room on the disk of the database"
	case cairnerr.CodeCorrupt:
		return "stop what writes to this database, keep a copy of it, and restore a backup; please report it"
	default:
		return "docs/errors.md explains each code; report what looks like a bug with the output of: cairn version"
	}
}
