package cairn

import (
	"maps"
	"time"

	"github.com/cairn-workflow/cairn/internal/engine"
)

// Child is a run that a workflow has started.
type Child[Out any] struct{ inner *engine.Child }

// childCall is a child that is started and waited for.
type childCall struct {
	spec  engine.ChildSpec
	limit time.Duration // 0: none
}

// DetachedOption is an option for children; see [Detached].
type DetachedOption struct{}

// Detached lets the child go on when its parent ends, is cancelled or is terminated.
func Detached() DetachedOption { return DetachedOption{} }

func (DetachedOption) childOption(s *engine.ChildSpec) { s.Detached = true }
func (o DetachedOption) runOption(c *childCall)        { o.childOption(&c.spec) }

// ElsewhereOption is an option for children and starts; see [Elsewhere].
type ElsewhereOption struct{}

// Elsewhere starts a run of a workflow that this process does not have: another one that works on the same database executes it.
func Elsewhere() ElsewhereOption { return ElsewhereOption{} }

func (ElsewhereOption) startOption(r *engine.StartRequest) { r.Elsewhere = true }
func (ElsewhereOption) childOption(s *engine.ChildSpec)    { s.Elsewhere = true }
func (o ElsewhereOption) runOption(c *childCall)           { o.childOption(&c.spec) }

// AttributesOption is an option for children and starts; see [Attributes] and [WithAttributes].
type AttributesOption struct {
	set    map[string]string
	remove []string
	err    error
}

func (o AttributesOption) apply(to map[string]string) map[string]string {
	if to == nil {
		to = map[string]string{}
	}
	maps.Copy(to, o.set)
	for _, key := range o.remove {
		delete(to, key)
	}
	return to
}

func (o AttributesOption) startOption(r *engine.StartRequest) {
	r.Attributes = o.apply(r.Attributes)
	if r.Err == nil {
		r.Err = o.err
	}
}

func (o AttributesOption) childOption(s *engine.ChildSpec) {
	s.Attributes = o.apply(s.Attributes)
	if s.Err == nil {
		s.Err = o.err
	}
}

func (o AttributesOption) runOption(c *childCall) { o.childOption(&c.spec) }

// Run runs the workflow as a child, and returns what it returned. The child has a journal, retries and limits of its
// own. If it fails, Run returns the error of the child.
func (w *Workflow[In, Out]) Run(ctx Context, in In, opts ...RunOption) (Out, error) {
	call := childCall{spec: engine.ChildSpec{Workflow: w.name}}
	for _, o := range opts {
		o.runOption(&call)
	}
	if call.limit != 0 {
		limited, stop := WithTimeout(ctx, call.limit)
		defer stop()
		ctx = limited
	}
	c, err := w.startChild(ctx, in, call.spec)
	if err != nil {
		var none Out
		return none, err
	}
	return c.Result(ctx)
}

// StartChild starts the workflow as a child, which then goes on beside its parent. It is started once, however often the parent is executed. A
// child that has not ended when its parent ends is asked to stop, unless it is [Detached].
func (w *Workflow[In, Out]) StartChild(ctx Context, in In, opts ...ChildOption) (*Child[Out], error) {
	spec := engine.ChildSpec{Workflow: w.name}
	for _, o := range opts {
		o.childOption(&spec)
	}
	return w.startChild(ctx, in, spec)
}

func (w *Workflow[In, Out]) startChild(ctx Context, in In, spec engine.ChildSpec) (*Child[Out], error) {
	if spec.Err != nil {
		return nil, spec.Err
	}
	var err error
	if spec.Input, spec.Digest, err = ctx.branch().EncodeDigest("the input of child "+w.name, in); err != nil {
		return nil, err
	}
	spec.Same = same[In]
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
	_, err := ctx.branch().AwaitChild(c.inner, &out)
	return out, err
}
