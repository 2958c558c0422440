package cairn_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// warnings is a handler that keeps what is logged as a warning, or worse.
type warnings struct {
	mu    sync.Mutex
	lines []slog.Record
}

// Enabled implements [slog.Handler].
func (*warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements [slog.Handler].
func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, r)
	return nil
}

// WithAttrs implements [slog.Handler].
func (w *warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup implements [slog.Handler].
func (w *warnings) WithGroup(string) slog.Handler { return w }

// messages returns what was logged.
func (w *warnings) messages() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for i := range w.lines {
		all = append(all, w.lines[i].Message)
	}
	return all
}

// attrs returns the attributes of the first line.
func (w *warnings) attrs() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]string{}
	w.lines[0].Attrs(func(a slog.Attr) bool { all[a.Key] = a.Value.String(); return true })
	return all
}

// program is a version of a program that has the workflow "saga".
type program struct {
	definitions []cairn.Definition
	start       func(t *testing.T, e *cairn.Engine) string // returns the id of the run
}

// sagas are workflows that charge, work, and refund if the work fails. What they do is counted.
type sagas struct {
	charges, refunds atomic.Int32
	charge, refund   cairn.Step[string, string]
}

func newSagas() *sagas {
	s := &sagas{}
	counting := func(name string, n *atomic.Int32) cairn.Step[string, string] {
		return cairn.NewStep(name, func(context.Context, string) (string, error) { n.Add(1); return "", nil })
	}
	s.charge, s.refund = counting("charge", &s.charges), counting("refund", &s.refunds)
	return s
}

// job is the part of a saga that differs between programs.
type job[In, Out any] func(ctx cairn.Context, in In) (Out, error)

// sagaOf makes a program of a saga, and of other workflows that it needs.
func sagaOf[In, Out any](s *sagas, in In, work job[In, Out], others ...cairn.Definition) program {
	wf := cairn.NewWorkflow("saga", func(ctx cairn.Context, in In) (out Out, err error) {
		defer func() {
			if err != nil {
				_, _ = s.refund.Do(ctx, "") //cairnvet:ignore deferred a saga that cleans up whatever happened
			}
		}()
		if _, err := s.charge.Do(ctx, ""); err != nil {
			return out, err
		}
		return work(ctx, in)
	})
	start := func(t *testing.T, e *cairn.Engine) string {
		t.Helper()
		run, err := wf.Start(t.Context(), e, in)
		require.NoError(t, err)
		return run.ID()
	}
	return program{append(others, wf), start}
}

// waitForGo waits for a value at the hook "go", so that a test can deploy before it goes on.
func waitForGo(ctx cairn.Context) error {
	_, err := cairn.NewHook[string]("go").Token("go").Wait(ctx)
	return err
}

// bug is a mistake in workflow code.
type bug struct {
	code                    cairn.Code
	place, recorded, wanted string // details of the error
	message, stack          string // parts of the error
	first                   *program
	bad, good               program // first, if there is one, waits at the hook "go"; bad cannot go on; good can
}

// plainSaga is a saga whose work needs no input.
func plainSaga(s *sagas, work func(ctx cairn.Context) error) program {
	return sagaOf(s, "", func(ctx cairn.Context, _ string) (string, error) { return "done", work(ctx) })
}

// goesOn is a saga that has nothing more to do.
func goesOn(s *sagas) program { return plainSaga(s, func(cairn.Context) error { return nil }) }

// bugsAtOnce are bugs that show in the first execution.
func bugsAtOnce(s *sagas) map[string]bug {
	one := func(context.Context) (int, error) { return 1, nil }
	root := "the workflow function"
	all := map[string]bug{
		"panic": {
			code: "panic", place: root, message: "oops", stack: "promise_bug_test.go",
			bad: plainSaga(s, func(cairn.Context) error { panic("oops") }),
		},
		"panic in a branch": {
			code: "panic", place: "side/", message: "oops", stack: "promise_bug_test.go",
			bad: plainSaga(s, func(ctx cairn.Context) error {
				f, err := cairn.Go(ctx, "side", func(cairn.Context) (int, error) { panic("oops") })
				if err != nil {
					return err
				}
				_, err = f.Wait(ctx)
				return err
			}),
		},
		"panic in a map": {
			code: "panic", place: "item#2/", message: "oops", stack: "promise_bug_test.go",
			bad: plainSaga(s, func(ctx cairn.Context) error {
				_, err := cairn.Map(ctx, "item", []int{1, 2}, 0, func(_ cairn.Context, n int) (int, error) {
					if n == 2 {
						panic("oops")
					}
					return n, nil
				})
				return err
			}),
		},
		"goexit": {
			code: "goexit", place: root, message: "ended without a result",
			bad: plainSaga(s, func(cairn.Context) error { runtime.Goexit(); return nil }),
		},
		"goexit in a branch": {
			code: "goexit", place: "side/", message: "ended without a result",
			bad: plainSaga(s, func(ctx cairn.Context) error {
				f, err := cairn.Go(ctx, "side", func(cairn.Context) (int, error) { runtime.Goexit(); return 0, nil })
				if err != nil {
					return err
				}
				_, err = f.Wait(ctx)
				return err
			}),
		},
		"duplicate key": {
			code: "duplicate_key", place: "a@k", message: "a@k is used twice", stack: "promise_bug_test.go",
			bad: plainSaga(s, func(ctx cairn.Context) error {
				if _, err := cairn.Do(ctx, "a", one, cairn.Key("k")); err != nil {
					return err
				}
				_, err := cairn.Do(ctx, "a", one, cairn.Key("k"))
				return err
			}),
		},
		"duplicate key of a timer": {
			code: "duplicate_key", place: "sleep@k", message: "is used twice",
			bad: plainSaga(s, func(ctx cairn.Context) error {
				if err := cairn.Sleep(ctx, time.Millisecond, cairn.Key("k")); err != nil {
					return err
				}
				return cairn.Sleep(ctx, time.Millisecond, cairn.Key("k"))
			}),
		},
		"duplicate key of a branch": {
			code: "duplicate_key", place: "side@k", message: "is used twice",
			bad: plainSaga(s, func(ctx cairn.Context) error {
				for range 2 {
					_, err := cairn.Go(ctx, "side", func(cairn.Context) (int, error) { return 1, nil }, cairn.Key("k"))
					if err != nil {
						return err
					}
				}
				return nil
			}),
		},
		"concurrent context": {
			code: "concurrent_context", place: root, message: "two durable calls", stack: "promise_bug_test.go",
			bad: plainSaga(s, func(ctx cairn.Context) error {
				_, err := cairn.Do(ctx, "outer", func(context.Context) (int, error) {
					//cairnvet:ignore sharedcontext the misuse
					return cairn.Do(ctx, "inner", one) //nolint:contextcheck // the misuse
				})
				return err
			}),
		},
		"context over": {
			code: "context_over", place: "side/", message: "was used after", stack: "promise_bug_test.go",
			bad: plainSaga(s, func(ctx cairn.Context) error {
				f, err := cairn.Go(ctx, "side", func(ctx cairn.Context) (cairn.Context, error) { return ctx, nil })
				if err != nil {
					return err
				}
				side, err := f.Wait(ctx)
				if err != nil {
					return err
				}
				_, err = cairn.Do(side, "late", one)
				return err
			}),
		},
		"encode the input of a step": {
			code: "encode_failed", place: root, wanted: "func()", message: `the input of step a`,
			bad: plainSaga(s, func(ctx cairn.Context) error {
				_, err := cairn.NewStep("a", func(context.Context, func()) (int, error) { return 1, nil }).Do(ctx, func() {})
				return err
			}),
		},
		"encode the result of a step": {
			code: "encode_failed", place: "a", wanted: "chan int", message: "the result of step a",
			bad: plainSaga(s, func(ctx cairn.Context) error {
				_, err := cairn.Do(ctx, "a", func(context.Context) (chan int, error) { return nil, nil })
				return err
			}),
		},
		"encode the input of a child": {
			code: "encode_failed", place: root, wanted: "chan int", message: "the input of child kid",
			bad: plainSaga(s, func(ctx cairn.Context) error {
				_, err := cairn.NewWorkflow("kid", func(cairn.Context, chan int) (int, error) { return 0, nil }).Run(ctx, nil)
				return err
			}),
		},
		"encode the output of the run": {
			code: "encode_failed", place: root, wanted: "chan int", message: "the output of the run",
			bad: sagaOf(s, "", func(cairn.Context, string) (chan int, error) { return nil, nil }),
		},
		"unregistered child": {
			code: "not_registered", place: root, message: `"kid"`,
			bad: plainSaga(s, func(ctx cairn.Context) error {
				_, err := cairn.NewWorkflow("kid", func(cairn.Context, int) (int, error) { return 0, nil }).Run(ctx, 0)
				return err
			}),
		},
		"bad name": {
			code: "malformed", place: root, message: "bad name",
			bad: plainSaga(s, func(ctx cairn.Context) error { _, err := cairn.Do(ctx, "a/b", one); return err }),
		},
	}
	for name, b := range all {
		b.good = goesOn(s)
		all[name] = b
	}
	return all
}

// twoTypes is code in which something was a text first, became a number by mistake, and is a text again.
func twoTypes(s *sagas, b bug, asText, asNumber job[string, string], others ...cairn.Definition) bug {
	b.code, b.recorded, b.wanted = "decode_failed", "string", "int"
	then := func(work job[string, string]) program {
		return sagaOf(s, "in", func(ctx cairn.Context, in string) (string, error) {
			if _, err := work(ctx, in); err != nil {
				return "", err
			}
			return "done", waitForGo(ctx)
		}, others...)
	}
	first := then(asText)
	b.first, b.bad, b.good = &first, then(asNumber), then(asText)
	return b
}

// bugsLater are bugs that show when a run is executed again, by a program that was changed.
func bugsLater(s *sagas) map[string]bug {
	textKid := cairn.NewWorkflow("kid", func(cairn.Context, string) (string, error) { return "text", nil })
	numberKid := cairn.NewWorkflow("kid", func(cairn.Context, string) (int, error) { return 1, nil })
	poll := func(ctx cairn.Context, in string) (string, error) {
		text := func(context.Context, string) (string, bool, error) { return "text", true, nil }
		return cairn.NewPoll("look", time.Minute, text).Wait(ctx, in)
	}
	numberPoll := func(ctx cairn.Context, in string) (string, error) {
		number := func(context.Context, string) (int, bool, error) { return 1, true, nil }
		_, err := cairn.NewPoll("look", time.Minute, number).Wait(ctx, in)
		return "", err
	}
	all := map[string]bug{
		"decode the result of a step": twoTypes(s, bug{place: "a", message: "the recorded result"},
			func(ctx cairn.Context, _ string) (string, error) {
				return cairn.Do(ctx, "a", func(context.Context) (string, error) { return "text", nil })
			},
			func(ctx cairn.Context, _ string) (string, error) {
				_, err := cairn.Do(ctx, "a", func(context.Context) (int, error) { return 1, nil })
				return "", err
			}),
		"decode the result of a step on a branch": twoTypes(s, bug{place: "side/a", message: "the recorded result"},
			func(ctx cairn.Context, _ string) (string, error) {
				return onBranch(ctx, func(ctx cairn.Context) (string, error) {
					return cairn.Do(ctx, "a", func(context.Context) (string, error) { return "text", nil })
				})
			},
			func(ctx cairn.Context, _ string) (string, error) {
				return onBranch(ctx, func(ctx cairn.Context) (string, error) {
					_, err := cairn.Do(ctx, "a", func(context.Context) (int, error) { return 1, nil })
					return "", err
				})
			}),
		"decode a hook's value": twoTypes(s, bug{place: "mail", message: "what came through hook"},
			func(ctx cairn.Context, _ string) (string, error) {
				return cairn.NewHook[string]("mail").Token("mail").Wait(ctx)
			},
			func(ctx cairn.Context, _ string) (string, error) {
				_, err := cairn.NewHook[int]("mail").Token("mail").Wait(ctx)
				return "", err
			}),
		"decode the result of a child": twoTypes(s, bug{place: "kid", message: "child"},
			plain(textKid.Run),
			func(ctx cairn.Context, in string) (string, error) { _, err := numberKid.Run(ctx, in); return "", err }, textKid),
		"decode what a poll found": twoTypes(s, bug{place: "look", message: "poll"}, poll, numberPoll),
	}
	first := sagaOf(s, "text", func(ctx cairn.Context, _ string) (string, error) { return "done", waitForGo(ctx) })
	all["decode the input of the run"] = bug{
		code: "decode_failed", place: "the workflow function", recorded: "string", wanted: "int",
		message: "the input of the run", first: &first, good: first,
		bad: sagaOf(s, 1, func(ctx cairn.Context, _ int) (string, error) { return "done", waitForGo(ctx) }),
	}
	return all
}

// onBranch calls a function on a branch.
func onBranch(ctx cairn.Context, fn func(cairn.Context) (string, error)) (string, error) {
	f, err := cairn.Go(ctx, "side", fn)
	if err != nil {
		return "", err
	}
	return f.Wait(ctx)
}

// stores runs a test on some databases.
type stores func(t *testing.T, test func(t *testing.T, open configured))

// onSQLite runs a test on one database.
func onSQLite(t *testing.T, test func(t *testing.T, open configured)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	test(t, func(cfg cairn.Config, workflows ...cairn.Definition) *cairn.Engine {
		st, err := sqlite.Open(t.Context(), path, nil)
		require.NoError(t, err)
		cfg.Poll = 20 * time.Millisecond
		e, err := cairn.NewWith(t.Context(), st, cfg, workflows...)
		require.NoError(t, err)
		t.Cleanup(func() { stop(e); _ = st.Close() })
		return e
	})
}

// onEveryBug runs a test with each bug.
func onEveryBug(t *testing.T, on stores, test func(t *testing.T, open configured, s *sagas, b *bug)) {
	t.Helper()
	s := newSagas()
	names := make([]string, 0, 30)
	for name := range bugsAtOnce(s) {
		names = append(names, name)
	}
	for name := range bugsLater(s) {
		names = append(names, name)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on(t, func(t *testing.T, open configured) {
				t.Helper()
				s := newSagas()
				b, found := bugsAtOnce(s)[name]
				if !found {
					b = bugsLater(s)[name]
				}
				test(t, open, s, &b)
			})
		})
	}
}

// quiet is the configuration of a build that says nothing.
func quiet(build string) cairn.Config {
	return cairn.Config{Build: build, Logger: slog.New(slog.DiscardHandler)}
}

// parkWith lets a run come to the bug in an engine of build "bad", and returns both. The engine runs.
func (b *bug) parkWith(t *testing.T, open configured, logger *slog.Logger) (*cairn.Engine, string) {
	t.Helper()
	if b.first == nil {
		e := open(cairn.Config{Build: "bad", Logger: logger}, b.bad.definitions...)
		run := b.bad.start(t, e)
		isParked(t, e, run)
		return e, run
	}
	e := open(quiet("first"), b.first.definitions...)
	run := b.first.start(t, e)
	if b.place == "mail" {
		waitsFor(t, e, run, "mail")
		require.NoError(t, cairn.NewHook[string]("mail").Send(t.Context(), e, "mail", "text"))
	}
	waitsFor(t, e, run, "go")
	stop(e)
	e = open(cairn.Config{Build: "bad", Logger: logger}, b.bad.definitions...)
	require.NoError(t, cairn.NewHook[string]("go").Send(t.Context(), e, "go", "!"))
	isParked(t, e, run)
	return e, run
}

// isParked waits until a run is parked.
func isParked(t *testing.T, e *cairn.Engine, run string) {
	t.Helper()
	eventually(t, e, run, func(info *cairn.RunInfo) bool { return info.Phase == cairn.PhaseParked })
}

// count returns how many events of a type a run has.
func count(t *testing.T, e *cairn.Engine, run, kind string) int {
	t.Helper()
	n := 0
	for _, h := range historyOf(t, e, run) {
		if h.Type == kind {
			n++
		}
	}
	return n
}

// someLooks is longer than an engine of these tests takes to look for parked runs twice.
const someLooks = 500 * time.Millisecond

// completes waits until a run of a saga is completed, and checks that it was charged once and never refunded.
func (s *sagas) completes(t *testing.T, e *cairn.Engine, run string) {
	t.Helper()
	eventually(t, e, run, func(info *cairn.RunInfo) bool { return info.Status == cairn.StatusCompleted })
	info, err := e.Run(run).Wait(within(t))
	require.NoError(t, err)
	var out string
	require.NoError(t, info.Output(&out))
	require.Equal(t, "done", out)
	require.EqualValues(t, 1, s.charges.Load())
	require.Zero(t, s.refunds.Load())
}

func TestBug_InWorkflowCode_ParksWithoutCleanUp(t *testing.T) {
	t.Parallel()
	onEveryBug(t, onEveryStoreWith, func(t *testing.T, open configured, s *sagas, b *bug) {
		t.Helper()
		var logged warnings
		e, run := b.parkWith(t, open, slog.New(&logged))
		info, err := e.Run(run).Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, cairn.StatusRunning, info.Status)
		require.Equal(t, b.code, info.Error.Code)
		require.Contains(t, info.Error.Message, b.message)
		require.Equal(t, info.Error.Message, info.Reason)
		require.Equal(t, b.place, info.Error.Details["place"])
		require.Equal(t, b.recorded, info.Error.Details["recorded"])
		require.Equal(t, b.wanted, info.Error.Details["wanted"])
		require.NotEmpty(t, info.Error.Stack)
		require.Contains(t, info.Error.Stack, b.stack)

		time.Sleep(someLooks) // this build has tried it
		require.Equal(t, 1, count(t, e, run, "run_parked"))
		require.EqualValues(t, 1, s.charges.Load())
		require.Zero(t, s.refunds.Load())
		require.Len(t, logged.messages(), 1)
		require.Contains(t, logged.messages()[0], "a run is parked")
		require.Equal(t, b.place, logged.attrs()["place"])
		require.NotEmpty(t, logged.attrs()["stack"])
		require.Contains(t, logged.attrs()["error"], string(b.code))

		stop(e)
		e = open(quiet("good"), b.good.definitions...) // another build tries it by itself
		s.completes(t, e, run)
	})
}

func TestBug_FixedInTheSameBuild_GoesOnWhenResumed(t *testing.T) {
	t.Parallel()
	onEveryBug(t, onSQLite, func(t *testing.T, open configured, s *sagas, b *bug) {
		t.Helper()
		e, run := b.parkWith(t, open, slog.New(slog.DiscardHandler))
		stop(e)
		e = open(quiet("bad"), b.good.definitions...)
		time.Sleep(someLooks)
		require.Zero(t, count(t, e, run, "run_resumed"))
		if strings.HasPrefix(b.place, "the workflow") {
			require.NoError(t, e.Run(run).By("ann").Resume(t.Context()))
		} else {
			resumed, err := e.ResumeParked(t.Context(), cairn.Filter{Workflow: "saga"}, cairn.ResumeBy("ann"))
			require.NoError(t, err)
			require.Len(t, resumed, 1)
			require.Equal(t, run, resumed[0].ID)
		}
		s.completes(t, e, run)
		require.Equal(t, 1, count(t, e, run, "run_resumed"))
	})
}

// A panic of a step is a failure of the work: it is tried again, and then the clean-up runs.
func TestBug_PanicInAStep_FailsTheAttempt(t *testing.T) {
	t.Parallel()
	onSQLite(t, func(t *testing.T, open configured) {
		t.Helper()
		s := newSagas()
		var attempts atomic.Int32
		p := plainSaga(s, func(ctx cairn.Context) error {
			twice := cairn.Retry(cairn.RetryPolicy{Attempts: 2})
			_, err := cairn.Do(ctx, "a", func(context.Context) (int, error) { attempts.Add(1); panic("oops") }, twice)
			return err
		})
		e := open(quiet("one"), p.definitions...)
		info, err := e.Run(p.start(t, e)).Wait(within(t))
		require.NoError(t, err)
		require.Equal(t, cairn.StatusFailed, info.Status)
		require.Equal(t, cairn.Code("panic"), info.Error.Code)
		require.Contains(t, info.Error.Stack, "promise_bug_test.go")
		require.EqualValues(t, 2, attempts.Load())
		require.EqualValues(t, 1, s.refunds.Load())
	})
}

// panicking is a saga with a bug.
func panicking(s *sagas) program { return plainSaga(s, func(cairn.Context) error { panic("oops") }) }

func TestResumeParked_DryRun_ListsAndChangesNothing(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		t.Helper()
		s := newSagas()
		other := cairn.NewWorkflow("other", func(cairn.Context, string) (string, error) { panic("oops") })
		sleeper := newSleeper()
		p := panicking(s)
		e := open(quiet("bad"), append(p.definitions, other, sleeper)...)
		first, second := p.start(t, e), p.start(t, e)
		third, err := other.Start(t.Context(), e, "")
		require.NoError(t, err)
		paused, err := sleeper.Start(t.Context(), e, "")
		require.NoError(t, err)
		for _, run := range []string{first, second, third.ID()} {
			isParked(t, e, run)
		}
		eventually(t, e, paused.ID(), func(info *cairn.RunInfo) bool { return len(info.Waits) == 1 })
		require.NoError(t, paused.Pause(t.Context(), "later"))
		listed := func(f cairn.Filter, opts ...cairn.ResumeOption) []string {
			runs, err := e.ResumeParked(t.Context(), f, opts...)
			require.NoError(t, err)
			var ids []string
			for _, run := range runs {
				require.Equal(t, cairn.PhaseParked, run.Phase)
				require.Equal(t, cairn.Code("panic"), run.Error.Code)
				ids = append(ids, run.ID)
			}
			return ids
		}
		require.ElementsMatch(t, []string{first, second}, listed(cairn.Filter{Workflow: "saga"}, cairn.DryRun()))
		require.ElementsMatch(t, []string{first, second, third.ID()}, listed(cairn.Filter{}, cairn.DryRun()))
		require.ElementsMatch(t, []string{first, second, third.ID()}, listed(cairn.Filter{Limit: 1}, cairn.DryRun()))
		for _, run := range []string{first, second, third.ID(), paused.ID()} {
			require.Zero(t, count(t, e, run, "run_resumed"))
		}
		require.ElementsMatch(t, []string{first, second}, listed(cairn.Filter{Workflow: "saga", Limit: 1}))
		for _, run := range []string{first, second} { // the code still cannot go on
			require.Eventually(t, func() bool { return count(t, e, run, "run_parked") == 2 }, 20*time.Second, 5*time.Millisecond)
			require.Equal(t, 1, count(t, e, run, "run_resumed"))
		}
		require.Zero(t, count(t, e, third.ID(), "run_resumed"))
		require.Zero(t, count(t, e, paused.ID(), "run_resumed"))
		_, err = e.ResumeParked(t.Context(), cairn.Filter{Phase: cairn.PhasePaused})
		requireCode(t, "malformed", err)
		require.Zero(t, s.refunds.Load())
	})
}

func TestRetryParked_OtherBuildsFail_EachTriesOnce(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		t.Helper()
		s := newSagas()
		p := panicking(s)
		a := open(quiet("a"), p.definitions...)
		run := p.start(t, a)
		isParked(t, a, run)
		stop(a) // which could take the run that b resumes
		b := open(quiet("b"), p.definitions...)
		open(quiet("b"), p.definitions...) // a second process of it
		require.Eventually(t, func() bool { return count(t, b, run, "run_parked") == 2 }, 20*time.Second, 5*time.Millisecond)
		time.Sleep(someLooks)
		require.Equal(t, 2, count(t, b, run, "run_parked"))
		require.Equal(t, 1, count(t, b, run, "run_resumed"))
		require.EqualValues(t, 1, s.charges.Load())
		require.Zero(t, s.refunds.Load())
	})
}

// newSleeper is a workflow that does nothing for an hour.
func newSleeper() *cairn.Workflow[string, string] {
	return cairn.NewWorkflow("sleeper", func(ctx cairn.Context, _ string) (string, error) {
		return "", cairn.Sleep(ctx, time.Hour)
	})
}

// Nobody has said that a run that was paused by hand may go on.
func TestRetryParked_PausedByHand_IsNotTried(t *testing.T) {
	t.Parallel()
	onSQLite(t, func(t *testing.T, open configured) {
		t.Helper()
		sleeper := newSleeper()
		a := open(quiet("a"), sleeper)
		run, err := sleeper.Start(t.Context(), a, "")
		require.NoError(t, err)
		eventually(t, a, run.ID(), func(info *cairn.RunInfo) bool { return len(info.Waits) == 1 })
		require.NoError(t, run.Pause(t.Context(), "later"))
		stop(a)
		b := open(quiet("b"), sleeper)
		time.Sleep(someLooks)
		info, err := b.Run(run.ID()).Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, cairn.PhasePaused, info.Phase)
		require.Zero(t, count(t, b, run.ID(), "run_resumed"))
	})
}

// A run that is parked for a bug does nothing: who pauses it is told so, and that another build may try it.
func TestPause_ParkedRun_IsRefused(t *testing.T) {
	t.Parallel()
	onSQLite(t, func(t *testing.T, open configured) {
		t.Helper()
		wf := cairn.NewWorkflow("w", func(cairn.Context, int) (int, error) { panic("a bug") })
		e := open(quiet("a"), wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		eventually(t, e, run.ID(), func(info *cairn.RunInfo) bool { return info.Phase == cairn.PhaseParked })
		requireCode(t, "illegal_transition", run.Pause(t.Context(), "wait"))
		sleeper := newSleeper()
		e = open(quiet("a"), sleeper)
		paused, err := sleeper.Start(t.Context(), e, "")
		require.NoError(t, err)
		require.NoError(t, paused.Pause(t.Context(), "wait"))
		require.NoError(t, paused.Pause(t.Context(), "wait"), "it is what is wanted")
	})
}

// cancellable is a saga that opens a hook, and has a bug after it: in its clean-up too, if that is broken.
func cancellable(s *sagas, brokenCleanup bool) program {
	return sagaOf(s, "", func(ctx cairn.Context, _ string) (string, error) {
		h, err := cairn.NewHook[string]("mail").Token("mail").Open(ctx)
		if err != nil {
			return "", err
		}
		if err := cairn.Sleep(ctx, time.Millisecond); err != nil {
			return "", err
		}
		_, err = cairn.Do(ctx, "bad", func(context.Context) (chan int, error) { return nil, nil })
		if err == nil || brokenCleanup {
			panic("oops")
		}
		after, done := cairn.Cleanup(ctx, time.Minute)
		defer done()
		if _, err := s.refund.Do(after, ""); err != nil {
			return "", err
		}
		return "", errors.Join(err, h.Close(after))
	})
}

func TestCancel_OfAParkedRun_EndsIt(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]bool{"clean-up runs": false, "clean-up is broken": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEveryStoreWith(t, func(t *testing.T, open configured) {
				t.Helper()
				s := newSagas()
				p := cancellable(s, broken)
				e := open(quiet("bad"), p.definitions...)
				run := p.start(t, e)
				isParked(t, e, run)
				require.NoError(t, e.Run(run).By("ann").Cancel(t.Context(), "enough"))
				info, err := e.Run(run).Wait(within(t))
				require.NoError(t, err)
				require.Equal(t, cairn.StatusCancelled, info.Status)
				require.Equal(t, "enough", info.Reason)
				require.Equal(t, "ann", info.Actor)
				require.EqualValues(t, 1, s.charges.Load())
				if broken {
					require.Zero(t, s.refunds.Load())
					require.Equal(t, cairn.Code("panic"), info.Error.Code)
				} else {
					require.EqualValues(t, 1, s.refunds.Load())
				}
				_, err = e.HookInfo(t.Context(), "mail")
				requireCode(t, "hook_not_found", err)

				stop(e)
				fixed := sagaOf(s, "", func(ctx cairn.Context, _ string) (string, error) {
					h, err := cairn.NewHook[string]("mail").Token("mail").Open(ctx)
					if err != nil {
						return "", err
					}
					return h.Receive(ctx)
				})
				e = open(quiet("good"), fixed.definitions...)
				fork, err := e.Run(run).Fork(t.Context(), cairn.Fork{From: "mail"})
				require.NoError(t, err)
				waitsFor(t, e, fork.ID(), "mail")
				require.NoError(t, cairn.NewHook[string]("mail").Send(t.Context(), e, "mail", "done"))
				s.refunds.Store(0)
				s.completes(t, e, fork.ID())
			})
		})
	}
}

func TestDescribe_ParkedChild_IsNamedByItsParent(t *testing.T) {
	t.Parallel()
	onEveryStoreWith(t, func(t *testing.T, open configured) {
		t.Helper()
		kid := cairn.NewWorkflow("kid", func(cairn.Context, string) (string, error) { panic("oops") })
		parent := cairn.NewWorkflow("parent", plain(kid.Run))
		e := open(quiet("bad"), parent, kid)
		run, err := parent.Start(t.Context(), e, "")
		require.NoError(t, err)
		eventually(t, e, run.ID(), func(info *cairn.RunInfo) bool {
			return len(info.Waits) == 1 && info.Waits[0].Error != nil
		})
		info, err := run.Describe(t.Context())
		require.NoError(t, err)
		w := info.Waits[0]
		require.Equal(t, "child", w.Kind)
		require.Equal(t, "kid", w.Key)
		require.Equal(t, cairn.Code("parked"), w.Error.Code)
		require.Contains(t, w.Error.Message, w.ChildID)
		require.Contains(t, w.Error.Message, "panic: oops")
		require.Nil(t, info.Error)
	})
}

// decision is what a hook takes.
type decision struct {
	OK    bool
	Note  string
	Count int
	Small int8
	Ratio float64
	At    time.Time
	Blob  []byte
	Names map[int]string
}

func TestSend_ValueThatDoesNotFit_IsRefused(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("reader", func(ctx cairn.Context, _ string) (string, error) {
			d, err := cairn.NewHook[decision]("decision").Token("decision").Wait(ctx)
			return d.Note, err
		})
		executing, other := start(wf), start()
		run, err := wf.Start(t.Context(), executing, "")
		require.NoError(t, err)
		waitsFor(t, executing, run.ID(), "decision")
		for _, e := range []*cairn.Engine{executing, other} {
			ctx := t.Context()
			refused := map[string]error{
				"text":         cairn.NewHook[string]("decision").Send(ctx, e, "decision", "yes"),
				"number":       cairn.NewHook[int]("decision").Send(ctx, e, "decision", 1),
				"list":         cairn.NewHook[[]string]("decision").Send(ctx, e, "decision", []string{"yes"}),
				"other fields": sendAs(t, e, struct{ OK string }{"yes"}),
				"to the run":   cairn.NewHook[int]("decision").SendTo(ctx, e, run.ID(), 1),
				"json text":    e.SendJSON(ctx, "decision", json.RawMessage(`"yes"`)),
				"json field":   e.SendJSON(ctx, "decision", json.RawMessage(`{"OK":"yes"}`)),
				"json case":    e.SendJSON(ctx, "decision", json.RawMessage(`{"ok":"yes"}`)),
				"json float":   e.SendJSON(ctx, "decision", json.RawMessage(`{"Count":1.5}`)),
				"json huge":    e.SendJSON(ctx, "decision", json.RawMessage(`{"Count":99999999999999999999999}`)),
				"go float":     sendAs(t, e, struct{ Count float64 }{1.5}),
				"go large":     sendAs(t, e, struct{ Small int }{1000}),
				"go NaN":       sendAs(t, e, struct{ Count float64 }{math.NaN()}),
				"json small":   e.SendJSON(ctx, "decision", json.RawMessage(`{"Small":1000}`)),
				"json ratio":   e.SendJSON(ctx, "decision", json.RawMessage(`{"Ratio":1e999}`)),
				"json time":    e.SendJSON(ctx, "decision", json.RawMessage(`{"At":"yesterday"}`)),
				"json bytes":   e.SendJSON(ctx, "decision", json.RawMessage(`{"Blob":7}`)),
				"go bytes":     sendAs(t, e, struct{ At []byte }{[]byte("x")}),
				"go time":      sendAs(t, e, struct{ Blob time.Time }{time.Now()}),
				"json base64":  e.SendJSON(ctx, "decision", json.RawMessage(`{"Blob":"?"}`)),
				"json key":     e.SendJSON(ctx, "decision", json.RawMessage(`{"Names":{"a":"b"}}`)),
				"garbage":      e.SendJSON(ctx, "decision", json.RawMessage(`{]`)),
				"nothing":      e.SendJSON(ctx, "decision", json.RawMessage(``)),
				"two values":   e.SendJSON(ctx, "decision", json.RawMessage(`{} {}`)),
			}
			for what, err := range refused {
				require.Equal(t, cairn.Code("value_refused"), cairn.CodeOf(err), what)
			}
		}
		info, err := run.Describe(t.Context())
		require.NoError(t, err)
		require.NotEqual(t, cairn.PhaseParked, info.Phase)
		require.Zero(t, count(t, executing, run.ID(), "hook_received"))
		require.NoError(t, other.SendJSON(t.Context(), "decision", json.RawMessage(`{"ok":true,"Note":"fine","more":[1]}`)))
		out, err := run.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, "fine", out)
	})
}

// Values of other types that are accepted can be read: they do not park the run either.
func TestSend_ValueOfAnotherTypeThatFits_IsReceived(t *testing.T) {
	t.Parallel()
	onSQLite(t, func(t *testing.T, open configured) {
		t.Helper()
		wf := cairn.NewWorkflow("reader", func(ctx cairn.Context, _ string) (all []decision, err error) {
			h, err := cairn.NewHook[decision]("decision").Token("decision").Open(ctx)
			if err != nil {
				return nil, err
			}
			for range 6 {
				d, err := h.Receive(ctx)
				if err != nil {
					return nil, err
				}
				all = append(all, d)
			}
			return all, nil
		})
		e := open(quiet("one"), wf)
		run, err := wf.Start(t.Context(), e, "")
		require.NoError(t, err)
		waitsFor(t, e, run.ID(), "decision")
		at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
		require.NoError(t, sendAs(t, e, struct{ Count float64 }{2}))
		require.NoError(t, sendAs(t, e, struct{ At, Note string }{at.Format(time.RFC3339Nano), "text"}))
		require.NoError(t, sendAs(t, e, struct{ Note, At time.Time }{at, at}))
		require.NoError(t, sendAs(t, e, struct{ Note []byte }{[]byte("bytes")}))
		require.NoError(t, sendAs(t, e, struct{ Blob string }{"eA=="}))
		require.NoError(t, sendAs(t, e, map[int]int{1: 1}))
		out, err := run.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, 2, out[0].Count)
		require.Equal(t, decision{Note: "text", At: at}, out[1])
		require.Equal(t, decision{Note: at.Format(time.RFC3339Nano), At: at}, out[2])
		require.Equal(t, "Ynl0ZXM=", out[3].Note)
		require.Equal(t, []byte("x"), out[4].Blob)
		require.Equal(t, decision{}, out[5])
	})
}

func sendAs[T any](t *testing.T, e *cairn.Engine, v T) error {
	t.Helper()
	return cairn.NewHook[T]("decision").Send(t.Context(), e, "decision", v)
}
