package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"

	lib "modernc.org/sqlite/lib"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/store/migration"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema up to date, or only checks it where nothing may be written. Several processes may start
// at once: the lock of a writing transaction lets one of them do it.
func (s *Store) migrate(ctx context.Context) error {
	todo, err := pending(ctx, s.db())
	if err != nil || len(todo.steps) == 0 {
		return err
	}
	if s.cfg.ReadOnly {
		return migration.ReadOnly(s.path, todo.version, len(todo.all))
	}
	db, err := s.connect(1)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return classify("migrate", err)
	}
	defer func() { _ = conn.Close() }()
	for {
		done, err := migrateOne(ctx, conn)
		if err != nil || done {
			return err
		}
	}
}

// plan is what a database needs.
type plan struct {
	all, steps []migration.Migration
	version    int // of its schema, 0 if it has none
}

// pending returns the steps that a database needs. One that this program cannot use is an error.
func pending(ctx context.Context, q querier) (*plan, error) {
	all, err := migration.Read(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	version, oldest, err := schemaVersion(ctx, q)
	if err != nil {
		return nil, err
	}
	steps, err := migration.Pending(all, version, oldest)
	return &plan{all, steps, version}, err
}

// querier is a pool, a connection or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// schemaVersion returns 0 for a database without Cairn's tables.
func schemaVersion(ctx context.Context, q querier) (version, oldest int, err error) {
	var tables int
	err = scanOne(ctx, q, []any{&tables}, `select count(*) from sqlite_schema where type = 'table' and name = 'cairn_schema'`)
	if err != nil || tables == 0 {
		return 0, 0, classify("read the schema version", err)
	}
	err = scanOne(ctx, q, []any{&version, &oldest}, `select version, oldest from cairn_schema`)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, 0, cairnerr.Errorf(cairnerr.CodeSchemaForeign, "the table cairn_schema is empty: this database was not made by cairn, or was damaged")
	case primary(err) == lib.SQLITE_ERROR:
		return 0, 0, cairnerr.Errorf(cairnerr.CodeSchemaForeign, "the table cairn_schema is not the one that cairn makes: %w", err)
	}
	return version, oldest, classify("read the schema version", err)
}

// migrateOne takes one step, and reports whether there was none left to take.
func migrateOne(ctx context.Context, conn *sql.Conn) (done bool, err error) {
	begin := func() error { _, err := conn.ExecContext(ctx, `begin immediate`); return err }
	if err := retryBusy(ctx, begin); err != nil {
		return false, classify("migrate", err)
	}
	defer func() {
		if err != nil || done {
			_, rollback := conn.ExecContext(context.WithoutCancel(ctx), `rollback`)
			err = errorsJoin(err, classify("migrate", rollback))
		}
	}()
	todo, err := pending(ctx, conn)
	if err != nil || len(todo.steps) == 0 {
		return true, err
	}
	step := todo.steps[0]
	record := `update cairn_schema set version = ?, oldest = ?`
	if todo.version == 0 {
		step.SQL += `; create table cairn_schema (version integer not null, oldest integer not null) strict;`
		record = `insert into cairn_schema (version, oldest) values (?, ?)`
	}
	if _, err := conn.ExecContext(ctx, step.SQL); err != nil {
		return false, classify("migration "+step.Name, err)
	}
	if _, err := conn.ExecContext(ctx, record, step.Version, step.Oldest); err != nil {
		return false, classify("migration "+step.Name, err)
	}
	_, err = conn.ExecContext(ctx, `commit`)
	return false, classify("migration "+step.Name, err)
}
