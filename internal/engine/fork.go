package engine

import (
	"context"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// ForksOf restricts a filter to the forks of a run.
func ForksOf(f *store.RunFilter, source journal.ID) {
	if f.Attributes == nil {
		f.Attributes = map[string]string{}
	}
	f.Attributes[journal.ForkedFrom] = journal.PrefixRun.Format(source)
}

// Fork makes a run that keeps what another one has done. The other is not touched, and may go on meanwhile. The new one is due at once: this process takes
// it, or another that has its workflow. Workflow is what the other must be a run of; "": any.
func (e *Engine) Fork(ctx context.Context, source journal.ID, workflow string, spec journal.ForkSpec) (journal.ID, error) {
	j, err := e.store.Outline(ctx, e.namespace, source)
	if err != nil {
		return journal.ID{}, err
	}
	if workflow != "" && j.Run.Workflow != workflow {
		return journal.ID{}, cairnerr.Errorf(cairnerr.CodeRunNotFound, "%s is a run of %q, not of %q", journal.PrefixRun.Format(source), j.Run.Workflow, workflow)
	}
	spec.NewToken = e.newToken
	for {
		me := e.self()
		id, err := e.tryFork(ctx, me, j, &spec)
		if !e.died(me, err) {
			return id, stopped(err)
		}
		if err := e.awaitLife(ctx, me); err != nil {
			return id, err
		}
	}
}

func (e *Engine) tryFork(ctx context.Context, me *incarnation, source *store.Journal, spec *journal.ForkSpec) (journal.ID, error) {
	id, err := e.mint()
	if err != nil {
		return id, err
	}
	cmd, err := journal.Fork(e.namespace, source.Run, source.Ref, source.Events, id, spec)
	if err != nil {
		return id, err
	}
	cmd.WakeAt = e.now()
	cmd.Guards.Owner = journal.Ownership{Incarnation: me.id, Epoch: 1}
	res, err := me.committer.Do(ctx, cmd)
	if err != nil {
		return id, err
	}
	e.lookNow()
	return res.Run.ID, nil
}
