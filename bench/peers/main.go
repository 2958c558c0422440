// Command peers measures Cairn beside other engines, on the same machine, in the same minutes.
//
//	go run -C bench/peers . [-json] [-peer cairn|river|river-tuned|temporal|all] [-store sqlite|postgres|all] [-runs N] [-seconds N]
//
// Cairn and the peer work in turns, each in a process and on a database of its own, so that noise hits both. The figure to look at is
// the ratio, the median over the pairs of turns. README.md says what is compared, and how fair that is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// options are what the command line says.
type options struct {
	runs    int
	seconds float64
	sync    string
}

// cell is one workload of one peer on one store.
type cell struct {
	bench string
	steps int
	peer  string
	store string
}

// cells lists all that can be measured. River has no steps within a job; Temporal's dev server has no PostgreSQL. Cairn beside itself
// shows how much the machine's noise can do to a ratio.
func cells() []cell {
	return []cell{
		{"w1", 1, "cairn", "sqlite"},
		{"w1", 1, "cairn", "postgres"},
		{"w1", 1, "river", "sqlite"},
		{"w1", 1, "river", "postgres"},
		{"w1", 1, "river-tuned", "sqlite"},
		{"w1", 1, "river-tuned", "postgres"},
		{"w1", 1, "temporal", "sqlite"},
		{"w10", 10, "temporal", "sqlite"},
	}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == serveCommand {
		os.Exit(serveMain(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print one JSON object a line")
	peer := flags.String("peer", "all", "cairn, river, river-tuned, temporal or all")
	store := flags.String("store", "all", "sqlite, postgres or all")
	var o options
	flags.IntVar(&o.runs, "runs", 0, "runs in each turn of either side; 0: 20,000 steps for Cairn, and for the peer what fills its turn, at most as many")
	flags.Float64Var(&o.seconds, "seconds", 9, "seconds for each cell, after the warm-up; at least three pairs are measured")
	flags.StringVar(&o.sync, "peer-sync", "full", "the peers' SQLite setting synchronous: full, as Cairn's, or normal, which a power cut may undo")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.sync != "full" && o.sync != "normal" {
		return fmt.Errorf("unknown -peer-sync %q: want full or normal", o.sync)
	}
	if o.runs < 0 || o.seconds <= 0 {
		return errors.New("-runs and -seconds must be positive")
	}
	chosen, err := choose(*peer, *store)
	if err != nil {
		return err
	}
	out := newReport(w, *asJSON)
	for _, c := range chosen {
		began := time.Now()
		r, err := c.measure(ctx, o)
		if err != nil {
			return errors.Join(fmt.Errorf("%s of %s on %s: %w", c.bench, c.peer, c.store, err), out.flush())
		}
		if err := out.add(r); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s beside %s on %s took %s\n", c.bench, c.peer, c.store, time.Since(began).Round(time.Second))
	}
	return out.flush()
}

// choose returns the cells of a peer on a store.
func choose(peer, store string) ([]cell, error) {
	all := cells()
	if peer != "all" && !slices.ContainsFunc(all, func(c cell) bool { return c.peer == peer }) {
		return nil, fmt.Errorf("unknown peer %q: want cairn, river, river-tuned, temporal or all", peer)
	}
	if store != "all" && store != "sqlite" && store != "postgres" {
		return nil, fmt.Errorf("unknown store %q: want sqlite, postgres or all", store)
	}
	all = slices.DeleteFunc(all, func(c cell) bool {
		return peer != "all" && peer != c.peer || store != "all" && store != c.store
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("nothing to measure: %s does not run on %s here", peer, store)
	}
	return all, nil
}
