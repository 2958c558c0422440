package faultstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
	"github.com/cairn-workflow/cairn/internal/store/storetest"
)

// TestTransparent runs the suite of the stores through a wrapper that does nothing.
func TestTransparent(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the suite runs on the stores themselves; without -short it runs through the wrapper too")
	}
	storetest.Run(t, storetest.Factory{Open: func(t *testing.T) store.Store {
		t.Helper()
		st, err := sqlite.Open(t.Context(), t.TempDir()+"/x.db", nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = st.Close() })
		return faultstore.Wrap(st, func(journal.ID) faultstore.Plan {
			return func(faultstore.Op, int) faultstore.Fault { return faultstore.Fault{} }
		})
	}, Again: func(_ *testing.T, first store.Store) store.Store { return first }})
}
