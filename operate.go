package cairn

import "context"

// Cancel asks a run to stop; see [Run.Cancel]. Actor says who wants that.
func (e *Engine) Cancel(ctx context.Context, runID, reason, actor string) error {
	id, err := parseRun(runID)
	if err != nil {
		return err
	}
	return e.inner.Cancel(ctx, id, reason, actor)
}

// Terminate ends a run and its children at once; see [Run.Terminate].
func (e *Engine) Terminate(ctx context.Context, runID, reason, actor string) error {
	id, err := parseRun(runID)
	if err != nil {
		return err
	}
	return e.inner.Terminate(ctx, id, reason, actor)
}

// Pause parks a run by hand; see [Run.Pause]. Actor says who wants that.
func (e *Engine) Pause(ctx context.Context, runID, reason, actor string) error {
	id, err := parseRun(runID)
	if err != nil {
		return err
	}
	return e.inner.Pause(ctx, id, reason, actor)
}

// Delete removes a run that has ended, with its history and all that belongs to it. Its start key is free again. Its children and forks stay: they are
// runs of their own. A child whose parent has not ended is not deleted, unless it is [Detached]: the parent may want its result.
func (e *Engine) Delete(ctx context.Context, runID string) error {
	if err := notInWorkflow(ctx, "Delete"); err != nil {
		return err
	}
	id, err := parseRun(runID)
	if err != nil {
		return err
	}
	return e.inner.Delete(ctx, id)
}

// Push lets the polls of a run look now; see [Run.Push].
func (e *Engine) Push(ctx context.Context, runID string) error {
	id, err := parseRun(runID)
	if err != nil {
		return err
	}
	return e.inner.Push(ctx, id)
}

// Resume lets a run go on that was parked, when what parked it is mended, or paused.
func (e *Engine) Resume(ctx context.Context, runID, actor string) error {
	id, err := parseRun(runID)
	if err != nil {
		return err
	}
	return e.inner.Resume(ctx, id, actor)
}
