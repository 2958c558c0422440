package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
	"github.com/cairn-workflow/cairn/store/open"
)

const patience = 60 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// fixture returns an importer with a file of rows, one of which is bad, and an engine.
func fixture(t *testing.T, rows int, pace time.Duration) (*importer, *cairn.Engine) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, generate(filepath.Join(dir, "a.csv"), rows))
	i := newImporter(dir, pace, &target{path: filepath.Join(dir, "target.db")})
	st, err := open.URL(t.Context(), "sqlite::memory:")
	require.NoError(t, err)
	eng, err := cairn.New(t.Context(), st, i.workflow)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond) // steps may take long
		defer cancel()
		_ = eng.Stop(ctx)
		require.NoError(t, st.Close())
	})
	return i, eng
}

// start starts an import as the program does.
func start(t *testing.T, i *importer, eng *cairn.Engine, job Job) *cairn.Run[Report] {
	t.Helper()
	r, err := i.workflow.Start(t.Context(), eng, job, cairn.WithAttributes(attrFile.Value(job.File), attrStage.Value("planning"), attrPercent.Value(0)))
	require.NoError(t, err)
	return r
}

func TestAGoodFileIsImported(t *testing.T) {
	t.Parallel()
	i, eng := fixture(t, 1000, 0)
	require.NoError(t, correct(filepath.Join(i.dir, "a.csv")))
	r := start(t, i, eng, Job{File: "a.csv", Batch: 30, Parallel: 3})
	report, err := r.Result(within(t))
	require.NoError(t, err)
	require.Equal(t, Report{Rows: 1000, Cents: cents(1000), Batches: 34}, report)
	writes, err := i.target.writes(t.Context(), "a.csv")
	require.NoError(t, err)
	require.Len(t, writes, 1000)
	for id, n := range writes {
		require.Equal(t, 1, n, "row %d", id)
	}
	page, err := eng.List(t.Context(), cairn.Filter{Where: []cairn.Condition{attrPercent.Is(100), attrStage.Is("imported")}})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1, "it is found by how far it has come")
}

// cents is what the rows of a generated file come to.
func cents(rows int) int64 {
	var sum int64
	for id := 1; id <= rows; id++ {
		sum += int64(100 + id%900)
	}
	return sum
}

// TestABadRowFailsAndAForkKeepsTheRest imports a file with a bad row. The error names it; the fork, when it is corrected, imports only what was not.
func TestABadRowFailsAndAForkKeepsTheRest(t *testing.T) {
	t.Parallel()
	i, eng := fixture(t, 500, 0)
	r := start(t, i, eng, Job{File: "a.csv", Batch: 50, Parallel: 2})
	_, err := r.Result(within(t))
	require.ErrorIs(t, err, errBadRow)
	require.ErrorContains(t, err, `a.csv, line 301: customer 300: "c300 at example.com" is no email address`)
	before, err := i.target.writes(t.Context(), "a.csv")
	require.NoError(t, err)
	require.Len(t, before, 350, "rounds of 4 batches: all of the second one but that with the bad row, and none of the third")
	require.NotContains(t, before, 299, "no row of a batch is imported without the others")

	var out bytes.Buffer
	require.NoError(t, i.fixAndWatch(within(t), eng, &out))
	require.Contains(t, out.String(), "a.csv is corrected. 7 batches are kept; again: batch@00252-00301/import.")
	require.Contains(t, out.String(), "500 rows are imported in 10 batches.")
	after, err := i.target.writes(t.Context(), "a.csv")
	require.NoError(t, err)
	require.Len(t, after, 500)
	for id, n := range after {
		require.Equal(t, 1, n, "row %d: what the first run has imported is not imported again", id)
	}
	page, err := eng.List(t.Context(), cairn.Filter{ForkOfID: r.ID()})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
	percent, _ := attrPercent.Of(page.Runs[0])
	require.Equal(t, 100, percent)
	for a, err := range eng.Run(page.Runs[0].ID).Annotations(t.Context(), cairn.AnnotationFilter{Prefix: "cairn.fork"}) {
		require.NoError(t, err)
		require.Equal(t, "importer -fix", a.Actor)
	}
	require.ErrorContains(t, i.fixAndWatch(within(t), eng, &out), "no import that failed")

	out.Reset()
	require.NoError(t, list(t.Context(), eng, &out))
	require.Regexp(t, `(?s)a\.csv +completed +imported +100 %  fork of `+r.ID()+`\na\.csv +failed +importing +40 %`, out.String())
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"id,name\n":                             "wrong number of fields",
		"a,b,c,d\n":                             "has the columns a,b,c,d, not id,name,email,cents",
		"id,name,email,cents\nx,A,a@b,1\n":      `line 2: id "x" is no number above 0`,
		"id,name,email,cents\n1, ,a@b,1\n":      "line 2: customer 1 has no name",
		"id,name,email,cents\n1,A,a@b,much\n":   `customer 1: "much" is no amount in cents`,
		"id,name,email,cents\n1,A,@b,1\n2,B\n":  "wrong number of fields",
		"id,name,email,cents\n1,A,@b,1\n2,,,\n": "line 3: customer 2 has no name",
	} {
		i := newImporter(t.TempDir(), 0, &target{path: filepath.Join(t.TempDir(), "target.db")})
		require.NoError(t, os.WriteFile(filepath.Join(i.dir, "a.csv"), []byte(content), 0o600))
		plan, err := i.planFile(t.Context(), Job{File: "a.csv", Batch: 10, Parallel: 1})
		for _, b := range plan.Batches {
			if err == nil {
				_, err = i.importBatch(t.Context(), b)
			}
		}
		require.ErrorContains(t, err, want)
	}
	i := newImporter(t.TempDir(), 0, nil)
	_, err := i.planFile(t.Context(), Job{File: "none.csv", Batch: 1, Parallel: 1})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = i.planFile(t.Context(), Job{File: "none.csv"})
	require.ErrorContains(t, err, "at least 1 is needed")
}

func TestARowIsMissing(t *testing.T) {
	t.Parallel()
	i, _ := fixture(t, 10, 0)
	_, err := i.importBatch(t.Context(), Batch{File: "a.csv", First: 8, Last: 12})
	require.ErrorContains(t, err, "leave their number as it is")
}

func TestProgressIsSeen(t *testing.T) {
	t.Parallel()
	i, eng := fixture(t, 100, time.Hour)
	r := start(t, i, eng, Job{File: "a.csv", Batch: 10, Parallel: 3})
	require.Eventually(t, func() bool {
		info, err := r.Describe(t.Context())
		require.NoError(t, err)
		seen := 0
		for _, w := range info.Waits {
			if w.Kind == "step" && strings.HasSuffix(w.Note, "of 10 rows") {
				seen++
			}
		}
		require.LessOrEqual(t, seen, 3, "no more at the same time than were wanted")
		return seen == 3
	}, patience, 5*time.Millisecond)
	page, err := eng.List(t.Context(), cairn.Filter{Where: []cairn.Condition{attrStage.Is("importing"), attrPercent.Below(100)}})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
}

// TestImportCrashEverywhere kills the process at each place at which it can die. The last step counts what is in the target: it must be the same.
func TestImportCrashEverywhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, generate(filepath.Join(dir, "a.csv"), 12))
	require.NoError(t, correct(filepath.Join(dir, "a.csv")))
	i := newImporter(dir, time.Second, &target{path: filepath.Join(dir, "target.db")})
	empty := func(*cairntest.Env) {
		if err := os.Remove(i.target.path); !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
		}
	}
	crashes := cairntest.CrashEverywhere(t, i.workflow, Job{File: "a.csv", Batch: 3, Parallel: 1}, cairntest.Prepare(empty))
	require.Greater(t, crashes, 15)
	cairntest.EvictEverywhere(t, i.workflow, Job{File: "a.csv", Batch: 3, Parallel: 2}, cairntest.Prepare(empty))
}

func TestProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := func(args ...string) string {
		var out bytes.Buffer
		all := append([]string{"-db", filepath.Join(dir, "runs.db"), "-dir", filepath.Join(dir, "data"), "-rows", "300", "-batch", "30", "-pace", "0"}, args...)
		require.NoError(t, run(within(t), all, &out))
		return out.String()
	}
	for _, number := range []string{"1", "2"} { // it begins anew when it has ended well
		require.Contains(t, program(), "line 181: customer 180")
		require.Contains(t, program(), "The last import failed")
		require.Contains(t, program("-fix"), "300 rows are imported in 10 batches.")
		require.Contains(t, program("-list"), "customers-"+number+".csv")
	}
	require.Equal(t, 4, strings.Count(program("-list"), "\n"))
}
