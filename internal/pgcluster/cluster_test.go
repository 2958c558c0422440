package pgcluster

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// newCluster starts a cluster that the test may or may not stop.
func newCluster(t *testing.T, opts Options) *Cluster {
	t.Helper()
	cluster, err := New(t.Context(), opts)
	if errors.Is(err, ErrNotInstalled) && os.Getenv("CAIRN_REQUIRE_POSTGRES") != "1" {
		t.Skip("SKIPPED: no PostgreSQL server; `make setup` installs it")
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	return cluster
}

// query returns the one text value that the statement gives.
func query(t *testing.T, cluster *Cluster, statement string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), cluster.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	var value string
	require.NoError(t, conn.QueryRow(t.Context(), statement).Scan(&value))
	return value
}

func execute(t *testing.T, cluster *Cluster, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), cluster.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	_, err = conn.Exec(t.Context(), statement)
	require.NoError(t, err)
}

func TestClusterLife(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t, Options{})
	address := cluster.URL()
	require.Equal(t, "off", query(t, cluster, "SHOW fsync"))
	require.Equal(t, "off", query(t, cluster, "SHOW synchronous_commit"))
	require.Equal(t, "100", query(t, cluster, "SHOW max_connections"))
	require.Equal(t, "127.0.0.1", query(t, cluster, "SHOW listen_addresses"))
	require.Empty(t, query(t, cluster, "SHOW unix_socket_directories"))
	execute(t, cluster, "CREATE TABLE kept AS SELECT 'one'::text AS word")

	first := cluster.PID()
	require.NoError(t, cluster.Start(t.Context()), "a start of a running server does nothing")
	require.Equal(t, first, cluster.PID())

	require.NoError(t, cluster.Restart(t.Context()))
	require.NotEqual(t, first, cluster.PID())
	require.Equal(t, address, cluster.URL())
	require.Equal(t, "one", query(t, cluster, "SELECT word FROM kept"))

	last := cluster.PID()
	require.NoError(t, cluster.Stop())
	requireGone(t, last, address)
	require.NoDirExists(t, cluster.Dir())
	require.NoError(t, cluster.Stop(), "a second stop does nothing")
	require.ErrorIs(t, cluster.Start(t.Context()), ErrRemoved)
	require.ErrorIs(t, cluster.Restart(t.Context()), ErrRemoved)
}

func TestDurableLosesNoCommit(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t, Options{Durable: true})
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		require.Equal(t, "on", query(t, cluster, "SHOW "+setting), setting)
	}
	execute(t, cluster, "CREATE TABLE kept AS SELECT 'one'::text AS word")
	require.NoError(t, cluster.StopImmediate())
	require.NoError(t, cluster.StopImmediate(), "a second stop does nothing")
	require.Zero(t, cluster.PID())
	_, err := pgx.Connect(t.Context(), cluster.URL())
	require.Error(t, err, "the server is down")
	require.NoError(t, cluster.Start(t.Context()))
	require.Equal(t, "one", query(t, cluster, "SELECT word FROM kept"), "recovered from the log")
}

func TestStartAfterTheServerDied(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t, Options{Durable: true})
	execute(t, cluster, "CREATE TABLE kept AS SELECT 'one'::text AS word")
	require.NoError(t, cluster.server.cmd.Process.Kill())
	<-cluster.server.done
	require.Zero(t, cluster.PID())
	require.Eventually(t, func() bool { return cluster.Start(t.Context()) == nil }, patience, pollInterval,
		"once the orphaned backends are gone")
	require.Equal(t, "one", query(t, cluster, "SELECT word FROM kept"))
}

func TestFailedStartQuotesTheLog(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t, Options{})
	require.NoError(t, cluster.StopImmediate())
	require.NoError(t, os.Remove(filepath.Join(cluster.dataDir(), "PG_VERSION")))
	err := cluster.Start(t.Context())
	require.ErrorContains(t, err, "server ended while starting")
	require.ErrorContains(t, err, "PG_VERSION")
	require.Zero(t, cluster.PID())
}

func TestNewestTools(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	_, err := newestTools(filepath.Join(root, "absent"))
	require.ErrorIs(t, err, ErrNotInstalled)
	_, err = newestTools(root)
	require.ErrorIs(t, err, ErrNotInstalled)
	for _, name := range []string{"9.6/bin/initdb", "9.6/bin/postgres", "15/bin/initdb", "15/bin/postgres", "16/bin/psql", "man/bin/x"} {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o755))
	}
	found, err := newestTools(root)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(root, "15/bin/postgres"), found.postgres, "16 has no server")
}

// hostPort returns the address that a URL points to.
func hostPort(t *testing.T, address string) string {
	t.Helper()
	parsed, err := url.Parse(address)
	require.NoError(t, err)
	return parsed.Host
}
