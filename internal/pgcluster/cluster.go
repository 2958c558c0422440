package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// dirPrefix starts the name of each cluster's directory.
const dirPrefix = "cairn-pg-"

// patience is how long a server may take to obey a signal before the next, ruder one is sent.
const patience = 10 * time.Second

// Ports are drawn from below the range that systems hand out for outgoing connections, so that a port is still free when a
// stopped cluster starts again. portTries is how many ports New tries before it gives up.
const (
	firstPort = 20000
	lastPort  = 32000
	portTries = 5
)

// ErrRemoved is returned by Start and Restart once Stop has removed the cluster.
var ErrRemoved = errors.New("pgcluster: the cluster was stopped and removed")

// Options say what kind of cluster New makes. The zero value is the one for tests.
type Options struct {
	// Durable keeps the server's own defaults for fsync, synchronous_commit and full_page_writes, as a benchmark needs, and
	// a test that crashes the server. Without it all three are off: faster, and an orderly stop keeps all data, but
	// StopImmediate loses the commits of the last moments although they were acknowledged.
	Durable bool
}

// Cluster is one PostgreSQL server with a data directory and a port of its own. Its methods may be called by several
// goroutines at once; they wait for each other.
type Cluster struct {
	opts  Options
	tools tools
	dir   string
	port  int
	owner *os.File

	mu      sync.Mutex
	server  *process // nil when the server is down
	removed bool
}

// New makes a cluster and starts it. It returns an error that wraps [ErrNotInstalled] if the machine has no PostgreSQL
// server. The caller must call [Cluster.Stop].
func New(ctx context.Context, opts Options) (*Cluster, error) {
	found, err := findTools()
	if err != nil {
		return nil, err
	}
	removeOrphans(os.TempDir())
	cluster := &Cluster{opts: opts, tools: found}
	if err := cluster.create(ctx); err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	if err := cluster.startOnFreePort(ctx); err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return cluster, nil
}

// URL is the address of the database postgres, for the superuser postgres. It stays the same when the server is restarted.
func (c *Cluster) URL() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", c.port)
}

// Dir is the directory that holds the data (data) and the server's log (server.log).
func (c *Cluster) Dir() string { return c.dir }

// PID is the process id of the running server, or 0 when it is down.
func (c *Cluster) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running() {
		return 0
	}
	return c.server.pid()
}

// Start starts a stopped server on the same data and the same port, and returns when it accepts connections. It does
// nothing if the server is running.
func (c *Cluster) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.start(ctx)
}

// Restart stops the server in an orderly way, which cuts all its connections, and starts it again.
func (c *Cluster) Restart(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.halt(syscall.SIGINT); err != nil {
		return err
	}
	return c.start(ctx)
}

// StopImmediate ends the server without a checkpoint, like a crash: the next Start recovers from the write-ahead log. No
// acknowledged commit is lost if the cluster is Durable.
func (c *Cluster) StopImmediate() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.halt(syscall.SIGQUIT)
}

// Stop ends the server and removes its directory. Further calls do nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed {
		return nil
	}
	if err := c.halt(syscall.SIGINT); err != nil {
		return err
	}
	if c.dir == "" {
		return nil
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("pgcluster: remove: %w", err)
	}
	c.removed = true
	return c.owner.Close()
}

// create makes the directory and runs initdb.
func (c *Cluster) create(ctx context.Context) (err error) {
	c.dir, c.owner, err = makeOwnedDir(os.TempDir())
	if err != nil {
		return err
	}
	if err := giveAway(c.dir); err != nil {
		return err
	}
	args := []string{"--pgdata=" + c.dataDir(), "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"}
	if !c.opts.Durable {
		args = append(args, "--no-sync")
	}
	return run(ctx, c.dir, c.tools.initdb, args...)
}

func (c *Cluster) startOnFreePort(ctx context.Context) error {
	var err error
	for range portTries {
		if c.port, err = freePort(ctx); err != nil {
			return err
		}
		if err = c.Start(ctx); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// start starts the server unless it runs. The caller holds mu.
func (c *Cluster) start(ctx context.Context) error {
	if c.removed {
		return ErrRemoved
	}
	if c.running() {
		return nil
	}
	server, err := spawn(c.dir, c.logPath(), c.tools.postgres, c.serverArgs()...)
	if err != nil {
		return err
	}
	c.server = server
	if err := c.waitReady(ctx); err != nil {
		return errors.Join(err, c.halt(syscall.SIGQUIT))
	}
	return nil
}

// halt ends the server with the signal, and with ruder ones if it does not obey in time. The caller holds mu.
func (c *Cluster) halt(signal syscall.Signal) error {
	if c.server == nil {
		return nil
	}
	if !slices.ContainsFunc([]syscall.Signal{signal, syscall.SIGQUIT, syscall.SIGKILL}, c.server.stop) {
		return fmt.Errorf("pgcluster: server %d does not end", c.server.pid())
	}
	c.server = nil
	return nil
}

// running reports whether the server is up; a server that died by itself is not. The caller holds mu.
func (c *Cluster) running() bool { return c.server != nil && !c.server.ended() }

func (c *Cluster) dataDir() string { return filepath.Join(c.dir, "data") }

func (c *Cluster) logPath() string { return filepath.Join(c.dir, "server.log") }

func (c *Cluster) serverArgs() []string {
	settings := []string{
		"listen_addresses=127.0.0.1",
		"port=" + strconv.Itoa(c.port),
		"unix_socket_directories=",
		"max_connections=100",
	}
	if !c.opts.Durable {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off")
	}
	args := []string{"-D", c.dataDir()}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// freePort returns a port of the loopback interface that nobody listens on at the moment.
func freePort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	var lastErr error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		listener, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			lastErr = err
			continue
		}
		return port, listener.Close()
	}
	return 0, fmt.Errorf("pgcluster: no free port: %w", lastErr)
}
