// Package pgtest gives each test an empty PostgreSQL database of its own.
//
// A package whose tests use it has
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// and calls [URL] where it needs a database. The server is the one that CAIRN_TEST_POSTGRES_URL names, or else a throw-away
// cluster that the test process starts at the first call and stops at its end. Without a server the tests are skipped, and
// Main says so; CAIRN_REQUIRE_POSTGRES=1 makes them fail instead.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/internal/pgcluster"
)

const (
	// URLVariable names the server to use, as a postgres:// URL of a user who may create databases.
	URLVariable = "CAIRN_TEST_POSTGRES_URL"
	// RequireVariable set to 1 makes a test fail, not skip, where there is no PostgreSQL server.
	RequireVariable = "CAIRN_REQUIRE_POSTGRES"
)

// timeout bounds the start of the cluster and each statement on it.
const timeout = time.Minute

const skipped = "SKIPPED: PostgreSQL tests did not run: no server found; `make setup` installs it"

// shared is the cluster of this process, and anySkipped tells whether a test had to do without.
var (
	shared     = lazy{start: startCluster}
	anySkipped atomic.Bool
)

// URL returns the address of a fresh, empty database, which is dropped when the test ends, open connections or not.
func URL(tb testing.TB) string {
	tb.Helper()
	server, err := serverURL()
	switch {
	case errors.Is(err, pgcluster.ErrNotInstalled) && os.Getenv(RequireVariable) != "1":
		anySkipped.Store(true)
		tb.Skip(skipped)
	case err != nil:
		tb.Fatalf("PostgreSQL is needed: %v", err)
	}
	name := "cairn_test_" + rand.Text()
	database, err := withDatabase(server, name)
	if err != nil {
		tb.Fatal(err)
	}
	quoted := pgx.Identifier{name}.Sanitize()
	if err := execute(tb.Context(), server, "CREATE DATABASE "+quoted); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := execute(context.WithoutCancel(tb.Context()), server, "DROP DATABASE "+quoted+" WITH (FORCE)"); err != nil {
			tb.Error(err)
		}
	})
	return database
}

// Main runs the tests of a package, stops the cluster if there is one, and exits.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is [Main] for who has more to do before the process exits. It returns the exit code.
func Run(m *testing.M) int {
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if anySkipped.Load() {
		fmt.Fprintf(os.Stderr, "\n*** %s ***\n\n", skipped)
	}
	return code
}

// serverURL is the address of the server, which is started if need be.
func serverURL() (string, error) {
	if address := os.Getenv(URLVariable); address != "" {
		return address, nil
	}
	cluster, err := shared.get()
	if err != nil {
		return "", err
	}
	return cluster.URL(), nil
}

// withDatabase returns the address of another database on the same server.
func withDatabase(server, name string) (string, error) {
	address, err := url.Parse(server)
	if err != nil || (address.Scheme != "postgres" && address.Scheme != "postgresql") {
		return "", fmt.Errorf("pgtest: %s must be a postgres:// URL", URLVariable)
	}
	address.Path = "/" + name
	return address.String(), nil
}

// execute runs a statement on a connection of its own.
func execute(ctx context.Context, server, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

func startCluster() (*pgcluster.Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return pgcluster.New(ctx, pgcluster.Options{})
}

// lazy is a cluster that starts when it is first asked for.
type lazy struct {
	start   func() (*pgcluster.Cluster, error)
	once    sync.Once
	cluster *pgcluster.Cluster
	err     error
}

func (l *lazy) get() (*pgcluster.Cluster, error) {
	l.once.Do(func() { l.cluster, l.err = l.start() })
	return l.cluster, l.err
}

func (l *lazy) stop() error {
	l.once.Do(func() {})
	if l.cluster == nil {
		return nil
	}
	return l.cluster.Stop()
}
