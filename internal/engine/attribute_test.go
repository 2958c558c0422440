package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// Old databases have these keys, so they stay.
func TestUserAttributes_KeysOfTheEngine_AreLeftOut(t *testing.T) {
	t.Parallel()
	require.Equal(t, "$forked_from", journal.ForkedFrom)
	all := map[string]string{journal.ForkedFrom: "wrun_1", "$rootRunId": "x", "customer": "ada", "a$b": "y"}
	require.Equal(t, map[string]string{"customer": "ada", "a$b": "y"}, UserAttributes(all))
	require.Len(t, all, 4, "the map of the run is not changed")
	require.Nil(t, UserAttributes(nil))
}
