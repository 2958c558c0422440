package engine

import (
	"context"
	"maps"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Join starts a run inside a transaction of the user's. Nobody owns the run: when the transaction is committed the store gives a hint, and
// who hears it first claims the run, as any other that is due.
func (e *Engine) Join(ctx context.Context, tx store.UserTx, r StartRequest) (journal.ID, error) {
	if err := e.checkStart(&r); err != nil {
		return journal.ID{}, err
	}
	e.mu.Lock()
	stopped, self := e.stopped, e.me.id
	e.mu.Unlock()
	if stopped {
		return journal.ID{}, errStopped()
	}
	id, err := e.mint()
	if err != nil {
		return id, err
	}
	r.Headers = e.obs.inject(ctx)
	cmd := &journal.Command{Namespace: e.namespace, Run: id, Events: []journal.Event{{Data: r.birth(id)}}}
	for _, note := range r.Notes {
		cmd.Events = append(cmd.Events, journal.Event{Data: note})
	}
	res, err := commit.Join(ctx, e.store, tx, cmd, journal.Env{Now: e.now(), Self: self})
	if before, same := e.sameStart(ctx, r, err); same {
		return before, nil
	}
	if err != nil {
		return id, err
	}
	return res.Run.ID, nil
}

// checkStart refuses a start of a workflow that nobody may ever execute, and one with attributes of the engine.
func (e *Engine) checkStart(r *StartRequest) error {
	switch {
	case r.Elsewhere || e.executes(r.Workflow):
	case e.workflows[r.Workflow] != nil:
		return cairnerr.Errorf(cairnerr.CodeNotRegistered, "this engine does not execute the runs of namespace %q: add it to Config.Namespaces, or use cairn.Elsewhere if another process does", e.namespace)
	default:
		return cairnerr.Errorf(cairnerr.CodeNotRegistered, "workflow %q is not known to this engine: give it to cairn.New, or use cairn.Elsewhere if another process has it", r.Workflow)
	}
	return checkUserKeys(maps.Keys(r.Attributes))
}

// birth returns the first event of the run that is asked for.
func (r *StartRequest) birth(id journal.ID) *journal.RunCreated {
	created := &journal.RunCreated{
		Workflow: r.Workflow, Input: r.Input, StartKey: r.StartKey, StartDigest: r.Digest, Attributes: r.Attributes, Root: id, StartAt: r.At, Headers: r.Headers,
	}
	if r.Parent != nil {
		created.Parent, created.Root = r.Parent.ID, r.Parent.Root
	}
	return created
}
