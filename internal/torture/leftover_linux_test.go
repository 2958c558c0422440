package torture_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
			waitForDiaries(t, dir, "worker-*", 4)
			require.Eventually(t, func() bool { return len(processesOf(t, program)) >= 7 }, time.Minute, 10*time.Millisecond, "orchestrator, workers and clients: one may just have been killed")

			require.NoError(t, command.Process.Signal(signal))
			require.Error(t, command.Wait())
			require.Eventually(t, func() bool { return len(processesOf(t, program)) == 0 }, time.Minute, 10*time.Millisecond)
			mounts, err := os.ReadFile("/proc/mounts")
			require.NoError(t, err)
			require.NotContains(t, string(mounts), dir)
		})
	}
}

// TestInterrupted ends a torture of two stores with Ctrl-C, which reaches the whole group of processes: the second store is not begun, and the table does not
// look like that of a torture that found nothing.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	program, dir := buildProgram(t), t.TempDir()
	var table, said bytes.Buffer
	command := exec.Command(program, "--store", "both", "--minutes", "5", "--every", "100ms", "--dir", dir)
	command.Stdout, command.Stderr = &table, &said
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, command.Start())
	waitForDiaries(t, dir, "worker-*-2", 1) // somebody was hurt
	for _, process := range processesOf(t, program) {
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(process)))
		require.NoError(t, err)
		if group, err := syscall.Getpgid(id); err == nil && id != command.Process.Pid { // it may have been killed just now
			require.NotEqual(t, command.Process.Pid, group, "it would get the signal twice, and the second one ends it before it has cleaned up")
		}
	}
	require.NoError(t, syscall.Kill(-command.Process.Pid, syscall.SIGINT))
	require.Error(t, command.Wait())
	require.NotContains(t, said.String(), "postgres: seed")
	require.Contains(t, said.String(), "postgres was not tortured: context canceled")
	require.Contains(t, cellOf(t, table.String(), "findings"), "nothing was audited")
	minutes, err := strconv.ParseFloat(cellOf(t, table.String(), "minutes"), 64)
	require.NoError(t, err)
	require.Less(t, minutes, 5.0)
}

// TestServerThatDoesNotStart leaves no directory behind, although a file system was mounted there for the server.
func TestServerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	program, dir, tools := buildProgram(t), t.TempDir(), t.TempDir()
	for _, tool := range []string{"initdb", "postgres"} {
		require.NoError(t, os.WriteFile(filepath.Join(tools, tool), []byte("#!/bin/sh\nexit 1\n"), 0o755)) //nolint:gosec // it is executed
	}
	command := exec.Command(program, "--store", torture.Postgres, "--minutes", "5", "--dir", dir)
	command.Env = append(os.Environ(), "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	output, err := command.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), "initdb")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, string(output))
}

// waitForDiaries returns when processes of a torture in a directory have begun so many diaries.
func waitForDiaries(t *testing.T, dir, names string, many int) {
	t.Helper()
	require.Eventually(t, func() bool {
		diaries, err := filepath.Glob(filepath.Join(dir, "*", names+".jsonl"))
		return err == nil && len(diaries) >= many
	}, time.Minute, 10*time.Millisecond)
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
