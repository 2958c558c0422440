package cairn

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
	"github.com/cairn-workflow/cairn/internal/store"
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

// Define implements [Definition].
func (w *Workflow[In, Out]) Define(d *Definer) {
	if w == nil {
		d.Refuse(cairnerr.Errorf(cairnerr.CodeMalformed, "a workflow is nil"))
		return
	}
	if w.fn == nil {
		d.Refuse(cairnerr.Errorf(cairnerr.CodeMalformed, "workflow %q was declared and has no function: call Bind before New", w.name))
		return
	}
	d.add(&engine.Workflow{Name: w.name, Run: w.execute, Rewrite: rewrite[In], Same: same[In]})
}

func (w *Workflow[In, Out]) execute(b *engine.Branch, input journal.Payload) (journal.Payload, error) {
	var in In
	if err := b.Decode("the input of the run", input, &in); err != nil {
		return nil, err
	}
	out, err := w.fn(newContext(b), in)
	if err != nil {
		return nil, err
	}
	return b.Encode("the output of the run", out)
}

// rewrite reads a value as a type, and writes it as that type is written today.
func rewrite[T any](p journal.Payload) (journal.Payload, []byte, error) {
	var v T
	if err := payload.Decode(p, &v); err != nil {
		return nil, nil, err
	}
	return payload.EncodeDigest(v)
}

// Attributes gives a run string attributes by which it can be found. [WithAttributes] is for attributes of other types.
func Attributes(a map[string]string) AttributesOption { return AttributesOption{set: maps.Clone(a)} }

// StartAt lets the run begin at a time, or at once if that time has passed. Until then it is pending, and can be
// cancelled.
func StartAt(t time.Time) StartOption {
	return startFunc(func(r *engine.StartRequest) { r.At = journal.TimeOf(t) })
}

// StartAfter lets the run begin after d. Until then it is pending, and can be cancelled.
func StartAfter(d time.Duration) StartOption {
	return startFunc(func(r *engine.StartRequest) { r.At = journal.TimeOf(time.Now().Add(d)) })
}

// Start starts a run. When it returns, the run is durable. With a [Key], the same key and input give the run that was started before.
func (w *Workflow[In, Out]) Start(ctx context.Context, e *Engine, in In, opts ...StartOption) (*Run[Out], error) {
	req, err := w.request(ctx, "Start", in, opts)
	if err != nil {
		return nil, err
	}
	id, err := e.inner.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	return newRun[Out](e, id), nil
}

// request puts together what is asked for.
func (w *Workflow[In, Out]) request(ctx context.Context, call string, in In, opts []StartOption) (engine.StartRequest, error) {
	req := engine.StartRequest{Workflow: w.name, Same: same[In]}
	if err := notInWorkflow(ctx, call); err != nil {
		return req, err
	}
	var err error
	if req.Input, req.Digest, err = payload.EncodeDigest(in); err != nil {
		return req, err
	}
	for _, o := range opts {
		o.startOption(&req)
	}
	return req, req.Err
}

// StartJSON starts a run of a workflow by its name. It is for callers that do not have the Go types. If this process
// has the workflow, an input that does not fit is refused.
func (e *Engine) StartJSON(ctx context.Context, workflow string, input json.RawMessage, opts ...StartOption) (*RunHandle, error) {
	if err := notInWorkflow(ctx, "StartJSON"); err != nil {
		return nil, err
	}
	req := engine.StartRequest{Workflow: workflow}
	var err error
	if req.Input, err = payload.FromJSON(input); err != nil {
		return nil, err
	}
	if req.Digest, err = payload.Digest(req.Input); err != nil {
		return nil, err
	}
	for _, o := range opts {
		o.startOption(&req)
	}
	if req.Err != nil {
		return nil, req.Err
	}
	id, err := e.inner.StartAs(ctx, req)
	if err != nil {
		return nil, err
	}
	return &RunHandle{e: e, id: id}, nil
}

// notInWorkflow refuses a call that would have effects which nobody writes down. It parks the run that makes it.
func notInWorkflow(ctx context.Context, call string) error {
	if c, ok := ctx.(Context); ok {
		return c.branch().Halt(cairnerr.Errorf(cairnerr.CodeInWorkflow,
			"%s was called with the Context of a workflow, where it would be repeated with each execution: call it in a step, or start a child", call))
	}
	return nil
}

// Get returns a run of the workflow by its id.
func (w *Workflow[In, Out]) Get(ctx context.Context, e *Engine, id string) (*Run[Out], error) {
	info, err := e.Run(id).Describe(ctx)
	if err != nil {
		return nil, err
	}
	if info.Workflow != w.name {
		return nil, cairnerr.Errorf(cairnerr.CodeRunNotFound, "%s is a run of %q, not of %q", id, info.Workflow, w.name)
	}
	return newRun[Out](e, info.id), nil
}

// ByKey returns the run of the workflow that was started with a [Key].
func (w *Workflow[In, Out]) ByKey(ctx context.Context, e *Engine, key string) (*Run[Out], error) {
	h, err := e.ByKey(ctx, w.name, key)
	if err != nil {
		return nil, err
	}
	return &Run[Out]{h}, nil
}

// ByKey returns the run of a workflow that was started with a [Key].
func (e *Engine) ByKey(ctx context.Context, workflow, key string) (*RunHandle, error) {
	if workflow == "" || key == "" {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "a run is found by its workflow and the key of its start: neither can be empty")
	}
	list, err := e.inner.Runs(ctx, store.RunFilter{Workflow: workflow, StartKey: key}, store.Page{Limit: 1})
	if err == nil && len(list.Data) == 0 {
		err = cairnerr.Errorf(cairnerr.CodeRunNotFound, "no run of %q was started with the key %q", workflow, key)
	}
	if err != nil {
		return nil, err
	}
	return &RunHandle{e: e, id: list.Data[0].ID}, nil
}

// Run is one execution of a workflow: a [RunHandle] that knows the type of the result.
type Run[Out any] struct{ *RunHandle }

func newRun[Out any](e *Engine, id journal.ID) *Run[Out] { return &Run[Out]{&RunHandle{e: e, id: id}} }

// Result waits until the run has ended, and returns what it returned. If the run is parked, the error has the code
// parked.
func (r *Run[Out]) Result(ctx context.Context) (Out, error) {
	var out Out
	run, err := r.wait(ctx, "Result")
	if err != nil {
		return out, err
	}
	if failure := engine.FailureOf(run); failure != nil {
		return out, failure
	}
	return out, payload.Decode(run.Output, &out)
}

// wait waits until the run has ended.
func (h *RunHandle) wait(ctx context.Context, call string) (*journal.Run, error) {
	if err := errors.Join(notInWorkflow(ctx, call), h.err); err != nil {
		return nil, err
	}
	run, err := h.e.inner.Wait(ctx, h.id)
	return run, h.missing(err)
}
