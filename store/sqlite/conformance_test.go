package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/store"
	"github.com/cairn-workflow/cairn/store/sqlite"
	"github.com/cairn-workflow/cairn/store/storetest"
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
	})
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
