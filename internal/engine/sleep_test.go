package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// inAMillisecondLess makes something happen in the run a millisecond before a timer of a second is over: then the run
// looks at all of its timers.
func inAMillisecondLess(t *testing.T, wait func(b *engine.Branch, until engine.Until) error) {
	t.Helper()
	until := func(d time.Duration) engine.Until {
		return func(now journal.Time) journal.Time { return now.Add(d) }
	}
	bubble.Run(t, func(t *testing.T) {
		t.Helper()
		st, err := sqlite.Memory(t.Context(), nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, st.Close()) }()
		var took time.Duration
		wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
			_, err := b.Go(engine.BranchSpec{Name: "earlier"}, func(b *engine.Branch) (journal.Payload, error) {
				return nil, b.Sleep(engine.TimerSpec{Name: "sleep", Until: until(999 * time.Millisecond)})
			})
			if err != nil {
				return nil, err
			}
			began := time.Now()
			err = wait(b, until(time.Second))
			took = time.Since(began)
			return nil, err
		}}
		e, err := engine.New(t.Context(), st, engine.Config{}, wf)
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Stop(context.Background())) }()
		id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w"})
		require.NoError(t, err)
		run, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Nil(t, run.Error)
		require.Equal(t, time.Second, took)
	})
}

func TestSleep_SomethingHappensJustBefore_LastsToItsEnd(t *testing.T) {
	t.Parallel()
	inAMillisecondLess(t, func(b *engine.Branch, until engine.Until) error {
		return b.Sleep(engine.TimerSpec{Name: "sleep", Until: until})
	})
}

func TestDeadline_SomethingHappensJustBefore_LastsToItsEnd(t *testing.T) {
	t.Parallel()
	inAMillisecondLess(t, func(b *engine.Branch, until engine.Until) error {
		limited, end, err := b.Deadline(engine.TimerSpec{Name: "deadline", Until: until})
		if err != nil {
			return err
		}
		defer end()
		err = limited.Sleep(engine.TimerSpec{Name: "long", Until: func(now journal.Time) journal.Time { return now.Add(time.Hour) }})
		if cairnerr.CodeOf(err) == cairnerr.CodeTimeout {
			return nil
		}
		return err
	})
}
