package cairn_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/observe"
)

type traceKey struct{}

// paper is a propagator that carries one text.
type paper struct{}

func (paper) Inject(ctx context.Context, headers map[string]string) {
	if trace, ok := ctx.Value(traceKey{}).(string); ok {
		headers["traceparent"] = trace
	}
}

func (paper) Extract(ctx context.Context, headers map[string]string) context.Context {
	return context.WithValue(ctx, traceKey{}, headers["traceparent"])
}

func traceOf(ctx context.Context) string {
	trace, _ := ctx.Value(traceKey{}).(string)
	return trace
}

// What belongs to a starter's trace is in the contexts of the run's steps, of its workflow function, of its polls and of its children; also after a restart
// by a process that has forgotten all.
func TestATraceTravelsWithItsRun(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		read := func(ctx context.Context) (string, error) { return traceOf(ctx), nil }
		child := cairn.NewWorkflow("child", func(ctx cairn.Context, _ int) (string, error) { return cairn.Do(ctx, "read", read) })
		poll := cairn.NewPoll("poll", time.Millisecond, func(ctx context.Context, _ int) (string, bool, error) { return traceOf(ctx), true, nil })
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) ([]string, error) {
			first, err := cairn.Do(ctx, "first", read)
			if err != nil {
				return nil, err
			}
			if err := cairn.Sleep(ctx, 50*time.Millisecond); err != nil {
				return nil, err
			}
			second, err := cairn.Do(ctx, "second", read)
			if err != nil {
				return nil, err
			}
			polled, err := poll.Wait(ctx, 0)
			if err != nil {
				return nil, err
			}
			below, err := child.Run(ctx, 0)
			return []string{first, second, polled, below, traceOf(ctx)}, err
		})
		cfg := cairn.Config{Observe: observe.Hooks{Propagator: paper{}}}
		e := open(cfg, wf, child)
		run, err := wf.Start(context.WithValue(t.Context(), traceKey{}, "00-1-2-01"), e, 0)
		require.NoError(t, err)
		stop(e)
		e = open(cfg, wf, child)
		out, err := mustGet(t, wf, e, run.ID()).Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"00-1-2-01", "00-1-2-01", "00-1-2-01", "00-1-2-01", "00-1-2-01"}, out)

		without, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		out, err = without.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"", "", "", "", ""}, out)
	})
}

// An engine without a propagator goes on with runs that have a trace, and the other way round.
func TestATraceIsIgnoredByWhoDoesNotKnowIt(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (string, error) {
			if err := cairn.Sleep(ctx, 20*time.Millisecond); err != nil {
				return "", err
			}
			return cairn.Do(ctx, "read", func(ctx context.Context) (string, error) { return "trace: " + traceOf(ctx), nil })
		})
		with, without := cairn.Config{Observe: observe.Hooks{Propagator: paper{}}}, cairn.Config{}
		for _, order := range [][2]cairn.Config{{with, without}, {without, with}} {
			e := open(order[0], wf)
			run, err := wf.Start(context.WithValue(t.Context(), traceKey{}, "x"), e, 0)
			require.NoError(t, err)
			stop(e)
			e = open(order[1], wf)
			out, err := mustGet(t, wf, e, run.ID()).Result(t.Context())
			require.NoError(t, err)
			require.Equal(t, "trace: ", out)
			stop(e)
		}
	})
}

// A sender's trace is recorded with what was sent, and told when the code gets it.
func TestATraceTravelsWithADelivery(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		received := make(chan observe.Received, 10)
		hook := cairn.NewHook[int]("hook").Token("the token")
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) { return hook.Wait(ctx, cairn.Timeout(time.Hour)) })
		e := open(cairn.Config{MaxWaiting: -1, Observe: observe.Hooks{
			Propagator: paper{},
			Send: func(ctx context.Context, _ observe.Send) (context.Context, func(observe.Sent)) {
				return context.WithValue(ctx, traceKey{}, traceOf(ctx)+" sent"), nil
			},
			Received: func(_ context.Context, r observe.Received) { received <- r },
		}}, wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		ctx := context.WithValue(t.Context(), traceKey{}, "the sender's")
		require.Eventually(t, func() bool { return cairn.NewHook[int]("sent").Send(ctx, e, "the token", 7, cairn.Key("once")) == nil }, time.Minute, time.Millisecond)
		out, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, 7, out)
		r := <-received
		require.Equal(t, map[string]string{"traceparent": "the sender's sent"}, r.Headers)
		require.Equal(t, "hook", r.Hook)
		require.Equal(t, run.ID(), r.ID)
		for event, err := range e.Run(run.ID()).History(t.Context()) {
			require.NoError(t, err)
			if event.Type == "hook_received" {
				var detail struct{ Headers map[string]string }
				require.NoError(t, json.Unmarshal(event.Detail, &detail))
				require.Equal(t, r.Headers, detail.Headers)
			}
		}
	})
}
