// Command pgrun runs a command beside a throw-away PostgreSQL server.
//
//	go run ./internal/pgcluster/pgrun -- go test ./...
//
// The command finds the server's address in CAIRN_TEST_POSTGRES_URL. pgrun passes signals on to the command, stops the
// server when the command has ended, and exits as the command did. If the variable is set already, pgrun starts no server.
// If the machine has no PostgreSQL, the command runs without, unless CAIRN_REQUIRE_POSTGRES=1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/cairn-workflow/cairn/internal/pgcluster"
)

// What pgrun itself exits with: a wrong call, and a failure to start the server or the command.
const (
	exitUsage  = 2
	exitFailed = 125
)

// startTimeout bounds the start of the server.
const startTimeout = time.Minute

// The variables are those of package pgtest, which a program should not link.
const (
	urlVariable     = "CAIRN_TEST_POSTGRES_URL"
	requireVariable = "CAIRN_REQUIRE_POSTGRES"
)

func main() {
	durable := flag.Bool("durable", false, "keep the server's defaults for fsync and the like")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: pgrun [-durable] -- COMMAND [ARGUMENT...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(exitUsage)
	}
	os.Exit(run(pgcluster.Options{Durable: *durable}, flag.Args()))
}

// run starts the server, runs the command and returns the exit code.
func run(opts pgcluster.Options, command []string) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if os.Getenv(urlVariable) != "" {
		return execute(command, os.Environ(), signals)
	}
	cluster, err := start(opts, signals)
	if errors.Is(err, pgcluster.ErrNotInstalled) && os.Getenv(requireVariable) != "1" {
		fmt.Fprintln(os.Stderr, "pgrun: no PostgreSQL server found; `make setup` installs it. Running without.")
		return execute(command, os.Environ(), signals)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgrun:", err)
		return exitFailed
	}
	code := execute(command, append(os.Environ(), urlVariable+"="+cluster.URL()), signals)
	if err := cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "pgrun:", err)
		code = max(code, 1)
	}
	return code
}

// start starts the server; a signal gives up, and is kept for the command.
func start(opts pgcluster.Options, signals chan os.Signal) (*pgcluster.Cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	type result struct {
		cluster *pgcluster.Cluster
		err     error
	}
	started := make(chan result, 1)
	go func() {
		cluster, err := pgcluster.New(ctx, opts)
		started <- result{cluster, err}
	}()
	select {
	case done := <-started:
		return done.cluster, done.err
	case got := <-signals:
		cancel()
		done := <-started
		if done.cluster != nil {
			done.err = done.cluster.Stop()
		}
		return nil, errors.Join(fmt.Errorf("%v while the server was starting", got), done.err)
	}
}

// execute runs the command and passes signals on to it. A parent that ended without a word counts as SIGTERM.
func execute(command, environ []string, signals <-chan os.Signal) int {
	//nolint:noctx // it is ended by signals, in its own way
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = environ
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	parent := os.Getppid()
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "pgrun:", err)
		return exitFailed
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	orphaned := time.NewTicker(time.Second)
	defer orphaned.Stop()
	for {
		select {
		case err := <-ended:
			return exitCode(err)
		case got := <-signals:
			cmd.Process.Signal(got) //nolint:errcheck // fails only if it has just ended
		case <-orphaned.C:
			if os.Getppid() != parent {
				parent = os.Getppid()
				cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // as above
			}
		}
	}
}

// exitCode is what a shell would report for the way a command ended.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		fmt.Fprintln(os.Stderr, "pgrun:", err)
		return exitFailed
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}
