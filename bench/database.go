package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/internal/pgcluster"
	"github.com/cairn-workflow/cairn/store"
	"github.com/cairn-workflow/cairn/store/postgres"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// database is an empty store, and beside it a plain table of the same kind.
type database struct {
	kind  string
	store store.Store
	raw   rawTable
	meter func() use
	// statements counts what the store's writers have executed.
	statements func() int64
	closers    []func() error
}

// rawTable is one plain table: an integer key and 200 bytes.
type rawTable interface {
	// insert adds n rows in one transaction.
	insert(ctx context.Context, n int) error
	// get reads a row by its key.
	get(ctx context.Context, key int64) error
}

// counter is a store that counts its statements.
type counter interface{ Statements() int64 }

func (db *database) close() error {
	var err error
	for _, v := range slices.Backward(db.closers) {
		err = errors.Join(err, v())
	}
	return err
}

func openDatabase(ctx context.Context, kind string) (*database, error) {
	db := &database{kind: kind}
	open := db.openSQLite
	if kind == "postgres" {
		open = db.openPostgres
	}
	if err := open(ctx); err != nil {
		return nil, errors.Join(err, db.close())
	}
	db.statements = func() int64 { return 0 }
	if c, ok := db.store.(counter); ok {
		db.statements = c.Statements
	}
	return db, nil
}

func (db *database) openSQLite(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "cairn-bench-")
	if err != nil {
		return err
	}
	db.closers = append(db.closers, func() error { return os.RemoveAll(dir) })
	db.meter = func() use { return use{cpu: ownCPU(), bytes: ownBytes()} }
	st, err := sqlite.Open(ctx, filepath.Join(dir, "cairn.db"), nil)
	if err != nil {
		return err
	}
	db.store = st
	db.closers = append(db.closers, st.Close)
	raw, err := openRawSQLite(ctx, filepath.Join(dir, "raw.db"))
	if err != nil {
		return err
	}
	db.raw = raw
	db.closers = append(db.closers, raw.close)
	return nil
}

// openPostgres uses the server that CAIRN_BENCH_POSTGRES_URL names (its database must be empty), or a throw-away one with
// the server's own defaults, which sync to disk at each commit.
func (db *database) openPostgres(ctx context.Context) error {
	url := os.Getenv("CAIRN_BENCH_POSTGRES_URL")
	serverCPU := func() float64 { return 0 }
	if url == "" {
		cluster, err := pgcluster.New(ctx, pgcluster.Options{Durable: true})
		if err != nil {
			return fmt.Errorf("start PostgreSQL (make setup installs it): %w", err)
		}
		db.closers = append(db.closers, cluster.Stop)
		url = cluster.URL()
		serverCPU = func() float64 { return childCPU(cluster.PID()) }
	}
	st, err := postgres.Open(ctx, url, nil)
	if err != nil {
		return err
	}
	db.store = st
	db.closers = append(db.closers, st.Close)
	raw, err := openRawPostgres(ctx, url)
	if err != nil {
		return err
	}
	db.raw = raw
	db.closers = append(db.closers, raw.close)
	control, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	db.closers = append(db.closers, func() error { return control.Close(context.WithoutCancel(ctx)) })
	db.meter = func() use { return use{cpu: ownCPU() + serverCPU(), bytes: walBytes(ctx, control)} }
	return nil
}

// walBytes returns how much the server has written to its log.
func walBytes(ctx context.Context, conn *pgx.Conn) float64 {
	var n float64
	if err := conn.QueryRow(ctx, `select pg_current_wal_insert_lsn() - '0/0'::pg_lsn`).Scan(&n); err != nil {
		return 0
	}
	return n
}
