// Package cli is Cairn's command line, one file per noun.
//
// Commands write their answer to standard output, and what goes wrong to standard error with what to do next. Lists and
// reports have --json. Colour and progress are for terminals only.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
)

// The exit codes. They are part of the interface: scripts depend on them.
const (
	ExitOK      = 0 // all went well
	ExitProblem = 1 // something is wrong, or could not be done
	ExitUsage   = 2 // the command line cannot be understood
)

const exitCodes = `Exit codes:
  0  success
  1  problems were found, or the command could not be carried out
  2  the command line cannot be understood`

// System is what a command sees of the world.
type System struct {
	Out, Err io.Writer
	// OutTerminal and ErrTerminal say that people are watching.
	OutTerminal, ErrTerminal bool
	Getenv                   func(string) string
	// Now is asked by several goroutines.
	Now func() time.Time
}

// Main runs the command line of this process and returns its exit code.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	return Run(ctx, os.Args[1:], &System{
		Out: os.Stdout, Err: os.Stderr,
		OutTerminal: isatty.IsTerminal(os.Stdout.Fd()), ErrTerminal: isatty.IsTerminal(os.Stderr.Fd()),
		Getenv: os.Getenv, Now: time.Now,
	})
}

// Run carries out a command line and returns its exit code.
func Run(ctx context.Context, args []string, s *System) int {
	out := &answer{to: s.Out}
	own := *s
	own.Out = out
	s = &own
	root := newRoot(s)
	root.SetArgs(args)
	understood := false // what goes wrong before a command begins is the command line's fault
	root.PersistentPreRun = onStart(&understood)
	command, err := root.ExecuteContextC(ctx)
	if err == nil && out.err != nil { // half an answer is none
		fmt.Fprintf(s.Err, "cairn: the answer could not be written: %v\nnext: make room where it goes, and try again\n", out.err)
		return ExitProblem
	}
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, errProblems):
		return ExitProblem // they were shown
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		fmt.Fprintln(s.Err, "cairn: interrupted")
		return ExitProblem
	}
	var bad *usageError
	if !understood || errors.As(err, &bad) {
		fmt.Fprintf(s.Err, "cairn: %v\nnext: %s --help shows the usage\n", err, command.CommandPath())
		return ExitUsage
	}
	fmt.Fprintf(s.Err, "cairn: %v\nnext: %s\n", err, advice(err))
	return ExitProblem
}

// answer is standard output. It remembers what could not be written.
type answer struct {
	to  io.Writer
	err error
}

func (a *answer) Write(p []byte) (int, error) {
	n, err := a.to.Write(p)
	if a.err == nil {
		a.err = err
	}
	return n, err
}

// errProblems ends a command that has shown the problems itself.
var errProblems = errors.New("problems were found")

// usageError is a mistake in the command line that a command finds when it has begun.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }
