package engine_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/store"
	opener "github.com/cairn-workflow/cairn/store/open"
)

// TestADeliveryAfterAClaim sends twice to a run that waits, from the process that started it and so remembers it. Its owner comes in between, sees what was sent first, and gives the run back: the claim has left
// no event, so the sender remembers the run as due. What was sent last must make it due again.
func TestADeliveryAfterAClaim(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(testing.TB) string{
		"sqlite":   func(tb testing.TB) string { tb.Helper(); return "sqlite:" + tb.TempDir() + "/x.db" },
		"postgres": pgtest.URL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const now = journal.Time(1_767_225_600_000)
			address := url(t)
			process := func(id journal.ID) *commit.Committer {
				st, err := opener.URL(t.Context(), address)
				require.NoError(t, err)
				c, err := commit.New(t.Context(), st, id, &commit.Config{Now: func() journal.Time { return now }})
				require.NoError(t, err)
				t.Cleanup(func() { _, _ = c.Abort(), st.Close() })
				return c
			}
			worker, sender := journal.ID{1}, journal.ID{2}
			run, err := journal.NewMinter(rand.NewChaCha8([32]byte{})).Mint(now)
			require.NoError(t, err)
			working, sending := process(worker), process(sender)
			do := func(c *commit.Committer, cmd *journal.Command) *journal.Result {
				cmd.Namespace, cmd.Run = "default", run
				res, err := c.Do(t.Context(), cmd)
				require.NoError(t, err)
				return res
			}
			owner := func(epoch int64) journal.Guards {
				return journal.Guards{Owner: journal.Ownership{Incarnation: worker, Epoch: epoch}}
			}
			send := func() {
				hook := journal.DeriveID(run, journal.PrefixHook, "h")
				do(sending, &journal.Command{Events: []journal.Event{{Entity: hook, Data: &journal.HookReceived{Token: "t"}}}})
			}
			do(sending, &journal.Command{Events: []journal.Event{{Data: &journal.RunCreated{Workflow: "w"}}}})
			do(working, &journal.Command{Guards: owner(0), Lease: journal.LeaseClaim, Events: []journal.Event{{Data: &journal.RunStarted{}}}})
			do(working, &journal.Command{
				Guards: owner(1), Lease: journal.LeaseRelease, Events: []journal.Event{{Key: "h", Data: &journal.HookCreated{Token: "t"}}},
			})
			send()
			do(working, &journal.Command{Guards: owner(1), Lease: journal.LeaseClaim})
			send()
			do(working, &journal.Command{Guards: owner(2), Lease: journal.LeaseRelease})

			st, err := opener.ReadOnly(t.Context(), address)
			require.NoError(t, err)
			defer func() { require.NoError(t, st.Close()) }()
			got, err := st.Run(t.Context(), "default", run, store.ResolveNone)
			require.NoError(t, err)
			require.True(t, got.Owner.IsZero())
			require.Equal(t, now, got.WakeAt, "what was sent after the claim wakes nobody")
		})
	}
}
