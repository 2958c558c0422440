package cairn_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/cairntest"
)

func TestEngineHooks_ListsOpenHooks_ByRunAndName(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		left, right := cairn.NewHook[int]("left").Metadata("about left"), cairn.NewHook[int]("right").Once()
		wf := cairn.NewWorkflow("both", func(ctx cairn.Context, _ int) (int, error) {
			a, err := left.Open(ctx)
			if err != nil {
				return 0, err
			}
			if _, err := right.Open(ctx, cairn.Key("b")); err != nil {
				return 0, err
			}
			return a.Receive(ctx)
		})
		e := start(wf)
		var runs []string
		for range 3 {
			run, err := wf.Start(t.Context(), e, 0)
			require.NoError(t, err)
			waitsForHook(t, e, run.ID())
			runs = append(runs, run.ID())
		}
		require.Eventually(t, func() bool {
			page, err := e.Hooks(t.Context(), cairn.HookFilter{})
			return err == nil && len(page.Hooks) == 6
		}, time.Minute, time.Millisecond)
		var seen []string
		filter := cairn.HookFilter{Name: "left", Limit: 2}
		for {
			page, err := e.Hooks(t.Context(), filter)
			require.NoError(t, err)
			for _, h := range page.Hooks {
				var about string
				require.NoError(t, h.Metadata(&about))
				require.Equal(t, "about left", about)
				require.Zero(t, h.ExpiresAt)
				seen = append(seen, h.RunID)
			}
			if filter.Cursor = page.Cursor; !page.More {
				break
			}
		}
		require.Equal(t, runs, seen)
		page, err := e.Hooks(t.Context(), cairn.HookFilter{RunID: runs[1], Name: "right"})
		require.NoError(t, err)
		require.Len(t, page.Hooks, 1)
		require.False(t, page.Hooks[0].Used)
		require.NoError(t, right.Send(t.Context(), e, page.Hooks[0].Token, 1))
		info, err := e.HookInfo(t.Context(), page.Hooks[0].Token)
		require.NoError(t, err)
		require.True(t, info.Used)
		_, err = e.Hooks(t.Context(), cairn.HookFilter{RunID: "nonsense"})
		requireCode(t, cairnerr.CodeMalformed, err)
		require.NoError(t, e.Run(runs[0]).Terminate(t.Context(), "enough"))
		page, err = e.Hooks(t.Context(), cairn.HookFilter{RunID: runs[0]})
		require.NoError(t, err)
		require.Empty(t, page.Hooks)
	})
}

// A hook that expires takes nothing any more, and the run that waits for it goes on, also if its process died.
func TestHookExpires(t *testing.T) {
	t.Parallel()
	mail := cairn.NewHook[string]("mail").Token("mail").Expires(time.Hour)
	wf := cairn.NewWorkflow("expires", func(ctx cairn.Context, limit time.Duration) ([]string, error) {
		open, err := mail.Open(ctx)
		if err != nil {
			return nil, err
		}
		var got []string
		for {
			text, err := open.Receive(ctx, cairn.Timeout(limit))
			switch {
			case err == nil:
				got = append(got, text)
				continue
			case limit < time.Hour: // until the hook is over, too
				limit = 24 * time.Hour
				continue
			}
			got = append(got, string(cairn.CodeOf(err)))
			return got, cairn.Sleep(ctx, time.Hour)
		}
	})
	for name, crash := range map[string]bool{"kept": false, "crash": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cairntest.Run(t, func(e *cairntest.Env) {
				began := time.Now()
				run, err := wf.Start(e.Context(), e.Engine(), 10*time.Minute)
				require.NoError(t, err)
				e.Sleep(5 * time.Minute)
				info, err := e.Engine().HookInfo(e.Context(), "mail")
				require.NoError(t, err)
				require.Equal(t, time.Hour, info.ExpiresAt.Sub(began).Round(time.Second))
				require.NoError(t, mail.Send(e.Context(), e.Engine(), "mail", "in time"))
				e.Sleep(54 * time.Minute)
				if crash {
					e.Crash()
				}
				e.Sleep(2 * time.Minute)
				requireCode(t, cairnerr.CodeHookExpired, mail.Send(e.Context(), e.Engine(), "mail", "late"))
				run, err = wf.Get(e.Context(), e.Engine(), run.ID())
				require.NoError(t, err)
				got, err := run.Result(e.Context())
				require.NoError(t, err)
				require.Equal(t, []string{"in time", "timeout"}, got)
				require.Equal(t, 2*time.Hour, time.Since(began).Round(time.Minute))
			}, wf)
		})
	}
}

// A time that is not positive is over at once.
func TestHookExpires_NotPositive_IsOver(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		for _, d := range []time.Duration{0, -time.Hour} {
			mail := cairn.NewHook[string]("mail").Expires(d)
			wf := cairn.NewWorkflow("over "+d.String(), func(ctx cairn.Context, _ int) (string, error) { return mail.Wait(ctx) })
			_, err := result(t, start(wf), wf, 0)
			require.ErrorIs(t, err, cairn.ErrTimeout)
		}
	})
}

func TestStepResult_ReturnsTheNewest(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("turns", func(ctx cairn.Context, n int) (int, error) {
			for i := range n {
				//cairnvet:ignore loopkey the newest of several is what is tested
				if _, err := cairn.Do(ctx, "turn", func(context.Context) (int, error) { return i, nil }); err != nil {
					return 0, err
				}
			}
			_, err := cairn.Do(ctx, "turn", func(context.Context) (string, error) { return "keyed", nil }, cairn.Key("a#b"))
			if err != nil {
				return 0, err
			}
			_, err = cairn.Do(ctx, "fails", func(context.Context) (int, error) { return 0, errDeclined })
			return n, cairn.NonRetryable(err)
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 120)
		require.NoError(t, err)
		_, err = run.Result(within(t))
		require.ErrorIs(t, err, errDeclined)
		for key, want := range map[string]any{"turn": 119, "turn#3": 2, "turn@a#b": "keyed"} {
			var got any
			require.NoError(t, run.StepResult(t.Context(), key, &got), key)
			require.EqualValues(t, want, got, key)
		}
		for _, key := range []string{"turn@a", "fails", "tur", ""} {
			requireCode(t, cairnerr.CodeStepNotFound, run.StepResult(t.Context(), key, new(int)))
		}
		requireCode(t, cairnerr.CodeRunNotFound, e.Run("wrun_00000000000000000000000001").StepResult(t.Context(), "turn", new(int)))
	})
}
