package engine_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// Each child that ends wakes its parent, which looks at all that it still waits for. That must not read each of them.
func TestAwaitChild_ManyChildren_ReadsAreLinear(t *testing.T) {
	t.Parallel()
	const n = 200
	child := &engine.Workflow{Name: "child", Run: func(b *engine.Branch, in journal.Payload) (journal.Payload, error) {
		i, err := strconv.Atoi(string(in))
		if err != nil {
			return nil, err
		}
		wait := time.Minute + time.Duration(i)*time.Second
		return in, b.Sleep(engine.TimerSpec{Name: "sleep", Until: func(now journal.Time) journal.Time { return now.Add(wait) }})
	}}
	parent := &engine.Workflow{Name: "parent", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		var futures []*engine.Future
		for i := range n {
			f, err := b.Go(engine.BranchSpec{Name: "branch"}, func(b *engine.Branch) (journal.Payload, error) {
				c, err := b.StartChild(engine.ChildSpec{Workflow: "child", Input: journal.Payload(strconv.Itoa(i))})
				if err != nil {
					return nil, err
				}
				return b.AwaitChild(c, nil)
			})
			if err != nil {
				return nil, err
			}
			futures = append(futures, f)
		}
		return nil, b.WaitAll(futures)
	}}
	bubble.Run(t, func(t *testing.T) {
		t.Helper()
		st, err := sqlite.Memory(t.Context(), nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, st.Close()) }()
		c := &counting{Store: st, calls: map[string]int{}}
		e, err := engine.New(t.Context(), c, engine.Config{}, parent, child)
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Stop(context.Background())) }()
		id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "parent"})
		require.NoError(t, err)
		time.Sleep(30 * time.Second)
		calls := c.taken()
		require.LessOrEqual(t, calls["run"]+calls["runs asked for"], n, "each child is read when its wait begins")
		time.Sleep(time.Minute + n*time.Second)
		calls = c.taken()
		require.LessOrEqual(t, calls["run"]+calls["heads"], 2*n, "each end is one look")
		run, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, journal.StatusCompleted, run.Status)
	})
}

// A parent that is asked to stop while no process executes it passes the cancel on when it is loaded, not when its
// clean-up is over.
func TestCancel_ParentLoadedLater_ChildEndsDuringCleanUp(t *testing.T) {
	t.Parallel()
	sleep := func(b *engine.Branch, d time.Duration) error {
		return b.Sleep(engine.TimerSpec{Name: "sleep", Until: func(now journal.Time) journal.Time { return now.Add(d) }})
	}
	child := &engine.Workflow{Name: "child", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		return nil, sleep(b, 100*time.Hour)
	}}
	var started atomic.Pointer[journal.ID] // the child; stored again when the parent is executed again
	parent := &engine.Workflow{Name: "parent", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		c, err := b.StartChild(engine.ChildSpec{Workflow: "child"})
		if err != nil {
			return nil, err
		}
		id := c.ID()
		started.Store(&id)
		cancelled := sleep(b, 100*time.Hour)
		clean, done, err := b.Shelter(engine.TimerSpec{Name: "clean-up", Until: func(now journal.Time) journal.Time { return now.Add(10 * time.Hour) }})
		if err != nil {
			return nil, err
		}
		defer done()
		if err := sleep(clean, 10*time.Minute); err != nil {
			return nil, err
		}
		return nil, cancelled
	}}
	bubble.Run(t, func(t *testing.T) {
		t.Helper()
		st, err := sqlite.Memory(t.Context(), nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, st.Close()) }()
		with := func(do func(*engine.Engine), workflows ...*engine.Workflow) {
			e, err := engine.New(t.Context(), st, engine.Config{}, workflows...)
			require.NoError(t, err)
			defer func() { require.NoError(t, e.Stop(context.WithoutCancel(t.Context()))) }()
			do(e)
		}
		var run journal.ID
		with(func(e *engine.Engine) {
			run, err = e.Start(t.Context(), engine.StartRequest{Workflow: "parent"})
			require.NoError(t, err)
			time.Sleep(time.Minute)
		}, parent, child)
		with(func(e *engine.Engine) { require.NoError(t, e.Cancel(t.Context(), run, "enough", "")) })
		with(func(e *engine.Engine) {
			time.Sleep(time.Minute)
			ended, err := st.Run(t.Context(), e.Namespace(), *started.Load(), store.ResolveNone)
			require.NoError(t, err)
			require.Equal(t, journal.StatusCancelled, ended.Status)
			cleans, err := st.Run(t.Context(), e.Namespace(), run, store.ResolveNone)
			require.NoError(t, err)
			require.Equal(t, journal.StatusRunning, cleans.Status, "it cleans up")
			ended, err = e.Wait(t.Context(), run)
			require.NoError(t, err)
			require.Equal(t, journal.StatusCancelled, ended.Status)
		}, parent, child)
	})
}
