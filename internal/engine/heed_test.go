package engine

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// TestToldBeforeItsCodeBegins tells a run of something between the moment in which the process has it and the one in which its code begins: it is not given back for that. The database
// is away meanwhile: nobody else tells it of what its own process has written, so that is tried again.
func TestToldBeforeItsCodeBegins(t *testing.T) {
	t.Parallel()
	under, err := sqlite.Memory(t.Context(), nil)
	require.NoError(t, err)
	var away atomic.Int32
	st := faultstore.Wrap(under, func(journal.ID) faultstore.Plan {
		return func(op faultstore.Op, _ int) faultstore.Fault {
			if op == faultstore.OpBegin && away.Add(-1) >= 0 {
				return faultstore.Fault{Before: cairnerr.Errorf(cairnerr.CodeUnreachable, "it is away")}
			}
			return faultstore.Fault{}
		}
	})
	e, err := New(t.Context(), st, Config{}) // it looks for no runs
	require.NoError(t, err)
	run, err := e.Start(t.Context(), StartRequest{Workflow: "w", Elsewhere: true})
	require.NoError(t, err)
	e.workflows["w"] = &Workflow{Name: "w", Run: func(*Branch, journal.Payload) (journal.Payload, error) { return nil, nil }}
	key := store.RunKey{Namespace: e.namespace, Run: run}
	require.True(t, e.admit())
	x := e.claimAs(e.self(), key, false)
	require.NotNil(t, x)
	e.mu.Lock()
	kept := e.keep(x)
	e.mu.Unlock()
	require.True(t, kept)

	require.NoError(t, e.Push(t.Context(), run))
	away.Store(2)
	require.True(t, x.heed())
	require.Negative(t, away.Load(), "it was away")
	row, err := st.Run(t.Context(), key.Namespace, run, store.ResolveNone)
	require.NoError(t, err)
	require.Equal(t, e.self().id, row.Owner)
	require.Zero(t, row.WakeAt)

	x.start()
	ended, err := e.Wait(t.Context(), run)
	require.NoError(t, err)
	require.Equal(t, journal.StatusCompleted, ended.Status)
	require.NoError(t, e.Stop(t.Context()))
	require.NoError(t, st.Close())
}
