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
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
)

// TestADeliveryOfUnknownOutcome lets a sender give up while what it sent is being written: it is told that nobody knows, and the value arrives once.
func TestADeliveryOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	var slow atomic.Bool
	reached := make(chan struct{})
	plan := func(op faultstore.Op, _ int) faultstore.Fault {
		if op == faultstore.OpCommit && slow.CompareAndSwap(true, false) {
			close(reached)
			return faultstore.Fault{Delay: 2 * time.Second}
		}
		return faultstore.Fault{}
	}
	e, st := plannedLife(t, t.TempDir()+"/x.db", plan, twice())
	id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "twice"})
	require.NoError(t, err)
	rests(t, st, id, 1)
	slow.Store(true)
	sending, giveUp := context.WithCancel(t.Context())
	go func() {
		<-reached
		giveUp()
	}()
	_, err = e.Deliver(sending, engine.Sending{Token: "token", Payload: journal.Payload("a")})
	require.Equal(t, cairnerr.CodeOutcomeUnknown, cairnerr.CodeOf(err), err)
	_, err = e.Deliver(t.Context(), engine.Sending{Token: "token", Payload: journal.Payload("b")})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	run, err := e.Wait(ctx, id)
	require.NoError(t, err)
	require.Equal(t, "ab", string(run.Output))
}
