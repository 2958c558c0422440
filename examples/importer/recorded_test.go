package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
	"github.com/cairn-workflow/cairn/examples/internal/recorded"
)

func TestRecordedRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	i := newImporter(dir, 5*time.Second, &target{path: filepath.Join(dir, "target.db")})
	begin := func(e *cairntest.Env, file string, good bool) *cairn.Run[Report] {
		require.NoError(t, generate(filepath.Join(dir, file), 20))
		if good {
			require.NoError(t, correct(filepath.Join(dir, file)))
		}
		run, err := i.workflow.Start(e.Context(), e.Engine(), Job{File: file, Batch: 3, Parallel: 2}, cairn.WithAttributes(attrFile.Value(file)))
		require.NoError(t, err)
		return run
	}
	fails := func(e *cairntest.Env, file string) string {
		run := begin(e, file, false)
		_, err := run.Result(e.Context())
		require.ErrorIs(t, err, errBadRow)
		return run.ID()
	}
	recorded.Replay(t, []cairn.Definition{i.workflow}, map[string]recorded.Scenario{
		"imported": func(e *cairntest.Env) string {
			run := begin(e, "good.csv", true)
			_, err := run.Result(e.Context())
			require.NoError(t, err)
			return run.ID()
		},
		"importing": func(e *cairntest.Env) string {
			run := begin(e, "half.csv", true)
			e.Sleep(5 * time.Second)
			return run.ID()
		},
		"failed": func(e *cairntest.Env) string { return fails(e, "bad.csv") },
		"forked": func(e *cairntest.Env) string {
			source := fails(e, "fixed.csv")
			require.NoError(t, correct(filepath.Join(dir, "fixed.csv")))
			keys, _, err := failedBatches(e.Context(), e.Engine(), source)
			require.NoError(t, err)
			fork, err := i.workflow.Fork(e.Context(), e.Engine(), source, cairn.Fork{Drop: keys, Reason: "corrected", Actor: "ada"})
			require.NoError(t, err)
			report, err := fork.Result(e.Context())
			require.NoError(t, err)
			require.Equal(t, Report{Rows: 20, Cents: cents(20), Batches: 7}, report)
			return fork.ID()
		},
	})
}
