package cairn_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/observe"
	"github.com/cairn-workflow/cairn/store/postgres"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// configured starts an engine with a configuration. It is stopped with the test, or before.
type configured func(cfg cairn.Config, workflows ...cairn.Definition) *cairn.Engine

// onEveryStoreWith is onEveryStore for tests that configure the engine.
func onEveryStoreWith(t *testing.T, test func(t *testing.T, open configured)) {
	t.Helper()
	run := func(name string, prepare func(t *testing.T) func() (cairn.Store, error)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := prepare(t)
			test(t, func(cfg cairn.Config, workflows ...cairn.Definition) *cairn.Engine {
				st, err := database()
				require.NoError(t, err)
				cfg.Poll = 20 * time.Millisecond
				e, err := cairn.NewWith(t.Context(), st, cfg, workflows...)
				require.NoError(t, err)
				t.Cleanup(func() { stop(e); _ = st.Close() })
				return e
			})
		})
	}
	run("postgres", func(t *testing.T) func() (cairn.Store, error) {
		t.Helper()
		url := pgtest.URL(t)
		return func() (cairn.Store, error) { return postgres.Open(t.Context(), url, nil) }
	})
	run("sqlite", func(t *testing.T) func() (cairn.Store, error) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "x.db")
		return func() (cairn.Store, error) { return sqlite.Open(t.Context(), path, nil) }
	})
}

// stop ends an engine; then its hooks have been told all.
func stop(e *cairn.Engine) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = e.Stop(ctx)
}

// hookLines is what hooks were told, as lines of text.
type hookLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *hookLines) add(parts ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, strings.Join(parts, " "))
}

// of returns the lines that begin with a word.
func (l *hookLines) of(word string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.lines {
		if rest, ok := strings.CutPrefix(line, word+" "); ok {
			found = append(found, rest)
		}
	}
	return found
}

func (l *hookLines) hooks() observe.Hooks {
	return observe.Hooks{
		EngineStarted: func(s observe.Source) { l.add("engine", "started", s.Stats().Namespace) },
		EngineStopped: func(observe.Source) { l.add("engine", "stopped") },
		StartRun: func(ctx context.Context, s observe.RunStart) (context.Context, func(observe.RunStarted)) {
			kind := "run"
			if s.ParentID != "" {
				kind = "child"
			}
			return ctx, func(r observe.RunStarted) {
				switch {
				case r.Err != nil:
					kind += " refused"
				case r.Existing:
					kind += " existing"
				}
				l.add("start", s.Workflow, kind)
			}
		},
		Execute: func(ctx context.Context, e observe.Execution) (context.Context, func(observe.ExecutionEnd)) {
			return ctx, func(end observe.ExecutionEnd) { l.add("execute", e.Workflow, string(e.Why), string(end.Why)) }
		},
		Attempt: func(ctx context.Context, a observe.Attempt) (context.Context, func(observe.AttemptEnd)) {
			return ctx, func(end observe.AttemptEnd) {
				l.add("attempt", a.Workflow, a.Key, string(rune('0'+a.Attempt)), string(end.Outcome), end.Code)
			}
		},
		Look: func(ctx context.Context, k observe.Look) (context.Context, func(observe.LookEnd)) {
			return context.WithValue(ctx, lookKey{}, k.Key), func(end observe.LookEnd) { l.add("look", k.Workflow, k.Poll, k.Key, string(end.Found), end.Code) }
		},
		Send: func(ctx context.Context, _ observe.Send) (context.Context, func(observe.Sent)) {
			return ctx, func(s observe.Sent) { l.add("send", map[bool]string{true: "sent", false: "refused"}[s.RunID != ""]) }
		},
		Received:   func(_ context.Context, r observe.Received) { l.add("received", r.Workflow, r.Hook) },
		RunEnded:   func(_ context.Context, e observe.RunEnd) { l.add("end", e.Workflow, e.Status, e.Code) },
		RunParked:  func(p observe.RunParked) { l.add("parked", p.Workflow, p.Code) },
		RunEvicted: func(r observe.Run) { l.add("evicted", r.Workflow) },
		Committed: func(c observe.Commit) {
			l.add("commit", map[bool]string{true: "good", false: "bad"}[c.Commands > 0 && c.Runs > 0])
		},
	}
}

type lookKey struct{}

// TestLooksAreTold has polls that find something when they look for the second time, that fail, and that panic. Executed again, the first is not told of again.
func TestLooksAreTold(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		var looks atomic.Int32
		second := cairn.NewPoll("second", time.Millisecond, func(ctx context.Context, _ int) (any, bool, error) {
			return ctx.Value(lookKey{}), looks.Add(1) == 2, nil
		})
		fails := cairn.NewPoll("fails", time.Hour, func(context.Context, int) (int, bool, error) { return 0, false, errDeclined })
		panics := cairn.NewPoll("panics", time.Hour, func(context.Context, int) (int, bool, error) { panic("oh") })
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (any, error) {
			found, err := second.Wait(ctx, 0, cairn.Key("k"))
			if err != nil {
				return nil, err
			}
			if err := cairn.Sleep(ctx, time.Millisecond); err != nil {
				return nil, err
			}
			_, failed := fails.Wait(ctx, 0)
			_, panicked := panics.Wait(ctx, 0)
			if failed == nil || panicked == nil {
				return nil, errors.New("they should have failed")
			}
			return found, nil
		})
		var l hookLines
		e := open(cairn.Config{Observe: l.hooks()}, wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		out, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "second@k", out, "the check has the context of the hook")
		stop(e)
		require.Equal(t, []string{"w second second@k nothing ", "w second second@k answer ", "w fails fails error card_declined", "w panics panics error panic"}, l.of("look"))
	})
}

// busy is a workflow with a step that is retried, a sleep, a hook, a child, and a step that fails.
func busy(tokens chan<- string) (parent *cairn.Workflow[int, int], all []cairn.Definition) {
	flaky := cairn.NewStep("flaky", func(ctx context.Context, n int) (int, error) {
		if cairn.Attempt(ctx) == 1 {
			return 0, errDeclined
		}
		return n, nil
	}).Retry(cairn.RetryPolicy{Attempts: 2, First: time.Millisecond})
	broken := cairn.NewStep("broken", func(context.Context, int) (int, error) { return 0, errors.New("no code") })
	child := cairn.NewWorkflow("child", func(ctx cairn.Context, n int) (int, error) {
		return cairn.Do(ctx, "triple", func(context.Context) (int, error) { return 3 * n, nil })
	})
	approved := cairn.NewHook[int]("approved")
	parent = cairn.NewWorkflow("parent", func(ctx cairn.Context, n int) (int, error) {
		n, err := flaky.Do(ctx, n)
		if err != nil {
			return 0, err
		}
		if err := cairn.Sleep(ctx, time.Millisecond); err != nil {
			return 0, err
		}
		h, err := approved.Open(ctx)
		if err != nil {
			return 0, err
		}
		tell := func(context.Context) (int, error) { tokens <- h.Token(); return 0, nil }
		if _, err := cairn.Do(ctx, "tell", tell); err != nil {
			return 0, err
		}
		more, err := h.Receive(ctx)
		if err != nil {
			return 0, err
		}
		tripled, err := child.Run(ctx, n)
		if err != nil {
			return 0, err
		}
		if _, err := broken.Do(ctx, n); err == nil {
			return 0, errors.New("it did not fail")
		}
		return tripled + more, nil
	})
	return parent, []cairn.Definition{parent, child}
}

// finish drives the busy workflow to its end.
func finish(t *testing.T, e *cairn.Engine, parent *cairn.Workflow[int, int], tokens <-chan string) {
	t.Helper()
	finishAfter(t, e, parent, tokens, 0)
}

// finishAfter lets it go on from its hook when it was evicted so often at least.
func finishAfter(t *testing.T, e *cairn.Engine, parent *cairn.Workflow[int, int], tokens <-chan string, evictions int64) {
	t.Helper()
	run, err := parent.Start(t.Context(), e, 5, cairn.Key("once"))
	require.NoError(t, err)
	token := <-tokens
	require.Eventually(t, func() bool { return e.Stats().Active == 0 && e.Stats().Evicted >= evictions }, time.Minute, time.Millisecond, "the run waits")
	require.NoError(t, cairn.NewHook[int]("sent").Send(t.Context(), e, token, 1))
	out, err := run.Result(t.Context())
	require.NoError(t, err)
	require.Equal(t, 16, out)
}

func TestHooksAreToldWhatHappens(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		var l hookLines
		tokens := make(chan string, 8)
		parent, all := busy(tokens)
		e := open(cairn.Config{Observe: l.hooks()}, all...)
		finish(t, e, parent, tokens)
		_, err := parent.Start(t.Context(), e, 5, cairn.Key("once"))
		require.NoError(t, err)
		require.Error(t, cairn.NewHook[int]("sent").Send(t.Context(), e, "nobody's", 1))
		stats := e.Stats()
		require.Positive(t, stats.Commands)
		require.GreaterOrEqual(t, stats.Events, stats.Batches)
		stop(e)
		stop(e)
		require.Equal(t, []string{"started default", "stopped"}, l.of("engine"))
		require.Equal(t, []string{"parent run", "child child", "parent run existing"}, l.of("start"))
		require.Equal(t, []string{
			"parent flaky 1 retrying card_declined", "parent flaky 2 completed ", "parent tell 1 completed ", "child triple 1 completed ",
			"parent broken 1 failed error",
		}, l.of("attempt"))
		require.Equal(t, []string{"sent", "refused"}, l.of("send"))
		require.Equal(t, []string{"parent approved"}, l.of("received"))
		require.ElementsMatch(t, []string{"child completed ", "parent completed "}, l.of("end"))
		executions := l.of("execute")
		require.Equal(t, "parent started waiting", executions[0])
		require.Contains(t, executions, "child started over")
		require.Contains(t, executions, "parent resumed over")
		require.NotEmpty(t, l.of("commit"))
		require.NotContains(t, l.of("commit"), "bad")
	})
}

// When a run is dropped from memory at each wait, and executed again from its journal each time, the same is told as without.
func TestHooksAreNotToldAgainOnReplay(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		var l hookLines
		tokens := make(chan string, 8)
		parent, all := busy(tokens)
		e := open(cairn.Config{Observe: l.hooks(), MaxWaiting: -1}, all...)
		finishAfter(t, e, parent, tokens, 1) // who sends to a run that waits may be faster than who evicts it
		stop(e)
		require.Equal(t, []string{
			"parent flaky 1 retrying card_declined", "parent flaky 2 completed ", "parent tell 1 completed ", "child triple 1 completed ",
			"parent broken 1 failed error",
		}, l.of("attempt"))
		require.Equal(t, []string{"parent approved"}, l.of("received"))
		require.Equal(t, []string{"parent run", "child child"}, l.of("start"))
		require.ElementsMatch(t, []string{"child completed ", "parent completed "}, l.of("end"))
		require.NotEmpty(t, l.of("evicted"))
		require.Contains(t, strings.Join(l.of("execute"), "\n"), "parent loaded ")
	})
}

func TestHooksAreToldOfEndsFromOutside(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		var l hookLines
		waits := cairn.NewWorkflow("waits", func(ctx cairn.Context, _ int) (int, error) { return 0, cairn.Sleep(ctx, time.Hour) })
		fails := cairn.NewWorkflow("fails", func(cairn.Context, int) (int, error) { return 0, errDeclined })
		elsewhere := cairn.NewWorkflow("elsewhere", func(cairn.Context, int) (int, error) { return 0, nil })
		e := open(cairn.Config{Observe: l.hooks()}, waits, fails)
		terminated, err := waits.Start(t.Context(), e, 0)
		require.NoError(t, err)
		require.NoError(t, terminated.Terminate(t.Context(), "enough"))
		cancelled, err := waits.Start(t.Context(), e, 0)
		require.NoError(t, err)
		require.NoError(t, cancelled.Cancel(t.Context(), "enough"))
		_, err = cancelled.Result(t.Context())
		require.ErrorIs(t, err, cairn.ErrCancelled)
		pending, err := elsewhere.Start(t.Context(), e, 0, cairn.Elsewhere())
		require.NoError(t, err)
		require.NoError(t, pending.Cancel(t.Context(), "enough"))
		failed, err := fails.Start(t.Context(), e, 0)
		require.NoError(t, err)
		_, err = failed.Result(t.Context())
		require.ErrorIs(t, err, errDeclined)
		stop(e)
		require.Equal(t, []string{"waits cancelled ", "waits cancelled ", "elsewhere cancelled ", "fails failed card_declined"}, l.of("end"))
	})
}

func TestHooksAreToldOfParkedRuns(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		var l hookLines
		quiet := slog.New(slog.DiscardHandler)
		first := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) { return 0, cairn.Sleep(ctx, 50*time.Millisecond) })
		e := open(cairn.Config{Logger: quiet}, first)
		run, err := first.Start(t.Context(), e, 0)
		require.NoError(t, err)
		stop(e)
		changed := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
			return cairn.Do(ctx, "sleep", func(context.Context) (int, error) { return 0, nil })
		})
		e = open(cairn.Config{Logger: quiet, Observe: l.hooks(), KeepLogs: &cairn.KeepLogs{}}, changed)
		_, err = mustGet(t, changed, e, run.ID()).Result(t.Context())
		require.Error(t, err)
		require.Eventually(t, func() bool { return e.Stats().Parked == 1 }, time.Minute, time.Millisecond)
		page, err := e.Run(run.ID()).Logs(t.Context(), cairn.LogFilter{})
		require.NoError(t, err)
		require.Len(t, page.Lines, 1, "the engine's own warning is kept with the run")
		require.Contains(t, page.Lines[0].Message, "a run is parked")
		require.Contains(t, string(page.Lines[0].Attrs), "mismatch")
		stop(e)
		require.Equal(t, []string{"w mismatch"}, l.of("parked"))
		require.Equal(t, []string{"w loaded parked"}, l.of("execute"))
	})
}

func mustGet[In, Out any](t *testing.T, wf *cairn.Workflow[In, Out], e *cairn.Engine, id string) *cairn.Run[Out] {
	t.Helper()
	run, err := wf.Get(t.Context(), e, id)
	require.NoError(t, err)
	return run
}

// Hooks that panic, each of them, each time, harm nobody, and are logged once.
func TestHooksThatPanic(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		var log locked
		h := observe.Hooks{
			Propagator:    broken{},
			EngineStarted: func(observe.Source) { panic("EngineStarted!") },
			EngineStopped: func(observe.Source) { panic("EngineStopped!") },
			StartRun: func(context.Context, observe.RunStart) (context.Context, func(observe.RunStarted)) {
				panic("StartRun!")
			},
			Execute: func(ctx context.Context, _ observe.Execution) (context.Context, func(observe.ExecutionEnd)) {
				return ctx, func(observe.ExecutionEnd) { panic("Execute!") }
			},
			Attempt:   func(context.Context, observe.Attempt) (context.Context, func(observe.AttemptEnd)) { panic("Attempt!") },
			Send:      func(context.Context, observe.Send) (context.Context, func(observe.Sent)) { panic("Send!") },
			Received:  func(context.Context, observe.Received) { panic("Received!") },
			RunEnded:  func(context.Context, observe.RunEnd) { panic("RunEnded!") },
			Committed: func(observe.Commit) { panic("Committed!") },
		}
		tokens := make(chan string, 8)
		parent, all := busy(tokens)
		e := open(cairn.Config{Observe: h, Logger: slog.New(slog.NewTextHandler(&log, nil))}, all...)
		finish(t, e, parent, tokens)
		stop(e)
		text := log.String()
		for _, name := range []string{"EngineStarted", "EngineStopped", "StartRun", "Execute", "Attempt", "Send", "Received", "RunEnded", "Committed", "Inject"} {
			require.Equal(t, 1, strings.Count(text, "panic="+name+"!"), name)
		}
	})
}

type broken struct{}

func (broken) Inject(context.Context, map[string]string) { panic("Inject!") }

func (broken) Extract(context.Context, map[string]string) context.Context { panic("Extract!") }

// locked is a buffer for several goroutines.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Hooks that return nothing, or a context of their own, change nothing about what ends a step's context.
func TestHooksWithStrangeContexts(t *testing.T) {
	t.Parallel()
	type key struct{}
	dead, kill := context.WithCancel(context.Background())
	kill()
	strange := map[string]context.Context{"nil": nil, "another": context.WithValue(context.Background(), key{}, "v"), "dead": context.WithValue(dead, key{}, "v")}
	for name := range strange {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := observe.Hooks{
				StartRun: func(context.Context, observe.RunStart) (context.Context, func(observe.RunStarted)) {
					return strange[name], nil
				},
				Execute: func(context.Context, observe.Execution) (context.Context, func(observe.ExecutionEnd)) {
					return strange[name], nil
				},
				Attempt: func(context.Context, observe.Attempt) (context.Context, func(observe.AttemptEnd)) {
					return strange[name], nil
				},
				Send: func(context.Context, observe.Send) (context.Context, func(observe.Sent)) { return strange[name], nil },
			}
			slow := cairn.NewStep("slow", func(ctx context.Context, _ int) (any, error) {
				if ctx.Err() != nil {
					return nil, errors.New("the hook has ended the step's context")
				}
				if cairn.Attempt(ctx) != 1 {
					return nil, errors.New("the hook has hidden what the engine put there")
				}
				below, cancel := context.WithCancel(ctx)
				defer cancel()
				<-below.Done()
				return ctx.Value(key{}), nil
			}).Timeout(50 * time.Millisecond)
			wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (any, error) { return slow.Do(ctx, 0) })
			st, err := sqlite.Memory(t.Context(), nil)
			require.NoError(t, err)
			e, err := cairn.NewWith(t.Context(), st, cairn.Config{Observe: h}, wf)
			require.NoError(t, err)
			defer stop(e)
			run, err := wf.Start(t.Context(), e, 0)
			require.NoError(t, err)
			out, err := run.Result(t.Context())
			require.NoError(t, err)
			if name == "nil" {
				require.Nil(t, out)
			} else {
				require.Equal(t, "v", out)
			}
		})
	}
}

// Hooks may call the engine: read from it, start runs, and even stop it.
func TestHooksThatCallTheEngine(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		var e *cairn.Engine
		var again atomic.Bool
		ready, second := make(chan struct{}), make(chan error, 1)
		echo := cairn.NewWorkflow("echo", func(ctx cairn.Context, n int) (int, error) {
			return cairn.Do(ctx, "echo", func(context.Context) (int, error) { return n, nil })
		})
		h := observe.Hooks{
			Attempt: func(ctx context.Context, a observe.Attempt) (context.Context, func(observe.AttemptEnd)) {
				<-ready
				info, err := e.Run(a.ID).Describe(ctx)
				if err != nil || info.Workflow != "echo" {
					panic(err)
				}
				return ctx, nil
			},
			Execute: func(ctx context.Context, _ observe.Execution) (context.Context, func(observe.ExecutionEnd)) {
				<-ready
				return ctx, func(observe.ExecutionEnd) { _ = e.Stats() }
			},
			RunEnded: func(ctx context.Context, _ observe.RunEnd) {
				if !again.Swap(true) {
					run, err := echo.Start(ctx, e, 2)
					if err == nil {
						_, err = run.Result(ctx)
					}
					second <- err
					return
				}
				_ = e.Stop(ctx)
			},
		}
		e = open(cairn.Config{Observe: h}, echo)
		close(ready)
		run, err := echo.Start(t.Context(), e, 1)
		require.NoError(t, err)
		_, err = run.Result(t.Context())
		require.NoError(t, err)
		require.NoError(t, <-second)
		stop(e) // waits for the hook that stops it
		_, err = echo.Start(t.Context(), e, 3)
		require.Error(t, err, "it is stopped")
	})
}

// A hook that never returns holds up what it was called for, not the engine.
func TestHooksThatBlock(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		forever := make(chan struct{})
		h := observe.Hooks{
			Committed: func(observe.Commit) { <-forever },
			Execute: func(ctx context.Context, e observe.Execution) (context.Context, func(observe.ExecutionEnd)) {
				if e.Workflow == "held up" {
					<-forever
				}
				return ctx, nil
			},
		}
		body := func(ctx cairn.Context, n int) (int, error) {
			if err := cairn.Sleep(ctx, time.Millisecond); err != nil {
				return 0, err
			}
			return cairn.Do(ctx, "echo", func(context.Context) (int, error) { return n, nil })
		}
		held, free := cairn.NewWorkflow("held up", body), cairn.NewWorkflow("free", body)
		e := open(cairn.Config{Observe: h}, held, free)
		t.Cleanup(func() { close(forever) }) // before the engine is stopped
		_, err := held.Start(t.Context(), e, 0)
		require.NoError(t, err)
		for n := range 5 {
			run, err := free.Start(t.Context(), e, n)
			require.NoError(t, err)
			_, err = run.Result(t.Context())
			require.NoError(t, err)
		}
	})
}
