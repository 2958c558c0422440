package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/pgcluster"
)

// build compiles pgrun and returns its path.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pgrun")
	output, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	require.NoError(t, err, string(output))
	return path
}

// environ is the environment without the variables that the test sets itself.
func environ(extra ...string) []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, urlVariable+"=") {
			kept = append(kept, variable)
		}
	}
	return append(kept, extra...)
}

func TestPgrun(t *testing.T) {
	t.Parallel()
	pgrun := build(t)

	t.Run("forwards the exit code", func(t *testing.T) {
		t.Parallel()
		cmd := exec.Command(pgrun, "--", "sh", "-c", "exit 7")
		cmd.Env = environ(urlVariable + "=postgres://given")
		require.Error(t, cmd.Run())
		require.Equal(t, 7, cmd.ProcessState.ExitCode())
	})

	t.Run("keeps a server that was given", func(t *testing.T) {
		t.Parallel()
		cmd := exec.Command(pgrun, "--", "sh", "-c", "echo $"+urlVariable)
		cmd.Env = environ(urlVariable + "=postgres://given")
		output, err := cmd.Output()
		require.NoError(t, err)
		require.Equal(t, "postgres://given\n", string(output))
	})

	t.Run("forwards signals and stops the server", func(t *testing.T) {
		t.Parallel()
		probe, err := pgcluster.New(t.Context(), pgcluster.Options{})
		if err != nil {
			require.ErrorIs(t, err, pgcluster.ErrNotInstalled)
			require.NotEqual(t, "1", os.Getenv(requireVariable))
			t.Skip("SKIPPED: no PostgreSQL server; `make setup` installs it")
		}
		require.NoError(t, probe.Stop())
		home := t.TempDir()
		require.NoError(t, os.Chmod(filepath.Dir(home), 0o755))
		require.NoError(t, os.Chmod(home, 0o755))
		cmd := exec.Command(pgrun, "--", "sh", "-c", "trap 'echo caught; exit 9' TERM; echo $"+urlVariable+"; kill -TERM $PPID; while :; do sleep 0.05; done")
		cmd.Env = environ("TMPDIR=" + home)
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		require.Error(t, cmd.Run())
		require.Equal(t, 9, cmd.ProcessState.ExitCode(), output.String())
		require.Regexp(t, `^postgres://postgres@127\.0\.0\.1:\d+/postgres\S*\ncaught\n$`, output.String())
		left, err := os.ReadDir(home)
		require.NoError(t, err)
		require.Empty(t, left, "the cluster's directory is gone")
	})
}

func TestExitCodeOfSignal(t *testing.T) {
	t.Parallel()
	err := exec.Command("sh", "-c", "kill -KILL $$").Run()
	require.Equal(t, 128+int(syscall.SIGKILL), exitCode(err))
	require.Zero(t, exitCode(nil))
	require.Equal(t, exitFailed, exitCode(os.ErrInvalid))
}
