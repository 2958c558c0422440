package sqlite_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

func requireCode(t *testing.T, code cairnerr.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, cairnerr.CodeOf(err), "%v", err)
}

// newFile returns the path of a database that was made and closed again.
func newFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cairn.db")
	s, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	return path
}

// change runs statements on a file behind the store's back.
func change(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	for _, statement := range statements {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
}

// writing opens a writer, and checks that it can write.
func writing(t *testing.T, s *sqlite.Store) *sqlite.Writer {
	t.Helper()
	w, err := s.OpenWriter(t.Context(), newID(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	require.NoError(t, create(t.Context(), w, newID(), nil))
	writer, ok := w.(*sqlite.Writer)
	require.True(t, ok)
	return writer
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	garbage := func(t *testing.T, content []byte) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "notes.txt")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return path
	}
	for _, test := range []struct {
		name string
		path func(t *testing.T) string
		cfg  *sqlite.Config
		code cairnerr.Code
	}{
		{"Directory", func(t *testing.T) string { t.Helper(); return t.TempDir() }, nil, cairnerr.CodeUnreachable},
		{"DirectoryToRead", func(t *testing.T) string { t.Helper(); return t.TempDir() }, &sqlite.Config{ReadOnly: true}, cairnerr.CodeUnreachable},
		{"EmptyPath", func(*testing.T) string { return "" }, nil, cairnerr.CodeMalformed},
		{"EmptySchemaTable", func(t *testing.T) string {
			t.Helper()
			path := newFile(t)
			change(t, path, `delete from cairn_schema`)
			return path
		}, nil, cairnerr.CodeSchemaForeign},
		{"MissingDirectory", func(t *testing.T) string { t.Helper(); return filepath.Join(t.TempDir(), "none", "cairn.db") }, nil, cairnerr.CodeUnreachable},
		{"MissingFileToRead", func(t *testing.T) string { t.Helper(); return filepath.Join(t.TempDir(), "cairn.db") }, &sqlite.Config{ReadOnly: true}, cairnerr.CodeUnreachable},
		{"NewerSchema", func(t *testing.T) string {
			t.Helper()
			path := newFile(t)
			change(t, path, `update cairn_schema set version = 99, oldest = 99`)
			return path
		}, nil, cairnerr.CodeSchemaTooNew},
		{"NewerSchemaWithoutLog", func(t *testing.T) string {
			t.Helper()
			path := newFile(t)
			change(t, path, `update cairn_schema set version = 99, oldest = 98`, `pragma journal_mode = delete`)
			return path
		}, nil, cairnerr.CodeSchemaTooNew},
		{"NewerSchemaToRead", func(t *testing.T) string {
			t.Helper()
			path := newFile(t)
			change(t, path, `update cairn_schema set version = 99, oldest = 99`)
			return path
		}, &sqlite.Config{ReadOnly: true}, cairnerr.CodeSchemaTooNew},
		{"NoTablesToRead", func(t *testing.T) string {
			t.Helper()
			path := filepath.Join(t.TempDir(), "users.db")
			change(t, path, `create table orders (id integer)`)
			return path
		}, &sqlite.Config{ReadOnly: true}, cairnerr.CodeReadOnly},
		{"NotADatabase", func(t *testing.T) string {
			t.Helper()
			return garbage(t, bytes.Repeat([]byte("dear diary "), 1000))
		}, nil, cairnerr.CodeSchemaForeign},
		{"NotADatabaseToRead", func(t *testing.T) string {
			t.Helper()
			return garbage(t, bytes.Repeat([]byte("dear diary "), 1000))
		}, &sqlite.Config{ReadOnly: true}, cairnerr.CodeSchemaForeign},
		{"NulInPath", func(*testing.T) string { return "a\x00b" }, nil, cairnerr.CodeMalformed},
		{"SomebodyElsesSchemaTable", func(t *testing.T) string {
			t.Helper()
			path := filepath.Join(t.TempDir(), "users.db")
			change(t, path, `create table cairn_schema (height integer)`, `insert into cairn_schema values (3)`)
			return path
		}, nil, cairnerr.CodeSchemaForeign},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := test.path(t)
			before := snapshot(t, path)
			_, err := sqlite.Open(t.Context(), path, test.cfg)
			requireCode(t, test.code, err)
			require.Equal(t, before, snapshot(t, path), "what is refused stays as it is")
		})
	}
}

// snapshot returns the files beside a path, and what is in them. Who reads a file with a log leaves an empty one, and its shared memory.
func snapshot(t *testing.T, path string) map[string]string {
	t.Helper()
	all := map[string]string{}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	require.NoError(t, err)
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			content = []byte(err.Error()) // a directory
		}
		if sum := sha256.Sum256(content); !strings.HasSuffix(name, "-shm") && (len(content) > 0 || !strings.HasSuffix(name, "-wal")) {
			all[name] = hex.EncodeToString(sum[:])
		}
	}
	return all
}

func TestOpenNewerCompatibleSchema(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	change(t, path, `update cairn_schema set version = 99, oldest = 1`)
	s := open(t, path, nil)
	writing(t, s)
	info, err := s.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, 99, info.SchemaVersion)
}

func TestOpenStrangeNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ünïcode", "a b", "100%25", "a?mode=ro", "a#b", "it's", "file:x", `a\b`} {
		path := filepath.Join(t.TempDir(), name)
		s := open(t, path, nil)
		writing(t, s)
		info, err := s.Info(t.Context())
		require.NoError(t, err)
		require.Equal(t, path, info.Location)
		require.FileExists(t, path)
		runs, err := open(t, path, &sqlite.Config{ReadOnly: true}).Runs(t.Context(), namespace, store.RunFilter{}, store.Page{})
		require.NoError(t, err)
		require.Len(t, runs.Data, 1)
	}
}

// The user's own tables may live in the same file.
func TestOpenUsersFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "users.db")
	change(t, path, `create table orders (id integer)`, `insert into orders values (7)`)
	writing(t, open(t, path, nil))
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	var id int
	require.NoError(t, db.QueryRowContext(t.Context(), `select id from orders`).Scan(&id))
	require.Equal(t, 7, id)
}

func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cairn.db")
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			s, err := sqlite.Open(context.Background(), path, nil)
			if err == nil {
				err = s.Close()
			}
			errs[i] = err
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	requireMigratedOnce(t, path)
}

func requireMigratedOnce(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	var rows int
	require.NoError(t, db.QueryRowContext(t.Context(), `select count(*) from cairn_schema`).Scan(&rows))
	require.Equal(t, 1, rows)
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cairn.db")
	writer := open(t, path, nil)
	writing(t, writer)
	s := open(t, path, &sqlite.Config{ReadOnly: true})
	runs, err := s.Runs(t.Context(), namespace, store.RunFilter{}, store.Page{})
	require.NoError(t, err)
	require.Len(t, runs.Data, 1)
	_, err = s.OpenWriter(t.Context(), newID(), 0)
	requireCode(t, cairnerr.CodeReadOnly, err)
	requireCode(t, cairnerr.CodeReadOnly, s.Fence(t.Context(), newID()))
	// What others write is seen.
	writing(t, writer)
	runs, err = s.Runs(t.Context(), namespace, store.RunFilter{}, store.Page{})
	require.NoError(t, err)
	require.Len(t, runs.Data, 2)
}

// A writer whose file cannot be written says so, writes nothing, and goes on when it can.
func TestWriterFails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		break_, fix string
		code        cairnerr.Code
	}{
		{"DiskFull", `pragma max_page_count = 60`, `pragma max_page_count = 1000000`, cairnerr.CodeDiskFull},
		{"QueryOnly", `pragma query_only = 1`, `pragma query_only = 0`, cairnerr.CodeReadOnly},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, filepath.Join(t.TempDir(), "cairn.db"), nil)
			w := writing(t, s)
			require.NoError(t, w.Exec(t.Context(), test.break_))
			run := newID()
			large := bytes.Repeat([]byte("x"), 1<<20)
			for range 3 {
				requireCode(t, test.code, create(t.Context(), w, run, large))
				_, err := s.Run(t.Context(), namespace, run, store.ResolveNone)
				requireCode(t, cairnerr.CodeRunNotFound, err)
			}
			require.NoError(t, w.Exec(t.Context(), test.fix))
			require.NoError(t, create(t.Context(), w, run, large))
			_, err := s.Run(t.Context(), namespace, run, store.ResolveNone)
			require.NoError(t, err)
		})
	}
}

// One connection is enough to answer every question.
func TestOneReader(t *testing.T) {
	t.Parallel()
	for _, path := range []string{filepath.Join(t.TempDir(), "cairn.db"), ":memory:"} {
		s := open(t, path, &sqlite.Config{Readers: 1})
		w := writing(t, s)
		run := newID()
		require.NoError(t, create(t.Context(), w, run, nil, journal.Event{Key: "a", Data: &journal.StepCompleted{}}))
		step := journal.DeriveID(run, journal.PrefixStep, "a")
		again := s
		if path != ":memory:" {
			again = open(t, path, &sqlite.Config{Readers: 1}) // one that knows no names yet
		}
		_, err := again.Journal(t.Context(), namespace, run, 0)
		require.NoError(t, err)
		_, err = again.Step(t.Context(), namespace, run, step, store.ResolveAll)
		require.NoError(t, err)
		_, err = again.Steps(t.Context(), namespace, run, store.ResolveAll, store.Page{})
		require.NoError(t, err)
		events, err := again.Events(t.Context(), namespace, store.EventFilter{Entity: step}, store.Page{})
		require.NoError(t, err)
		require.Len(t, events.Data, 1)
		runs, err := again.Runs(t.Context(), namespace, store.RunFilter{Workflow: workflow}, store.Page{})
		require.NoError(t, err)
		require.Len(t, runs.Data, 2)
	}
}

func TestMemoriesAreApart(t *testing.T) {
	t.Parallel()
	one, two := open(t, ":memory:", nil), open(t, ":memory:", nil)
	writing(t, one)
	runs, err := two.Runs(t.Context(), namespace, store.RunFilter{}, store.Page{})
	require.NoError(t, err)
	require.Empty(t, runs.Data)
}

// Pragmas that are given twice hold as they were given last, whatever the driver makes of their order.
func TestOpen_Pragmas_LastOfANameHolds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pragmas                     []string
		writer, reader, synchronous string
	}{
		{nil, "-4096", "-65536", "2"},
		{[]string{"cache_size(5)"}, "5", "5", "2"},
		{[]string{"cache_size(-1)", "synchronous(extra)"}, "-1", "-1", "3"},
	} {
		over := sqlite.Over{Checkpoint: 60, Pragmas: c.pragmas}
		s, err := sqlite.OpenOver(t.Context(), filepath.Join(t.TempDir(), "x.db"), over)
		require.NoError(t, err)
		got, err := s.WriterPragma(t.Context(), "cache_size")
		require.NoError(t, err)
		require.Equal(t, c.writer, got)
		got, err = s.ReaderPragma(t.Context(), "cache_size")
		require.NoError(t, err)
		require.Equal(t, c.reader, got)
		got, err = s.WriterPragma(t.Context(), "synchronous")
		require.NoError(t, err)
		require.Equal(t, c.synchronous, got)
		require.NoError(t, s.Close())
	}
}
