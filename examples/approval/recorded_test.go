package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
	"github.com/cairn-workflow/cairn/examples/internal/recorded"
)

func TestRecordedRuns(t *testing.T) {
	t.Parallel()
	d := newDesk(time.Hour, time.Hour)
	asked := func(e *cairntest.Env, after time.Duration) *cairn.Run[Decision] {
		run, err := d.workflow.Start(e.Context(), e.Engine(), expense(1))
		require.NoError(t, err)
		e.Sleep(after)
		return run
	}
	waiting := func(after time.Duration) recorded.Scenario {
		return func(e *cairntest.Env) string { return asked(e, after).ID() }
	}
	answered := func(after time.Duration, hook string, a Answer) recorded.Scenario {
		return func(e *cairntest.Env) string {
			run := asked(e, after)
			info, err := run.Describe(e.Context())
			require.NoError(t, err)
			i := slices.IndexFunc(info.Waits, func(w cairn.Wait) bool { return w.Key == hook })
			require.GreaterOrEqual(t, i, 0)
			reply, err := answerHook("desk").Ask(e.Context(), e.Engine(), info.Waits[i].Token, a)
			require.NoError(t, err)
			require.Equal(t, "thank you, "+a.By, reply)
			_, err = run.Result(e.Context())
			require.NoError(t, err)
			return run.ID()
		}
	}
	recorded.Replay(t, []cairn.Definition{d.workflow}, map[string]recorded.Scenario{
		"waits-for-manager":    waiting(time.Minute),
		"waits-for-director":   waiting(90 * time.Minute),
		"approved-by-manager":  answered(time.Minute, "answer of the manager", Answer{Approved: true, By: "Grace"}),
		"rejected-by-director": answered(90*time.Minute, "answer of the director", Answer{By: "Edsger"}),
		"nobody-answered":      waiting(3 * time.Hour),
	})
}
