package cairn

import (
	"context"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// Fork says what a new run keeps of another one. One of From and Drop is set. The keys are those that [RunHandle.History] shows.
type Fork struct {
	// From is the key of the first thing that is done again, with all that was first seen later. What is finished of the rest is kept.
	From string
	// Drop are the keys of what is done again; all else that is finished is kept.
	Drop []string
	// StartKey identifies the fork: the same key with the same input gives the run that was made before.
	StartKey string
	// Reason and Actor are noted with the new run, as an annotation.
	Reason, Actor string
}

// Fork starts a new run that keeps results of another one, which is not touched: history is never rewritten, and a run that goes on goes on. Results, also those of
// children, of sleeps and of what came through hooks, are copied, so either run can be deleted alone. [Now], [Rand] and [NewID] repeat those of the source. Hooks through
// which something came get new tokens, the others are opened anew; children that had not ended are started again, and steps that are done again have idempotency keys of their own. What
// a run did after it was asked to stop is not kept.
func (w *Workflow[In, Out]) Fork(ctx context.Context, e *Engine, runID string, f Fork) (*Run[Out], error) {
	return w.fork(ctx, e, runID, f, journal.ForkSpec{})
}

// ForkWith is [Workflow.Fork] with another input. Results that are kept stay as they are, whatever they were made of.
func (w *Workflow[In, Out]) ForkWith(ctx context.Context, e *Engine, runID string, f Fork, in In) (*Run[Out], error) {
	var spec journal.ForkSpec
	var err error
	if spec.Input, spec.Digest, err = payload.EncodeDigest(in); err != nil {
		return nil, err
	}
	return w.fork(ctx, e, runID, f, spec)
}

func (w *Workflow[In, Out]) fork(ctx context.Context, e *Engine, runID string, f Fork, spec journal.ForkSpec) (*Run[Out], error) {
	id, err := e.fork(ctx, e.Run(runID), w.name, f, spec)
	if err != nil {
		return nil, err
	}
	return newRun[Out](e, id), nil
}

func (e *Engine) fork(ctx context.Context, source *RunHandle, workflow string, f Fork, spec journal.ForkSpec) (journal.ID, error) {
	if err := notInWorkflow(ctx, "Fork"); err != nil {
		return journal.ID{}, err
	}
	if source.err != nil {
		return journal.ID{}, source.err
	}
	if f.Reason != "" {
		var err error
		if spec.Reason, err = payload.Encode(f.Reason); err != nil {
			return journal.ID{}, err
		}
	}
	spec.From, spec.Drop, spec.StartKey, spec.Actor = f.From, f.Drop, f.StartKey, f.Actor
	return e.inner.Fork(ctx, source.id, workflow, spec)
}
