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
	c := newCounter(8*time.Second, 100, 2) // a piece takes a second
	begin := func(e *cairntest.Env) *cairn.Run[Report] {
		run, err := c.workflow.Start(e.Context(), e.Engine(), "testdata/folder")
		require.NoError(t, err)
		return run
	}
	recorded.Replay(t, []cairn.Definition{c.workflow}, map[string]recorded.Scenario{
		"counted": func(e *cairntest.Env) string {
			run := begin(e)
			_, err := run.Result(e.Context())
			require.NoError(t, err)
			return run.ID()
		},
		"counting": func(e *cairntest.Env) string {
			run := begin(e)
			e.Sleep(12500 * time.Millisecond)
			return run.ID()
		},
	})
}
