package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
	"github.com/cairn-workflow/cairn/observe"
)

// TestWhoWaitsIsEvicted has runs that are woken in the moment in which they come to wait. Then all of them wait for a hook, and an engine that keeps none in memory evicts each of them.
func TestWhoWaitsIsEvicted(t *testing.T) {
	t.Parallel()
	const runs = 300
	st, err := sqlite.Open(t.Context(), t.TempDir()+"/x.db", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	var gone atomic.Int64 // from their hooks, through which nothing comes
	wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, in journal.Payload) (journal.Payload, error) {
		if err := b.Sleep(engine.TimerSpec{Name: "nap", Until: func(now journal.Time) journal.Time { return now.Add(time.Millisecond) }}); err != nil {
			return nil, err
		}
		h, err := b.OpenHook(engine.HookSpec{Name: "hook", Token: string(in)})
		if err != nil {
			return nil, err
		}
		defer gone.Add(1)
		_, err = h.Receive(b, nil, nil)
		return nil, err
	}}
	told := observe.Hooks{Execute: func(ctx context.Context, _ observe.Execution) (context.Context, func(observe.ExecutionEnd)) { // which takes a moment
		return ctx, nil
	}}
	e, err := engine.New(t.Context(), st, engine.Config{MaxWaiting: -1, Hooks: told}, wf)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Stop(context.WithoutCancel(t.Context()))) }()
	for i := range runs {
		_, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w", Input: journal.Payload(fmt.Sprint("token ", i))})
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return gone.Load() == runs && e.Stats().Active == 0 }, 20*time.Second, 5*time.Millisecond)
}
