package engine_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
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
