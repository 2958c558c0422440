package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/cairn-workflow/cairn"
)

// Job is what is to be imported, and how. All that decides in which order things are done is in it: a run goes on as it began, also in a process
// that was started with other flags.
type Job struct {
	File     string // in the folder of the importer
	Batch    int    // rows of a batch
	Parallel int    // batches at the same time
}

// Plan is what is in a file, and how it is cut. Batches are lines and not bytes: whoever corrects a row may change its length.
type Plan struct {
	Rows    int
	Batches []Batch
}

// Batch is some rows of a file, by their lines.
type Batch struct {
	File        string
	First, Last int
}

// Report is what is in the target when all is imported.
type Report struct {
	Rows    int
	Cents   int64
	Batches int
}

// The attributes of an import: it is found by them, also by how far it has come.
var (
	attrFile    = cairn.NewAttribute[string]("file")
	attrStage   = cairn.NewAttribute[string]("stage")
	attrPercent = cairn.NewAttribute[int]("percent")
)

// errBadRow is an error in the data: trying again is of no use.
var errBadRow = cairn.NewError("bad_row", "a row cannot be imported")

// importer has the workflow and its steps.
type importer struct {
	dir    string        // of the files
	pace   time.Duration // the least that a batch takes, so that there is something to see
	target *target

	workflow *cairn.Workflow[Job, Report]
	plan     cairn.Step[Job, Plan]
	batch    cairn.Step[Batch, int]
	verify   cairn.Step[Job, Report]
}

func newImporter(dir string, pace time.Duration, to *target) *importer {
	i := &importer{dir: dir, pace: pace, target: to}
	i.workflow = cairn.NewWorkflow("import", i.run)
	i.plan = cairn.NewStep("plan", i.planFile)
	i.verify = cairn.NewStep("verify", i.verifyTarget)
	// A target that is busy is tried again, a bad row is not. An attempt that takes so long hangs.
	i.batch = cairn.NewStep("import", i.importBatch).Timeout(time.Minute).Retry(cairn.RetryPolicy{
		Attempts: 5, First: 100 * time.Millisecond, Never: []cairn.Code{errBadRow.Code},
	})
	return i
}

// run is the workflow: it cuts the file into batches, imports them, some at a time, and looks at what is in the target.
func (i *importer) run(ctx cairn.Context, job Job) (Report, error) {
	// The file may change while it is imported. So how it is cut is decided once, in a step.
	plan, err := i.plan.Do(ctx, job)
	if err != nil {
		return Report{}, err
	}
	importOne := func(ctx cairn.Context, b Batch) (int, error) { return i.batch.Do(ctx, b) }
	done := 0
	for round := range slices.Chunk(plan.Batches, 2*job.Parallel) {
		if err := cairn.SetAttributes(ctx, attrStage.Value("importing"), attrPercent.Value(100*done/len(plan.Batches))); err != nil {
			return Report{}, err
		}
		// The key of a branch is its lines. By it a finished batch is found: after a crash, and in a fork.
		if _, err := cairn.Map(ctx, "batch", round, job.Parallel, importOne, cairn.KeyBy(Batch.key)); err != nil {
			return Report{}, err // the other batches of the round have ended: nothing that was begun is lost
		}
		done += len(round)
	}
	report, err := i.verify.Do(ctx, job)
	if err != nil {
		return Report{}, err
	}
	report.Batches = len(plan.Batches)
	return report, cairn.SetAttributes(ctx, attrStage.Value("imported"), attrPercent.Value(100))
}

func (b Batch) key() string { return fmt.Sprintf("%05d-%05d", b.First, b.Last) }

// planFile reads the file once and cuts it.
func (i *importer) planFile(ctx context.Context, job Job) (Plan, error) {
	if job.Batch < 1 || job.Parallel < 1 {
		return Plan{}, fmt.Errorf("a batch has %d rows, and %d are imported at the same time: at least 1 is needed", job.Batch, job.Parallel)
	}
	var p Plan
	for line, err := range readLines(filepath.Join(i.dir, job.File)) {
		switch {
		case err != nil:
			return Plan{}, err
		case ctx.Err() != nil:
			return Plan{}, context.Cause(ctx)
		case p.Rows%job.Batch == 0:
			p.Batches = append(p.Batches, Batch{File: job.File, First: line.number})
		}
		p.Rows++
		p.Batches[len(p.Batches)-1].Last = line.number
	}
	return p, nil
}

// pieces is in how many pieces a batch is checked.
const pieces = 5

// importBatch checks the rows of a batch, and writes them all at once. It is done again if its process dies before the outcome is recorded: what it
// writes is the same then, so the target is, too.
func (i *importer) importBatch(ctx context.Context, b Batch) (int, error) {
	var rows []Customer
	var bad []error
	size := b.Last - b.First + 1
	for line, err := range readLines(filepath.Join(i.dir, b.File)) {
		if err != nil {
			return 0, err
		}
		if line.number < b.First || line.number > b.Last {
			continue
		}
		row, err := parseCustomer(line.fields)
		if err != nil {
			bad = append(bad, fmt.Errorf("%s, line %d: %w", b.File, line.number, err))
		}
		rows = append(rows, row)
		if len(rows)%(size/pieces+1) == 0 || len(rows) == size {
			cairn.Progress(ctx, float64(len(rows))/float64(size), fmt.Sprintf("%d of %d rows", len(rows), size))
			if err := i.rest(ctx); err != nil {
				return 0, err
			}
		}
	}
	if len(rows) != size {
		return 0, fmt.Errorf("%s has %d rows in the lines %d to %d, and had %d: correct rows, and leave their number as it is", b.File, len(rows), b.First, b.Last, size)
	}
	if len(bad) > 0 {
		return 0, fmt.Errorf("%w: %w", errBadRow, errors.Join(bad...))
	}
	return len(rows), i.target.write(ctx, b.File, rows)
}

// rest lets some time pass.
func (i *importer) rest(ctx context.Context) error {
	if i.pace <= 0 {
		return nil
	}
	select {
	case <-time.After(i.pace / pieces):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// verifyTarget looks at what is in the target.
func (i *importer) verifyTarget(ctx context.Context, job Job) (Report, error) {
	var r Report
	var err error
	r.Rows, r.Cents, err = i.target.sum(ctx, job.File)
	return r, err
}
