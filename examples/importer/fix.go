package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/cairn-workflow/cairn"
)

// fixAndWatch corrects the file of the import that failed last, and goes on with a fork of its run. All of it can be repeated: a file that is correct stays
// so, and the start key finds a fork that was made before.
func (i *importer) fixAndWatch(ctx context.Context, eng *cairn.Engine, out io.Writer) error {
	failed, err := i.toFix(ctx, eng)
	if err != nil {
		return err
	}
	file, _ := attrFile.Of(failed)
	if err := correct(filepath.Join(i.dir, file)); err != nil {
		return err
	}
	again, kept, err := failedBatches(ctx, eng, failed.ID)
	if err != nil {
		return err
	}
	// Everything that the run has finished is kept, wherever it stands in the history; these are done again.
	fork, err := i.workflow.Fork(ctx, eng, failed.ID, cairn.Fork{
		Drop: again, StartKey: "fix of " + failed.ID, Reason: "the file is corrected", Actor: "importer -fix",
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s is corrected. %d batches are kept; again: %s.\n\n", file, kept, strings.Join(again, ", "))
	return i.watch(ctx, eng, fork, out)
}

// toFix returns the last import if it failed, or the one that the last was forked from.
func (i *importer) toFix(ctx context.Context, eng *cairn.Engine) (*cairn.RunInfo, error) {
	page, err := eng.List(ctx, cairn.Filter{Workflow: i.workflow.Name(), NewestFirst: true, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(page.Runs) > 0 {
		switch last := page.Runs[0]; {
		case last.Status == cairn.StatusFailed:
			return last, nil
		case last.ForkOfID != "" && last.EndedAt.IsZero(): // an earlier process has made the fork
			return eng.Run(last.ForkOfID).Describe(ctx)
		}
	}
	return nil, errors.New("there is no import that failed")
}

// failedBatches returns the keys of the batches of a run that failed, and how many were imported.
func failedBatches(ctx context.Context, eng *cairn.Engine, runID string) (failed []string, imported int, err error) {
	for event, err := range eng.Run(runID).History(ctx) {
		if err != nil {
			return nil, 0, err
		}
		switch {
		case event.Type == "step_failed":
			failed = append(failed, event.Key)
		case event.Type == "step_completed" && strings.HasPrefix(event.Key, "batch@"):
			imported++
		}
	}
	return failed, imported, nil
}

// list shows the imports by how far they have come: a search by an attribute.
func list(ctx context.Context, eng *cairn.Engine, out io.Writer) error {
	filter := cairn.Filter{Where: []cairn.Condition{attrPercent.Exists()}, NewestFirst: true}
	const row = "%-20s %-10s %-10s %4v %%  %s\n"
	for {
		page, err := eng.List(ctx, filter)
		if err != nil {
			return err
		}
		for _, info := range page.Runs {
			stage, _ := attrStage.Of(info)
			percent, _ := attrPercent.Of(info)
			of := ""
			if info.ForkOfID != "" {
				of = "fork of " + info.ForkOfID
			}
			file, _ := attrFile.Of(info)
			fmt.Fprintf(out, row, file, info.Status, stage, percent, of)
		}
		if !page.More {
			return nil
		}
		filter.Cursor = page.Cursor
	}
}
