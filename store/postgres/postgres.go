// Package postgres keeps an engine's data in PostgreSQL, where the processes of many machines share the work.
//
//	st, err := postgres.Open(ctx, "postgres://app@db.internal/app", nil)
//	eng, err := cairn.New(ctx, st, Checkout)
//
// All tables live in a schema of their own. Nothing needs an extension or an advisory lock, so poolers in transaction
// mode and databases that speak PostgreSQL's protocol work too. Acknowledged writes are as durable as the server's
// synchronous_commit says.
package postgres

import (
	"context"
	"database/sql"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/postgres"
)

// Config tunes a store. The zero value and nil suit most programs.
type Config struct {
	// MaxConns is how many connections may read at the same time. Defaults to pool_max_conns of the URL, else to 8.
	// Each writer needs one more, and so does the notifier while somebody listens.
	MaxConns int
	// Schema is where the tables are: small letters, digits and "_". It is created if there is none. Defaults to
	// "cairn".
	//
	// Connections ask for it in search_path when they start. A pooler that does not pass this on (PgBouncer) must be told to
	// ignore it and the other settings of [Open], and the user's search_path must be set in the database.
	Schema string
	// ReadOnly opens the database without changing it: no migration, no writer.
	ReadOnly bool
	// Logger gets the log lines of the store. Defaults to none.
	Logger *slog.Logger
}

// Store is an opened PostgreSQL database. Give it to cairn.New, and close it when the engine has stopped.
type Store struct{ *store.Handle }

// Open opens the database that the URL names, and brings the schema up to date. It fails if the database cannot be reached.
func Open(ctx context.Context, url string, cfg *Config) (*Store, error) {
	s, err := postgres.Open(ctx, url, (*postgres.Config)(cfg))
	if err != nil {
		return nil, err
	}
	return &Store{store.NewHandle(s)}, nil
}

// Close ends all use of the database. Stop the engines that work on it first.
func (s *Store) Close() error { return s.Handle.Close() }

// Tx is a transaction of yours in which runs can be started; see Workflow.StartIn.
type Tx = postgres.Tx

// InTx returns a handle on a transaction of yours, for starts that are part of it. The transaction must be on the
// engine's database, and its user needs the rights to write there. A savepoint (a pgx.Tx begun on another one) works
// too. Like a pgx.Tx, the handle is for one goroutine at a time.
func InTx(tx pgx.Tx) Tx { return postgres.InTx(tx) }

// InSQLTx is [InTx] for transactions of package database/sql, with the driver of pgx or another one.
func InSQLTx(tx *sql.Tx) Tx { return postgres.InSQLTx(tx) }
