package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
	"github.com/cairn-workflow/cairn/examples/internal/recorded"
)

func TestRecordedRuns(t *testing.T) {
	t.Parallel()
	// played starts an order, lets something be done to it, and waits for its end.
	played := func(o Order, do func(e *cairntest.Env, run *cairn.Run[string])) recorded.Scenario {
		return func(e *cairntest.Env) string {
			run, err := Checkout.Start(e.Context(), e.Engine(), o, cairn.Key(o.ID))
			require.NoError(t, err)
			e.Sleep(time.Minute)
			do(e, run)
			return run.ID()
		}
	}
	nothing := func(*cairntest.Env, *cairn.Run[string]) {}
	decided := func(d Decision) func(e *cairntest.Env, run *cairn.Run[string]) {
		return func(e *cairntest.Env, run *cairn.Run[string]) {
			require.NoError(t, Approval.SendTo(e.Context(), e.Engine(), run.ID(), d, cairn.Key("click 1")))
			_, _ = run.Result(e.Context())
		}
	}
	cancelled := func(e *cairntest.Env, run *cairn.Run[string]) {
		require.NoError(t, run.By("ada").Cancel(e.Context(), "too dear"))
		_, err := run.Result(e.Context())
		require.ErrorIs(t, err, cairn.ErrCancelled)
	}
	order := Order{ID: "a1", Card: "4242", Cents: 25000}
	recorded.Replay(t, []cairn.Definition{Checkout}, map[string]recorded.Scenario{
		"shipped":   played(Order{ID: "a1", Card: "busy", Cents: 900}, nothing),
		"declined":  played(Order{ID: "a1", Card: "empty", Cents: 900}, nothing),
		"waiting":   played(order, nothing),
		"approved":  played(order, decided(Decision{Approved: true})),
		"rejected":  played(order, decided(Decision{})),
		"cancelled": played(order, cancelled),
	})
}
