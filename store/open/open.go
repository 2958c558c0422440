// Package open opens the database that a URL names. It links the drivers of all databases that Cairn knows; a program
// that uses only one of them can call the Open of that package instead, and stays smaller.
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

	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/open"
)

// Store is an opened database. Give it to cairn.New, and close it when the engine has stopped.
type Store struct{ *store.Handle }

// URL opens a database and brings its schema up to date. A file that does not exist is created.
func URL(ctx context.Context, url string) (*Store, error) { return handle(open.URL(ctx, url)) }

// ReadOnly opens a database without changing it. It fails if the database does not exist, or if its schema is not up to
// date (database_read_only).
func ReadOnly(ctx context.Context, url string) (*Store, error) {
	return handle(open.ReadOnly(ctx, url))
}

// Location returns a name of the database for people, without credentials and settings. It opens nothing. A URL that
// names no database is an error: malformed.
func Location(url string) (string, error) { return open.Location(url) }

// Close ends all use of the database. Stop the engines that work on it first.
func (s *Store) Close() error { return s.Handle.Close() }

func handle(s store.Store, err error) (*Store, error) {
	if err != nil {
		return nil, err
	}
	return &Store{store.NewHandle(s)}, nil
}
