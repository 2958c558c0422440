package engine

import (
	"context"
	"time"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/turn"
)

// Testing lets a test look into an engine. Package cairntest is built on it.
type Testing struct {
	// Stub returns what is done instead of a step's body, nil: the body.
	Stub func(step string) func(ctx context.Context, input journal.Payload) (journal.Payload, error)
	// BodyEnded is called when a step's body has returned, and its outcome is not recorded yet.
	BodyEnded func(context.Context, StepInfo)
	// Started is called with each engine.
	Started func(*Engine)
	// Now is the clock on the wall of this process, which others' may differ from and which may jump. Leases do not go by it.
	Now func() time.Time
	// Turn decides who goes on first. What is called "at the same time" elsewhere has an order then.
	Turn turn.Taker
}

type testingKey struct{}

// WithTesting returns a context for [New] whose engine can be looked into.
func WithTesting(ctx context.Context, t *Testing) context.Context {
	return context.WithValue(ctx, testingKey{}, t)
}

func testingOf(ctx context.Context) *Testing {
	t, _ := ctx.Value(testingKey{}).(*Testing)
	if t == nil {
		t = &Testing{}
	}
	return t
}

// wall returns the clock that an engine goes by.
func (t *Testing) wall() func() time.Time {
	if t.Now != nil {
		return t.Now
	}
	return time.Now
}

// body returns what is done for a step.
func (t *Testing) body(s *StepSpec, body StepBody) StepBody {
	if t.Stub != nil {
		if stub := t.Stub(s.Name); stub != nil {
			in := s.Input
			body = func(ctx context.Context, info StepInfo) (journal.Payload, error) {
				return stub(WithInfo(ctx, info), in)
			}
		}
	}
	if t.BodyEnded == nil {
		return body
	}
	return t.told(body)
}

// told tells of the end of each call.
func (t *Testing) told(body StepBody) StepBody {
	return func(ctx context.Context, info StepInfo) (journal.Payload, error) {
		out, err := body(ctx, info)
		t.BodyEnded(ctx, info)
		return out, err
	}
}

// Kill ends the engine as kill -9 would: nothing more is written, nothing is given back. It returns the incarnation that died.
func (e *Engine) Kill() journal.ID {
	e.mu.Lock()
	e.stopped = true
	e.mu.Unlock()
	e.kill()
	e.timers.stop()
	for _, x := range e.all() {
		x.leave(ErrStopped)
	}
	e.work.Wait()
	me := e.self()
	_ = me.committer.Abort()
	e.keeper.abort()
	e.obs.close()
	e.end()
	return me.id
}
