package engine_test

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// TestRunsThatAreToldDoNotHideOthers has more runs than an engine asks for at once of which something came, the end of a child, while they do something else. They come first among the
// runs that are due, and must not keep a run that nobody executes from being taken.
func TestRunsThatAreToldDoNotHideOthers(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		nothing := func(*engine.Branch, journal.Payload) (journal.Payload, error) { return nil, nil }
		parent := func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
			if _, err := b.StartChild(engine.ChildSpec{Workflow: "child"}); err != nil {
				return nil, err
			}
			return b.Step(engine.StepSpec{Name: "long"}, func(ctx context.Context, _ engine.StepInfo) (journal.Payload, error) {
				<-ctx.Done()
				return nil, nil
			})
		}
		e, st := life(t, path, &engine.Workflow{Name: "child", Run: nothing}, &engine.Workflow{Name: "w", Run: nothing}, &engine.Workflow{Name: "parent", Run: parent})
		for range 250 {
			_, err := e.Start(t.Context(), engine.StartRequest{Workflow: "parent"})
			require.NoError(t, err)
		}
		run, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w", At: journal.TimeOf(time.Now().Add(time.Second))})
		require.NoError(t, err)
		ends(t, e, run, "it is due")
		due, err := st.Due(t.Context(), store.DueFilter{
			Scope: store.Scope{Namespaces: []string{"default"}, Workflows: []string{"parent"}}, Owner: ownerOf(t, st), Now: journal.TimeOf(time.Now()), Limit: 1000,
		})
		require.NoError(t, err)
		require.Empty(t, due, "all of them were told, and that once")
	})
}

// TestRunsOfANewerProgramDoNotHideOthers has more runs than an engine asks for at once that are due, and have events that it does not know: it cannot take them.
func TestRunsOfANewerProgramDoNotHideOthers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		runs   int
		change string
	}{
		"due":               {250, ""},
		"of a dead process": {20, "update cairn_runs set wake_at = 1"}, // journal.WakeAfterDeath
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir() + "/x.db"
			bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
				nap := func(now journal.Time) journal.Time { return now.Add(time.Minute) }
				rests := &engine.Workflow{Name: "rests", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
					return nil, b.Sleep(engine.TimerSpec{Name: "nap", Until: nap})
				}}
				first, _ := life(t, path, rests)
				for range test.runs {
					_, err := first.Start(t.Context(), engine.StartRequest{Workflow: "rests"})
					require.NoError(t, err)
				}
				time.Sleep(time.Second)
				require.NoError(t, first.Stop(t.Context()))
				time.Sleep(time.Minute) // they are due
				client, _ := life(t, path)
				run, err := client.Start(t.Context(), engine.StartRequest{Workflow: "w", Elsewhere: true})
				require.NoError(t, err)
				db, err := sql.Open("sqlite", path)
				require.NoError(t, err)
				_, err = db.ExecContext(t.Context(), `update cairn_events set type = 200 where seq = 3;`+test.change)
				require.NoError(t, errors.Join(err, db.Close()))
				e, _ := life(t, path, rests, &engine.Workflow{Name: "w", Run: func(*engine.Branch, journal.Payload) (journal.Payload, error) { return nil, nil }})
				ends(t, e, run, "it is due")
			})
		})
	}
}

// ownerOf returns the process that executes runs.
func ownerOf(t *testing.T, st store.Store) journal.ID {
	t.Helper()
	list, err := st.Runs(t.Context(), "default", store.RunFilter{Statuses: []journal.Status{journal.StatusRunning}}, store.Page{Limit: 1})
	require.NoError(t, err)
	require.Len(t, list.Data, 1)
	return list.Data[0].Owner
}

// TestARunThatIsParkedWhileItIsPaused is executed again by code that does not fit, and paused meanwhile: nobody keeps it, and when it is resumed the code that fits goes on with it.
func TestARunThatIsParkedWhileItIsPaused(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		var changed atomic.Bool
		nap := func(now journal.Time) journal.Time { return now.Add(5 * time.Second) }
		wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
			if changed.Load() {
				time.Sleep(time.Second) // until it is paused
				return nil, b.Sleep(engine.TimerSpec{Name: "a", Until: nap})
			}
			if _, err := b.Step(engine.StepSpec{Name: "a"}, value("a")); err != nil {
				return nil, err
			}
			return nil, b.Sleep(engine.TimerSpec{Name: "nap", Until: nap})
		}}
		first, _ := life(t, path, wf)
		run := begin(t, first, "")
		time.Sleep(time.Second)
		require.NoError(t, first.Stop(t.Context()))
		changed.Store(true)
		second, st := life(t, path, wf)
		time.Sleep(4500 * time.Millisecond) // it is executed again
		require.NoError(t, second.Pause(t.Context(), run, "", ""))
		time.Sleep(5 * time.Second)
		paused, err := st.Run(t.Context(), "default", run, store.ResolveNone)
		require.NoError(t, err)
		require.NotZero(t, paused.ParkedAt)
		require.True(t, paused.Owner.IsZero(), "nobody keeps it")
		changed.Store(false)
		require.NoError(t, second.Resume(t.Context(), run, ""))
		ends(t, second, run, "it was resumed")
	})
}
