package sqlite

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// TestAFailedRollbackIsNotInDoubt has a rollback that failed: nothing was committed, and the next batch opens the file again.
func TestAFailedRollbackIsNotInDoubt(t *testing.T) {
	t.Parallel()
	st, err := Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), nil)
	require.NoError(t, err)
	defer func() { _ = st.Close() }()
	opened, err := st.OpenWriter(t.Context(), journal.ID{1}, 0)
	require.NoError(t, err)
	w, ok := opened.(*Writer)
	require.True(t, ok)
	tx, err := w.Begin(t.Context(), 1)
	require.NoError(t, err)
	_, err = tx.Load(t.Context(), &store.LoadSet{})
	require.NoError(t, err)
	tx.Rollback()
	w.broken = true // as Rollback notes it when SQLite cannot

	tx, err = w.Begin(t.Context(), 2)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context(), &store.Changes{}))
	applied, err := w.Settle(t.Context())
	require.NoError(t, err)
	require.True(t, applied, "the one batch that was committed")
}

// TestReadersGoOnWhileTheFileIsReopened settles again and again, which closes and opens the file, while others read.
func TestReadersGoOnWhileTheFileIsReopened(t *testing.T) {
	t.Parallel()
	st, err := Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), nil)
	require.NoError(t, err)
	defer func() { _ = st.Close() }()
	w, err := st.OpenWriter(t.Context(), journal.ID{1}, 0)
	require.NoError(t, err)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := st.Namespaces(t.Context()); err != nil {
					t.Errorf("read: %v", err)
					return
				}
				if _, err := st.NextDue(t.Context(), 1); err != nil { // its statement is prepared
					t.Errorf("read with a prepared statement: %v", err)
					return
				}
			}
		})
	}
	for range 50 {
		_, err := w.Settle(t.Context())
		require.NoError(t, err)
	}
	close(stop)
	wg.Wait()
	require.NoError(t, w.Close())
}
