package torture_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/torture"
)

// TestNothingIsLeftBehind ends the orchestrator, rudely and not, in the middle of a torture: no process of it goes on, and nothing stays mounted.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "interrupted": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program, dir := buildProgram(t), t.TempDir()
			command := exec.Command(program, "--store", torture.SQLite, "--minutes", "5", "--dir", dir)
			require.NoError(t, command.Start())
			require.Eventually(t, func() bool {
				diaries, err := filepath.Glob(filepath.Join(dir, "*", "worker-*.jsonl"))
				return err == nil && len(diaries) >= 4
			}, time.Minute, 10*time.Millisecond)
			require.GreaterOrEqual(t, len(processesOf(t, program)), 7, "orchestrator, workers and clients")

			require.NoError(t, command.Process.Signal(signal))
			require.Error(t, command.Wait())
			require.Eventually(t, func() bool { return len(processesOf(t, program)) == 0 }, time.Minute, 10*time.Millisecond)
			mounts, err := os.ReadFile("/proc/mounts")
			require.NoError(t, err)
			require.NotContains(t, string(mounts), dir)
		})
	}
}

// processesOf returns the processes that execute a program. Those that have ended have no command line any more.
func processesOf(t *testing.T, program string) (found []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range lines {
		if line, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(line), program+"\x00") {
			found = append(found, path)
		}
	}
	return found
}
