package main_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	clocks  = "./cairnvet/testdata/src/clock"
	impures = "./cairnvet/testdata/src/impure"
)

// execute runs a program in the root of the module, and returns its exit code and all that it wrote.
func execute(t *testing.T, program string, args ...string) (int, string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Dir = filepath.Join("..", "..")
	output, err := command.CombinedOutput()
	if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) {
		require.NoError(t, err, string(output))
	}
	return command.ProcessState.ExitCode(), string(output)
}

// build builds the command.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "cairnvet")
	code, output := execute(t, "go", "build", "-o", binary, "./cmd/cairnvet")
	require.Zero(t, code, output)
	return binary
}

// noteFolders reads the folders that go vet looks at, so that go test takes no result from its cache when a file in them has changed.
func noteFolders(t *testing.T) {
	t.Helper()
	root := filepath.Join("..", "..")
	for _, folder := range []string{root, filepath.Join(root, "cairntest")} {
		_, err := os.ReadDir(folder)
		require.NoError(t, err)
	}
	err := filepath.WalkDir(filepath.Join(root, "examples"), func(_ string, _ fs.DirEntry, err error) error { return err })
	require.NoError(t, err)
}

func TestCommand(t *testing.T) {
	t.Parallel()
	cairnvet := build(t)

	t.Run("under go vet", func(t *testing.T) {
		t.Parallel()
		code, output := execute(t, "go", "vet", "-vettool="+cairnvet, clocks, impures)
		require.NotZero(t, code)
		require.Contains(t, output, "clock.go:13:6: time.Now in a workflow")
		require.Contains(t, output, "impure.go:19:6: os.Getenv in a workflow")
	})
	t.Run("a rule is switched off", func(t *testing.T) {
		t.Parallel()
		code, output := execute(t, "go", "vet", "-vettool="+cairnvet, "-time=false", clocks)
		require.Zero(t, code, output)
	})
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		code, output := execute(t, cairnvet, "-time", clocks, impures)
		require.NotZero(t, code)
		require.Contains(t, output, "clock.go:13:6: time.Now in a workflow")
		require.NotContains(t, output, "impure.go")
	})
	// The examples show how workflows are written, and the tests of package cairn what can be done with them: a finding there
	// is a false one, or a mistake that users copy.
	t.Run("nothing in the house", func(t *testing.T) {
		t.Parallel()
		noteFolders(t)
		code, output := execute(t, "go", "mod", "download") // or go vet tells what it fetches
		require.Zero(t, code, output)
		code, output = execute(t, "go", "vet", "-vettool="+cairnvet, ".", "./cairntest", "./examples/...")
		require.Zero(t, code, output)
		require.Empty(t, strings.TrimSpace(output))
	})
}
