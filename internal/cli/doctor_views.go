package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	checks "github.com/cairn-workflow/cairn/internal/store/check"
)

const (
	// quickRuns is how many runs --quick looks at.
	quickRuns = 1000
	// clockSkew is how far the clocks of this machine and of those that write may differ.
	clockSkew = time.Minute
)

// views holds what the database shows of its runs against their journals.
func (d *doctor) views(ctx context.Context, db store.Reader) error {
	line := &progress{system: d.system}
	o := checks.Options{
		Now:      func() journal.Time { return journal.TimeOf(d.system.Now().Add(clockSkew)) },
		Progress: func(c checks.Counts) { line.show("      views       " + amount(c.Runs, "run") + " checked …") },
	}
	if d.quick {
		o.Newest = quickRuns
	}
	found, err := checks.All(ctx, db, o)
	line.clear()
	d.report.setViews(found)
	if len(found.Differences) > 0 {
		d.differing(found)
	}
	if err != nil {
		return d.failed(ctx, "views", fmt.Errorf("after %s: %w", amount(found.Runs, "run"), err))
	}
	if len(found.Differences) == 0 {
		d.ok("views", fmt.Sprintf("%s with %s in %s equal their journals", d.runs(found), amount(found.Events, "event"), amount(found.Namespaces, "namespace")))
	}
	if found.Unknown > 0 {
		d.add(check{
			Name: "views", Status: statusWarn, Message: amount(found.Unknown, "run") + " of a newer program could not be checked",
			Next: "check them with the newest version of cairn",
		})
	}
	if found.Moving > 0 {
		d.add(check{
			Name: "views", Status: statusWarn, Message: amount(found.Moving, "run") + " changed all the time and could not be checked",
			Next: "run the doctor again when the database is less busy",
		})
	}
	return nil
}

// runs says which runs were compared.
func (d *doctor) runs(found *checks.Report) string {
	compared := amount(found.Runs-found.Unknown-found.Moving, "run")
	if d.quick && found.Runs >= quickRuns {
		return "the newest " + compared
	}
	return compared
}

func (d *doctor) differing(found *checks.Report) {
	d.add(check{
		Name: "views", Status: statusFail, Code: cairnerr.CodeCorrupt,
		Message: fmt.Sprintf("%d of %s differ from their journals", found.Differing, amount(found.Runs, "run")),
		Next:    "the journal is the truth: keep a copy of the database, and report this with the output of: cairn doctor --json",
	})
}

// failed shows an error and goes on, unless the doctor was interrupted.
func (d *doctor) failed(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return err
	}
	d.fail(name, err)
	return nil
}
