package engine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// TestADeadOwnersRunIsPickedUpInTime kills processes at many moments of their heartbeat, in virtual time: a peer goes on with the run within the lease and a second.
func TestADeadOwnersRunIsPickedUpInTime(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	for k := range 12 {
		path := t.TempDir() + "/x.db"
		bubble.Run(t, func(t *testing.T) {
			t.Helper()
			begun := make(chan time.Time, 2)
			wf := &engine.Workflow{Name: "long", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
				return b.Step(engine.StepSpec{Name: "s"}, func(ctx context.Context, _ engine.StepInfo) (journal.Payload, error) {
					begun <- time.Now()
					<-ctx.Done()
					return nil, ctx.Err()
				})
			}}
			start := func() *engine.Engine {
				st, err := sqlite.Open(t.Context(), path, nil)
				require.NoError(t, err)
				t.Cleanup(func() { _ = st.Close() })
				e, err := engine.New(t.Context(), st, engine.Config{Lease: lease}, wf)
				require.NoError(t, err)
				return e
			}
			owner := start()
			_, err := owner.Start(t.Context(), engine.StartRequest{Workflow: "long"})
			require.NoError(t, err)
			<-begun
			peer := start()
			time.Sleep(3*time.Second + time.Duration(k)*100*time.Millisecond)
			killed := time.Now()
			owner.Kill()
			select {
			case again := <-begun:
				require.LessOrEqual(t, again.Sub(killed), lease+time.Second)
			case <-time.After(10 * lease):
				require.Fail(t, "nobody has taken the run over")
			}
			peer.Kill()
		})
	}
}

// counting counts what is asked of a store.
type counting struct {
	store.Store
	mu    sync.Mutex
	calls map[string]int
}

func (c *counting) count(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[name]++
}

// taken returns the counts, and begins anew.
func (c *counting) taken() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = map[string]int{}
	return calls
}

func (c *counting) Beat(ctx context.Context, id journal.ID) error {
	c.count("beat")
	return c.Store.Beat(ctx, id)
}

func (c *counting) Fence(ctx context.Context, id journal.ID) error {
	c.count("fence")
	return c.Store.Fence(ctx, id)
}

func (c *counting) OpenWriter(ctx context.Context, id journal.ID, n int) (store.Writer, error) {
	c.count("open writer")
	w, err := c.Store.OpenWriter(ctx, id, n)
	return &countingWriter{w, c}, err
}

func (c *counting) Journal(ctx context.Context, namespace string, id journal.ID, after int64) (*store.Journal, error) {
	c.count("journal")
	return c.Store.Journal(ctx, namespace, id, after)
}

func (c *counting) Run(ctx context.Context, namespace string, id journal.ID, r store.Resolve) (*journal.Run, error) {
	c.count("run")
	return c.Store.Run(ctx, namespace, id, r)
}

func (c *counting) Heads(ctx context.Context, namespace string, ids []journal.ID) ([]store.RunHead, error) {
	c.count("heads")
	c.mu.Lock()
	c.calls["runs asked for"] += len(ids)
	c.mu.Unlock()
	return c.Store.Heads(ctx, namespace, ids)
}

func (c *counting) Events(
	ctx context.Context, namespace string, f store.EventFilter, p store.Page,
) (store.List[store.RunEvent], error) {
	c.count("events")
	return c.Store.Events(ctx, namespace, f, p)
}

func (c *counting) Due(ctx context.Context, f store.DueFilter) ([]store.DueRun, error) {
	c.count("due")
	return c.Store.Due(ctx, f)
}

func (c *counting) Owns(ctx context.Context, id journal.ID) (bool, error) {
	c.count("owns")
	return c.Store.Owns(ctx, id)
}

type countingWriter struct {
	store.Writer
	c *counting
}

func (w *countingWriter) Begin(ctx context.Context, now journal.Time) (store.Tx, error) {
	w.c.count("begin")
	return w.Writer.Begin(ctx, now)
}

// TestAnIdleEngineWritesNothing lets two engines without active runs be for ten virtual minutes; one run waits for a hook. They look for due runs, which is cheap, and
// do nothing else.
func TestAnIdleEngineWritesNothing(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	bubble.Run(t, func(t *testing.T) {
		t.Helper()
		var stores []*counting
		var engines []*engine.Engine
		for range 2 {
			st, err := sqlite.Open(t.Context(), path, nil)
			require.NoError(t, err)
			t.Cleanup(func() { _ = st.Close() })
			c := &counting{Store: st, calls: map[string]int{}}
			e, err := engine.New(t.Context(), c, engine.Config{}, twice())
			require.NoError(t, err)
			stores, engines = append(stores, c), append(engines, e)
		}
		_, err := engines[0].Start(t.Context(), engine.StartRequest{Workflow: "twice"})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		for _, c := range stores {
			require.NotZero(t, c.taken()["open writer"])
		}
		time.Sleep(10 * time.Minute)
		for i, c := range stores {
			calls := c.taken()
			require.Positive(t, calls["due"])
			require.LessOrEqual(t, calls["due"], 2*600+2)
			delete(calls, "due")
			require.Empty(t, calls, "engine %d", i)
		}
		for _, e := range engines {
			require.NoError(t, e.Stop(t.Context()))
		}
	})
}
