package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// The body, the view of the source and that of the fork agree on the attempt, also if an engine was stopped meanwhile.
func TestFork_EngineStoppedDuringStep_KeepsAttempt(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Memory(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	begun, attempt := make(chan struct{}, 1), 0
	wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		long := engine.StepSpec{Name: "long", Timeout: time.Hour}
		_, err := b.Step(long, func(ctx context.Context, info engine.StepInfo) (journal.Payload, error) {
			if attempt++; attempt > 1 {
				return journal.Payload{byte('0' + info.Attempt)}, nil
			}
			begun <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if err != nil {
			return nil, err
		}
		next := func(context.Context, engine.StepInfo) (journal.Payload, error) { return nil, nil }
		return b.Step(engine.StepSpec{Name: "next"}, next)
	}}
	first, err := engine.New(t.Context(), st, engine.Config{}, wf)
	require.NoError(t, err)
	source, err := first.Start(t.Context(), engine.StartRequest{Workflow: "w"})
	require.NoError(t, err)
	<-begun
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_ = first.Stop(over)

	second, err := engine.New(t.Context(), st, engine.Config{}, wf)
	require.NoError(t, err)
	_, err = second.Wait(t.Context(), source)
	require.NoError(t, err)
	fork, err := second.Fork(t.Context(), source, "w", journal.ForkSpec{From: "next"})
	require.NoError(t, err)
	_, err = second.Wait(t.Context(), fork)
	require.NoError(t, err)
	for _, id := range []journal.ID{source, fork} {
		steps, err := st.Steps(t.Context(), "default", id, store.ResolveAll, store.Page{Limit: 10})
		require.NoError(t, err)
		require.Equal(t, "long", steps.Data[0].Name)
		require.Equal(t, 1, steps.Data[0].Attempt)
		require.Equal(t, "1", string(steps.Data[0].Output))
	}
	require.NoError(t, second.Stop(t.Context()))
}
