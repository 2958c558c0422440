package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// A run is chosen to be evicted, and claimed again before that happens. If it were evicted nevertheless, its process
// would own it, and nobody would execute it.
func TestEvict_RunIsBeingClaimed_GoesOn(t *testing.T) {
	t.Parallel()
	under, err := sqlite.Memory(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, under.Close()) }()
	var slow atomic.Bool
	begins := make(chan struct{})
	st := faultstore.Wrap(under, func(journal.ID) faultstore.Plan {
		return func(op faultstore.Op, _ int) faultstore.Fault {
			if op == faultstore.OpBegin && slow.Load() {
				<-begins
			}
			return faultstore.Fault{}
		}
	})
	e, err := New(t.Context(), st, Config{}, &Workflow{Name: "w", Run: func(b *Branch, _ journal.Payload) (journal.Payload, error) {
		h, err := b.OpenHook(HookSpec{Name: "hook"})
		if err != nil {
			return nil, err
		}
		_, err = h.Receive(b, nil, nil)
		return nil, err
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Stop(context.WithoutCancel(t.Context()))) }()
	run, err := e.Start(t.Context(), StartRequest{Workflow: "w"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return e.Stats().Waiting == 1 }, 10*time.Second, time.Millisecond)
	e.mu.Lock()
	x := e.execs[store.RunKey{Namespace: e.namespace, Run: run}]
	e.mu.Unlock()
	require.NotNil(t, x)

	slow.Store(true)
	cancelled := make(chan error, 1)
	go func() { cancelled <- e.Cancel(t.Context(), run, "enough", "") }()
	require.Eventually(t, func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.phase == phaseWaking
	}, 10*time.Second, time.Millisecond)
	x.evict()
	close(begins)
	require.NoError(t, <-cancelled)
	within, done := context.WithTimeout(t.Context(), 10*time.Second)
	defer done()
	ended, err := e.Wait(within, run)
	require.NoError(t, err)
	require.Equal(t, journal.StatusCancelled, ended.Status)
	require.Zero(t, e.Stats().Evicted)
}
