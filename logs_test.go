package cairn_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// plainLog is a logger whose lines have no time, for comparison.
func plainLog(into *locked) *slog.Logger {
	return slog.New(slog.NewTextHandler(into, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// said returns the messages in a log.
func said(log *locked) []string {
	var messages []string
	for line := range strings.Lines(log.String()) {
		if _, rest, ok := strings.Cut(line, "msg="); ok {
			rest = strings.TrimPrefix(rest, `"`)
			message, _, _ := strings.Cut(rest, `" run=`)
			message, _, _ = strings.Cut(message, " run=")
			messages = append(messages, message)
		}
	}
	return messages
}

func TestLinesSayWhereTheyAreFrom(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		var log locked
		flaky := cairn.NewStep("flaky", func(ctx context.Context, n int) (int, error) {
			cairn.Logger(ctx).InfoContext(ctx, "in the step", slog.Int("n", n))
			if cairn.Attempt(ctx) == 1 {
				return 0, errors.New("again")
			}
			return n, nil
		}).Retry(cairn.RetryPolicy{Attempts: 2})
		poll := cairn.NewPoll("poll", time.Millisecond, func(ctx context.Context, _ int) (int, bool, error) {
			cairn.Logger(ctx).InfoContext(ctx, "in the poll")
			return 0, true, nil
		})
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, n int) (int, error) {
			cairn.Logger(ctx).Warn("in the workflow")
			derived := context.WithValue(ctx, traceKey{}, "x")
			cairn.Logger(derived).Debug("with a derived context")
			f, err := cairn.Go(ctx, "beside", func(ctx cairn.Context) (int, error) {
				cairn.Logger(ctx).With(slog.String("a", "b")).WithGroup("g").Info("in a branch", slog.Int("c", 1))
				return flaky.Do(ctx, n)
			})
			if err != nil {
				return 0, err
			}
			if _, err := poll.Wait(ctx, 0); err != nil {
				return 0, err
			}
			return f.Wait(ctx)
		})
		e := open(cairn.Config{Logger: plainLog(&log)}, wf)
		run, err := wf.Start(t.Context(), e, 5)
		require.NoError(t, err)
		_, err = run.Result(t.Context())
		require.NoError(t, err)
		stop(e)
		text := strings.ReplaceAll(log.String(), run.ID(), "RUN")
		for _, line := range []string{
			`level=WARN msg="in the workflow" run=RUN workflow=w epoch=1`,
			`level=DEBUG msg="with a derived context" run=RUN workflow=w epoch=1`,
			`level=INFO msg="in a branch" run=RUN workflow=w branch=beside/ epoch=1 a=b g.c=1`,
			`level=INFO msg="in the step" run=RUN workflow=w step=beside/flaky attempt=1 epoch=1 n=5`,
			`level=INFO msg="in the step" run=RUN workflow=w step=beside/flaky attempt=2 epoch=1 n=5`,
			`level=INFO msg="in the poll" run=RUN workflow=w step=poll attempt=1 epoch=1`,
		} {
			require.Equal(t, 1, strings.Count(text, line+"\n"), "%s in\n%s", line, text)
		}
		require.Equal(t, 6, strings.Count(text, "\n"), text)
	})
}

func TestLoggerOutsideARun(t *testing.T) {
	t.Parallel()
	require.NotNil(t, cairn.Logger(context.Background()))
	require.Equal(t, slog.Default().Handler(), cairn.Logger(t.Context()).Handler())
	cairn.Logger(t.Context()).Debug("nobody is harmed")
}

// talkative says something between all the things that a workflow can wait for.
func talkative(name string, child *cairn.Workflow[int, int]) *cairn.Workflow[int, int] {
	hook := cairn.NewRequestHook[int, string]("hook").Token("to " + name)
	return cairn.NewWorkflow(name, func(ctx cairn.Context, n int) (int, error) {
		say := func(what string) { cairn.Logger(ctx).Info(what) } //nolint:sloglint // the messages are below
		say("begins")
		n, err := cairn.Do(ctx, "step", func(ctx context.Context) (int, error) {
			cairn.Logger(ctx).InfoContext(ctx, "in the step")
			return n, nil
		})
		if err != nil {
			return 0, err
		}
		say("step done")
		if err := cairn.Sleep(ctx, 20*time.Millisecond); err != nil {
			return 0, err
		}
		say("slept")
		h, err := hook.Open(ctx)
		if err != nil {
			return 0, err
		}
		say("hook open")
		first, err := h.Receive(ctx)
		if err != nil {
			return 0, err
		}
		say("received first")
		second, err := h.Receive(ctx, cairn.Timeout(time.Hour))
		if err != nil {
			return 0, err
		}
		say("received second")
		if err := second.Reply(ctx, "thanks"); err != nil {
			return 0, err
		}
		say("replied")
		f, err := cairn.Go(ctx, "branch", func(ctx cairn.Context) (int, error) {
			cairn.Logger(ctx).Info("branch begins")
			err := cairn.Sleep(ctx, 20*time.Millisecond)
			cairn.Logger(ctx).Info("branch slept")
			return 1, err
		})
		if err != nil {
			return 0, err
		}
		say("branch started")
		if _, err := f.Wait(ctx); err != nil {
			return 0, err
		}
		say("branch done")
		c, err := child.StartChild(ctx, n)
		if err != nil {
			return 0, err
		}
		say("child started")
		below, err := c.Result(ctx)
		if err != nil {
			return 0, err
		}
		say("child done")
		return first.Value + below, nil
	})
}

var script = []string{
	"begins", "in the step", "step done", "slept", "hook open", "received first", "received second", "replied", "branch started", "branch begins", "branch slept",
	"branch done", "child started", "child done",
}

// A run that is dropped from memory at each wait, and by a process that stops at some, says each line once.
func TestLinesAreNotRepeatedOnReplay(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		var log locked
		child := cairn.NewWorkflow("child", func(ctx cairn.Context, n int) (int, error) { return n, cairn.Sleep(ctx, 20*time.Millisecond) })
		wf := talkative("w", child)
		cfg := cairn.Config{Logger: plainLog(&log), MaxWaiting: -1}
		e := open(cfg, wf, child)
		run, err := wf.Start(t.Context(), e, 1)
		require.NoError(t, err)
		// Each time the run is nowhere in memory: what comes next is executed from the beginning.
		gone := func() {
			require.Eventually(t, func() bool { s := e.Stats(); return s.Active == 0 && s.Waiting == 0 }, time.Minute, time.Millisecond)
		}
		send := func(v int) {
			require.Eventually(t, func() bool { return cairn.NewHook[int]("sent").Send(t.Context(), e, "to w", v) == nil }, time.Minute, time.Millisecond)
		}
		send(10)
		require.Eventually(t, func() bool { return strings.Contains(log.String(), "received first") }, time.Minute, time.Millisecond)
		gone()
		stop(e)
		e = open(cfg, wf, child)
		gone()
		send(20)
		out, err := mustGet(t, wf, e, run.ID()).Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, 11, out)
		stop(e)
		require.ElementsMatch(t, script, said(&log))
	})
}

// A cancel that comes while the run is not in memory is news to its code: what it says about it is said once.
func TestLinesAboutACancel(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		var log locked
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
			cairn.Logger(ctx).Info("begins")
			err := cairn.Sleep(ctx, time.Hour)
			cairn.Logger(ctx).Info("stopped")
			ctx, done := cairn.Cleanup(ctx, time.Minute)
			defer done()
			if err := cairn.Sleep(ctx, 20*time.Millisecond); err != nil {
				return 0, err
			}
			cairn.Logger(ctx).Info("cleaned up")
			return 0, err
		})
		e := open(cairn.Config{Logger: plainLog(&log), MaxWaiting: -1}, wf)
		run, err := wf.Start(t.Context(), e, 1)
		require.NoError(t, err)
		require.Eventually(t, func() bool { s := e.Stats(); return s.Evicted == 1 && s.Active == 0 }, time.Minute, time.Millisecond)
		require.NoError(t, run.Cancel(t.Context(), "enough"))
		_, err = run.Result(t.Context())
		require.ErrorIs(t, err, cairn.ErrCancelled)
		stop(e)
		require.Equal(t, []string{"begins", "stopped", "cleaned up"}, said(&log))
	})
}

func TestLinesAreKept(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		var log locked
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, n int) (int, error) {
			l := cairn.Logger(ctx)
			l.Debug("not kept")
			l.With(slog.String("user", "ada")).WithGroup("g").Info("begins", slog.Int("n", n), slog.Duration("d", time.Second), slog.Any("e", errDeclined), slog.Any("list", []int{1, 2}))
			n, err := cairn.Do(ctx, "step", func(ctx context.Context) (int, error) {
				cairn.Logger(ctx).ErrorContext(ctx, "in the step")
				return n, nil
			})
			l.Info("ends")
			return n, err
		})
		e := open(cairn.Config{Logger: plainLog(&log), KeepLogs: &cairn.KeepLogs{}}, wf)
		run, err := wf.Start(t.Context(), e, 1)
		require.NoError(t, err)
		_, err = run.Result(t.Context())
		require.NoError(t, err)
		page, err := e.Run(run.ID()).Logs(t.Context(), cairn.LogFilter{Limit: 2})
		require.NoError(t, err)
		require.True(t, page.More)
		require.Len(t, page.Lines, 2)
		first, second := page.Lines[0], page.Lines[1]
		require.WithinDuration(t, time.Now(), first.At, time.Minute)
		require.Equal(t, "begins", first.Message)
		require.Equal(t, slog.LevelInfo, first.Level)
		require.EqualValues(t, 1, first.Epoch)
		require.Zero(t, first.Attempt)
		require.JSONEq(t, `{"user":"ada","g":{"n":1,"d":"1s","e":"card_declined: the card was declined","list":[1,2]}}`, string(first.Attrs))
		require.Equal(t, "step", second.Step)
		require.Equal(t, 1, second.Attempt)
		require.Nil(t, second.Attrs)
		page, err = e.Run(run.ID()).Logs(t.Context(), cairn.LogFilter{Cursor: page.Cursor})
		require.NoError(t, err)
		require.Len(t, page.Lines, 1)
		require.Equal(t, "ends", page.Lines[0].Message)
		require.False(t, page.More)
		cursor := page.Cursor
		page, err = e.Run(run.ID()).Logs(t.Context(), cairn.LogFilter{Cursor: cursor})
		require.NoError(t, err)
		require.Empty(t, page.Lines)
		require.Equal(t, cursor, page.Cursor, "one can go on asking from there")
		page, err = e.Run(run.ID()).Logs(t.Context(), cairn.LogFilter{Level: slog.LevelError})
		require.NoError(t, err)
		require.Len(t, page.Lines, 1)
		page, err = e.Run(run.ID()).Logs(t.Context(), cairn.LogFilter{NewestFirst: true, Limit: 1})
		require.NoError(t, err)
		require.Equal(t, "ends", page.Lines[0].Message)
		require.Contains(t, log.String(), "not kept", "the handler has its own level")
		_, err = e.Run("nonsense").Logs(t.Context(), cairn.LogFilter{})
		require.Error(t, err)
		_, err = e.Run(run.ID()).Logs(t.Context(), cairn.LogFilter{Cursor: "nonsense"})
		require.Error(t, err)
		stop(e)

		quiet := open(cairn.Config{Logger: plainLog(&log)}, wf) // another process, which keeps nothing, reads them
		page, err = quiet.Run(run.ID()).Logs(t.Context(), cairn.LogFilter{})
		require.NoError(t, err)
		require.Len(t, page.Lines, 3)
		other, err := wf.Start(t.Context(), quiet, 1)
		require.NoError(t, err)
		_, err = other.Result(t.Context())
		require.NoError(t, err)
		page, err = quiet.Run(other.ID()).Logs(t.Context(), cairn.LogFilter{})
		require.NoError(t, err)
		require.Empty(t, page.Lines)
	})
}

// Kept lines survive a stop of the engine that comes at once, are limited, and their text may be anything.
func TestKeptLinesAreLimited(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		var log locked
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
			for i := range 20 {
				cairn.Logger(ctx).Info("line", slog.Int("i", i))
			}
			//nolint:sloglint // that it is no constant is the point
			cairn.Logger(ctx).Info("strange \x00\xff"+strings.Repeat("ü", 10_000), slog.Any("bad", broken{}), slog.Any("panics", panics{}))
			cairn.Logger(ctx).Info("long", slog.String("s", strings.Repeat("x", 20_000)))
			return 0, nil
		})
		e := open(cairn.Config{Logger: plainLog(&log), KeepLogs: &cairn.KeepLogs{MaxLines: 5, Level: slog.LevelDebug}}, wf)
		run, err := wf.Start(t.Context(), e, 1)
		require.NoError(t, err)
		_, err = run.Result(t.Context())
		require.NoError(t, err)
		stop(e)
		e = open(cairn.Config{}, wf)
		page, err := e.Run(run.ID()).Logs(t.Context(), cairn.LogFilter{})
		require.NoError(t, err)
		require.Len(t, page.Lines, 5)
		require.JSONEq(t, `{"i":17}`, string(page.Lines[0].Attrs))
		strange := page.Lines[3]
		require.True(t, strings.HasPrefix(strange.Message, "strange ��ü"), strange.Message[:20])
		require.True(t, strings.HasSuffix(strange.Message, "ü…"))
		require.LessOrEqual(t, len(strange.Message), 16<<10+10)
		require.JSONEq(t, `{"panic":"no text"}`, string(strange.Attrs))
		require.JSONEq(t, `{"cut":"20006 bytes of attributes"}`, string(page.Lines[4].Attrs))
	})
}

type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic("no text") }

var _ json.Marshaler = panics{}

// A year passes in which a run logs before and after each wait; each line has the epoch of its time.
func TestKeptLinesInVirtualTime(t *testing.T) {
	t.Parallel()
	bubble.Run(t, func(t *testing.T) {
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
			for month := range 12 {
				cairn.Logger(ctx).Info("month", slog.Int("n", month))
				if err := cairn.Sleep(ctx, 30*24*time.Hour); err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		st, err := sqlite.Memory(t.Context(), nil)
		require.NoError(t, err)
		century := 100 * 365 * 24 * time.Hour
		e, err := cairn.NewWith(t.Context(), st, cairn.Config{
			Poll: century, Lease: century, MaxWaiting: -1, Logger: slog.New(slog.DiscardHandler), KeepLogs: &cairn.KeepLogs{},
		}, wf)
		require.NoError(t, err)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		begin := time.Now()
		_, err = run.Result(t.Context())
		require.NoError(t, err)
		page, err := e.Run(run.ID()).Logs(t.Context(), cairn.LogFilter{})
		require.NoError(t, err)
		require.Len(t, page.Lines, 12)
		for i, l := range page.Lines {
			require.EqualValues(t, i+1, l.Epoch)
			require.WithinDuration(t, begin.Add(time.Duration(i)*30*24*time.Hour), l.At, time.Minute)
		}
		require.NoError(t, e.Stop(t.Context()))
		require.NoError(t, st.Close())
	})
}

// wordless is a database that does not take lines: it never answers, or fails.
type wordless struct {
	store.Store
	hangs bool
}

func (d wordless) AppendLogs(ctx context.Context, _ []store.LogLine, _ store.LogLimit) error {
	if d.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return errors.New("no space for lines")
}

// A database that does not take lines delays no step and no stop for long; the lines are counted, and a warning says so.
func TestLinesThatCannotBeKept(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]bool{"hangs": true, "fails": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble.Run(t, func(t *testing.T) {
				const lines = 12_000 // more than wait in memory
				wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
					return cairn.Do(ctx, "talk", func(ctx context.Context) (int, error) {
						l := cairn.Logger(ctx)
						for range lines {
							l.InfoContext(ctx, "x")
						}
						return 0, nil
					})
				})
				memory, err := sqlite.Memory(t.Context(), nil)
				require.NoError(t, err)
				var log locked
				century := 100 * 365 * 24 * time.Hour
				e, err := cairn.NewWith(t.Context(), store.NewHandle(wordless{store.Of(memory), hangs}), cairn.Config{
					Poll: century, Lease: century, KeepLogs: &cairn.KeepLogs{}, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
				}, wf)
				require.NoError(t, err)
				for n := range 2 {
					begin := time.Now()
					run, err := wf.Start(t.Context(), e, 0)
					require.NoError(t, err)
					_, err = run.Result(t.Context())
					require.NoError(t, err)
					require.Less(t, time.Since(begin), time.Second, "in virtual time")
					time.Sleep(10 * time.Second)
					require.Equal(t, n+1, strings.Count(log.String(), "were not kept"), log.String())
					time.Sleep(55 * time.Second) // a warning in a minute
				}
				begin := time.Now()
				require.NoError(t, e.Stop(t.Context()))
				require.Less(t, time.Since(begin), 30*time.Second)
				require.EqualValues(t, 2*lines, e.Stats().LogLinesDropped)
				require.NoError(t, memory.Close())
			})
		})
	}
}
