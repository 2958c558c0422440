package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/store"
	"github.com/cairn-workflow/cairn/store/storetest"
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
	})
}
