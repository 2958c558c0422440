package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/open"
)

// runChange does something to one run.
type runChange struct {
	system                          *System
	store, namespace, reason, actor string
	// check finds mistakes in the command line; nil: there can be no more.
	check func() error
	// do does it, and returns what to say about it.
	do func(ctx context.Context, e *cairn.Engine, run string) (string, error)
}

// command makes the command of a change.
func (c *runChange) command(verb, short, long, example string) *cobra.Command {
	command := &cobra.Command{
		Use: verb + " RUN", Short: short, Long: text(long) + "\n\n" + exitCodes, Example: text(example), Args: oneRun, RunE: c.run,
	}
	storeFlag(command, &c.store)
	namespaceFlag(command, &c.namespace)
	return command
}

// noted adds the flags that say why, and who wants it. They are noted with the run.
func (c *runChange) noted(command *cobra.Command) *cobra.Command {
	command.Flags().StringVar(&c.reason, "reason", "", "`why`, noted with the run")
	return c.signed(command)
}

func (c *runChange) signed(command *cobra.Command) *cobra.Command {
	command.Flags().StringVar(&c.actor, "actor", "", "`who` wants it, noted with the run (default $USER, else cairn)")
	return command
}

func (c *runChange) run(command *cobra.Command, args []string) error {
	id, err := parseRun(args[0])
	if err != nil {
		return err
	}
	if !utf8.ValidString(c.reason + c.actor) {
		return &usageError{errors.New("--reason and --actor must be UTF-8")}
	}
	if c.check != nil {
		if err := c.check(); err != nil {
			return &usageError{err}
		}
	}
	ctx := command.Context()
	found := func(db store.Store) error {
		_, err := db.Run(ctx, c.namespace, id, store.ResolveNone)
		return err
	}
	var said string
	err = c.withEngine(ctx, found, func(e *cairn.Engine) (err error) {
		said, err = c.do(ctx, e, args[0])
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(c.system.Out, said)
	return nil
}

// withEngine calls f with an engine that executes nothing. It looks first: a database that is not there, or is of an
// older version, must not be made or changed by this.
func (c *runChange) withEngine(ctx context.Context, look func(store.Store) error, f func(*cairn.Engine) error) error {
	db, err := c.system.openToRead(ctx, c.store)
	if err != nil {
		return err
	}
	if err := errors.Join(look(db), db.Close()); err != nil {
		return err
	}
	c.actor = cmp.Or(c.actor, c.system.Getenv("USER"), "cairn")
	if db, err = open.URL(ctx, storeURL(c.store, c.system)); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(c.system.Err, &slog.HandlerOptions{Level: slog.LevelError}))
	e, err := cairn.NewWith(ctx, store.NewHandle(db), cairn.Config{Namespace: c.namespace, Logger: log})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	return errors.Join(f(e), e.Stop(context.WithoutCancel(ctx)), db.Close())
}

func newRunsCancel(s *System) *cobra.Command {
	c := &runChange{system: s}
	c.do = func(ctx context.Context, e *cairn.Engine, run string) (string, error) {
		if err := e.Run(run).By(c.actor).Cancel(ctx, c.reason); err != nil {
			return "", err
		}
		if info, err := e.Run(run).Describe(ctx); err != nil || !info.EndedAt.IsZero() {
			return run + " has ended", err // it had not begun
		}
		return run + " was asked to stop: its program cleans up, and ends it", nil
	}
	return c.noted(c.command("cancel", "Ask a run to stop", `
		Asks a run to stop. Its context ends; its code can clean up, and then returns. Its children are asked to stop too.
		To end a run whose code does not return, see "cairn runs terminate".`, `
		  cairn runs cancel wrun_01JD0000000000000000000000 --reason "the customer changed her mind"`))
}

func newRunsTerminate(s *System) *cobra.Command {
	c := &runChange{system: s}
	c.do = func(ctx context.Context, e *cairn.Engine, run string) (string, error) {
		return run + " has ended", e.Run(run).By(c.actor).Terminate(ctx, c.reason)
	}
	return c.noted(c.command("terminate", "End a run and its children at once, without clean-up", `
		Ends a run and its children at once. Its code cannot clean up; with "cairn runs cancel" it can.`, `
		  cairn runs terminate wrun_01JD0000000000000000000000 --reason "it never ends"`))
}

func newRunsPause(s *System) *cobra.Command {
	c := &runChange{system: s}
	c.do = func(ctx context.Context, e *cairn.Engine, run string) (string, error) {
		return run + " is paused\nnext: cairn runs resume " + run, e.Run(run).By(c.actor).Pause(ctx, c.reason)
	}
	return c.noted(c.command("pause", "Pause a run until it is resumed", `
		Pauses a run: no program executes it until "cairn runs resume". Values that are sent to it meanwhile are kept.`, `
		  cairn runs pause wrun_01JD0000000000000000000000 --reason "the bank is down"`))
}

func newRunsPollNow(s *System) *cobra.Command {
	c := &runChange{system: s}
	c.do = func(ctx context.Context, e *cairn.Engine, run string) (string, error) {
		if err := e.Run(run).PollNow(ctx); err != nil {
			return "", err
		}
		if info, err := e.Run(run).Describe(ctx); err != nil || !info.EndedAt.IsZero() {
			return run + " has ended: nothing is polled any more", err
		}
		return "the polls of " + run + " check now", nil
	}
	return c.command("poll-now", "Make the polls of a run check now", `
		Makes the polls of a run check at once, without waiting for their next interval. A run that has no polls, or has ended, is left as
		it is; a paused run checks when it is resumed.`, `
		  cairn runs poll-now wrun_01JD0000000000000000000000`)
}

func newRunsFork(s *System) *cobra.Command {
	c, fork := &runChange{system: s}, cairn.Fork{}
	c.check = func() error {
		if slices.Contains(fork.Drop, "") {
			return errors.New("--drop names no key")
		}
		if (fork.From == "") == (len(fork.Drop) == 0) {
			return errors.New("use either --from or --drop to choose what is done again")
		}
		return nil
	}
	c.do = func(ctx context.Context, e *cairn.Engine, run string) (string, error) {
		fork.Reason, fork.Actor = c.reason, c.actor
		made, err := e.Run(run).Fork(ctx, fork)
		if err != nil {
			return "", err
		}
		return made.ID() + " is a fork of " + run + "\nnext: cairn runs show " + made.ID(), nil
	}
	command := c.noted(c.command("fork", "Make a new run that keeps results of another one", `
		Makes a new run that keeps results of another one and does the rest again. The other run is not touched. The keys of steps are
		those that "cairn runs show" lists.`, `
		  cairn runs fork wrun_01JD0000000000000000000000 --from charge
		  cairn runs fork wrun_01JD0000000000000000000000 --drop charge --drop mail --reason "the price was wrong"`))
	command.Flags().StringVar(&fork.From, "from", "", "do this `key` again, and everything that first appears later in the history")
	command.Flags().StringArrayVar(&fork.Drop, "drop", nil, "do this `key` again, and keep everything else; may be repeated")
	command.Flags().StringVar(&fork.StartKey, "start-key", "", "`key` of the fork: using it again makes no second fork")
	return command
}

func newRunsDelete(s *System) *cobra.Command {
	c, yes := &runChange{system: s}, false
	c.check = func() error {
		if !yes {
			return errors.New("a deleted run is gone for good: confirm with --yes")
		}
		return nil
	}
	c.do = func(ctx context.Context, e *cairn.Engine, run string) (string, error) {
		return run + " was deleted", e.Run(run).Delete(ctx)
	}
	command := c.command("delete", "Remove a run that has ended, and everything that belongs to it", `
		Removes a run that has ended, with its journal, streams and lines. Its children and forks stay: they are runs of their own. "cairn
		export" keeps a copy.`, `
		  cairn runs delete wrun_01JD0000000000000000000000 --yes`)
	command.Flags().BoolVar(&yes, "yes", false, "really remove it")
	return command
}
