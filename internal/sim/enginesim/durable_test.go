package enginesim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// TestCommitsWaitForTheDisk asks a file for the settings under which a power cut takes nothing: the simulation cannot see whether the disk was waited for.
func TestCommitsWaitForTheDisk(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Open(t.Context(), t.TempDir()+"/x.db", nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	info, err := st.Info(t.Context())
	require.NoError(t, err)
	require.True(t, info.Durable, info.Durability)
}
