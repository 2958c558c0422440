package torture_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
			output, err := exec.CommandContext(t.Context(), program, "--store", store, "--seed", fmt.Sprint(seed),
				"--minutes", fmt.Sprint(tortured.Minutes()), "--every", "700ms").CombinedOutput()
			t.Logf("seed %d\n%s", seed, output)
			require.NoError(t, err)
		})
	}
}

// buildProgram builds the torture program, and returns where it is.
func buildProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "torture.exe")
	output, err := exec.Command("go", "build", "-o", program, "./torture").CombinedOutput()
	require.NoError(t, err, string(output))
	return program
}
