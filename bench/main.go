// Command bench measures Cairn, each time beside what the bare database does in the same moment.
//
//	go run ./bench [-json] [-store sqlite|postgres|all] [-seconds N] WORKLOAD…
//
// The store alone: append, growth, read, list, search. The engine: w1, w10, w1-closed and w10-closed (how much), latency, hook, fan and starttx (how soon),
// waiting (runs that sleep), cold (a new process), fork and steps (a long run). Streams: chunks (how much), lag (how soon). Without a WORKLOAD all are run.
//
// Machines are noisy, so the figure to look at is the ratio: both sides run in turns within one process. docs/benchmarks.md
// explains the workloads and keeps results.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

// workload is one thing to measure on one database.
type workload struct {
	name  string
	about string
	run   func(ctx context.Context, db *database, o options, out *report) error
}

// options are what the command line says.
type options struct {
	seconds int
	least   int
	slice   time.Duration
	callers []int
	events  int
	runs    int
	waiting int
	steps   int
	server  string // "": a throw-away PostgreSQL for each workload
}

// pairs is how often the sides of a cell have their turns.
func (o options) pairs() int { return max(o.least, o.seconds/2) }

func workloads() []workload {
	return []workload{
		// First: what others leave in this process's memory would count as that of the runs that sleep.
		{"waiting", "runs that sleep: start them, keep them, wake them", waitingWorkload},
		{"append", "whole runs through the committer, event by event, beside plain inserts", appendWorkload},
		{"growth", "append while the database grows to a million events", growthWorkload},
		{"read", "point reads of runs, beside point reads of plain rows", readWorkload},
		{"list", "pages of a million runs: the first beside the thousandth", listWorkload},
		{"search", "a page of a million runs by their attributes, beside one without a filter", searchWorkload},
		{"w1", "a backlog of one-step runs, 64 submitters, until all have ended", backlog("w1", 1)},
		{"w10", "the same with ten steps, one after the other", backlog("w10", 10)},
		{"w1-closed", "start a one-step run and wait for it, 1, 64 and 1000 callers", closedLoop("w1-closed", 1, 1, 64, 1000)},
		{"w10-closed", "the same with ten steps, 1 and 64 callers", closedLoop("w10-closed", 10, 1, 64)},
		{"fan", "one run with 500 parallel steps", fanWorkload},
		{"latency", "one one-step run after the other, from start to result", latencyWorkload},
		{"hook", "one waiting run after the other, from what is sent to it to its result", hookWorkload},
		{"starttx", "runs that are started in a transaction of the user's, and how soon after its commit they begin", starttxWorkload},
		{"cold", "a new process, from its start to the result of its first run", coldWorkload},
		{"fork", "a fork of a long run, beside loading that run", forkWorkload},
		{"chunks", "chunks of streams, 64 steps that write, beside plain inserts with 64 callers", chunksWorkload},
		{"lag", "a chunk, from being written until a reader has it, in the same process and in another", lagWorkload},
		{"steps", "what a step costs at the end of a long run, beside its beginning", stepsWorkload},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, w io.Writer) error {
	if len(args) == 2 && args[0] == childFlag {
		return runChild(ctx, args[1], w)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print one JSON object a line")
	which := flags.String("store", "all", "sqlite, postgres or all")
	seconds := flags.Int("seconds", 10, "seconds for each cell")
	least := flags.Int("pairs", 5, "the least pairs of slices to measure for each cell, however long it takes")
	callers := flags.String("callers", "1,16,64,256,1000", "callers at the same time, for append")
	events := flags.Int("events", 1_000_000, "events to grow to, for growth")
	slice := flags.Duration("slice", time.Second, "how long one side runs before the other has its turn")
	profile := flags.String("cpuprofile", "", "write a CPU profile to this file")
	runs := flags.Int("runs", 1_000_000, "runs to list, for list and search; the most that read, w1 and w10 make")
	waiting := flags.Int("runs-waiting", 100_000, "runs that sleep, for waiting; a fifth as many are woken")
	steps := flags.Int("steps", 10_000, "steps of the long run, for steps")
	server := flags.String("postgres", "", "URL of a PostgreSQL server where databases may be created, or CAIRN_BENCH_POSTGRES_URL; without one, each workload starts its own")
	flags.Usage = func() { usage(flags) }
	if err := flags.Parse(args); err != nil {
		return err
	}
	o := options{seconds: *seconds, least: max(1, *least), slice: *slice, events: *events, runs: *runs, waiting: *waiting, steps: *steps, server: cmp.Or(*server, os.Getenv("CAIRN_BENCH_POSTGRES_URL"))}
	for text := range strings.SplitSeq(*callers, ",") {
		var n int
		if _, err := fmt.Sscanf(text, "%d", &n); err != nil || n < 1 {
			return fmt.Errorf("bad number of callers %q", text)
		}
		o.callers = append(o.callers, n)
	}
	chosen, err := choose(flags.Args())
	if err != nil {
		return err
	}
	kinds, err := storeKinds(*which)
	if err != nil {
		return err
	}
	if *profile != "" {
		stop, err := startProfile(*profile)
		if err != nil {
			return err
		}
		defer stop()
	}
	out := newReport(w, *asJSON)
	for _, kind := range kinds {
		if err := runStore(ctx, kind, chosen, o, out); err != nil {
			return err
		}
	}
	return out.flush()
}

// startProfile profiles this process until the returned function is called.
func startProfile(path string) (stop func(), err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, nil
}

func usage(flags *flag.FlagSet) {
	fmt.Fprintln(flags.Output(), "usage: go run ./bench [flags] [WORKLOAD…]\n\nworkloads (all if none is named):")
	for _, wl := range workloads() {
		fmt.Fprintf(flags.Output(), "  %-10s %s\n", wl.name, wl.about)
	}
	fmt.Fprintln(flags.Output(), "\nflags:")
	flags.PrintDefaults()
}

func choose(names []string) ([]workload, error) {
	all := workloads()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []workload
	for _, name := range names {
		i := slices.IndexFunc(all, func(w workload) bool { return w.name == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown workload %q; go run ./bench -h lists them", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func storeKinds(which string) ([]string, error) {
	switch which {
	case "all":
		return []string{kindSQLite, kindPostgres}, nil
	case kindSQLite, kindPostgres:
		return []string{which}, nil
	default:
		return nil, fmt.Errorf("unknown store %q: want sqlite, postgres or all", which)
	}
}

// runStore gives each workload a database of its own.
func runStore(ctx context.Context, kind string, chosen []workload, o options, out *report) error {
	for _, wl := range chosen {
		began := time.Now()
		db, err := openDatabase(ctx, kind, o.server)
		if err != nil {
			return err
		}
		err = wl.run(ctx, db, o, out)
		err = errors.Join(err, db.close())
		if err != nil {
			return fmt.Errorf("%s on %s: %w", wl.name, kind, err)
		}
		fmt.Fprintf(os.Stderr, "%s on %s took %s\n", wl.name, kind, time.Since(began).Round(time.Second))
	}
	return nil
}
