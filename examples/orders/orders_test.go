package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/store/open"
)

const patience = 30 * time.Second

// open starts a shop on a database in memory. The lines of the ledger can be read when its orders have ended.
func openShop(t *testing.T, regret, transit time.Duration) (*shop, *cairn.Engine, *bytes.Buffer) {
	t.Helper()
	ledger := &bytes.Buffer{}
	s := newShop(&world{pace: time.Millisecond, ledger: ledger}, regret, transit)
	st, err := open.URL(t.Context(), "sqlite::memory:")
	require.NoError(t, err)
	eng, err := cairn.New(t.Context(), st, s.order, s.shipment)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, eng.Stop(ctx))
		require.NoError(t, st.Close())
	})
	return s, eng, ledger
}

// effects lists what was done to the world outside, without the keys.
func effects(ledger string) []string {
	var out []string
	for line := range strings.Lines(ledger) {
		_, effect, _ := strings.Cut(strings.TrimSpace(line), " ")
		out = append(out, effect)
	}
	return out
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestOrderIsShipped(t *testing.T) {
	t.Parallel()
	s, eng, ledger := openShop(t, time.Millisecond, time.Millisecond)
	r, err := s.order.Start(t.Context(), eng, Order{ID: "1", Amount: 5, Card: cardBusy, Parcels: []string{"Oslo", "Porto"}})
	require.NoError(t, err)
	receipt, err := r.Result(within(t))
	require.NoError(t, err)
	require.Equal(t, 5, receipt.Amount)
	require.NotEmpty(t, receipt.Payment)
	require.Len(t, receipt.Tracking, 2)
	require.ElementsMatch(t, []string{
		"reserve 1", "charge 1", "pick 1-Oslo", "pick 1-Porto", "hand-over 1-Oslo", "hand-over 1-Porto", "confirm 1",
	}, effects(ledger.String()))

	attempts := 0
	for event, err := range eng.Run(r.ID()).History(t.Context()) {
		require.NoError(t, err)
		if event.Key == "charge" && event.Type == "step_retrying" {
			attempts++
		}
	}
	require.Equal(t, 2, attempts, "the bank was busy twice")
}

func TestDeclinedCardReleasesStock(t *testing.T) {
	t.Parallel()
	s, eng, ledger := openShop(t, time.Hour, time.Hour)
	r, err := s.order.Start(t.Context(), eng, Order{ID: "1", Card: cardEmpty, Parcels: []string{"Oslo"}})
	require.NoError(t, err)
	_, err = r.Result(within(t))
	require.ErrorIs(t, err, errDeclined)
	require.Equal(t, []string{"reserve 1", "release 1"}, effects(ledger.String()), "nothing was paid, so nothing is paid back")
}

func TestCancelIsUndone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		regret  time.Duration
		waits   string // for what, and how often, when it is cancelled
		effects []string
	}{
		"before it is shipped": {time.Hour, "sleep", []string{"reserve 1", "charge 1", "refund 1", "release 1"}},
		"while it is shipped": {time.Millisecond, "child", []string{
			"reserve 1", "charge 1", "pick 1-Oslo", "pick 1-Porto", "hand-over 1-Oslo", "hand-over 1-Porto", "recall 1-Oslo", "recall 1-Porto", "refund 1", "release 1",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, eng, ledger := openShop(t, test.regret, time.Hour)
			r, err := s.order.Start(t.Context(), eng, Order{ID: "1", Card: cardGood, Parcels: []string{"Oslo", "Porto"}})
			require.NoError(t, err)
			require.Eventually(t, func() bool { return asleep(t, eng, r.ID(), test.waits) }, patience, 5*time.Millisecond)
			require.NoError(t, r.Cancel(t.Context(), "changed my mind"))
			_, err = r.Result(within(t))
			require.ErrorIs(t, err, cairn.ErrCancelled)
			require.ElementsMatch(t, test.effects, effects(ledger.String()))
		})
	}
}

// asleep reports whether a run waits for something, and all its children sleep.
func asleep(t *testing.T, eng *cairn.Engine, id, kind string) bool {
	t.Helper()
	info, err := eng.Run(id).Describe(t.Context())
	require.NoError(t, err)
	for _, w := range info.Waits {
		if w.Kind != kind || w.ChildID != "" && !asleep(t, eng, w.ChildID, "sleep") {
			return false
		}
	}
	return len(info.Waits) > 0 && (kind != "child" || len(info.Waits) == 2)
}

func TestProgramEndsAndStartsAnew(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "orders.db")
	for _, day := range []string{"1", "2"} {
		var out bytes.Buffer
		require.NoError(t, run(within(t), []string{"-db", db, "-pace", "2ms"}, &out))
		require.Contains(t, out.String(), "The orders of day "+day+" are new.")
		require.Contains(t, out.String(), "order "+day+"-1: 84.90 paid")
		require.Contains(t, out.String(), "order "+day+"-2: the card was declined")
		require.Contains(t, out.String(), "order "+day+"-3: 230.50 paid")
	}
	require.ErrorContains(t, run(within(t), []string{"-db", db, "-cancel", "3-1"}, &bytes.Buffer{}), "no order")
	require.ErrorContains(t, run(within(t), []string{"-db", db, "-cancel", "2-1"}, &bytes.Buffer{}), "run_ended")
}

func TestProgramCancels(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "orders.db")
	ctx := within(t)
	var out bytes.Buffer
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"-db", db, "-pace", "200ms"}, &out) }()
	require.Eventually(t, func() bool {
		return run(ctx, []string{"-db", db, "-cancel", "1-3"}, &bytes.Buffer{}) == nil
	}, patience, 5*time.Millisecond)
	require.NoError(t, <-ended)
	require.Contains(t, out.String(), "order 1-3: cancelled, and undone")
	require.Contains(t, out.String(), "order 1-1: 84.90 paid", "the others go on")
}

func TestProgramIsInterrupted(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "orders.db")
	ctx, interrupt := context.WithCancel(within(t))
	var out bytes.Buffer
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"-db", db, "-pace", "100ms"}, &out) }()
	st, err := open.URL(t.Context(), db)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	eng, err := cairn.New(t.Context(), st)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		page, err := eng.List(t.Context(), cairn.Filter{Workflow: "order"})
		require.NoError(t, err)
		return len(page.Runs) == 3
	}, patience, 5*time.Millisecond)
	require.NoError(t, eng.Stop(t.Context()))
	interrupt()
	require.NoError(t, <-ended)
	require.Contains(t, out.String(), "Stopped.")

	out.Reset()
	require.NoError(t, run(within(t), []string{"-db", db, "-pace", "2ms"}, &out))
	require.Contains(t, out.String(), "The orders of day 1 go on")
	require.Contains(t, out.String(), "order 1-3: 230.50 paid")
}
