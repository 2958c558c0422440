package cairn

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// Context is what a workflow function works with: every durable call takes one. It is a [context.Context] that ends
// when the run is cancelled. It belongs to one goroutine, and must not be used after its workflow has returned.
type Context interface {
	context.Context
	branch() *engine.Branch
}

type workflowContext struct {
	context.Context
	b *engine.Branch
}

func (c workflowContext) branch() *engine.Branch { return c.b }

// Value finds what the hooks of [Config.Observe] have put into the run's context, too: a trace that goes on in what gets this Context.
func (c workflowContext) Value(key any) any {
	if key == (branchKey{}) {
		return c.b
	}
	if v := c.b.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

func newContext(b *engine.Branch) Context { return workflowContext{b.Context(), b} }

// RunID returns the id of the current run.
func RunID(ctx Context) string { return formatRun(ctx.branch().Run().ID) }

// ParentID returns the id of the run that started this one as its child, "" if there is none.
func ParentID(ctx Context) string { return formatRun(ctx.branch().Run().Parent) }

// RootID returns the id of the topmost parent of the run: the run itself if it has no parent.
func RootID(ctx Context) string { return formatRun(ctx.branch().Run().Root) }

func formatRun(id journal.ID) string {
	if id.IsZero() {
		return ""
	}
	return journal.PrefixRun.Format(id)
}

// Now returns the time of the last event that the workflow has seen: its start, the end of a step or a sleep, a value
// from a hook. It is the same when the workflow is executed again, and writes nothing.
func Now(ctx Context) time.Time { return ctx.branch().Now().Std() }

// NewID returns a unique id of capital letters and digits; ids sort by time. When the workflow is executed again, the
// id is the same.
func NewID(ctx Context, opts ...IDOption) string { return derive(ctx, "new id", opts).String() }

// Rand returns a source of randomness for simulations, samples and the like; not for secrets. When the workflow is executed again, it
// gives the same numbers.
func Rand(ctx Context, opts ...IDOption) *rand.Rand {
	id := derive(ctx, "rand", opts)
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])))
}

func derive(ctx Context, name string, opts []IDOption) journal.ID {
	key := ""
	for _, o := range opts {
		o.idOption(&key)
	}
	id, err := ctx.branch().Derive(name, key)
	if err != nil {
		_ = ctx.branch().Halt(cairnerr.AsError(err)) // it returns only where the run is over, and no id is of use
	}
	return id
}

// Sleep waits, also across restarts. While it waits, the run costs nothing.
func Sleep(ctx Context, d time.Duration, opts ...TimerOption) error {
	return ctx.branch().Sleep(timer("sleep", within(d), d, opts))
}

// SleepUntil waits until a time, also across restarts.
func SleepUntil(ctx Context, t time.Time, opts ...TimerOption) error {
	at := max(journal.TimeOf(t), 1)
	spec := timer("sleep", func(journal.Time) journal.Time { return at }, 0, opts)
	spec.At = at
	return ctx.branch().Sleep(spec)
}

func timer(name string, until engine.Until, d time.Duration, opts []TimerOption) engine.TimerSpec {
	spec := engine.TimerSpec{Name: name, Until: until, For: d}
	for _, o := range opts {
		o.timerOption(&spec)
	}
	return spec
}

func within(d time.Duration) engine.Until {
	return func(now journal.Time) journal.Time { return now.Add(d) }
}

// WithTimeout returns a Context that ends after d, also across restarts: calls on it that have not returned by then
// fail with [ErrTimeout]. A child is asked to stop, and waited for, unless it is [Detached]. A branch is limited only
// if it was started with this Context; waiting for any other branch is not limited. The returned function ends the
// Context sooner: call it when the limited work is done.
func WithTimeout(ctx Context, d time.Duration, opts ...TimerOption) (Context, context.CancelFunc) {
	return limited(ctx, ctx.branch().Deadline, timer("deadline", within(d), d, opts))
}

// Cleanup returns a Context that does not end when the run is cancelled, for work that must still be done: refunds,
// releases. It lasts at most d, also across restarts. Call the returned function when the clean-up is done.
func Cleanup(ctx Context, d time.Duration, opts ...TimerOption) (Context, context.CancelFunc) {
	return limited(ctx, ctx.branch().Shelter, timer("cleanup", within(d), d, opts))
}

func limited(ctx Context, limit func(engine.TimerSpec) (*engine.Branch, func(), error), spec engine.TimerSpec) (Context, context.CancelFunc) {
	b, stop, err := limit(spec)
	if err != nil { // the run is over: what is called with the Context says the same
		_ = ctx.branch().Halt(cairnerr.AsError(err))
		return ctx, func() {}
	}
	return newContext(b), stop
}
