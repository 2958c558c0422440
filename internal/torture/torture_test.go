package torture_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/torture"
)

// tortured is how long each store is hurt here. With settling and the audit, and both stores at the same time, that is half a minute.
const tortured = 18 * time.Second

// TestTorture is the short version of "make torture": real processes, both stores, every kind of blow. TORTURE_SEED chooses orders and blows.
func TestTorture(t *testing.T) {
	t.Parallel()
	program, seed := buildProgram(t), rand.Uint64N(1_000_000)+1
	if given := os.Getenv("TORTURE_SEED"); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		require.NoError(t, err)
	}
	for _, store := range []string{torture.SQLite, torture.Postgres} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			if store == torture.Postgres {
				pgtest.URL(t) // skips where there is no server
			}
			var table, said bytes.Buffer
			command := exec.CommandContext(t.Context(), program, "--store", store, "--seed", fmt.Sprint(seed),
				"--minutes", fmt.Sprint(tortured.Minutes()), "--every", "700ms")
			command.Stdout, command.Stderr = &table, &said
			err := command.Run()
			t.Logf("seed %d\n%s%s", seed, &said, &table)
			require.NoError(t, err)
			for _, row := range []string{"processes killed (-9)", "processes stopped past the lease", "runs", "steps with an outcome"} {
				n, err := strconv.Atoi(cellOf(t, table.String(), row))
				require.NoError(t, err)
				require.Positive(t, n, row)
			}
			require.Equal(t, "0", cellOf(t, table.String(), "findings"))
		})
	}
}

// cellOf returns what a table with one report says in a row.
func cellOf(t *testing.T, table, row string) string {
	t.Helper()
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 4 && strings.TrimSpace(cells[1]) == row {
			return strings.TrimSpace(cells[2])
		}
	}
	require.Fail(t, "there is no such row", "%q in\n%s", row, table)
	return ""
}

// buildProgram builds the torture program, and returns where it is.
func buildProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "torture.exe")
	output, err := exec.Command("go", "build", "-o", program, "./torture").CombinedOutput()
	require.NoError(t, err, string(output))
	return program
}
