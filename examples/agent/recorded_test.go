package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
	"github.com/cairn-workflow/cairn/examples/internal/recorded"
)

func TestRecordedRuns(t *testing.T) {
	t.Parallel()
	a := newAgent(time.Millisecond)
	a.token = "may I"
	talk := func(e *cairntest.Env) *cairn.Run[string] {
		run, err := a.workflow.Start(e.Context(), e.Engine(), question)
		require.NoError(t, err)
		return run
	}
	answered := func(ok bool) recorded.Scenario {
		return func(e *cairntest.Env) string {
			run := talk(e)
			cairntest.Send(e, a.token, "the answer", Verdict{OK: ok, By: "Grace"})
			_, err := run.Result(e.Context())
			require.NoError(t, err)
			return run.ID()
		}
	}
	recorded.Replay(t, []cairn.Definition{a.workflow}, map[string]recorded.Scenario{
		"agreed":  answered(true),
		"refused": answered(false),
		"asked": func(e *cairntest.Env) string {
			run := talk(e)
			time.Sleep(time.Hour)
			return run.ID()
		},
	})
}
