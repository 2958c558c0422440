package cairn

import (
	"context"
	"time"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// Poll is a check that is repeated until it succeeds: has the file arrived, is the build done. Looks that find nothing leave no trace; the outcome is
// one event. Between two looks the run waits like any other, and costs nothing.
type Poll[In, Out any] struct {
	spec  engine.PollSpec
	check func(context.Context, In) (Out, bool, error)
	limit time.Duration
}

// NewPoll defines a poll. The check returns true when its value is the answer, and an error when asking again is of no use. With an interval of 0 it is repeated only
// when somebody says so with [Run.Push].
func NewPoll[In, Out any](name string, every time.Duration, check func(context.Context, In) (Out, bool, error)) Poll[In, Out] {
	return Poll[In, Out]{spec: engine.PollSpec{Name: name, Every: every}, check: check}
}

// Key returns the poll for one call that is identified by a key of its own.
func (p Poll[In, Out]) Key(key string) Poll[In, Out] {
	p.spec.Key = key
	return p
}

// Within returns the poll such that it fails with [ErrTimeout] when nothing was found for so long.
func (p Poll[In, Out]) Within(d time.Duration) Poll[In, Out] {
	p.limit = d
	return p
}

// Wait waits until the check succeeds. It looks at once, then at each interval, and whenever somebody calls [Run.Push].
func (p Poll[In, Out]) Wait(ctx Context, in In) (Out, error) {
	var out Out
	spec := p.spec
	if p.limit != 0 {
		spec.Until = after(p.limit)
	}
	found, err := ctx.branch().Poll(spec, func(ctx context.Context, info engine.StepInfo) (journal.Payload, bool, error) {
		v, ready, err := p.check(engine.WithInfo(ctx, info), in)
		if err != nil || !ready {
			return nil, false, err
		}
		encoded, err := payload.Encode(v)
		return encoded, err == nil, err
	})
	if err != nil {
		return out, err
	}
	return out, payload.Decode(found, &out)
}
