package recorded_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryExampleIsRecorded: a program without recorded runs is forgotten here, and found.
func TestEveryExampleIsRecorded(t *testing.T) {
	t.Parallel()
	programs, err := filepath.Glob("../../*/main.go")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(programs), 4)
	for _, program := range programs {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(program), "testdata", "*.jsonl"))
		require.NoError(t, err)
		require.NotEmpty(t, files, "%s has no recorded runs: write a TestRecordedRuns, and make record", program)
	}
}
