package postgres

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/pgcluster"
	"github.com/cairn-workflow/cairn/internal/store/storetest"
)

// doomed is a server that is ended without a checkpoint while others write to it.
type doomed struct {
	*testing.T
	*pgcluster.Cluster
	ledger storetest.Ledger
	life   atomic.Int64
}

func newDoomed(t *testing.T) *doomed {
	t.Helper()
	cluster, err := pgcluster.New(t.Context(), pgcluster.Options{Durable: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	d := &doomed{T: t, Cluster: cluster}
	d.ledger.Moment = func() int { return int(d.life.Load()) }
	return d
}

func (d *doomed) open() *Store {
	d.Helper()
	s, err := Open(d.Context(), d.URL(), nil)
	require.NoError(d, err)
	d.Cleanup(func() { _ = s.Close() })
	return s
}

// load writes with several committers until ctx ends. It returns when all of them are at it: who only begins may give up.
func (d *doomed) load(ctx context.Context, s *Store, seed uint64) (wait func()) {
	d.Helper()
	var group, begun sync.WaitGroup
	for i := range uint64(3) {
		begun.Add(1)
		begins := sync.OnceFunc(begun.Done)
		work := storetest.Work{Ledger: &d.ledger, Seed: seed + i, Largest: 40 << 10, Committed: begins}
		group.Go(func() {
			defer begins()
			if err := work.Run(ctx, s); ctx.Err() == nil {
				d.Errorf("it gave up: %v", err)
			}
		})
	}
	begun.Wait()
	return group.Wait
}

// acknowledged waits for some more acknowledgements.
func (d *doomed) acknowledged(more int) {
	d.Helper()
	want := d.ledger.Acknowledged(int(d.life.Load())) + more
	require.Eventually(d, func() bool { return d.ledger.Acknowledged(int(d.life.Load())) >= want }, time.Minute, time.Millisecond)
}

// The server is ended without a checkpoint under load, again and again: what was acknowledged is there when it comes back, and it goes on.
func TestImmediateShutdown(t *testing.T) {
	t.Parallel()
	lives := 3
	if os.Getenv("CAIRN_VERIFY") != "" {
		lives = 30
	}
	d := newDoomed(t)
	for life := range lives {
		d.life.Store(int64(life))
		ctx, cancel := context.WithCancel(t.Context())
		wait := d.load(ctx, d.open(), uint64(life)*10)
		d.acknowledged(100 + 37*life)
		require.NoError(t, d.StopImmediate())
		cancel() // the writers die with it
		wait()
		require.NoError(t, d.Start(t.Context()))
		require.NoError(t, d.ledger.Audit(t.Context(), d.open(), life))
	}
	t.Logf("%d commands acknowledged in %d lives", d.ledger.Acknowledged(lives), lives)
}

// Writers that live through it settle what was on its way, and go on.
func TestImmediateShutdownIsSurvived(t *testing.T) {
	t.Parallel()
	d := newDoomed(t)
	ctx, cancel := context.WithCancel(t.Context())
	wait := d.load(ctx, d.open(), 1)
	for range 3 {
		d.acknowledged(100)
		require.NoError(t, d.StopImmediate())
		require.NoError(t, d.Start(t.Context()))
	}
	d.acknowledged(100)
	cancel()
	wait()
	require.NoError(t, d.ledger.Audit(t.Context(), d.open(), 0))
}
