package postgres

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx" of database/sql
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/storetest"
)

// TestSuite runs what every store must pass.
func TestSuite(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, url string) store.Store {
		t.Helper()
		s, err := Open(t.Context(), url, nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}
	storetest.Run(t, storetest.Factory{
		Open: func(t *testing.T) store.Store {
			t.Helper()
			return open(t, pgtest.URL(t))
		},
		Again: func(t *testing.T, first store.Store) store.Store {
			t.Helper()
			s, ok := first.(*Store)
			require.True(t, ok)
			return open(t, s.conn.ConnString())
		},
		Ways: map[string]func(*testing.T, store.Store) storetest.UserTransaction{"pgx": beginPgx, "savepoint": beginSavepoint, "sql": beginSQL},
		Rows: countRows,
	})
}

// countRows counts the rows of each table of a store's schema.
func countRows(t *testing.T, s store.Store) map[string]int {
	t.Helper()
	conn := connect(t, s)
	rows, err := conn.Query(t.Context(), `select tablename::text from pg_tables where schemaname = 'cairn'`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	counts := map[string]int{}
	for _, table := range tables {
		var n int
		require.NoError(t, conn.QueryRow(t.Context(), `select count(*) from cairn.`+table).Scan(&n))
		counts[table] = n
	}
	return counts
}

// connect opens a connection as a user would, who knows nothing of the schema.
func connect(t *testing.T, s store.Store) *pgx.Conn {
	t.Helper()
	own, ok := s.(*Store)
	require.True(t, ok)
	conn, err := pgx.Connect(t.Context(), own.conn.ConnString())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func beginPgx(t *testing.T, s store.Store) storetest.UserTransaction {
	t.Helper()
	tx, err := connect(t, s).Begin(t.Context())
	require.NoError(t, err)
	return storetest.UserTransaction{Tx: InTx(tx), Commit: func() error { return tx.Commit(t.Context()) }, Rollback: func() error { return tx.Rollback(t.Context()) }}
}

// beginSavepoint begins a savepoint in a transaction, which are both committed.
func beginSavepoint(t *testing.T, s store.Store) storetest.UserTransaction {
	t.Helper()
	outer, err := connect(t, s).Begin(t.Context())
	require.NoError(t, err)
	tx, err := outer.Begin(t.Context())
	require.NoError(t, err)
	return storetest.UserTransaction{
		Tx:     InTx(tx),
		Commit: func() error { return errors.Join(tx.Commit(t.Context()), outer.Commit(t.Context())) },
		Rollback: func() error { // what is outside of it is committed
			return errors.Join(tx.Rollback(t.Context()), outer.Commit(t.Context()))
		},
	}
}

func beginSQL(t *testing.T, s store.Store) storetest.UserTransaction {
	t.Helper()
	own, ok := s.(*Store)
	require.True(t, ok)
	db, err := sql.Open("pgx", own.conn.ConnString())
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return storetest.UserTransaction{Tx: InSQLTx(tx), Commit: tx.Commit, Rollback: tx.Rollback}
}
