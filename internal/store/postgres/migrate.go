package postgres

import (
	"context"
	"embed"
	"errors"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/store/migration"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationTries is how often the creation of the first table is tried while others create it too.
const migrationTries = 20

// migrate brings the schema up to date. Several processes may start at once: the lock of the one row that records the
// version lets one of them take a step at a time. There is no advisory lock, because those belong to a session.
func (s *Store) migrate(ctx context.Context) error {
	all, err := migration.Read(migrations, "migrations")
	if err != nil {
		return err
	}
	version, oldest, err := s.schemaVersion(ctx)
	if err != nil {
		return err
	}
	pending, err := migration.Pending(all, version, oldest)
	if err != nil || len(pending) == 0 {
		return err
	}
	if s.cfg.ReadOnly {
		return migration.ReadOnly(s.location, version, len(all))
	}
	if err := s.checkNames(ctx, all); err != nil {
		return err
	}
	if err := s.createVersion(ctx); err != nil {
		return err
	}
	for {
		done, err := s.migrateOne(ctx, all)
		if err != nil || done {
			return err
		}
	}
}

const (
	findVersion   = `select to_regclass($1)::oid`
	selectVersion = `select version, oldest from schema_version`
	lockVersion   = selectVersion + ` for update`
	recordVersion = `update schema_version set version = $1, oldest = $2`
)

// schemaVersion returns 0 for a database without Cairn's tables.
func (s *Store) schemaVersion(ctx context.Context) (version, oldest int, err error) {
	var table *uint32
	if err := s.pool.QueryRow(ctx, findVersion, s.cfg.Schema+".schema_version").Scan(&table); err != nil {
		return 0, 0, classify("open", err)
	}
	if table == nil {
		return 0, 0, nil
	}
	err = s.pool.QueryRow(ctx, selectVersion).Scan(&version, &oldest)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, 0, nil // its creator was interrupted, or is just about to add the row
	}
	return version, oldest, s.foreign("read the schema version", err)
}

// foreign recognizes a schema that is used for something else.
func (s *Store) foreign(op string, err error) error {
	switch sqlState(err) {
	case stateUndefinedColumn, stateDuplicateTable, stateUndefinedTable, stateDuplicateObject:
		return cairnerr.Errorf(cairnerr.CodeSchemaForeign, "the schema %s has tables that are not cairn's: %w", s.cfg.Schema, err)
	default:
		return classify(op, err)
	}
}

// made finds the names that a migration makes.
var made = regexp.MustCompile(`(?m)^create (?:table|sequence) (\w+)`)

const findTaken = `select min(c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
	where n.nspname = $1 and c.relname = any($2) and to_regclass($3) is null`

// checkNames refuses a schema whose tables somebody else has made, before anything is added to it.
func (s *Store) checkNames(ctx context.Context, all []migration.Migration) error {
	var names []string
	for _, m := range all {
		for _, found := range made.FindAllStringSubmatch(m.SQL, -1) {
			names = append(names, found[1])
		}
	}
	var taken *string
	if err := s.pool.QueryRow(ctx, findTaken, s.cfg.Schema, names, s.cfg.Schema+".schema_version").Scan(&taken); err != nil {
		return classify("open", err)
	}
	if taken != nil {
		return cairnerr.Errorf(cairnerr.CodeSchemaForeign, "the schema %s has a table %s that is not cairn's: choose another schema, or move the table", s.cfg.Schema, *taken)
	}
	return nil
}

// createVersion makes the schema and the table that records its version. "if not exists" does not help against others
// who do the same at the same moment: they are told apart by their errors.
func (s *Store) createVersion(ctx context.Context) error {
	var err error
	for try := range migrationTries {
		if err = s.tryCreateVersion(ctx); !raced(err) {
			break
		}
		if err := sleep(ctx, time.Duration(try+1)*5*time.Millisecond); err != nil {
			return err
		}
	}
	return classify("create the schema", err)
}

const (
	findSchema    = `select exists (select from pg_namespace where nspname = $1)`
	createVersion = `create table if not exists schema_version (
		"only"  boolean primary key default true check ("only"),
		version integer not null,
		oldest  integer not null
	)`
	insertVersion = `insert into schema_version (version, oldest) values (0, 0) on conflict do nothing`
)

func (s *Store) tryCreateVersion(ctx context.Context) error {
	var exists bool // who may use a schema may not always create one
	if err := s.pool.QueryRow(ctx, findSchema, s.cfg.Schema).Scan(&exists); err != nil {
		return err
	}
	statements := []string{createVersion, insertVersion}
	if !exists {
		statements = append([]string{`create schema if not exists ` + s.cfg.Schema}, statements...)
	}
	for _, statement := range statements {
		if _, err := s.pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// migrateOne takes one step, and reports whether there was none left to take.
func (s *Store) migrateOne(ctx context.Context, all []migration.Migration) (done bool, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var version, oldest int
		if err := tx.QueryRow(ctx, lockVersion).Scan(&version, &oldest); err != nil {
			return s.foreign("migrate", err)
		}
		pending, err := migration.Pending(all, version, oldest)
		if err != nil || len(pending) == 0 {
			done = true
			return err
		}
		step := pending[0]
		// The simple protocol takes several statements at once.
		if err := tx.Conn().PgConn().Exec(ctx, step.SQL).Close(); err != nil {
			return s.foreign("migration "+step.Name, err)
		}
		_, err = tx.Exec(ctx, recordVersion, step.Version, step.Oldest)
		return err
	})
	return done, classify("migrate", err)
}

// sleep waits, but not longer than ctx lasts.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
