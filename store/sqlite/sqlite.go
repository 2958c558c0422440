// Package sqlite keeps an engine's data in a SQLite file. SQLite is built in, in pure Go: there is nothing to install.
//
//	st, err := sqlite.Open(ctx, "app.db", nil)
//	eng, err := cairn.New(ctx, st, Checkout)
//
// The file is in WAL mode with synchronous=FULL: acknowledged writes survive a power cut. Several processes on one
// machine may work on one file. The tables begin with "cairn_", so tables of your own may be in the same file.
package sqlite

import (
	"context"
	"database/sql"
	"log/slog"

	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// Config tunes a store. The zero value and nil suit most programs.
type Config struct {
	// Readers is how many connections may read at the same time. Defaults to 4.
	Readers int
	// ReadOnly opens the file without changing it: no migration, no writer.
	ReadOnly bool
	// Logger gets the log lines of the store. Defaults to none.
	Logger *slog.Logger
}

// Store is an opened SQLite database. Give it to cairn.New, and close it when the engine has stopped.
type Store struct{ *store.Handle }

// Open opens the SQLite file at path, creates it if there is none, and brings its schema up to date.
func Open(ctx context.Context, path string, cfg *Config) (*Store, error) {
	return handle(sqlite.Open(ctx, path, (*sqlite.Config)(cfg)))
}

// Memory opens a database in memory. It is empty, nobody else sees it, and it is gone when it is closed.
func Memory(ctx context.Context, cfg *Config) (*Store, error) {
	return handle(sqlite.Memory(ctx, (*sqlite.Config)(cfg)))
}

func handle(s *sqlite.Store, err error) (*Store, error) {
	if err != nil {
		return nil, err
	}
	return &Store{store.NewHandle(s)}, nil
}

// Close ends all use of the database. Stop the engines that work on it first.
func (s *Store) Close() error { return s.Handle.Close() }

// Tx is a transaction of yours in which runs can be started; see Workflow.StartIn.
type Tx = sqlite.Tx

// InTx returns a handle on a transaction of yours, for starts that are part of it. The transaction must be on the
// engine's file, and its driver must be the one that Cairn uses: modernc.org/sqlite.
//
// SQLite may refuse the first write of a transaction that has read before (transaction_conflict). To avoid that, open
// your database with _txlock=immediate: transactions then begin as writers.
func InTx(tx *sql.Tx) Tx { return sqlite.InTx(tx) }
