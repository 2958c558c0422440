package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/store"
)

// runsResume resumes one run, or all that are parked.
type runsResume struct {
	runChange

	parked, dryRun, asJSON bool
	workflow               string
}

func newRunsResume(s *System) *cobra.Command {
	r := &runsResume{runChange: runChange{system: s}}
	r.do = func(ctx context.Context, e *cairn.Engine, run string) (string, error) {
		return run + " goes on", e.Run(run).By(r.actor).Resume(ctx)
	}
	command := r.signed(r.command("resume", "Resume a run that is paused or parked, or all that are parked", `
		Resumes a run that was paused, or parked because its code could not go on. With --parked, it resumes all parked
		runs, and shows why they were parked; use it after you have started a corrected program. Paused runs are left alone.`, `
		  cairn runs resume wrun_01JD0000000000000000000000
		  cairn runs resume --parked --workflow checkout --dry-run
		  cairn runs resume --parked --workflow checkout`))
	command.Use = "resume RUN | --parked"
	command.Args = func(command *cobra.Command, args []string) error {
		if r.parked {
			return cobra.NoArgs(command, args)
		}
		return oneRun(command, args)
	}
	command.RunE = r.resume
	flags := command.Flags()
	flags.BoolVar(&r.parked, "parked", false, "resume all runs that are parked")
	flags.StringVar(&r.workflow, "workflow", "", "with --parked: runs of this `workflow` only")
	flags.BoolVar(&r.dryRun, "dry-run", false, "with --parked: only show which runs would go on")
	flags.BoolVar(&r.asJSON, "json", false, "with --parked: print one JSON object for each run")
	return command
}

func (r *runsResume) resume(command *cobra.Command, args []string) error {
	if r.parked {
		return r.resumeParked(command.Context())
	}
	if r.workflow != "" || r.dryRun || r.asJSON {
		return &usageError{errors.New("--workflow, --dry-run and --json are for --parked")}
	}
	return r.run(command, args)
}

// jsonResumed is a run that was parked, for programs.
type jsonResumed struct {
	ID       string `json:"id"`
	Workflow string `json:"workflow"`
	Reason   string `json:"reason,omitempty"`
}

func (r *runsResume) resumeParked(ctx context.Context) error {
	if !utf8.ValidString(r.actor) {
		return &usageError{errors.New("--actor must be UTF-8")}
	}
	var runs []*cairn.RunInfo
	anything := func(store.Store) error { return nil }
	err := r.withEngine(ctx, anything, func(e *cairn.Engine) (err error) {
		opts := []cairn.ResumeOption{cairn.ResumeBy(r.actor)}
		if r.dryRun {
			opts = append(opts, cairn.DryRun())
		}
		runs, err = e.ResumeParked(ctx, cairn.Filter{Workflow: r.workflow}, opts...)
		return err
	})
	r.print(runs) // also those before an error
	return err
}

func (r *runsResume) print(runs []*cairn.RunInfo) {
	if r.asJSON {
		for _, run := range runs {
			r.system.printJSON(&jsonResumed{run.ID, run.Workflow, run.Reason})
		}
		return
	}
	table := tabwriter.NewWriter(r.system.Out, 0, 0, 2, ' ', 0)
	for _, run := range runs {
		fmt.Fprintf(table, "%s\t%s\t%s\n", run.ID, printable(run.Workflow), printable(run.Reason))
	}
	_ = table.Flush()
	verb := "resumed"
	if r.dryRun {
		verb = "would be resumed"
	}
	fmt.Fprintf(r.system.Out, "%s %s\n", amount(len(runs), "run"), verb)
}
