package cairn

import (
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// Child is a run that a workflow has started.
type Child[Out any] struct{ inner *engine.Child }

// ChildOption changes how a child is started.
type ChildOption func(*engine.ChildSpec)

// Detached lets the child go on when its parent is cancelled or terminated, or ends.
func Detached() ChildOption { return func(s *engine.ChildSpec) { s.Detached = true } }

// ChildElsewhere starts a child whose workflow this process does not have.
func ChildElsewhere() ChildOption { return func(s *engine.ChildSpec) { s.Elsewhere = true } }

// ChildKey identifies the child by a key of its own, and not by being the n-th use of its workflow.
func ChildKey(key string) ChildOption { return func(s *engine.ChildSpec) { s.Key = key } }

// ChildAttributes gives the child values that it can be found by.
func ChildAttributes(a map[string]string) ChildOption {
	return func(s *engine.ChildSpec) { s.Attributes = a }
}

// Run runs the workflow as a child, and returns what it returned. The child has a journal, retries and limits of its own. If it fails, the
// error is the child's; what to do about it is up to the parent.
func (w *Workflow[In, Out]) Run(ctx Context, in In, opts ...ChildOption) (Out, error) {
	c, err := w.StartChild(ctx, in, opts...)
	if err != nil {
		var none Out
		return none, err
	}
	return c.Result(ctx)
}

// StartChild starts the workflow as a child, which then goes on beside its parent. It is started once, however often the parent is executed. A
// child that has not ended when its parent ends is asked to stop, unless it is [Detached].
func (w *Workflow[In, Out]) StartChild(ctx Context, in In, opts ...ChildOption) (*Child[Out], error) {
	input, err := payload.Encode(in)
	if err != nil {
		return nil, err
	}
	spec := engine.ChildSpec{Workflow: w.name, Input: input}
	for _, o := range opts {
		o(&spec)
	}
	c, err := ctx.branch().StartChild(spec)
	if err != nil {
		return nil, err
	}
	return &Child[Out]{c}, nil
}

// ID returns the id of the child's run.
func (c *Child[Out]) ID() string { return formatRun(c.inner.ID()) }

// Result waits until the child has ended, and returns what it returned.
func (c *Child[Out]) Result(ctx Context) (Out, error) {
	var out Out
	p, err := ctx.branch().AwaitChild(c.inner)
	if err != nil {
		return out, err
	}
	return out, payload.Decode(p, &out)
}
