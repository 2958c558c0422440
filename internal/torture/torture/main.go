// Command torture hurts real processes on a real database, and then asks whether the promises were kept.
//
//	go run ./internal/torture/torture --store both --minutes 10
//
// It prints a table and exits with 1 if something was found; then the database, the diaries and the logs are kept. With --other, every second worker
// executes another program: this one, built from an earlier commit. Where that is possible (Linux, root), the database is on a small file system
// in memory, which is full from time to time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cairn-workflow/cairn/internal/torture"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
}

// run is one of the three programs that this one is.
func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "worker":
			return torture.Worker(ctx, args[1:])
		case "client":
			return torture.Client(ctx, args[1:])
		}
	}
	return orchestrate(ctx, args)
}

func orchestrate(ctx context.Context, args []string) error {
	var o torture.Options
	f := flag.NewFlagSet("torture", flag.ContinueOnError)
	minutes := f.Float64("minutes", 1, "how long the processes are hurt, on each store")
	which := f.String("store", "both", "sqlite, postgres or both")
	f.Uint64Var(&o.Seed, "seed", 0, "from which orders and blows follow; 0: a new one")
	f.StringVar(&o.Other, "other", "", "another version of this program, for every second worker")
	f.DurationVar(&o.Every, "every", time.Second, "how often a blow comes, on average")
	f.DurationVar(&o.Lease, "lease", 1500*time.Millisecond, "after which a silent process is taken for dead")
	f.DurationVar(&o.Settle, "settle", 2*time.Minute, "how long the runs may take to end when nothing is hurt any more")
	f.Float64Var(&o.Rate, "rate", 15, "runs that are started in a second")
	f.IntVar(&o.Workers, "workers", 4, "processes that execute runs")
	f.IntVar(&o.Clients, "clients", 2, "processes that start runs")
	f.StringVar(&o.Dir, "dir", "", "where everything is; what is found is kept there")
	f.BoolVar(&o.Keep, "keep", false, "keep everything, also if nothing was found")
	if err := f.Parse(args); err != nil {
		return err
	}
	if again, err := torture.Alone(ctx, args); again {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	o.Program, o.For = program, time.Duration(*minutes*float64(time.Minute))
	if o.Seed == 0 {
		o.Seed = rand.Uint64N(1_000_000) + 1
	}
	o.Say = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	stores := []string{*which}
	if *which == "both" {
		stores = []string{torture.SQLite, torture.Postgres}
	}
	return all(ctx, o, stores)
}

// all tortures one store after the other, and prints what was found.
func all(ctx context.Context, o torture.Options, stores []string) error {
	var reports []*torture.Report
	var errs []error
	found := 0
	for _, o.Store = range stores {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("%s was not tortured: %w", o.Store, ctx.Err()))
			break
		}
		fmt.Fprintf(os.Stderr, "%s: seed %d, %s\n", o.Store, o.Seed, o.For)
		r, err := torture.Run(ctx, o)
		errs = append(errs, err)
		if r == nil {
			continue
		}
		reports = append(reports, r)
		r.Print(os.Stderr)
		found += len(r.Findings)
	}
	if found > 0 {
		errs = append(errs, fmt.Errorf("%d findings with seed %d", found, o.Seed))
	}
	return errors.Join(torture.Table(os.Stdout, reports...), errors.Join(errs...))
}
