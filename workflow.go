package cairn

import (
	"context"
	"maps"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
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
	if w.fn == nil {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "workflow %q was declared and has no function: call Bind before New", w.name)
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

// Attributes gives the run texts that it can be found by. [WithAttributes] is for attributes of other types.
func Attributes(a map[string]string) StartOption {
	a = maps.Clone(a)
	return func(r *engine.StartRequest) {
		if r.Attributes == nil {
			r.Attributes = map[string]string{}
		}
		maps.Copy(r.Attributes, a)
	}
}

// Elsewhere starts a run of a workflow that this process does not have: another one that works on the same database executes it.
func Elsewhere() StartOption { return func(r *engine.StartRequest) { r.Elsewhere = true } }

// StartAt lets the run begin at a time, or now if that is over. Until then it is pending, and can be cancelled.
func StartAt(t time.Time) StartOption {
	return func(r *engine.StartRequest) { r.At = journal.TimeOf(t) }
}

// StartAfter lets the run begin after d. Until then it is pending, and can be cancelled.
func StartAfter(d time.Duration) StartOption {
	return func(r *engine.StartRequest) { r.At = journal.TimeOf(time.Now().Add(d)) }
}

// Start starts a run. When it returns, the run is durable.
func (w *Workflow[In, Out]) Start(ctx context.Context, e *Engine, in In, opts ...StartOption) (*Run[Out], error) {
	if err := notInWorkflow(ctx, "Start"); err != nil {
		return nil, err
	}
	req, err := w.request(in, opts)
	if err != nil {
		return nil, err
	}
	id, err := e.inner.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	return &Run[Out]{e: e, id: id}, nil
}

// request puts together what is asked for.
func (w *Workflow[In, Out]) request(in In, opts []StartOption) (engine.StartRequest, error) {
	req := engine.StartRequest{Workflow: w.name}
	var err error
	if req.Input, req.Digest, err = encode(in); err != nil {
		return req, err
	}
	for _, o := range opts {
		o(&req)
	}
	return req, req.Err
}

// notInWorkflow refuses a call that would have effects which nobody writes down.
func notInWorkflow(ctx context.Context, call string) error {
	if _, ok := ctx.(Context); ok {
		return cairnerr.Errorf(cairnerr.CodeInWorkflow, "%s was called with the Context of a workflow, where it would be repeated with each execution: call it in a step, or start a child", call)
	}
	return nil
}

// Get returns a run of the workflow by its id.
func (w *Workflow[In, Out]) Get(ctx context.Context, e *Engine, id string) (*Run[Out], error) {
	info, err := e.Describe(ctx, id)
	if err != nil {
		return nil, err
	}
	if info.Workflow != w.name {
		return nil, cairnerr.Errorf(cairnerr.CodeRunNotFound, "%s is a run of %q, not of %q", id, info.Workflow, w.name)
	}
	return &Run[Out]{e: e, id: info.id}, nil
}

// Run is one execution of a workflow.
type Run[Out any] struct {
	e  *Engine
	id journal.ID
	// joined says that it was started in a transaction of the user's, who knows whether that was committed.
	joined bool
}

// ID returns the run's id.
func (r *Run[Out]) ID() string { return journal.PrefixRun.Format(r.id) }

// Result waits until the run has ended, and returns what it returned.
func (r *Run[Out]) Result(ctx context.Context) (Out, error) {
	var out Out
	if err := notInWorkflow(ctx, "Result"); err != nil {
		return out, err
	}
	run, err := r.e.inner.Wait(ctx, r.id)
	if err != nil {
		return out, r.missing(err)
	}
	if failure := engine.FailureOf(run); failure != nil {
		return out, failure
	}
	return out, payload.Decode(run.Output, &out)
}

// Describe returns what is known about the run, and what it waits for.
func (r *Run[Out]) Describe(ctx context.Context) (*RunInfo, error) { return r.e.describe(ctx, r.id) }

// Cancel asks the run to stop. Its Context ends; what it does then is up to it: see [Cleanup]. Its children are asked, too.
func (r *Run[Out]) Cancel(ctx context.Context, reason string) error {
	return r.e.inner.Cancel(ctx, r.id, reason, "")
}

// Terminate ends the run and its children at once, without clean-up.
func (r *Run[Out]) Terminate(ctx context.Context, reason string) error {
	return r.e.inner.Terminate(ctx, r.id, reason, "")
}

// Pause lets what is under way in the run end, and begins nothing new until [Run.Resume]: no step, no child, no check of a poll. What comes through hooks is
// kept, and time goes on: what was due meanwhile is due at once. Nobody owns a run that is paused, and no process keeps it.
func (r *Run[Out]) Pause(ctx context.Context, reason string) error {
	return r.e.inner.Pause(ctx, r.id, reason, "")
}

// Resume lets the run go on that was paused, or parked because something was wrong.
func (r *Run[Out]) Resume(ctx context.Context) error { return r.e.inner.Resume(ctx, r.id, "") }

// Push lets the polls of the run look now, wherever it is executed. A run that has no polls, or has ended, is left as it is; one that is paused looks when it is resumed.
func (r *Run[Out]) Push(ctx context.Context) error { return r.e.inner.Push(ctx, r.id) }
