// Package open opens the database that a URL names. It links the drivers of all databases that Cairn knows; a program that
// uses only one of them calls that one's Open instead, and stays smaller.
//
//	sqlite:app.db             a SQLite file; what follows "sqlite:" is its path, as it is
//	sqlite:///var/lib/app.db  the same, with an absolute path
//	sqlite::memory:           a database in memory, gone when it is closed
//	app.db                    a path that ends in .db, .sqlite or .sqlite3
//	file:app.db               a file URL, with its escapes
//	postgres://host/database  PostgreSQL, also postgresql://
package open

import (
	"context"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/open/internal/target"
	"github.com/cairn-workflow/cairn/internal/store/postgres"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// URL opens a database, makes it if it is a file that does not exist, and brings its schema up to date.
func URL(ctx context.Context, url string) (store.Store, error) {
	return openTarget(ctx, url, false)
}

// ReadOnly opens a database without changing it: what does not exist is an error, and so is a schema that is not up to
// date. The error then has [cairnerr.CodeReadOnly].
func ReadOnly(ctx context.Context, url string) (store.Store, error) {
	return openTarget(ctx, url, true)
}

// Location names the database for people, without credentials and settings. It opens nothing. A URL that names no database
// gives [cairnerr.CodeMalformed].
func Location(url string) (string, error) {
	t, err := target.Parse(url)
	if err != nil {
		return "", err
	}
	return t.Location(), nil
}

func openTarget(ctx context.Context, url string, readOnly bool) (store.Store, error) {
	t, err := target.Parse(url)
	if err != nil {
		return nil, err
	}
	if t.Path == target.Memory && readOnly {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "a database in memory has nothing to read: it is empty for each program that opens it")
	}
	// A nil pointer in an interface is not nil: the stores are returned only where there is no error.
	if t.Path != "" {
		s, err := sqlite.Open(ctx, t.Path, &sqlite.Config{ReadOnly: readOnly})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	s, err := postgres.Open(ctx, t.URL, &postgres.Config{ReadOnly: readOnly})
	if err != nil {
		return nil, err
	}
	return s, nil
}
