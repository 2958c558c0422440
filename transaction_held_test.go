package cairn_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/store"
)

// A transaction in which a run was started stays open for more than twice the lease. No process is declared dead, no body is ended or done twice; on
// PostgreSQL all others go on meanwhile, on SQLite they go on when it has ended.
func TestATransactionHeldOpen(t *testing.T) {
	t.Parallel()
	onEachPlace(t, func(t *testing.T, p *place) {
		const lease = 2 * time.Second
		var begun, cut atomic.Int32
		atWork := make(chan struct{})
		slow := cairn.NewWorkflow("slow", func(ctx cairn.Context, _ int) (string, error) {
			if _, err := cairn.Do(ctx, "work", func(ctx context.Context) (int, error) {
				if begun.Add(1) == 1 {
					close(atWork)
				}
				select {
				case <-time.After(lease): // it ends while the transaction is open
				case <-ctx.Done():
					cut.Add(1)
				}
				return 0, ctx.Err()
			}); err != nil {
				return "", err
			}
			return cairn.Do(ctx, "after", func(context.Context) (string, error) { return "done", nil })
		})
		wf := checkout()
		cfg := cairn.Config{Poll: 50 * time.Millisecond, Lease: lease}
		e, st := p.engine(cfg, slow, wf)
		_, err := wf.Start(t.Context(), e, "0") // the names of its workflow exist
		require.NoError(t, err)
		run, err := slow.Start(t.Context(), e, 0)
		require.NoError(t, err)
		<-atWork
		other, _ := p.engine(cfg, wf)
		peers := incarnations(t, st)

		tx := p.begin()
		tx.order(t, "o-1")
		held, err := wf.StartIn(t.Context(), e, tx.handle, "o-1", cairn.StartKey("o-1"))
		require.NoError(t, err)
		opened := time.Now()
		var others sync.WaitGroup
		for range 2 { // who wants the same key waits for the transaction
			others.Go(func() {
				same, err := wf.Start(t.Context(), other, "o-1", cairn.StartKey("o-1"))
				if err == nil && same.ID() != held.ID() {
					err = context.Canceled
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		for p.kind != "sqlite" && time.Since(opened) < 2*lease { // those who do not, do not
			for _, e := range []*cairn.Engine{e, other} {
				_, err := result(t, e, wf, "neighbour")
				require.NoError(t, err)
			}
			_, err := wf.Start(t.Context(), e, "n", cairn.StartKey(time.Since(opened).String()))
			require.NoError(t, err)
		}
		time.Sleep(2*lease + lease/2 - time.Since(opened))
		require.NoError(t, tx.commit())

		out, err := held.Result(patient(t))
		require.NoError(t, err)
		require.Equal(t, "charged o-1", out)
		others.Wait()
		out, err = run.Result(patient(t))
		require.NoError(t, err)
		require.Equal(t, "done", out)
		require.EqualValues(t, 1, begun.Load(), "bodies begun")
		require.Zero(t, cut.Load(), "bodies ended early")
		require.Equal(t, peers, incarnations(t, st), "nobody was declared dead, or took himself for it")
		id, err := journal.PrefixRun.Parse(run.ID())
		require.NoError(t, err)
		row, err := st.Run(t.Context(), "default", id, store.ResolveNone)
		require.NoError(t, err)
		require.EqualValues(t, 1, row.Epoch, "how often the run was claimed")
	})
}

// incarnations returns the processes that were not declared dead.
func incarnations(t *testing.T, st store.Store) map[journal.ID]bool {
	t.Helper()
	peers, err := st.Peers(t.Context())
	require.NoError(t, err)
	all := map[journal.ID]bool{}
	for _, p := range peers {
		all[p.Incarnation] = true
	}
	return all
}
