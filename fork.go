package cairn

import (
	"context"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// Fork says what a new run keeps of another one. Set either From or Drop. The keys are those that [RunHandle.History]
// shows.
type Fork struct {
	// From is the key of the first call that is done again. Everything that first appears later in the history is done
	// again too; the rest that is finished is kept.
	From string
	// Drop are the keys of the calls that are done again; everything else that is finished is kept.
	Drop []string
	// StartKey identifies the fork: the same key with the same input gives the run that was made before.
	StartKey string
	// Reason and Actor are noted with the new run, as an annotation.
	Reason, Actor string
}

// Fork starts a new run that keeps results of another one, which is not changed. Results are copied, also those of
// children, sleeps and hooks, so either run can be deleted alone. [Now], [Rand] and [NewID] return the same values as
// in the source. Hooks that have received values get new tokens, the others are opened again. Children that had not
// ended are started again, and steps that are done again have idempotency keys of their own. What a run did after it
// was asked to stop is not kept.
func (w *Workflow[In, Out]) Fork(ctx context.Context, e *Engine, runID string, f Fork) (*Run[Out], error) {
	return w.fork(ctx, e, runID, f, journal.ForkSpec{})
}

// ForkWith is [Workflow.Fork] with another input. Results that are kept stay as they are, even if they came from the
// old input.
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
