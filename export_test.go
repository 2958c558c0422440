package cairn_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
)

// replayAll holds workflows against all runs that a test has left, whatever happened to them: the code has not changed, so there is no difference.
func replayAll(t *testing.T, e *cairn.Engine, workflows []cairn.Definition) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	known := map[string]bool{}
	for _, wf := range workflows {
		known[wf.Name()] = true
	}
	page, err := e.List(ctx, cairn.Filter{Limit: 100})
	require.NoError(t, err)
	for _, run := range page.Runs {
		if !known[run.Workflow] || run.Phase == cairn.PhaseParked { // whose code cannot go on, also not in a replay
			continue
		}
		var recorded bytes.Buffer
		require.NoError(t, e.Run(run.ID).Export(ctx, &recorded))
		text := recorded.String()
		if err := cairntest.ReplayFrom(ctx, &recorded, workflows...); err != nil {
			t.Errorf("%s of %s: %v\n%s", run.Status, run.Workflow, err, text)
		}
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("waits", func(ctx cairn.Context, name string) (string, error) {
			_, err := cairn.Do(ctx, "greet", func(context.Context) (string, error) { return "hello " + name, nil })
			if err != nil {
				return "", err
			}
			return cairn.NewHook[string]("more").Token(name).Wait(ctx, cairn.Timeout(time.Hour))
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, "ada")
		require.NoError(t, err)
		require.Eventually(t, func() bool { _, err := e.HookInfo(t.Context(), "ada"); return err == nil }, 20*time.Second, 5*time.Millisecond)

		var live, ended bytes.Buffer
		require.NoError(t, e.Run(run.ID()).Export(t.Context(), &live))
		require.NoError(t, cairn.NewHook[string]("sent").Send(t.Context(), e, "ada", "that is all"))
		_, err = run.Result(t.Context())
		require.NoError(t, err)
		require.NoError(t, e.Run(run.ID()).Export(t.Context(), &ended))
		require.Contains(t, live.String(), `"status":"running"`)
		require.Contains(t, live.String(), `"view":"hello ada"`)
		require.Contains(t, ended.String(), `"status":"completed"`)
		_, before, _ := bytes.Cut(live.Bytes(), []byte("\n"))
		before, _, found := bytes.Cut(before, []byte(`{"end":`))
		require.True(t, found)
		require.Contains(t, ended.String(), string(before), "what was exported is a part of what is exported later")

		var refused *cairn.Error
		require.ErrorAs(t, e.Run("wrun_01JD0000000000000000000000").Export(t.Context(), &live), &refused)
		require.Equal(t, cairn.Code("run_not_found"), refused.Code)
		require.ErrorAs(t, e.Run("ada").Export(t.Context(), &live), &refused)
		require.Equal(t, cairn.Code("malformed"), refused.Code)
	})
}
