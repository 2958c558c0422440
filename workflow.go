package cairn

import (
	"context"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// Workflow is a durable function with a permanent name.
type Workflow[In, Out any] struct {
	name string
	fn   func(Context, In) (Out, error)
}

// NewWorkflow defines a workflow. The name is permanent: runs are found by it.
func NewWorkflow[In, Out any](name string, fn func(Context, In) (Out, error)) *Workflow[In, Out] {
	return &Workflow[In, Out]{name: name, fn: fn}
}

// Declare defines a workflow whose function comes later, with [Workflow.Bind]: for workflows that call themselves or each other.
func Declare[In, Out any](name string) *Workflow[In, Out] { return &Workflow[In, Out]{name: name} }

// Bind gives a declared workflow its function.
func (w *Workflow[In, Out]) Bind(fn func(Context, In) (Out, error)) { w.fn = fn }

// Name returns the permanent name of the workflow.
func (w *Workflow[In, Out]) Name() string { return w.name }

func (w *Workflow[In, Out]) define() (*engine.Workflow, error) {
	if w.name == "" {
		return nil, journal.Errorf(journal.CodeMalformed, "a workflow needs a name")
	}
	if w.fn == nil {
		return nil, journal.Errorf(journal.CodeMalformed, "workflow %q was declared and has no function: call Bind before New", w.name)
	}
	return &engine.Workflow{Name: w.name, Run: func(b *engine.Branch, input journal.Payload) (journal.Payload, error) {
		var in In
		if err := payload.Decode(input, &in); err != nil {
			return nil, err
		}
		out, err := w.fn(newContext(b), in)
		if err != nil {
			return nil, err
		}
		return payload.Encode(out)
	}}, nil
}

// StartOption changes how a run is started.
type StartOption func(*engine.StartRequest)

// StartKey identifies a start: the same key with the same input gives the run that was started before, with another input an error.
func StartKey(key string) StartOption { return func(r *engine.StartRequest) { r.StartKey = key } }

// Attributes gives the run values that it can be found by.
func Attributes(a map[string]string) StartOption {
	return func(r *engine.StartRequest) { r.Attributes = a }
}

// Start starts a run. When it returns, the run is durable.
func (w *Workflow[In, Out]) Start(ctx context.Context, e *Engine, in In, opts ...StartOption) (*Run[Out], error) {
	input, err := payload.Encode(in)
	if err != nil {
		return nil, err
	}
	digest, err := payload.Digest(input)
	if err != nil {
		return nil, err
	}
	req := engine.StartRequest{Workflow: w.name, Input: input, Digest: digest}
	for _, o := range opts {
		o(&req)
	}
	id, err := e.inner.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	return &Run[Out]{e: e, id: id}, nil
}

// Run is one execution of a workflow.
type Run[Out any] struct {
	e  *Engine
	id journal.ID
}

// ID returns the run's id.
func (r *Run[Out]) ID() string { return journal.PrefixRun.Format(r.id) }

// Result waits until the run has ended, and returns what it returned.
func (r *Run[Out]) Result(ctx context.Context) (Out, error) {
	var out Out
	run, err := r.e.inner.Wait(ctx, r.id)
	if err != nil {
		return out, err
	}
	switch {
	case run.Error != nil && run.Error.Error != nil:
		return out, run.Error.Error
	case run.Status == journal.StatusCancelled:
		return out, ErrCancelled
	default:
		return out, payload.Decode(run.Output, &out)
	}
}

// Cancel asks the run to stop. Its context ends; what it does then is up to it.
func (r *Run[Out]) Cancel(ctx context.Context, reason string) error {
	return r.e.inner.Cancel(ctx, r.id, reason, "")
}

// Terminate ends the run at once, without clean-up.
func (r *Run[Out]) Terminate(ctx context.Context, reason string) error {
	return r.e.inner.Terminate(ctx, r.id, reason, "")
}
