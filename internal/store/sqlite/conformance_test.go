package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
	"github.com/cairn-workflow/cairn/internal/store/storetest"
)

func TestFile(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Factory{
		Open: func(t *testing.T) store.Store {
			t.Helper()
			return open(t, filepath.Join(t.TempDir(), "cairn.db"), nil)
		},
		Again: func(t *testing.T, first store.Store) store.Store {
			t.Helper()
			info, err := first.Info(t.Context())
			require.NoError(t, err)
			return open(t, info.Location, nil)
		},
		Ways: map[string]func(*testing.T, store.Store) storetest.UserTransaction{
			"immediate": func(t *testing.T, s store.Store) storetest.UserTransaction {
				t.Helper()
				return beginTx(t, s, "_txlock=immediate&_pragma=busy_timeout(60000)")
			},
			"deferred": func(t *testing.T, s store.Store) storetest.UserTransaction {
				t.Helper()
				return beginTx(t, s, "")
			},
		},
		Rows: countRows,
	})
}

// countRows counts the rows of each table of a store's file.
func countRows(t *testing.T, s store.Store) map[string]int {
	t.Helper()
	info, err := s.Info(t.Context())
	require.NoError(t, err)
	db, err := sql.Open("sqlite", "file:"+info.Location)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	var tables string
	const names = `select group_concat(name) from sqlite_schema where type = 'table' and name like 'cairn_%'`
	require.NoError(t, db.QueryRowContext(t.Context(), names).Scan(&tables))
	counts := map[string]int{}
	for table := range strings.SplitSeq(tables, ",") {
		var n int
		require.NoError(t, db.QueryRowContext(t.Context(), `select count(*) from `+table).Scan(&n))
		counts[strings.TrimPrefix(table, "cairn_")] = n
	}
	return counts
}

// beginTx begins a transaction as a user would, on a connection of his own to a store's file.
func beginTx(t *testing.T, s store.Store, settings string) storetest.UserTransaction {
	t.Helper()
	info, err := s.Info(t.Context())
	require.NoError(t, err)
	db, err := sql.Open("sqlite", "file:"+info.Location+"?"+settings)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return storetest.UserTransaction{Tx: sqlite.InTx(tx), Commit: tx.Commit, Rollback: tx.Rollback}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Factory{
		Open: func(t *testing.T) store.Store {
			t.Helper()
			return open(t, ":memory:", nil)
		},
		Again: func(t *testing.T, first store.Store) store.Store {
			t.Helper()
			return first
		},
	})
}

func open(t *testing.T, path string, cfg *sqlite.Config) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}
