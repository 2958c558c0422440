// Package migration reads the versioned schema changes that a store embeds, and decides which of them a database needs.
//
// A database records the version of its schema and, with it, the oldest program version that can still use it. A
// program refuses a database only if that says so: a newer schema that merely adds things is fine.
package migration

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// Migration is one step from a schema version to the next.
type Migration struct {
	Version int
	Name    string
	// Oldest is the oldest schema version whose programs can use the database after this step. It is written in the file
	// as "-- oldest: N"; without that line it is the version itself.
	Oldest int
	SQL    string
}

var (
	fileName   = regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)\.sql$`)
	oldestLine = regexp.MustCompile(`(?m)^-- oldest: (\d+)$`)
)

// Read returns the migrations in dir, in order. They must be numbered from 1 without a gap.
func Read(files fs.FS, dir string) ([]Migration, error) {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	var all []Migration
	for _, entry := range entries {
		m := fileName.FindStringSubmatch(entry.Name())
		if m == nil {
			return nil, fmt.Errorf("migration %s: want a name like 0001_words.sql", entry.Name())
		}
		sql, err := fs.ReadFile(files, dir+"/"+entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read migration: %w", err)
		}
		version, _ := strconv.Atoi(m[1])
		step := Migration{Version: version, Name: m[2], Oldest: version, SQL: string(sql)}
		if o := oldestLine.FindStringSubmatch(step.SQL); o != nil {
			step.Oldest, _ = strconv.Atoi(o[1])
		}
		all = append(all, step)
	}
	slices.SortFunc(all, func(a, b Migration) int { return a.Version - b.Version })
	for i, m := range all {
		if m.Version != i+1 {
			return nil, fmt.Errorf("migration %d is missing", i+1)
		}
	}
	return all, nil
}

// Pending returns the steps that a database needs whose schema has the given version and oldest compatible program. A
// database that this program cannot use gives [cairnerr.CodeSchemaTooNew].
func Pending(all []Migration, version, oldest int) ([]Migration, error) {
	newest := len(all)
	if version > newest && oldest > newest {
		return nil, cairnerr.Errorf(cairnerr.CodeSchemaTooNew,
			"the database has schema version %d, which needs a program that knows version %d; this one knows %d: upgrade cairn",
			version, oldest, newest)
	}
	if version >= newest {
		return nil, nil
	}
	return all[version:], nil
}

// DetailVersion is the detail of the errors of [ReadOnly] that has the version which the database is at: "0" if it has no tables of
// Cairn's.
const DetailVersion = "schema_version"

// ReadOnly is the error for a database that needs steps, and was opened for reading only.
func ReadOnly(location string, version, newest int) error {
	return cairnerr.Errorf(cairnerr.CodeReadOnly, "%s has schema version %d; it needs %d, and was opened for reading only", location, version, newest).
		With(DetailVersion, strconv.Itoa(version))
}
