package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// soon is how long it may take on SQLite until another process notices a commit.
const soon = 20 * time.Millisecond

// parentOf returns a workflow "w" that starts children one after the other, in another process.
func parentOf(children int) *engine.Workflow {
	return &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		for range children {
			child, err := b.StartChild(engine.ChildSpec{Workflow: "child", Elsewhere: true})
			if err != nil {
				return nil, err
			}
			if _, err := b.AwaitChild(child, nil); err != nil {
				return nil, err
			}
		}
		return journal.Payload("done"), nil
	}}
}

// TestChild_InAnotherProcess_BeginsSoon has two processes on one SQLite file that look by themselves once an hour. In
// virtual time, what takes time is the notice that they take of each other.
func TestChild_InAnotherProcess_BeginsSoon(t *testing.T) {
	t.Parallel()
	const children = 30
	path := t.TempDir() + "/x.db"
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		begun := make(chan time.Time, children)
		process := func(wfs ...*engine.Workflow) *node {
			st, err := sqlite.Open(t.Context(), path, nil)
			require.NoError(t, err)
			return nodeOn(t, st, time.Hour, wfs...)
		}
		parents := process(parentOf(children))
		process(&engine.Workflow{Name: "child", Run: func(*engine.Branch, journal.Payload) (journal.Payload, error) {
			begun <- time.Now()
			return nil, nil
		}})
		time.Sleep(time.Second)
		began := time.Now()
		ended, err := wait(t, parents, begin(t, parents.Engine, ""))
		require.NoError(t, err)
		require.Equal(t, "done", string(ended.Output))
		require.LessOrEqual(t, time.Since(began), 2*children*soon, "to each child, and back")
		require.LessOrEqual(t, (<-begun).Sub(began), soon)
	})
}

// TestIdleEngines_OnSQLite_DoNotLookForNothing has two processes of which one does something. When it has ended, they
// look as often as they are told to, and not because of each other.
func TestIdleEngines_OnSQLite_DoNotLookForNothing(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		busy, idle := newNode(t, path, stepFor(time.Second)), newNode(t, path, twice())
		ends(t, busy.Engine, begin(t, busy.Engine, ""), "it takes a second")
		time.Sleep(time.Minute)
		for _, n := range []*node{busy, idle} {
			n.taken()
		}
		time.Sleep(time.Minute)
		for _, n := range []*node{busy, idle} {
			require.LessOrEqual(t, n.taken()["due"], 2*62)
		}
	})
}
