// Command importer imports a file of customers into a database, in batches, some at a time. One row of the file is bad, so the import fails; when the
// row is corrected, the run is forked: what was imported is kept, and only the batch with the bad row, and what was left, is done.
//
//	go run ./examples/importer          # stop it with Ctrl-C or kill -9, and start it again: it goes on
//	go run ./examples/importer -fix     # corrects the row, and forks the run that failed
//	go run ./examples/importer -list    # imports, by how far they have come
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/examples/internal/program"
	"github.com/cairn-workflow/cairn/examples/internal/show"
	"github.com/cairn-workflow/cairn/store/open"
)

func main() { program.Main("importer", run) }

// settings are what the command line says.
type settings struct {
	db, dir         string
	rows            int
	batch, parallel int
	pace, lease     time.Duration
	fix, list       bool
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	began := time.Now()
	var set settings
	flags := flag.NewFlagSet("importer", flag.ExitOnError)
	flags.StringVar(&set.db, "db", "importer.db", "where the runs are kept: a SQLite file, or postgres://…")
	flags.StringVar(&set.dir, "dir", "importer.data", "a folder for the files and for the target, which is made if it is missing")
	flags.IntVar(&set.rows, "rows", 5000, "how many rows a new file has")
	flags.IntVar(&set.batch, "batch", 200, "how many rows are imported at once")
	flags.IntVar(&set.parallel, "parallel", 4, "how many batches are imported at the same time")
	flags.DurationVar(&set.pace, "pace", 800*time.Millisecond, "how long a batch takes at least, so that there is something to see")
	flags.DurationVar(&set.lease, "lease", program.Lease, "how long a process that was killed keeps what it was doing")
	flags.BoolVar(&set.fix, "fix", false, "correct the file of the import that failed last, and fork its run")
	flags.BoolVar(&set.list, "list", false, "list the imports, and do nothing else")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := os.MkdirAll(set.dir, 0o700); err != nil {
		return err
	}
	st, err := open.URL(ctx, set.db)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, st.Close()) }()
	i := newImporter(set.dir, set.pace, &target{path: filepath.Join(set.dir, "target.db")})
	work := func(eng *cairn.Engine) error {
		switch {
		case set.list:
			return list(ctx, eng, out)
		case set.fix:
			return i.fixAndWatch(ctx, eng, out)
		default:
			return i.startAndWatch(ctx, eng, began, set, out)
		}
	}
	workflows := []cairn.Definition{i.workflow}
	if set.list {
		workflows = nil // it looks at runs, and executes none
	}
	return program.WithEngine(ctx, st, set.lease, workflows, work, out, "Start it again, and it goes on with the batches that are left.")
}

// startAndWatch starts an import, or finds the one that an earlier process has left, and shows it until it has ended.
func (i *importer) startAndWatch(ctx context.Context, eng *cairn.Engine, began time.Time, set settings, out io.Writer) error {
	number, unfinished, err := show.Next(ctx, eng, began, cairn.Filter{Workflow: i.workflow.Name()})
	if err != nil {
		return err
	}
	if unfinished {
		fmt.Fprintf(out, "Import %d goes on (%s).\n\n", number, show.AfterKill)
		run, err := i.unfinished(ctx, eng)
		if err != nil {
			return err
		}
		return i.watch(ctx, eng, run, out)
	}
	if failed, err := i.lastFailed(ctx, eng); err != nil || failed != nil {
		if err == nil {
			fmt.Fprintf(out, "The last import failed: %v\nRun it with -fix.\n", failed.Error)
		}
		return err
	}
	job := Job{File: fmt.Sprintf("customers-%d.csv", number), Batch: set.batch, Parallel: set.parallel}
	if err := generate(filepath.Join(i.dir, job.File), set.rows); err != nil {
		return err
	}
	fmt.Fprintf(out, "Import %d: %s. %s\n\n", number, job.File, show.StopMe)
	// The start key makes it safe to repeat: a run that was started before is found by it.
	run, err := i.workflow.Start(ctx, eng, job, cairn.Key(fmt.Sprint("import ", number)),
		cairn.Attributes(map[string]string{show.Number: strconv.Itoa(number)}),
		cairn.WithAttributes(attrFile.Value(job.File), attrStage.Value("planning"), attrPercent.Value(0)))
	if err != nil {
		return err
	}
	return i.watch(ctx, eng, run, out)
}

// unfinished returns the import that an earlier process has left.
func (i *importer) unfinished(ctx context.Context, eng *cairn.Engine) (*cairn.Run[Report], error) {
	page, err := eng.List(ctx, cairn.Filter{
		Workflow: i.workflow.Name(), Status: []cairn.Status{cairn.StatusPending, cairn.StatusRunning}, NewestFirst: true, Limit: 1,
	})
	if err != nil {
		return nil, err
	}
	if len(page.Runs) == 0 { // it has ended meanwhile
		return nil, errors.New("the import has just ended: start it again")
	}
	return i.workflow.Get(ctx, eng, page.Runs[0].ID)
}

// lastFailed returns the last import, if it failed.
func (i *importer) lastFailed(ctx context.Context, eng *cairn.Engine) (*cairn.RunInfo, error) {
	page, err := eng.List(ctx, cairn.Filter{Workflow: i.workflow.Name(), NewestFirst: true, Limit: 1})
	if err != nil || len(page.Runs) == 0 || page.Runs[0].Status != cairn.StatusFailed {
		return nil, err
	}
	return eng.Run(page.Runs[0].ID).Describe(ctx)
}

// watch shows an import until it has ended, and tells how.
func (i *importer) watch(ctx context.Context, eng *cairn.Engine, r *cairn.Run[Report], out io.Writer) error {
	if err := show.Resume(ctx, eng, r.ID()); err != nil {
		return err
	}
	if err := show.Watch(ctx, eng, out, show.Options{Title: title, Caption: caption}, r.ID()); err != nil {
		return err
	}
	report, err := r.Result(ctx)
	switch {
	case errors.Is(err, errBadRow):
		fmt.Fprintf(out, "\nThe import failed: %v\nRun it with -fix: it corrects the row, and keeps what is imported.\n", err)
		return nil
	case err != nil:
		return err
	}
	fmt.Fprintf(out, "\n%d rows are imported in %d batches. They come to %d.%02d.\n", report.Rows, report.Batches, report.Cents/100, report.Cents%100)
	return nil
}

func title(info *cairn.RunInfo) string {
	file, _ := attrFile.Of(info)
	if info.ForkOfID != "" {
		return "import " + file + " (fork)"
	}
	return "import " + file
}

// caption shows how many batches are imported, of those that the first step has found.
func caption(r *show.Run) string {
	row := r.Row("plan")
	if row == nil || row.State != show.Done {
		return ""
	}
	var plan Plan
	if err := row.Result(&plan); err != nil || len(plan.Batches) == 0 {
		return ""
	}
	done := r.Done("import")
	return fmt.Sprintf("%s %d of %d batches, %d rows", show.Bar(float64(done)/float64(len(plan.Batches)), 30), done, len(plan.Batches), plan.Rows)
}
