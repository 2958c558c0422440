package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// joinable is a store with a writer, and the file that it is on.
func joinable(t *testing.T) (*sqlite.Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, path, nil)
	w, err := s.OpenWriter(t.Context(), newID(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return s, path
}

// userDB opens a database as a user would.
func userDB(t *testing.T, path, settings string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?"+settings)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	// One that ends with the test's context is rolled back by database/sql on a goroutine of its own, for which nobody waits.
	tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func join(ctx context.Context, s *sqlite.Store, tx *sql.Tx, attributes map[string]string) (journal.ID, error) {
	cmd := &journal.Command{Namespace: namespace, Run: newID(), Events: []journal.Event{{Data: &journal.RunCreated{Workflow: workflow, Attributes: attributes}}}}
	_, err := commit.Join(ctx, s, sqlite.InTx(tx), cmd, journal.Env{Now: now()})
	return cmd.Run, err
}

func requireJoinCode(t *testing.T, code cairnerr.Code, err error) {
	t.Helper()
	require.Equal(t, code, cairnerr.CodeOf(err), "%v", err)
}

func TestJoinForReadingOnly(t *testing.T) {
	t.Parallel()
	s, path := joinable(t)
	for _, settings := range []string{"mode=ro", "_pragma=query_only(1)"} {
		_, err := join(t.Context(), s, begin(t, userDB(t, path, settings)), nil)
		requireJoinCode(t, cairnerr.CodeReadOnly, err)
	}
	readOnly := open(t, path, &sqlite.Config{ReadOnly: true})
	_, err := join(t.Context(), readOnly, begin(t, userDB(t, path, "")), nil)
	requireJoinCode(t, cairnerr.CodeReadOnly, err)
}

func TestJoinMemory(t *testing.T) {
	t.Parallel()
	s := open(t, ":memory:", nil)
	_, path := joinable(t)
	_, err := join(t.Context(), s, begin(t, userDB(t, path, "")), nil)
	requireJoinCode(t, cairnerr.CodeUnsupported, err)
}

// A transaction that has read and finds that others have written since cannot become a writing one. One that begins with the start can.
func TestJoinAfterReading(t *testing.T) {
	t.Parallel()
	s, path := joinable(t)
	db := userDB(t, path, "")
	late, fresh := begin(t, db), begin(t, db)
	var n int
	require.NoError(t, late.QueryRowContext(t.Context(), `select count(*) from cairn_runs`).Scan(&n))
	first, err := join(t.Context(), s, fresh, nil)
	require.NoError(t, err)
	require.NoError(t, fresh.Commit())
	_, err = join(t.Context(), s, late, nil)
	requireJoinCode(t, cairnerr.CodeTxConflict, err)
	require.True(t, cairnerr.AsError(err).Retryable)
	require.NoError(t, late.Rollback())
	_, err = s.Run(t.Context(), namespace, first, store.ResolveAll)
	require.NoError(t, err)
}

// Who waits for the write lock gives up when his context ends, and can still use his transaction.
func TestJoinWaitsForTheLock(t *testing.T) {
	t.Parallel()
	s, path := joinable(t)
	db := userDB(t, path, "")
	holder, waiting := begin(t, db), begin(t, db)
	_, err := join(t.Context(), s, holder, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = join(ctx, s, waiting, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, holder.Commit())
	_, err = join(t.Context(), s, waiting, nil)
	require.NoError(t, err)
	require.NoError(t, waiting.Commit())
}

// A start that fails in the middle leaves nothing, and the user can go on.
func TestJoinIsAllOrNothing(t *testing.T) {
	t.Parallel()
	s, path := joinable(t)
	db := userDB(t, path, "")
	_, err := db.ExecContext(t.Context(), `create table mine (x integer);
		create trigger boom before insert on cairn_attributes begin select raise(abort, 'boom'); end`)
	require.NoError(t, err)
	tx := begin(t, db)
	_, err = tx.ExecContext(t.Context(), `insert into mine values (1)`)
	require.NoError(t, err)
	broken, err := join(t.Context(), s, tx, map[string]string{"a": "b"})
	require.ErrorContains(t, err, "boom")
	whole, err := join(t.Context(), s, tx, nil)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	_, err = s.Run(t.Context(), namespace, broken, store.ResolveAll)
	requireJoinCode(t, cairnerr.CodeRunNotFound, err)
	_, err = s.Run(t.Context(), namespace, whole, store.ResolveAll)
	require.NoError(t, err)
	var n int
	require.NoError(t, db.QueryRowContext(t.Context(), `select count(*) from mine`).Scan(&n))
	require.Equal(t, 1, n)
}

// The engine's file can be attached to the user's.
func TestJoinAttached(t *testing.T) {
	t.Parallel()
	s, path := joinable(t)
	db := userDB(t, filepath.Join(t.TempDir(), "mine.db"), "")
	db.SetMaxOpenConns(1)
	_, err := db.ExecContext(t.Context(), `attach ? as engine`, path)
	require.NoError(t, err)
	tx := begin(t, db)
	id, err := join(t.Context(), s, tx, map[string]string{"a": "b"})
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	_, err = s.Run(t.Context(), namespace, id, store.ResolveAll)
	require.NoError(t, err)
}

// Nothing is watched any more when the transactions have ended, however they did. While they are open, they can be used.
func TestJoinIsWatched(t *testing.T) {
	t.Parallel()
	s, path := joinable(t)
	db := userDB(t, path, "_pragma=busy_timeout(60000)")
	ctx, cancel := context.WithCancel(t.Context())
	abandoned, err := db.BeginTx(ctx, nil)
	require.NoError(t, err)
	for range 40 { // more than are watched
		_, err = join(t.Context(), s, abandoned, nil)
		require.NoError(t, err)
	}
	time.Sleep(50 * time.Millisecond) // it is looked at meanwhile
	_, err = abandoned.ExecContext(t.Context(), `create table mine (x integer)`)
	require.NoError(t, err)
	require.Equal(t, 1, s.Watched())
	cancel() // which rolls it back
	for _, end := range []func(*sql.Tx) error{(*sql.Tx).Commit, (*sql.Tx).Rollback} {
		tx := begin(t, db)
		_, err = join(t.Context(), s, tx, nil)
		require.NoError(t, err)
		require.NoError(t, end(tx))
	}
	require.Eventually(t, func() bool { return s.Watched() == 0 }, time.Minute, 10*time.Millisecond)
}

// A store that is closed does not watch any more: its file can be deleted.
func TestJoinIsNotWatchedAfterClose(t *testing.T) {
	t.Parallel()
	s, path := joinable(t)
	_, err := join(t.Context(), s, begin(t, userDB(t, path, "")), nil)
	require.NoError(t, err)
	require.Equal(t, 1, s.Watched())
	require.NoError(t, s.Close())
	require.Zero(t, s.Watched())
}
