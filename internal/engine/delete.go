package engine

import (
	"context"
	"strings"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Delete removes a run that has ended.
func (e *Engine) Delete(ctx context.Context, run journal.ID) error {
	if err := e.mayDelete(ctx, run); err != nil {
		return err
	}
	if err := e.store.Delete(ctx, e.namespace, run); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.recent.drop(store.RunKey{Namespace: e.namespace, Run: run})
	return nil
}

// mayDelete refuses a run whose parent goes on and may still want its result.
func (e *Engine) mayDelete(ctx context.Context, id journal.ID) error {
	run, err := e.store.Run(ctx, e.namespace, id, store.ResolveNone)
	if err != nil || run.Parent.IsZero() || strings.HasSuffix(run.StartKey, detached) {
		return err
	}
	parent, err := e.store.Run(ctx, e.namespace, run.Parent, store.ResolveNone)
	switch {
	case cairnerr.CodeOf(err) == cairnerr.CodeRunNotFound:
		return nil
	case err != nil:
		return err
	case !parent.Status.Terminal():
		return cairnerr.Errorf(cairnerr.CodeIllegalTransition, "%s belongs to %s, which has not ended and may want its result: delete it when that has ended",
			journal.PrefixRun.Format(id), journal.PrefixRun.Format(parent.ID))
	}
	return nil
}
