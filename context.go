package cairn

import (
	"context"
	"time"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// Context is what a workflow function works with. It is a [context.Context] that ends when the run is cancelled; and through it every
// durable operation is done. It belongs to one goroutine, and must not be used when its workflow has returned.
type Context interface {
	context.Context
	branch() *engine.Branch
}

type workflowContext struct {
	context.Context
	b *engine.Branch
}

func (c workflowContext) branch() *engine.Branch { return c.b }

func newContext(b *engine.Branch) Context { return workflowContext{b.Context(), b} }

// RunID returns the id of the run that executes.
func RunID(ctx Context) string { return journal.PrefixRun.Format(ctx.branch().Run().ID) }

// ParentID returns the id of the run that started this one as its child, "" if there is none.
func ParentID(ctx Context) string {
	if id := ctx.branch().Run().Parent; !id.IsZero() {
		return journal.PrefixRun.Format(id)
	}
	return ""
}

// Sleep waits, also across restarts. While it waits, the run costs nothing.
func Sleep(ctx Context, d time.Duration) error {
	return ctx.branch().Sleep("sleep", func(now journal.Time) journal.Time { return now.Add(d) })
}

// SleepUntil waits until a time, also across restarts.
func SleepUntil(ctx Context, t time.Time) error {
	return ctx.branch().Sleep("sleep", func(journal.Time) journal.Time { return journal.TimeOf(t) })
}

// Now returns the time. When the workflow is executed again, it is the same.
func Now(ctx Context) (time.Time, error) {
	ms, err := Do(ctx, "now", func(context.Context) (int64, error) { return time.Now().UnixMilli(), nil })
	return time.UnixMilli(ms).UTC(), err
}
