package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// binary is the example as a process of its own.
type binary struct {
	path, dir string
	target    *target
}

func build(t *testing.T) *binary {
	t.Helper()
	p := &binary{dir: t.TempDir()}
	p.path = filepath.Join(p.dir, "importer.exe")
	p.target = &target{path: filepath.Join(p.dir, "data", "target.db")}
	output, err := exec.Command("go", "build", "-o", p.path, ".").CombinedOutput()
	require.NoError(t, err, string(output))
	return p
}

// start starts the binary, which writes to out.
func (p *binary) start(t *testing.T, out *bytes.Buffer, args ...string) *exec.Cmd {
	t.Helper()
	all := append([]string{"-db", "sqlite:runs.db", "-dir", "data", "-rows", "2000", "-batch", "100", "-parallel", "2", "-pace", "150ms", "-lease", "1s"}, args...)
	command := exec.CommandContext(t.Context(), p.path, all...)
	command.Dir, command.Stdout, command.Stderr = p.dir, out, out
	require.NoError(t, command.Start())
	return command
}

// killAt starts the binary, and kills it as soon as the target has so many rows.
func (p *binary) killAt(t *testing.T, rows int, args ...string) {
	t.Helper()
	var out bytes.Buffer
	command := p.start(t, &out, args...)
	require.Eventually(t, func() bool {
		found, _, err := p.target.sum(t.Context(), "customers-1.csv") // there may be no folder yet
		return err == nil && found >= rows
	}, patience, 2*time.Millisecond, "%d rows", rows)
	require.NoError(t, command.Process.Kill())
	require.Error(t, command.Wait(), "it did not end by itself: %s", &out)
}

// TestKilledProgramGoesOn kills the binary in the middle of the import, twice, and in the middle of its fork. In the end each row is there, with what the
// file says; and no more batches were written again than were under way when it was killed.
func TestKilledProgramGoesOn(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.killAt(t, 300)
	p.killAt(t, 700)
	var out bytes.Buffer
	require.NoError(t, p.start(t, &out).Wait(), "it ends by itself: %s", &out)
	require.Contains(t, out.String(), "Import 1 goes on")
	require.Contains(t, out.String(), "customers-1.csv, line 1201")
	failed, err := p.target.writes(t.Context(), "customers-1.csv")
	require.NoError(t, err)
	require.Len(t, failed, 1100, "three rounds of four batches, without the one with the bad row")

	p.killAt(t, 1300, "-fix")
	out.Reset()
	require.NoError(t, p.start(t, &out, "-fix").Wait(), "it ends by itself: %s", &out)
	require.Contains(t, out.String(), "2000 rows are imported in 20 batches.")

	last, err := p.target.writes(t.Context(), "customers-1.csv")
	require.NoError(t, err)
	require.Len(t, last, 2000)
	more := 0
	for id, n := range last {
		require.LessOrEqual(t, n, 4, "row %d was written once, and once more for each kill at most", id)
		more += n - 1
		if was, ok := failed[id]; ok {
			require.Equal(t, was, n, "row %d was imported when the first run failed, and the fork keeps that", id)
		}
	}
	require.LessOrEqual(t, more, 3*2*100, "two batches of a hundred rows were under way at each kill")
	sum, total, err := p.target.sum(t.Context(), "customers-1.csv")
	require.NoError(t, err)
	require.Equal(t, 2000, sum)
	require.Equal(t, cents(2000), total)
}
