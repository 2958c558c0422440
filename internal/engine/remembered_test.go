package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/check"
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
)

// twice is a workflow that receives two payloads.
func twice() *engine.Workflow {
	return &engine.Workflow{Name: "twice", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		h, err := b.OpenHook(engine.HookSpec{Name: "hook", Token: "token"})
		if err != nil {
			return nil, err
		}
		first, err := h.Receive(b, nil, nil)
		if err != nil {
			return nil, err
		}
		second, err := h.Receive(b, nil, nil)
		return append(first.Payload, second.Payload...), err
	}}
}

// rests waits until nobody owns a run that was claimed so often.
func rests(t *testing.T, st store.Store, run journal.ID, epoch int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		r, err := st.Run(t.Context(), "default", run, store.ResolveNone)
		return err == nil && r.Owner.IsZero() && r.Epoch == epoch
	}, 20*time.Second, time.Millisecond)
}

// TestADeliveryWakesARunThatIsRememberedAsDue lets a process deliver twice. It has seen the run become due with the first payload, and not that another process has
// claimed the run and given it back since: the second must wake it, too.
func TestADeliveryWakesARunThatIsRememberedAsDue(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	worker, st := life(t, path, twice())
	sender, _ := life(t, path)
	id, err := sender.Start(t.Context(), engine.StartRequest{Workflow: "twice", Elsewhere: true})
	require.NoError(t, err)
	rests(t, st, id, 1)
	_, err = sender.Deliver(t.Context(), engine.Sending{Token: "token", Payload: journal.Payload("a")})
	require.NoError(t, err)
	rests(t, st, id, 2)
	_, err = sender.Deliver(t.Context(), engine.Sending{Token: "token", Payload: journal.Payload("b")})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	run, err := worker.Wait(ctx, id)
	require.NoError(t, err)
	require.Equal(t, "ab", string(run.Output))
}

// TestAPauseIsNotWrittenOver pauses a run through another process in the moment in which its owner gives it back with nothing to record.
func TestAPauseIsNotWrittenOver(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	other, plain := life(t, path)
	var id journal.ID
	var begins atomic.Int64
	begins.Store(-1000)
	plan := func(op faultstore.Op, _ int) faultstore.Fault {
		if op == faultstore.OpBegin && begins.Add(1) == 2 { // the first claims the run, the second gives it back
			_ = other.Pause(context.Background(), id, "", "")
		}
		return faultstore.Fault{Delay: time.Nanosecond}
	}
	owner, _ := plannedLife(t, path, plan, twice())
	var err error
	id, err = owner.Start(t.Context(), engine.StartRequest{Workflow: "twice"})
	require.NoError(t, err)
	rests(t, plain, id, 1)
	begins.Store(0)
	_, err = other.Deliver(t.Context(), engine.Sending{Token: "token", Payload: journal.Payload("a")})
	require.NoError(t, err)
	rests(t, plain, id, 2)
	run, err := plain.Run(t.Context(), "default", id, store.ResolveNone)
	require.NoError(t, err)
	require.NotZero(t, run.ParkedAt, "the pause is in the journal, and was written over in the view")
	differences, err := check.Views(t.Context(), plain, "default", id, journal.TimeOf(time.Now()))
	require.NoError(t, err)
	require.Empty(t, differences)
}
