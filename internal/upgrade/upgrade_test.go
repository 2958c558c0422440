package upgrade_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/check"
	"github.com/cairn-workflow/cairn/internal/store/postgres"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
	"github.com/cairn-workflow/cairn/internal/upgrade/workflows"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// withoutEngine is the fixture of a program that had no engine: its runs are of no workflow.
const withoutEngine = "v1-a605d8f"

// otherErrors is the fixture of a program that gave each error of a workflow a code: the end of such a run is told in other words today.
const otherErrors = "v2-9e5ae2f"

// unpack returns a file of testdata.
func unpack(t *testing.T, name string) []byte {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer file.Close() //nolint:errcheck // it was only read
	r, err := gzip.NewReader(file)
	require.NoError(t, err)
	content, err := io.ReadAll(r)
	require.NoError(t, err)
	return content
}

// eachFixture runs a test on a copy of each database. Open opens it with the program of today.
func eachFixture(t *testing.T, test func(t *testing.T, fixture string, open func() store.Store)) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.gz")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 18)
	for _, file := range files {
		name := filepath.Base(file)
		fixture, kind, _ := strings.Cut(strings.TrimSuffix(name, ".gz"), ".")
		t.Run(fixture+"/"+kind, func(t *testing.T) {
			t.Parallel()
			content := unpack(t, name)
			if kind == "db" {
				path := filepath.Join(t.TempDir(), "cairn.db")
				require.NoError(t, os.WriteFile(path, content, 0o600))
				test(t, fixture, func() store.Store { return openSQLite(t, path) })
				return
			}
			url := pgtest.URL(t)
			restore(t, url, content)
			test(t, fixture, func() store.Store { return openPostgres(t, url) })
		})
	}
}

func restore(t *testing.T, url string, dump []byte) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = conn.PgConn().Exec(t.Context(), string(dump)).ReadAll()
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
}

func openSQLite(t *testing.T, path string) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func openPostgres(t *testing.T, url string) store.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// requireSound checks that the views equal the fold of the journal, and returns how many runs there are.
func requireSound(t *testing.T, st store.Store) int {
	t.Helper()
	report, err := check.All(t.Context(), st, check.Options{Now: func() journal.Time { return journal.TimeOf(time.Now()) }})
	require.NoError(t, err)
	require.Empty(t, report.Differences)
	require.Zero(t, report.Unknown)
	return report.Runs
}

func definitions() (all []cairn.Definition) {
	for _, s := range workflows.All() {
		all = append(append(all, s.Workflow), s.Children...)
	}
	return all
}

// engine starts an engine of today.
func engine(t *testing.T, st store.Store, namespace string) *cairn.Engine {
	t.Helper()
	e, err := cairn.NewWith(t.Context(), store.NewHandle(st), cairn.Config{Namespace: namespace}, definitions()...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Stop(context.WithoutCancel(t.Context())) })
	return e
}

// requireEnd answers a run's question and waits for its end.
func requireEnd(t *testing.T, e *cairn.Engine, s *workflows.Scenario, run *cairn.Run[string]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if s.Token != "" {
		require.Eventually(t, func() bool {
			_, err := e.HookInfo(ctx, s.Token)
			return err == nil
		}, time.Minute, time.Millisecond)
		require.NoError(t, cairn.NewHook[string]("sent").Send(ctx, e, s.Token, "yes", cairn.Key("the answer")))
	}
	result, err := run.Result(ctx)
	if s.Result == "" {
		require.ErrorContains(t, err, "it was not meant to be")
		return
	}
	require.NoError(t, err)
	require.Equal(t, s.Result, result)
}

// inFixture returns the runs that the old program left, by workflow.
func inFixture(t *testing.T, st store.Store) map[string]*journal.Run {
	t.Helper()
	l, err := st.Runs(t.Context(), "default", store.RunFilter{}, store.Page{Limit: 100})
	require.NoError(t, err)
	all := map[string]*journal.Run{}
	for _, run := range l.Data {
		all[run.Workflow] = run
	}
	require.NotEmpty(t, all)
	return all
}

// Each old database is brought up to date, its runs replay and go on to their ends, and new ones do.
func TestOldDatabases(t *testing.T) {
	t.Parallel()
	eachFixture(t, func(t *testing.T, fixture string, open func() store.Store) {
		t.Helper()
		st := open()
		was := inFixture(t, st)
		require.Len(t, was, requireSound(t, st))
		if fixture != withoutEngine {
			require.GreaterOrEqual(t, len(was), 5)
			requireOldRunsEnd(t, st, fixture, was)
			require.Len(t, was, requireSound(t, st))
		}
		more := engine(t, st, "new")
		for _, s := range workflows.All() {
			if s.Name == "asleep" || s.Name == "branches" {
				continue // they take their time
			}
			run, err := s.Start(t.Context(), more)
			require.NoError(t, err)
			requireEnd(t, more, &s, run)
		}
		requireSound(t, open())
	})
}

// requireOldRunsEnd goes on with the runs that the old program left.
func requireOldRunsEnd(t *testing.T, st store.Store, fixture string, was map[string]*journal.Run) {
	t.Helper()
	e := engine(t, st, "")
	for _, s := range workflows.All() {
		old := was[s.Workflow.Name()]
		if old == nil {
			continue // that program could not do it
		}
		replays := fixture != otherErrors || s.Result != ""
		if replays {
			requireReplay(t, e, journal.PrefixRun.Format(old.ID))
		}
		run, err := s.Start(t.Context(), e)
		require.NoError(t, err)
		require.Equal(t, journal.PrefixRun.Format(old.ID), run.ID(), "it was started before")
		requireEnd(t, e, &s, run)
		if replays {
			requireReplay(t, e, run.ID())
		}
	}
}

func requireReplay(t *testing.T, e *cairn.Engine, run string) {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, e.Run(run).Export(t.Context(), &file))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, cairntest.ReplayFrom(ctx, &file, definitions()...))
}

// What old programs have exported replays.
// TestOldFilesHaveTodaysSchema compares what the migrations make of an old SQLite file with a new one: the same indices on the same tables.
func TestOldFilesHaveTodaysSchema(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.db.gz")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	fresh := filepath.Join(t.TempDir(), "new.db")
	require.NoError(t, openSQLite(t, fresh).Close())
	want := schemaOf(t, fresh)
	for _, file := range files {
		path := filepath.Join(t.TempDir(), "old.db")
		require.NoError(t, os.WriteFile(path, unpack(t, filepath.Base(file)), 0o600))
		require.NoError(t, openSQLite(t, path).Close())
		require.Equal(t, want, schemaOf(t, path), file)
	}
}

// schemaOf returns the indices of a file, and the keys of its tables: their columns may be in another order, or more.
func schemaOf(t *testing.T, path string) (all []string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(t.Context(), `select m.name || ' ' || i.name || ' ' || i."unique" || ' ' || i.partial || ' ' || (select group_concat(name) from pragma_index_info(i.name)) || ' ' ||
		coalesce((select sql from sqlite_schema x where x.type = 'index' and x.name = i.name), '')
		from sqlite_schema m, pragma_index_list(m.name) i where m.type = 'table' order by 1`)
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		all = append(all, line)
	}
	require.NoError(t, rows.Err())
	return all
}

func TestOldExports(t *testing.T) {
	t.Parallel()
	dirs, err := filepath.Glob("testdata/*/*.jsonl")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(dirs), 20)
	cairntest.Replay(t, "testdata/*/*.jsonl", definitions()...)
}
