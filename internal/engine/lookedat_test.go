package engine_test

import (
	"context"
	"fmt"
	"slices"
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

func (c *cutOff) Heads(ctx context.Context, namespace string, ids []journal.ID) ([]store.RunHead, error) {
	if cut := c.run.Load(); cut != nil && slices.Contains(ids, *cut) && c.fails.Add(-1) >= 0 {
		return nil, cairnerr.Errorf(cairnerr.CodeUnreachable, "the connection was cut")
	}
	return c.Store.Heads(ctx, namespace, ids)
}

// TestAChildThatCannotBeLookedAt has a parent that is woken by the end of its child in another process, and cannot read the child at first. There is no second
// wake-up: it must ask again.
func TestAChildThatCannotBeLookedAt(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 1} {
		t.Run(fmt.Sprintf("beside %d others", others), func(t *testing.T) {
			t.Parallel()
			lookAtChild(t, others)
		})
	}
}

// lookAtChild lets a child end that its parent cannot read at first. The parent also waits for others, which go on.
func lookAtChild(t *testing.T, others int) {
	t.Helper()
	path := t.TempDir() + "/x.db"
	st, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	cut := &cutOff{Store: st}
	parent := &engine.Workflow{Name: "parent", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		for range others {
			_, err := b.Go(engine.BranchSpec{Name: "other"}, func(b *engine.Branch) (journal.Payload, error) {
				spec := engine.ChildSpec{Workflow: "child", Elsewhere: true, Input: journal.Payload("another token")}
				c, err := b.StartChild(spec)
				if err != nil {
					return nil, err
				}
				return b.AwaitChild(c, nil)
			})
			if err != nil {
				return nil, err
			}
		}
		c, err := b.StartChild(engine.ChildSpec{Workflow: "child", Elsewhere: true, Input: journal.Payload("t")})
		if err != nil {
			return nil, err
		}
		return b.AwaitChild(c, nil)
	}}
	e, err := engine.New(t.Context(), cut, engine.Config{Poll: 20 * time.Millisecond}, parent)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = e.Stop(context.WithoutCancel(t.Context())), st.Close() })
	child := func(b *engine.Branch, token journal.Payload) (journal.Payload, error) {
		h, err := b.OpenHook(engine.HookSpec{Name: "h", Token: string(token)})
		if err != nil {
			return nil, err
		}
		_, err = h.Receive(b, nil, nil)
		return journal.Payload("done"), err
	}
	elsewhere, _ := life(t, path, &engine.Workflow{Name: "child", Run: child})

	id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "parent"})
	require.NoError(t, err)
	var waits journal.ID                // the child
	require.Eventually(t, func() bool { // the parent waits, and so does the child
		h, err := st.HookByToken(t.Context(), "default", "t", store.ResolveNone)
		run, runErr := st.Run(t.Context(), "default", id, store.ResolveNone)
		if err != nil || runErr != nil || !run.Owner.IsZero() {
			return false
		}
		waits = h.Run
		return true
	}, time.Minute, time.Millisecond)
	cut.fails.Store(2)
	cut.run.Store(&waits)
	_, err = elsewhere.Deliver(t.Context(), engine.Sending{Token: "t", Key: "k"})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run, err := e.Wait(ctx, id)
	require.NoError(t, err)
	require.Equal(t, "done", string(run.Output))
	require.Negative(t, cut.fails.Load(), "it was looked at")
}
