package observe_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/observe"
)

type propagator string

func (p propagator) Inject(_ context.Context, headers map[string]string) { headers[string(p)] = "in" }

func (p propagator) Extract(ctx context.Context, headers map[string]string) context.Context {
	return context.WithValue(ctx, p, headers[string(p)])
}

type key struct{}

// recorder returns hooks that note their calls.
func recorder(name string, calls *[]string) observe.Hooks {
	note := func(what string) { *calls = append(*calls, name+" "+what) }
	return observe.Hooks{
		Propagator:    propagator(name),
		EngineStarted: func(observe.Source) { note("EngineStarted") },
		EngineStopped: func(observe.Source) { note("EngineStopped") },
		StartRun: func(ctx context.Context, _ observe.RunStart) (context.Context, func(observe.RunStarted)) {
			note("StartRun")
			return nil, nil
		},
		Execute: func(ctx context.Context, _ observe.Execution) (context.Context, func(observe.ExecutionEnd)) {
			return ctx, nil
		},
		Attempt: func(ctx context.Context, _ observe.Attempt) (context.Context, func(observe.AttemptEnd)) {
			before, _ := ctx.Value(key{}).(string)
			return context.WithValue(ctx, key{}, before+name), func(observe.AttemptEnd) { note("AttemptEnd") }
		},
		Look: func(ctx context.Context, _ observe.Look) (context.Context, func(observe.LookEnd)) {
			return ctx, func(observe.LookEnd) { note("LookEnd") }
		},
		Send: func(ctx context.Context, _ observe.Send) (context.Context, func(observe.Sent)) {
			return ctx, func(observe.Sent) { note("Sent") }
		},
		Received:   func(context.Context, observe.Received) { note("Received") },
		RunEnded:   func(context.Context, observe.RunEnd) { note("RunEnded") },
		RunParked:  func(observe.RunParked) { note("RunParked") },
		RunEvicted: func(observe.Run) { note("RunEvicted") },
		Committed:  func(observe.Commit) { note("Committed") },
		LeaseLost:  func(observe.Lease) { note("LeaseLost") },
		PeerDied:   func(observe.Lease) { note("PeerDied") },
	}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	require.True(t, reflect.ValueOf(observe.Join()).IsZero(), "none stays none, and costs nothing")
	var calls []string
	h := observe.Join(observe.Hooks{}, recorder("a", &calls), observe.Hooks{}, recorder("b", &calls))
	for field, value := range reflect.ValueOf(h).Fields() {
		require.False(t, value.IsZero(), "%s was forgotten", field.Name)
	}

	headers := map[string]string{}
	h.Propagator.Inject(t.Context(), headers)
	require.Equal(t, map[string]string{"a": "in", "b": "in"}, headers)
	ctx := h.Propagator.Extract(t.Context(), headers)
	require.Equal(t, "in", ctx.Value(propagator("a")))
	require.Equal(t, "in", ctx.Value(propagator("b")))

	ctx, end := h.Attempt(t.Context(), observe.Attempt{})
	require.Equal(t, "ab", ctx.Value(key{}), "the second sees what the first has done")
	end(observe.AttemptEnd{})
	require.Equal(t, []string{"b AttemptEnd", "a AttemptEnd"}, calls, "and ends before it")

	calls = nil
	ctx, started := h.StartRun(t.Context(), observe.RunStart{})
	require.NotNil(t, ctx)
	started(observe.RunStarted{})
	h.EngineStarted(nil)
	h.EngineStopped(nil)
	_, sent := h.Send(t.Context(), observe.Send{})
	sent(observe.Sent{})
	_, looked := h.Look(t.Context(), observe.Look{})
	looked(observe.LookEnd{})
	_, over := h.Execute(t.Context(), observe.Execution{})
	over(observe.ExecutionEnd{})
	h.Received(t.Context(), observe.Received{})
	h.RunEnded(t.Context(), observe.RunEnd{})
	h.RunParked(observe.RunParked{})
	h.RunEvicted(observe.Run{})
	h.Committed(observe.Commit{})
	h.LeaseLost(observe.Lease{})
	h.PeerDied(observe.Lease{})
	require.Equal(t, []string{
		"a StartRun", "b StartRun", "a EngineStarted", "b EngineStarted", "a EngineStopped", "b EngineStopped", "b Sent", "a Sent", "b LookEnd", "a LookEnd",
		"a Received", "b Received", "a RunEnded", "b RunEnded", "a RunParked", "b RunParked", "a RunEvicted", "b RunEvicted",
		"a Committed", "b Committed", "a LeaseLost", "b LeaseLost", "a PeerDied", "b PeerDied",
	}, calls)
}
