package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// cutOff is a store that fails to read a run some times, as one does whose connections were cut.
type cutOff struct {
	store.Store
	run   atomic.Pointer[journal.ID]
	fails atomic.Int32
}

func (c *cutOff) Run(ctx context.Context, namespace string, id journal.ID, r store.Resolve) (*journal.Run, error) {
	if cut := c.run.Load(); cut != nil && *cut == id && c.fails.Add(-1) >= 0 {
		return nil, cairnerr.Errorf(cairnerr.CodeUnreachable, "the connection was cut")
	}
	return c.Store.Run(ctx, namespace, id, r)
}

// TestAChildThatCannotBeLookedAt has a parent that is woken by the end of its child in another process, and cannot read the child at first. There is no second
// wake-up: it must ask again.
func TestAChildThatCannotBeLookedAt(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	st, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	cut := &cutOff{Store: st}
	parent := &engine.Workflow{Name: "parent", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		c, err := b.StartChild(engine.ChildSpec{Workflow: "child", Elsewhere: true})
		if err != nil {
			return nil, err
		}
		return b.AwaitChild(c, nil)
	}}
	e, err := engine.New(t.Context(), cut, engine.Config{Poll: 20 * time.Millisecond}, parent)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = e.Stop(context.WithoutCancel(t.Context())), st.Close() })
	elsewhere, _ := life(t, path, &engine.Workflow{Name: "child", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		h, err := b.OpenHook(engine.HookSpec{Name: "h", Token: "t"})
		if err != nil {
			return nil, err
		}
		_, err = h.Receive(b, nil, nil)
		return journal.Payload("done"), err
	}})

	id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "parent"})
	require.NoError(t, err)
	var child journal.ID
	require.Eventually(t, func() bool { // the parent waits, and so does the child
		h, err := st.HookByToken(t.Context(), "default", "t", store.ResolveNone)
		run, runErr := st.Run(t.Context(), "default", id, store.ResolveNone)
		if err != nil || runErr != nil || !run.Owner.IsZero() {
			return false
		}
		child = h.Run
		return true
	}, time.Minute, time.Millisecond)
	cut.fails.Store(2)
	cut.run.Store(&child)
	_, err = elsewhere.Deliver(t.Context(), engine.Sending{Token: "t", Key: "k"})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run, err := e.Wait(ctx, id)
	require.NoError(t, err)
	require.Equal(t, "done", string(run.Output))
	require.Negative(t, cut.fails.Load(), "it was looked at")
}
