// Package program has what the programs among the examples share: how they begin and how they end.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cairn-workflow/cairn"
)

// Main runs a program with its arguments. The first signal ends its context, the second one the process.
func Main(name string, run func(ctx context.Context, args []string, out io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Lease is short in the examples: a process that was killed keeps what it was doing until its lease is over.
const Lease = 3 * time.Second

// grace is how long steps that are under way may take to come to their end. Nothing is lost if they do not: they are done again at the
// next start.
const grace = 2 * time.Second

// WithEngine calls f with an engine, and stops it. If ctx ended, that is said in the words of stopped, and no error.
func WithEngine(ctx context.Context, st cairn.Store, lease time.Duration, workflows []cairn.Definition, f func(*cairn.Engine) error, out io.Writer, stopped string) error {
	eng, err := cairn.NewWith(ctx, st, cairn.Config{Lease: lease}, workflows...)
	if err != nil {
		return err
	}
	err = f(eng)
	last, done := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer done()
	err = errors.Join(err, eng.Stop(last))
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(out, "\nStopped. "+stopped)
		return nil
	}
	return err
}
