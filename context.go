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

// RunID returns the id of the run that executes.
func RunID(ctx Context) string { return formatRun(ctx.branch().Run().ID) }

// ParentID returns the id of the run that started this one as its child, "" if there is none.
func ParentID(ctx Context) string { return formatRun(ctx.branch().Run().Parent) }

// RootID returns the id of the run at which the line of parents begins: the run itself if it has no parent.
func RootID(ctx Context) string { return formatRun(ctx.branch().Run().Root) }

func formatRun(id journal.ID) string {
	if id.IsZero() {
		return ""
	}
	return journal.PrefixRun.Format(id)
}

// Now returns the time of the last thing that the workflow has seen happen: its start, the end of a step or a sleep, something that came
// through a hook. It is the same when the workflow is executed again, and writes nothing.
func Now(ctx Context) time.Time { return ctx.branch().Now().Std() }

// NewID returns an id that nothing else has, made of capitals and digits, and sorted by time. When the workflow is executed again, it is the same.
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
	return ctx.branch().Sleep(timer("sleep", func(journal.Time) journal.Time { return journal.TimeOf(t) }, 0, opts))
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

// WithTimeout returns a Context that ends after d, also across restarts: what is then under way on it fails with [ErrTimeout]. A child is asked to
// stop, and waited for, unless it is [Detached]. Branches are limited if they are started with it: waiting for one that was not, is not. The function that is
// returned ends it sooner; call it when what the limit was for is done.
func WithTimeout(ctx Context, d time.Duration, opts ...TimerOption) (Context, context.CancelFunc) {
	return limited(ctx, ctx.branch().Deadline, timer("deadline", within(d), d, opts))
}

// Cleanup returns a Context that a cancel of the run does not end, for what must be done nevertheless: refunds, releases. It lasts
// d at most, also across restarts. Call the function that is returned when the clean-up is done.
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
