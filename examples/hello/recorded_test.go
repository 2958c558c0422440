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
	greet := func(e *cairntest.Env) *cairn.Run[string] {
		run, err := Greet.Start(e.Context(), e.Engine(), "world")
		require.NoError(t, err)
		return run
	}
	recorded.Replay(t, []cairn.Definition{Greet}, map[string]recorded.Scenario{
		"greeted": func(e *cairntest.Env) string {
			run := greet(e)
			_, err := run.Result(e.Context())
			require.NoError(t, err)
			return run.ID()
		},
		"asleep": func(e *cairntest.Env) string {
			run := greet(e)
			e.Sleep(time.Second)
			return run.ID()
		},
	})
}
