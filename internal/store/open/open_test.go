package open_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/store/migration"
	"github.com/cairn-workflow/cairn/internal/store/open"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestSQLite(t *testing.T) {
	t.Parallel()
	dir := filepath.ToSlash(t.TempDir())
	for name, c := range map[string]struct{ url, file string }{
		"scheme":        {"sqlite:" + dir + "/a b.db", "a b.db"},
		"scheme as is":  {"sqlite:" + dir + "/a%20c.db", "a%20c.db"},
		"three slashes": {"SQLite://" + dir + "/three.db", "three.db"},
		"any ending":    {"sqlite:" + dir + "/noending", "noending"},
		"plain db":      {dir + "/plain.db", "plain.db"},
		"plain sqlite":  {dir + "/plain.sqlite", "plain.sqlite"},
		"plain sqlite3": {dir + "/plain.SQLITE3", "plain.SQLITE3"},
		"file":          {"file:" + dir + "/x%20y.db", "x y.db"},
		"file slashes":  {"file://" + dir + "/slashes.db", "slashes.db"},
		"file host":     {"file://localhost" + dir + "/host.db", "host.db"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := open.ReadOnly(t.Context(), c.url)
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.Equal(t, cairnerr.CodeUnreachable, cairnerr.CodeOf(err))

			s, err := open.URL(t.Context(), c.url)
			require.NoError(t, err)
			require.NoError(t, s.Close())
			require.FileExists(t, filepath.Join(dir, c.file))

			s, err = open.ReadOnly(t.Context(), c.url)
			require.NoError(t, err)
			info, err := s.Info(t.Context())
			require.NoError(t, err)
			require.Equal(t, "sqlite", info.Kind)
			require.Equal(t, "journal_mode=wal synchronous=full", info.Durability)
			require.True(t, info.Durable)
			location, err := open.Location(c.url)
			require.NoError(t, err)
			require.Equal(t, location, info.Location)
			_, err = s.OpenWriter(t.Context(), journal.ID{1}, 0)
			require.Error(t, err)
			require.NoError(t, s.Close())
		})
	}
}

func TestSQLiteReadOnlyLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "empty.db")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err := open.ReadOnly(t.Context(), path)
	require.Equal(t, cairnerr.CodeReadOnly, cairnerr.CodeOf(err))
	require.Equal(t, "0", cairnerr.AsError(err).Details[migration.DetailVersion])
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Empty(t, content)
}

func TestMemory(t *testing.T) {
	t.Parallel()
	s, err := open.URL(t.Context(), "sqlite::memory:")
	require.NoError(t, err)
	info, err := s.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, ":memory:", info.Location)
	require.False(t, info.Durable)
	require.NoError(t, s.Close())
	_, err = open.ReadOnly(t.Context(), "sqlite::memory:")
	require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err))
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	_, err := open.ReadOnly(t.Context(), url)
	require.Equal(t, cairnerr.CodeReadOnly, cairnerr.CodeOf(err))
	require.Equal(t, "0", cairnerr.AsError(err).Details[migration.DetailVersion])
	s, err := open.URL(t.Context(), url)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	s, err = open.ReadOnly(t.Context(), url)
	require.NoError(t, err)
	info, err := s.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, "postgres", info.Kind)
	require.NotEmpty(t, info.Durability)
	location, err := open.Location(url)
	require.NoError(t, err)
	require.Equal(t, location, info.Location)
	require.NoError(t, s.Close())
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	const password = "xyzzy-plugh"
	for name, url := range map[string]string{
		"empty":             "",
		"no ending":         "app",
		"other scheme":      "mysql://me:" + password + "@host/app.db",
		"no scheme":         "me:" + password + "@host/app.db",
		"password first":    password + ":x@host",
		"password scheme":   "Xyzzy_" + password + "://host",
		"postgres path":     "postgres:me:" + password + "@host/db",
		"sqlite no file":    "sqlite:",
		"sqlite folder":     "sqlite:///",
		"sqlite host":       "sqlite://me:" + password + "@host/app.db",
		"sqlite settings":   "sqlite:app.db?mode=" + password,
		"file settings":     "file:app.db?mode=" + password,
		"file host":         "file://" + password + "/app.db",
		"file escape":       "file:///" + password + "%zz.db",
		"file bad relative": "file:" + password + "%zz.db",
		"file memory":       "file::memory:",
		"postgres port":     "postgres://me:" + password + "@host:port/db",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := open.URL(t.Context(), url)
			require.Nil(t, s)
			require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err), "%v", err)
			require.NotContains(t, err.Error(), password)
			require.Contains(t, err.Error(), "postgres://user:password@host:port/database")
		})
	}
}

func TestLocation(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"sqlite:app.db":                            "app.db",
		"sqlite::memory:":                          ":memory:",
		"postgres://me:secret@host:5432/db":        "host:5432/db",
		"postgresql://host/db?password=secret":     "host/db",
		"postgres://me:1/secret@host/db":           "a PostgreSQL database",
		"postgres://me:secret@a:5432,b:5432/db":    "a:5432,b:5432/db",
		"POSTGRES://me:secret@host/db?sslmode=off": "host/db",
	} {
		got, err := open.Location(url)
		require.NoError(t, err)
		require.Equal(t, want, got, url)
	}
	_, err := open.Location("mysql://me:secret@host/db")
	require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err))
	require.NotContains(t, err.Error(), "secret")
}
