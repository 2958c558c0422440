package recorded_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryExampleIsRecorded: a program without recorded runs is forgotten here, and found. One that uses no engine has no
// runs.
func TestEveryExampleIsRecorded(t *testing.T) {
	t.Parallel()
	programs, err := filepath.Glob("../../*/main.go")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(programs), 4)
	for _, program := range programs {
		source, err := os.ReadFile(program)
		require.NoError(t, err)
		if !strings.Contains(string(source), `"github.com/cairn-workflow/cairn"`) {
			continue
		}
		files, err := filepath.Glob(filepath.Join(filepath.Dir(program), "testdata", "*.jsonl"))
		require.NoError(t, err)
		require.NotEmpty(t, files, "%s has no recorded runs: write a TestRecordedRuns, and make record", program)
	}
}
