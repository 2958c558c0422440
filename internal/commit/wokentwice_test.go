package commit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/store"
	opener "github.com/cairn-workflow/cairn/internal/store/open"
)

// TestAChildEndsWhileItsParentIsClaimed lets a child end while the claim of its parent, which is due for another reason, is not committed yet: the claim uses
// up the time to wake that the child's batch still sees.
func TestAChildEndsWhileItsParentIsClaimed(t *testing.T) {
	t.Parallel()
	const now = journal.Time(1_767_225_600_000)
	address := pgtest.URL(t)
	st, err := opener.URL(t.Context(), address)
	require.NoError(t, err)
	me := journal.ID{1}
	c, err := commit.New(t.Context(), st, me, &commit.Config{Now: func() journal.Time { return now }})
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = c.Abort(), st.Close() })
	mint := journal.NewMinter(rand.NewChaCha8([32]byte{}))
	parent, err := mint.Mint(now)
	require.NoError(t, err)
	child, err := mint.Mint(now)
	require.NoError(t, err)
	do := func(run journal.ID, g journal.Guards, data ...journal.Data) error {
		cmd := &journal.Command{Namespace: "default", Run: run, Guards: g}
		for _, d := range data {
			cmd.Events = append(cmd.Events, journal.Event{Data: d})
		}
		_, err := c.Do(t.Context(), cmd)
		return err
	}
	require.NoError(t, do(parent, journal.Guards{}, &journal.RunCreated{Workflow: "w"})) // nobody owns it, and it is due
	owner := journal.Guards{Owner: journal.Ownership{Incarnation: me}}
	require.NoError(t, do(child, owner, &journal.RunStarted{Create: &journal.RunCreated{Workflow: "w", Parent: parent, Root: parent}}))

	conn, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)
	claim, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = claim.Exec(t.Context(), `update cairn.runs set wake_at = null, epoch = epoch + 1 where parent is null`)
	require.NoError(t, err)
	ended := make(chan error, 1)
	owner.Owner.Epoch = 1
	go func() { ended <- do(child, owner, &journal.RunCompleted{}) }()
	require.Eventually(t, func() bool { // the end of the child is durable
		run, err := st.Run(t.Context(), "default", child, store.ResolveNone)
		return err == nil && run.Status.Terminal()
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, claim.Commit(t.Context()))
	require.NoError(t, <-ended)
	require.NoError(t, do(child, journal.Guards{}, &journal.Annotated{Name: "next"})) // what could not be woken goes along with the next batch
	run, err := st.Run(t.Context(), "default", parent, store.ResolveNone)
	require.NoError(t, err)
	require.NotZero(t, run.WakeAt, "nobody wakes the parent")
}
