package postgres

import (
	"context"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/store/migration"
)

func TestOpenAtOnce(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	const processes = 8
	var group sync.WaitGroup
	errs := make([]error, processes)
	stores := make([]*Store, processes)
	for i := range processes {
		group.Go(func() { stores[i], errs[i] = Open(t.Context(), address, &Config{MaxConns: 2}) })
	}
	group.Wait()
	for i := range processes {
		require.NoError(t, errs[i])
		info, err := stores[i].Info(t.Context())
		require.NoError(t, err)
		require.Equal(t, newestSchema(t), info.SchemaVersion)
		require.NoError(t, stores[i].Close())
	}
}

func TestOpenTwoSchemas(t *testing.T) {
	t.Parallel()
	a := newFixture(t)
	run := a.start()
	b := openFixture(t, a.url, &Config{Schema: "other"})
	_, err := b.Run(t.Context(), namespace, run.Run.ID, false)
	require.Equal(t, cairnerr.CodeRunNotFound, code(err))
}

func TestOpenNewerSchema(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.sql(`update schema_version set version = 99, oldest = 1`)
	s, err := Open(t.Context(), f.url, nil)
	require.NoError(t, err, "a newer schema that only adds things is fine")
	require.NoError(t, s.Close())
	f.sql(`update schema_version set oldest = 98`)
	_, err = Open(t.Context(), f.url, nil)
	require.Equal(t, cairnerr.CodeSchemaTooNew, code(err))
}

func TestOpenForeignSchema(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	conn, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `create schema cairn; create table cairn.runs (x integer)`)
	require.NoError(t, err)
	_, err = Open(t.Context(), address, nil)
	require.Equal(t, cairnerr.CodeSchemaForeign, code(err))
	var left int
	require.NoError(t, conn.QueryRow(t.Context(), `select count(*) from pg_tables where schemaname = 'cairn'`).Scan(&left))
	require.Equal(t, 1, left, "it is refused as it was")
	_, err = conn.Exec(t.Context(), `drop schema cairn cascade; create schema cairn; create table cairn.schema_version (v text)`)
	require.NoError(t, err)
	_, err = Open(t.Context(), address, nil)
	require.Equal(t, cairnerr.CodeSchemaForeign, code(err))
	require.NoError(t, conn.Close(t.Context()))
}

func TestOpenReadOnly(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), with(t, pgtest.URL(t), "default_transaction_read_only", "on"), nil)
	require.Equal(t, cairnerr.CodeReadOnly, code(err))
}

func TestOpenReadOnlyConfig(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	_, err := Open(t.Context(), address, &Config{ReadOnly: true})
	require.Equal(t, cairnerr.CodeReadOnly, code(err))
	require.Equal(t, "0", cairnerr.AsError(err).Details[migration.DetailVersion], "nothing was created")

	f := openFixture(t, address, nil)
	run := f.start()
	s, err := Open(t.Context(), address, &Config{ReadOnly: true})
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	_, err = s.Run(t.Context(), namespace, run.Run.ID, true)
	require.NoError(t, err)
	_, err = s.OpenWriter(t.Context(), f.mint(), 0)
	require.Equal(t, cairnerr.CodeReadOnly, code(err))
	all, err := s.Namespaces(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{namespace}, all)
}

func TestOpenRefusals(t *testing.T) {
	t.Parallel()
	const password = "xyzzy-plugh"
	for name, c := range map[string]struct {
		address string
		cfg     *Config
		want    cairnerr.Code
	}{
		"nobody there":     {"postgres://me:" + password + "@127.0.0.1:1/db", nil, cairnerr.CodeUnreachable},
		"no such host":     {"postgres://me:" + password + "@cairn.invalid/db", nil, cairnerr.CodeUnreachable},
		"bad port":         {"postgres://me:" + password + "@host:port/db", nil, cairnerr.CodeMalformed},
		"bad escape":       {"postgres://me:" + password + "%zz@host/db", nil, cairnerr.CodeMalformed},
		"password in text": {"host=127.0.0.1 port=1 password=" + password + " sslmode=strange", nil, cairnerr.CodeMalformed},
		"bad schema":       {"postgres://me:" + password + "@host/db", &Config{Schema: `x"; drop`}, cairnerr.CodeMalformed},
		"server's schema":  {"postgres://me:" + password + "@host/db", &Config{Schema: "pg_x"}, cairnerr.CodeMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := Open(ctx, c.address, c.cfg)
			require.Equal(t, c.want, code(err), err)
			require.NotContains(t, err.Error(), password)
		})
	}
}

func TestOpenWrongPassword(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	address.User = url.UserPassword("nobody_"+rest(address), "xyzzy-plugh")
	_, err = Open(t.Context(), address.String(), nil)
	require.Equal(t, cairnerr.CodeUnreachable, code(err))
	require.NotContains(t, err.Error(), "xyzzy-plugh")
}

// rest makes a user that does not exist out of a database's name.
func rest(address *url.URL) string { return address.Path[1:] }

func TestInfo(t *testing.T) {
	t.Parallel()
	f := openFixture(t, with(t, pgtest.URL(t), "synchronous_commit", "on"), nil)
	info, err := f.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, "postgres", info.Kind)
	require.NotEmpty(t, info.Version)
	require.Contains(t, info.Durability, "synchronous_commit=on")
	require.Positive(t, info.SizeBytes)
	require.NotContains(t, info.Location, "@")

	lax, err := Open(t.Context(), with(t, f.url, "synchronous_commit", "off"), nil)
	require.NoError(t, err)
	info, err = lax.Info(t.Context())
	require.NoError(t, err)
	require.Contains(t, info.Durability, "synchronous_commit=off")
	require.False(t, info.Durable)
	require.NoError(t, lax.Close())
}

func TestClosed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.NoError(t, f.Close())
	_, err := f.Run(t.Context(), namespace, f.mint(), true)
	require.Equal(t, cairnerr.CodeClosed, code(err))
	_, err = f.writer.Begin(t.Context(), f.now)
	require.Equal(t, cairnerr.CodeClosed, code(err))
	_, err = f.OpenWriter(t.Context(), f.self, 1)
	require.Equal(t, cairnerr.CodeClosed, code(err))
	_, err = f.Notifier().Listen(t.Context())
	require.Equal(t, cairnerr.CodeClosed, code(err))
}

// with adds a setting to a URL.
func with(tb testing.TB, address, name, value string) string {
	tb.Helper()
	u, err := url.Parse(address)
	require.NoError(tb, err)
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// newestSchema returns the version of the last migration.
func newestSchema(t *testing.T) int {
	t.Helper()
	all, err := migration.Read(migrations, "migrations")
	require.NoError(t, err)
	return len(all)
}
