package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/postgres"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

const (
	kindSQLite   = "sqlite"
	kindPostgres = "postgres"
)

// database is an empty store, and beside it a plain table of the same kind.
type database struct {
	kind  string
	store *counted
	raw   rawTable
	// place names another store of the same kind, in the same directory or on the same server.
	place   func(name string) place
	meter   func() use
	closers []func() error
}

// place is where a store can be: a file, or a schema on a server.
type place struct {
	Kind    string
	Address string // path or URL
	Schema  string // on a server
}

// open opens the store, and makes it if there is none.
func (p place) open(ctx context.Context) (store.Store, error) {
	if p.Kind == kindPostgres {
		return postgres.Open(ctx, p.Address, &postgres.Config{Schema: p.Schema})
	}
	return sqlite.Open(ctx, p.Address, nil)
}

// openRaw opens the plain table at a place, which may not be there yet.
func (p place) openRaw(ctx context.Context) (rawTable, error) {
	if p.Kind == kindPostgres {
		return openRawPostgres(ctx, p.Address)
	}
	return openRawSQLite(ctx, p.Address)
}

// rawPlace is where the plain table is.
func (db *database) rawPlace() place { return db.place("raw") }

func (db *database) close() error {
	var err error
	for _, v := range slices.Backward(db.closers) {
		err = errors.Join(err, v())
	}
	return err
}

// openDatabase opens an empty database. The server is for PostgreSQL: see [database.preparePostgres].
func openDatabase(ctx context.Context, kind, server string) (*database, error) {
	db := &database{kind: kind}
	var meter func() use
	var err error
	if kind == kindPostgres {
		meter, err = db.preparePostgres(ctx, server)
	} else {
		meter, err = db.prepareSQLite()
	}
	if err == nil {
		err = db.open(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, db.close())
	}
	db.meter = func() use {
		u := meter()
		u.statements, u.transactions = float64(db.store.statements()), float64(db.store.transactions.Load())
		return u
	}
	return db, nil
}

// open opens the store and the plain table.
func (db *database) open(ctx context.Context) error {
	st, err := db.place("cairn").open(ctx)
	if err != nil {
		return err
	}
	db.store = &counted{Store: st}
	db.closers = append(db.closers, st.Close)
	if db.raw, err = db.rawPlace().openRaw(ctx); err != nil {
		return err
	}
	db.closers = append(db.closers, db.raw.close)
	return db.raw.create(ctx)
}

// prepareSQLite makes a directory. The meter that it returns knows CPU and bytes.
func (db *database) prepareSQLite() (meter func() use, err error) {
	dir, err := os.MkdirTemp("", "cairn-bench-")
	if err != nil {
		return nil, err
	}
	db.closers = append(db.closers, func() error { return os.RemoveAll(dir) })
	db.place = func(name string) place { return place{Kind: kindSQLite, Address: filepath.Join(dir, name+".db")} }
	return func() use { return use{cpu: ownCPU(), bytes: ownBytes()} }, nil
}
