package cairn_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

func memory(t *testing.T, cfg cairn.Config, workflows ...cairn.Definition) *cairn.Engine {
	t.Helper()
	st, err := sqlite.Memory(t.Context(), nil)
	require.NoError(t, err)
	e, err := cairn.NewWith(t.Context(), st, cfg, workflows...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = e.Stop(ctx)
		_ = st.Close()
	})
	return e
}

// tooLarge returns more than can be stored, also when it is compressed.
func tooLarge() []byte {
	b := make([]byte, 40<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

func requireCode(t *testing.T, code cairn.Code, err error) {
	t.Helper()
	require.ErrorIs(t, err, cairn.NewError(code, ""))
}

func TestMisuseOfNew(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Memory(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	named := func(name string) cairn.Definition {
		return cairn.NewWorkflow(name, func(cairn.Context, int) (int, error) { return 0, nil })
	}
	for code, workflows := range map[cairn.Code][]cairn.Definition{
		"duplicate_name": {named("w"), named("w")},
		"malformed":      {named("a/b")},
	} {
		_, err = cairn.New(t.Context(), st, workflows...)
		requireCode(t, code, err)
	}
	_, err = cairn.New(t.Context(), nil, named("w"))
	requireCode(t, "malformed", err)
	_, err = cairn.New(t.Context(), st, nil)
	requireCode(t, "malformed", err)
	_, err = cairn.New(t.Context(), st, named(""))
	requireCode(t, "malformed", err)
	_, err = cairn.New(t.Context(), st, cairn.Declare[int, int]("later"))
	require.ErrorContains(t, err, "Bind")
	_, err = cairn.NewWith(t.Context(), st, cairn.Config{Namespace: "a\x00b"}, named("w"), named("w"))
	require.ErrorContains(t, err, "bad namespace")
	require.ErrorContains(t, err, "two workflows", "all mistakes at once")

	var unmade *cairn.Workflow[int, int]
	_, err = cairn.NewWith(t.Context(), st, cairn.Config{
		Lease: time.Nanosecond, Poll: -1, MaxActive: -1, KeepLogs: &cairn.KeepLogs{MaxLines: -1}, Build: "a\x00b",
	}, unmade, nil)
	for _, mistake := range []string{
		"a workflow is nil", "definition 2 of 2 is nil", "Config.Lease is 1ns", "Config.Poll is -1ns", "Config.MaxActive is -1", "Config.KeepLogs", "Config.Build",
	} {
		require.ErrorContains(t, err, mistake)
	}
}

func TestMisuseFromOutside(t *testing.T) {
	t.Parallel()
	w := cairn.NewWorkflow("w", func(cairn.Context, int) (string, error) { return "text", nil })
	e := memory(t, cairn.Config{}, w)
	ctx := t.Context()

	other := cairn.NewWorkflow("other", func(cairn.Context, int) (int, error) { return 0, nil })
	_, err := other.Start(ctx, e, 0)
	requireCode(t, "not_registered", err)

	unstorable := cairn.NewWorkflow("w", func(cairn.Context, chan int) (int, error) { return 0, nil })
	_, err = unstorable.Start(ctx, e, make(chan int))
	require.ErrorContains(t, err, "chan int")

	large := cairn.NewWorkflow("w", func(cairn.Context, []byte) (int, error) { return 0, nil })
	_, err = large.Start(ctx, e, tooLarge())
	requireCode(t, "payload_too_large", err)

	run, err := w.Start(ctx, e, 0)
	require.NoError(t, err)
	_, err = run.Result(ctx)
	require.NoError(t, err)
	wrong := cairn.NewWorkflow("w", func(cairn.Context, int) (int, error) { return 0, nil })
	again, err := wrong.Get(ctx, e, run.ID())
	require.NoError(t, err)
	_, err = again.Result(ctx)
	require.ErrorContains(t, err, "int", "the result is of another type")
	_, err = other.Get(ctx, e, run.ID())
	requireCode(t, "run_not_found", err)

	unknown := "wrun_01KDVDNA00ABCDEFGHJKMNPQRS"
	_, err = e.Run(unknown).Describe(ctx)
	requireCode(t, "run_not_found", err)
	_, err = e.Run("nonsense").Describe(ctx)
	requireCode(t, "malformed", err)
	for _, err := range e.Run(unknown).History(ctx) {
		requireCode(t, "run_not_found", err)
	}
	requireCode(t, "run_not_found", e.Run(unknown).Cancel(ctx, ""))
	requireCode(t, "run_ended", run.Cancel(ctx, "too late"))
	requireCode(t, "hook_not_found", cairn.NewHook[int]("sent").Send(ctx, e, "no such token", 1))
	_, err = e.List(ctx, cairn.Filter{Status: []cairn.Status{"asleep"}})
	requireCode(t, "malformed", err)

	require.NoError(t, e.Stop(ctx))
	_, err = w.Start(ctx, e, 1)
	requireCode(t, "closed", err)
}

func TestMisuseInside(t *testing.T) {
	t.Parallel()
	one := func(context.Context) (int, error) { return 1, nil }
	var kept cairn.Context
	var child *cairn.Workflow[int, int]
	var e *cairn.Engine
	tests := map[string]struct {
		code  cairn.Code
		text  string
		parks bool // it is a mistake in the code
		do    func(ctx cairn.Context) error
	}{
		"a name with a slash": {code: "malformed", parks: true, do: func(ctx cairn.Context) error { _, err := cairn.Do(ctx, "a/b", one); return err }},
		"a key used twice": {code: "duplicate_key", parks: true, do: func(ctx cairn.Context) error {
			s := cairn.NewStep("s", func(context.Context, int) (int, error) { return 1, nil })
			_, first := s.Do(ctx, 1, cairn.Key("k"))
			_, second := s.Do(ctx, 1, cairn.Key("k"))
			return errors.Join(first, second)
		}},
		"a durable call inside a step": {code: "concurrent_context", parks: true, do: func(ctx cairn.Context) error {
			//cairnvet:ignore sharedcontext the misuse
			_, err := cairn.Do(ctx, "outer", func(context.Context) (int, error) { return cairn.Do(ctx, "inner", one) }) //nolint:contextcheck // the misuse
			return err
		}},
		"an answer to no request": {code: "malformed", text: "did not come through a hook", do: func(ctx cairn.Context) error { return (&cairn.Request[int, int]{}).Reply(ctx, 1) }},
		"a result that cannot be stored": {code: "encode_failed", text: "chan int", parks: true, do: func(ctx cairn.Context) error {
			_, err := cairn.Do(ctx, "s", func(context.Context) (chan int, error) { return nil, nil })
			return err
		}},
		"an input that cannot be stored": {code: "encode_failed", text: "func()", parks: true, do: func(ctx cairn.Context) error {
			_, err := cairn.NewStep("s", func(context.Context, func()) (int, error) { return 1, nil }).Do(ctx, func() {})
			return err
		}},
		"an annotation that cannot be stored": {code: "encode_failed", text: "chan int", parks: true, do: func(ctx cairn.Context) error {
			return cairn.Annotate(ctx, cairn.Annotation{Name: "n", Value: make(chan int)})
		}},
		"an inline step without a function": {code: "malformed", text: "no function", parks: true, do: func(ctx cairn.Context) error {
			_, err := cairn.Do[int](ctx, "s", nil)
			return err
		}},
		"a step without a function": {code: "malformed", text: "no function", parks: true, do: func(ctx cairn.Context) error {
			_, err := cairn.NewStep[int, int]("s", nil).Do(ctx, 1)
			return err
		}},
		"a result that is too large": {code: "payload_too_large", do: func(ctx cairn.Context) error {
			_, err := cairn.Do(ctx, "s", func(context.Context) ([]byte, error) { return tooLarge(), nil })
			return err
		}},
		"a child that is not registered": {code: "not_registered", parks: true, do: func(ctx cairn.Context) error {
			_, err := cairn.NewWorkflow("nowhere", func(cairn.Context, int) (int, error) { return 0, nil }).Run(ctx, 0)
			return err
		}},
		"a run started as from outside": {code: "in_workflow", parks: true, do: func(ctx cairn.Context) error { _, err := child.Start(ctx, e, 0); return err }},
		"a race without branches":       {code: "malformed", do: func(ctx cairn.Context) error { _, err := cairn.Race[int](ctx); return err }},
		"three of two":                  {code: "malformed", do: func(ctx cairn.Context) error { _, err := cairn.FirstN[int](ctx, 3); return err }},
		"a panic":                       {code: "panic", text: "oops", parks: true, do: func(cairn.Context) error { panic("oops") }},
		"a panic in a step": {code: "panic", text: "oops", do: func(ctx cairn.Context) error {
			_, err := cairn.Do(ctx, "s", func(context.Context) (int, error) { panic("oops") })
			return err
		}},
		"a context kept": {do: func(ctx cairn.Context) error { kept = ctx; return errors.New("ended") }},
	}
	wf := cairn.NewWorkflow("misuse", func(ctx cairn.Context, name string) (int, error) { return 0, tests[name].do(ctx) })
	child = cairn.NewWorkflow("child", func(cairn.Context, int) (int, error) { return 0, nil })
	e = memory(t, cairn.Config{}, wf, child)
	for name, test := range tests {
		_, err := result(t, e, wf, name)
		require.Error(t, err, name)
		if test.parks {
			requireCode(t, "parked", err)
			require.ErrorContains(t, err, string(test.code)+": ", name)
			require.ErrorContains(t, err, test.text, name)
			continue
		}
		if test.code != "" {
			require.ErrorIs(t, err, cairn.NewError(test.code, ""), name)
		}
		require.ErrorContains(t, err, test.text, name)
	}
	_, err := cairn.Do(kept, "late", one)
	requireCode(t, "context_over", err)
}

// TestElsewhere starts a run in a process that does not have its workflow.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("far", func(ctx cairn.Context, n int) (int, error) {
			return cairn.Do(ctx, "double", func(context.Context) (int, error) { return 2 * n, nil })
		})
		client := start()
		run, err := wf.Start(t.Context(), client, 21, cairn.Elsewhere())
		require.NoError(t, err)
		start(wf)
		out, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, 42, out)
	})
}

// TestChangedInput executes a run again with code that gives its steps other inputs.
func TestChangedInput(t *testing.T) {
	t.Parallel()
	var changed bool
	step := cairn.NewStep("step", func(_ context.Context, n int) (int, error) { return n, nil })
	go1 := cairn.NewHook[int]("go")
	wf := cairn.NewWorkflow("w", func(ctx cairn.Context, times int) (int, error) {
		sum := 0
		for i := range times {
			if changed {
				i += 10
			}
			//cairnvet:ignore loopkey the test is about calls that are found by their position
			n, err := step.Do(ctx, i+1)
			if err != nil {
				return 0, err
			}
			sum += n
		}
		_, err := go1.Token(cairn.RunID(ctx)).Wait(ctx)
		return sum, err
	})
	for _, test := range []struct {
		name   string
		times  int
		strict bool
		parks  bool
	}{
		{"used once", 1, false, false},
		{"used once, strictly", 1, true, true},
		{"repeated", 2, false, true},
	} {
		changed = false
		e := memory(t, cairn.Config{MaxWaiting: -1, Strict: test.strict}, wf) // it is executed again when it goes on
		run, err := wf.Start(t.Context(), e, test.times)
		require.NoError(t, err)
		require.Eventually(t, func() bool { _, err := e.HookInfo(t.Context(), run.ID()); return err == nil }, 10*time.Second, time.Millisecond)
		require.Eventually(t, func() bool {
			info, err := run.Describe(t.Context())
			return err == nil && len(info.Waits) == 1
		}, 10*time.Second, time.Millisecond)
		require.NoError(t, waitUnowned(t, run))
		changed = true
		require.NoError(t, cairn.NewHook[int]("sent").Send(t.Context(), e, run.ID(), 1))
		if !test.parks {
			out, err := run.Result(t.Context())
			require.NoError(t, err, test.name)
			require.Equal(t, 1, out, test.name)
			continue
		}
		require.Eventually(t, func() bool {
			info, err := run.Describe(t.Context())
			require.NoError(t, err)
			return info.Phase == "parked"
		}, 10*time.Second, time.Millisecond, test.name)
		changed = false // the code is mended
		require.NoError(t, e.Run(run.ID()).By("me").Resume(t.Context()))
		_, err = run.Result(t.Context())
		require.NoError(t, err, test.name)
	}
}

// waitUnowned gives a run that waits a moment to be dropped from memory.
func waitUnowned(t *testing.T, run *cairn.Run[int]) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := run.Result(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return errors.New("the run has ended")
	}
	return nil
}

// TestMisuseAcrossRuns uses what one run has made in another one.
func TestMisuseAcrossRuns(t *testing.T) {
	t.Parallel()
	var future *cairn.Future[int]
	var hook *cairn.OpenRequestHook[int, int]
	var child *cairn.Child[int]
	var request *cairn.Request[int, int]
	ready := make(chan struct{}, 10)
	tell := cairn.NewStep("tell", func(context.Context, int) (int, error) { ready <- struct{}{}; return 0, nil })
	small := cairn.NewWorkflow("small", func(cairn.Context, int) (int, error) { return 1, nil })
	host := cairn.NewWorkflow("host", func(ctx cairn.Context, _ int) (_ int, err error) {
		if future, err = cairn.Go(ctx, "branch", func(cairn.Context) (int, error) { return 1, nil }); err != nil {
			return 0, err
		}
		if hook, err = cairn.NewRequestHook[int, int]("hook").Open(ctx); err != nil {
			return 0, err
		}
		if child, err = small.StartChild(ctx, 0); err != nil {
			return 0, err
		}
		if _, err = tell.Do(ctx, 0); err != nil {
			return 0, err
		}
		if request, err = hook.Receive(ctx); err != nil {
			return 0, err
		}
		if _, err = tell.Do(ctx, 1); err != nil {
			return 0, err
		}
		last, err := hook.Receive(ctx) // what it has made is of use as long as it waits, but not elsewhere
		if err != nil {
			return 0, err
		}
		return last.Value, nil
	})
	tests := map[string]func(ctx cairn.Context) error{
		"wait": func(ctx cairn.Context) error { _, err := future.Wait(ctx); return err },
		"all": func(ctx cairn.Context) error {
			mine, err := cairn.Go(ctx, "mine", func(cairn.Context) (int, error) { return 1, nil })
			if err != nil {
				return err
			}
			_, err = cairn.All(ctx, mine, future)
			return err
		},
		"race":    func(ctx cairn.Context) error { _, err := cairn.Race(ctx, future); return err },
		"receive": func(ctx cairn.Context) error { _, err := hook.Receive(ctx); return err },
		"close":   func(ctx cairn.Context) error { return hook.Close(ctx) },
		"child":   func(ctx cairn.Context) error { _, err := child.Result(ctx); return err },
		"reply":   func(ctx cairn.Context) error { return request.Reply(ctx, 1) },
	}
	guest := cairn.NewWorkflow("guest", func(ctx cairn.Context, name string) (int, error) { return 0, tests[name](ctx) })
	e := memory(t, cairn.Config{}, host, guest, small)
	run, err := host.Start(t.Context(), e, 0)
	require.NoError(t, err)
	<-ready
	require.NoError(t, cairn.NewHook[int]("sent").Send(t.Context(), e, hook.Token(), 1))
	<-ready
	for name := range tests {
		_, err := result(t, e, guest, name)
		requireCode(t, "parked", err)
		require.ErrorContains(t, err, "concurrent_context: ", name)
		require.ErrorContains(t, err, "another run", name)
	}
	require.NoError(t, cairn.NewHook[int]("sent").Send(t.Context(), e, hook.Token(), 7))
	out, err := run.Result(t.Context())
	require.NoError(t, err)
	require.Equal(t, 7, out, "its host goes on as if nothing had happened")
}

// TestAnErrorThatSaysTooMuch is recorded up to its limit, with its code.
func TestAnErrorThatSaysTooMuch(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		long := strings.Repeat("much ", 1<<20)
		wf := cairn.NewWorkflow("long", func(ctx cairn.Context, _ int) (int, error) {
			return cairn.Do(ctx, "s", func(context.Context) (int, error) { return 0, cairn.NewError("much", long).With("detail", long) })
		})
		run, err := wf.Start(t.Context(), start(wf), 0)
		require.NoError(t, err)
		_, err = run.Result(t.Context())
		requireCode(t, "much", err)
		require.ErrorContains(t, err, "much much")
		failure, ok := errors.AsType[*cairn.Error](err)
		require.True(t, ok)
		require.Len(t, failure.Details["detail"], 64<<10)
		require.LessOrEqual(t, len(err.Error()), 64<<10+len("much: "))
		require.True(t, strings.HasSuffix(err.Error(), "…"), "that something is missing is said")
	})
}

// TestBoundsBelowEverything searches below the smallest text, and before the first moment.
func TestBoundsBelowEverything(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		t.Helper()
		mark := cairn.NewAttribute[string]("mark")
		wf := cairn.NewWorkflow("w", func(cairn.Context, int) (int, error) { return 0, nil })
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0, cairn.WithAttributes(mark.Value("a")))
		require.NoError(t, err)
		_, err = run.Result(t.Context())
		require.NoError(t, err)
		for name, c := range map[string]struct {
			f    cairn.Filter
			want int
		}{
			"below nothing":   {cairn.Filter{Where: []cairn.Condition{mark.Below("")}}, 0},
			"between nothing": {cairn.Filter{Where: []cairn.Condition{mark.Between("", "")}}, 0},
			"below":           {cairn.Filter{Where: []cairn.Condition{mark.Below("b")}}, 1},
			"between":         {cairn.Filter{Where: []cairn.Condition{mark.Between("", "b")}}, 1},
			"at least":        {cairn.Filter{Where: []cairn.Condition{mark.AtLeast("")}}, 1},
			"before 1970":     {cairn.Filter{To: time.Unix(0, 0)}, 0},
		} {
			page, err := e.List(t.Context(), c.f)
			require.NoError(t, err)
			require.Len(t, page.Runs, c.want, name)
		}
	})
}
