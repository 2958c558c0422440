package show

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/store/open"
)

const patience = 30 * time.Second

func start(t *testing.T, workflows ...cairn.Definition) *cairn.Engine {
	t.Helper()
	st, err := open.URL(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "show.db"))
	require.NoError(t, err)
	eng, err := cairn.New(t.Context(), st, workflows...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, eng.Stop(ctx))
		require.NoError(t, st.Close())
	})
	return eng
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// family returns a workflow that does a bit of everything, and its child.
func family() (parent, child *cairn.Workflow[int, int]) {
	child = cairn.NewWorkflow("child", func(ctx cairn.Context, _ int) (int, error) {
		return cairn.Do(ctx, "play", func(context.Context) (int, error) { return 7, nil })
	})
	flaky := cairn.NewStep("flaky", func(ctx context.Context, _ int) (int, error) {
		if cairn.Attempt(ctx) < 3 {
			return 0, errors.New("not yet")
		}
		return 0, nil
	}).Retry(cairn.RetryPolicy{Attempts: 3, First: time.Millisecond})
	parent = cairn.NewWorkflow("parent", func(ctx cairn.Context, _ int) (int, error) {
		if _, err := flaky.Do(ctx, 0, cairn.Key("one")); err != nil {
			return 0, err
		}
		if err := cairn.Sleep(ctx, 5*time.Millisecond); err != nil {
			return 0, err
		}
		_, _ = cairn.NewHook[int]("ghost").Wait(ctx, cairn.Timeout(5*time.Millisecond))
		if _, err := child.Run(ctx, 0); err != nil {
			return 0, err
		}
		return cairn.Do(ctx, "break", func(context.Context) (int, error) { return 0, cairn.NewError("broken", "it broke") })
	})
	return parent, child
}

func TestLinesTellWhatHappened(t *testing.T) {
	t.Parallel()
	parent, child := family()
	eng := start(t, parent, child)
	r, err := parent.Start(t.Context(), eng, 0, cairn.Key("the one"))
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, Watch(within(t), eng, &out, Options{Every: time.Millisecond}, r.ID()))
	seen := regexp.MustCompile(` +`).ReplaceAllString(out.String(), " ")
	for _, want := range []string{
		`the one ✓ flaky one \S+ 3 attempts`,
		`the one ✓ sleep \d+ms`,
		`the one ✗ ghost \d+ms nothing came in time`,
		` step_\S+ ✓ play \d+ms`,
		` step_\S+ ✓ completed after`,
		`the one ✗ break \d+ms broken: it broke`,
		`the one ✗ failed: broken: it broke after`,
	} {
		require.Regexp(t, want+`.*\n`, seen)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, line := range lines {
		if strings.Contains(line, "▸") {
			continue // each attempt begins, and that looks the same
		}
		require.NotContains(t, lines[:i], line, "nothing is said twice")
	}
}

func TestRunsAreRead(t *testing.T) {
	t.Parallel()
	parent, child := family()
	eng := start(t, parent, child)
	run, err := parent.Start(t.Context(), eng, 0)
	require.NoError(t, err)
	_, err = run.Result(within(t))
	require.Error(t, err)
	r, err := read(t.Context(), eng, run.ID())
	require.NoError(t, err)
	require.True(t, r.settled())
	names := make([]string, len(r.Rows))
	for i, row := range r.Rows {
		names[i] = row.Name
	}
	require.Equal(t, []string{"flaky", "sleep", "ghost", "child", "break"}, names)
	require.Empty(t, r.Children, "the child has its row")
	require.Equal(t, 3, r.Row("flaky").Attempts)
	require.Equal(t, 1, r.Done("flaky"))
	require.Zero(t, r.Done("break"))
	require.Nil(t, r.Row("nothing"))
	played := r.Row("child").Child.Row("play")
	var n int
	require.NoError(t, played.Result(&n))
	require.Equal(t, 7, n)
}

func TestWatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	wf := cairn.NewWorkflow("wait", func(ctx cairn.Context, _ int) (int, error) { return cairn.NewHook[int]("call").Wait(ctx) })
	eng := start(t, wf)
	r, err := wf.Start(t.Context(), eng, 0)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	hints := func(w cairn.Wait) []string { cancel(); return []string{"call " + w.Token} }
	require.ErrorIs(t, Watch(ctx, eng, &out, Options{Hints: hints}, r.ID()), context.Canceled)
	require.Regexp(t, `○ call\n(.*\n)*.* call \S{32}\n`, out.String())
	require.Error(t, Watch(t.Context(), eng, &out, Options{}, "no such run"))
}

func TestNextGoesOnBeforeItBegins(t *testing.T) {
	t.Parallel()
	hook := cairn.NewHook[int]("go")
	wf := cairn.NewWorkflow("wait", func(ctx cairn.Context, n int) (int, error) { return hook.Token("go").Wait(ctx) })
	eng := start(t, wf)
	began := time.Now()
	next := func() (int, bool) {
		n, unfinished, err := Next(t.Context(), eng, began, cairn.Filter{Workflow: "wait"})
		require.NoError(t, err)
		return n, unfinished
	}
	n, unfinished := next()
	require.Equal(t, 1, n)
	require.False(t, unfinished)
	r, err := wf.Start(t.Context(), eng, 0, cairn.Attributes(map[string]string{Number: "1"}))
	require.NoError(t, err)
	require.NoError(t, Resume(t.Context(), eng, r.ID()), "it is not parked")
	n, unfinished = next()
	require.Equal(t, 1, n)
	require.True(t, unfinished)
	require.Eventually(t, func() bool { return cairn.NewHook[int]("sent").Send(t.Context(), eng, "go", 1) == nil }, patience, time.Millisecond)
	_, err = r.Result(within(t))
	require.NoError(t, err)
	n, unfinished = next()
	require.Equal(t, 1, n, "it was unfinished when the program began")
	require.True(t, unfinished)
	began = time.Now().Add(time.Minute) // the next program
	n, unfinished = next()
	require.Equal(t, 2, n)
	require.False(t, unfinished)
	r, err = wf.Start(t.Context(), eng, 0)
	require.NoError(t, err)
	_, _, err = Next(t.Context(), eng, began, cairn.Filter{Workflow: "wait"})
	require.ErrorContains(t, err, "not started by an example")
	require.NoError(t, r.Terminate(t.Context(), "the test is over"))
}
