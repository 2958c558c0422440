package show

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/cairn-workflow/cairn"
)

// Number is the attribute in which a run carries the number that [Next] has given it.
const Number = "number"

// Next returns the number for the runs that a program is to start: that of runs which an earlier process has left unfinished when this one began, or
// else a new one. With a start key that is made of it, a run that was started before is found, and not started again.
func Next(ctx context.Context, eng *cairn.Engine, began time.Time, f cairn.Filter) (number int, unfinished bool, err error) {
	f.Limit, f.NewestFirst = 1, true
	open := f
	open.Status = []cairn.Status{cairn.StatusPending, cairn.StatusRunning}
	left, err := eng.List(ctx, open)
	if err != nil {
		return 0, false, err
	}
	if len(left.Runs) > 0 {
		number, err = numberOf(left.Runs[0])
		return number, true, err
	}
	last, err := eng.List(ctx, f)
	if err != nil || len(last.Runs) == 0 {
		return 1, false, err
	}
	number, err = numberOf(last.Runs[0])
	if last.Runs[0].EndedAt.Before(began.Truncate(time.Millisecond)) {
		return number + 1, false, err
	}
	return number, true, err // the engine works already, and was faster than the one who asks
}

func numberOf(info *cairn.RunInfo) (int, error) {
	n, err := strconv.Atoi(info.Attributes[Number])
	if err != nil {
		return 0, fmt.Errorf("run %s was not started by an example: %w", info.ID, err)
	}
	return n, nil
}

// Resume lets runs go on that were parked, because one of their steps never came to its end or their code has changed. It is for
// those who have looked at them: here that is whoever starts the program again.
func Resume(ctx context.Context, eng *cairn.Engine, ids ...string) error {
	for _, id := range ids {
		info, err := eng.Run(id).Describe(ctx)
		if err != nil {
			return err
		}
		if !parked(info) {
			continue
		}
		if err := eng.Run(id).By("examples").Resume(ctx); err != nil {
			return err
		}
	}
	return nil
}
