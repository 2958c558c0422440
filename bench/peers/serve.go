package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// serveCommand is the first argument of a process that runs one system for the benchmark.
const serveCommand = "serve"

// command asks for one turn.
type command struct {
	Runs  int `json:"runs"`
	Steps int `json:"steps"`
}

// answer says that the system is ready, or what a turn took.
type answer struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_us"`
	Error   string  `json:"error,omitempty"`
}

// setup is where a system finds its database.
type setup struct {
	store string
	dir   string // empty, for files
	url   string // of an empty PostgreSQL database
	sync  string // SQLite's synchronous, for peers
}

// system is an engine that can run the workloads.
type system interface {
	// complete starts runs of so many steps from all submitters, and returns when each of them is durably complete.
	complete(ctx context.Context, runs, steps int) error
	// check looks into the database, after the turn, whether so many runs are complete since the system was opened.
	check(ctx context.Context, runs int) error
	close(ctx context.Context) error
}

func openSystem(ctx context.Context, name string, s setup) (system, error) {
	switch name {
	case "cairn":
		return openCairn(ctx, s)
	case "river":
		return openRiver(ctx, s, riverDefaults())
	case "river-tuned":
		return openRiver(ctx, s, riverTuned())
	case "temporal":
		return openTemporal(ctx, s)
	default:
		return nil, fmt.Errorf("unknown system %q", name)
	}
}

// serveMain is the whole life of such a process. It ends when its standard input does.
func serveMain(args []string) int {
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // the parent hears them, too, and ends this process in good order
	flags := flag.NewFlagSet(serveCommand, flag.ContinueOnError)
	name := flags.String("system", "", "what to run")
	var s setup
	flags.StringVar(&s.store, "store", "", "sqlite or postgres")
	flags.StringVar(&s.dir, "dir", "", "an empty directory")
	flags.StringVar(&s.url, "url", "", "an empty PostgreSQL database")
	flags.StringVar(&s.sync, "sync", "full", "SQLite's synchronous")
	if flags.Parse(args) != nil {
		return 2
	}
	if err := serve(context.Background(), *name, s, os.Stdin, json.NewEncoder(os.Stdout)); err != nil {
		fmt.Fprintf(os.Stderr, "peers: %s: %v\n", *name, err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, name string, s setup, in io.Reader, out *json.Encoder) error {
	living, end := context.WithCancel(ctx)
	defer end()
	commands := make(chan command)
	go func() {
		defer close(commands)
		defer end() // also in the middle of a turn
		for decoder := json.NewDecoder(in); ; {
			var c command
			if decoder.Decode(&c) != nil {
				return
			}
			commands <- c
		}
	}()
	opening, cancel := context.WithTimeout(living, patience)
	defer cancel()
	sys, err := openSystem(opening, name, s)
	if err != nil {
		return errors.Join(err, out.Encode(answer{Error: err.Error()}))
	}
	err = out.Encode(answer{})
	total := 0
	for c := range commands {
		total += c.Runs
		err = errors.Join(err, out.Encode(work(living, sys, c, total)))
	}
	closing, stop := context.WithTimeout(ctx, 15*time.Second)
	defer stop()
	return errors.Join(err, sys.close(closing))
}

// work does one turn. What the check costs is not counted.
func work(ctx context.Context, sys system, c command, total int) answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cpu, began := ownCPU(), time.Now()
	err := sys.complete(ctx, c.Runs, c.Steps)
	a := answer{Seconds: time.Since(began).Seconds(), CPU: ownCPU() - cpu}
	if err == nil {
		err = sys.check(ctx, total)
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

// submit shares runs out among the submitters, and waits for them.
func submit(ctx context.Context, runs int, some func(ctx context.Context, n int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range submitters {
		n := runs / submitters
		if i < runs%submitters {
			n++
		}
		g.Go(func() error { return some(ctx, n) })
	}
	return g.Wait()
}
