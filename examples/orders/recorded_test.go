package main

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
	"github.com/cairn-workflow/cairn/examples/internal/recorded"
)

func TestRecordedRuns(t *testing.T) {
	t.Parallel()
	s := newShop(&world{pace: 300 * time.Millisecond, ledger: io.Discard}, time.Hour, 24*time.Hour)
	begin := func(e *cairntest.Env, card string) *cairn.Run[Receipt] {
		run, err := s.order.Start(e.Context(), e.Engine(), Order{ID: "1-1", Amount: 8490, Card: card, Parcels: []string{"Oslo", "Porto"}})
		require.NoError(t, err)
		return run
	}
	ended := func(card string) recorded.Scenario {
		return func(e *cairntest.Env) string {
			run := begin(e, card)
			_, _ = run.Result(e.Context())
			return run.ID()
		}
	}
	waiting := func(after time.Duration) recorded.Scenario {
		return func(e *cairntest.Env) string {
			run := begin(e, cardGood)
			e.Sleep(after)
			return run.ID()
		}
	}
	cancelled := func(after time.Duration) recorded.Scenario {
		return func(e *cairntest.Env) string {
			run := begin(e, cardGood)
			e.Sleep(after)
			require.NoError(t, run.Cancel(e.Context(), "the customer has changed their mind"))
			_, err := run.Result(e.Context())
			require.ErrorIs(t, err, cairn.ErrCancelled)
			return run.ID()
		}
	}
	parcel := func(of recorded.Scenario) recorded.Scenario {
		return func(e *cairntest.Env) string {
			page, err := e.Engine().List(e.Context(), cairn.Filter{ParentID: of(e)})
			require.NoError(t, err)
			require.Len(t, page.Runs, 2)
			return page.Runs[0].ID
		}
	}
	recorded.Replay(t, []cairn.Definition{s.order, s.shipment}, map[string]recorded.Scenario{
		"shipped":              ended(cardBusy),
		"declined":             ended(cardEmpty),
		"regretting":           waiting(time.Minute),
		"in-transit":           waiting(2 * time.Hour),
		"cancelled-early":      cancelled(time.Minute),
		"cancelled-in-transit": cancelled(2 * time.Hour),
		"parcel-shipped":       parcel(ended(cardGood)),
		"parcel-in-transit":    parcel(waiting(2 * time.Hour)),
		"parcel-recalled":      parcel(cancelled(2 * time.Hour)),
	})
}
