package cairn_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// fussy is an error that cannot be asked anything when it is a nil pointer.
type fussy struct{ says string }

func (e *fussy) Error() string { return e.says }

// touchy is an error that panics when it is compared.
type touchy struct{}

func (touchy) Error() string { return "touchy" }

func (touchy) Is(error) bool { panic("do not compare me") }

// unusable are errors that panic when they are asked something.
func unusable() map[string]error {
	return map[string]error{"nil pointer": (*fussy)(nil), "nil of ours": (*cairn.Error)(nil), "compared": touchy{}}
}

// TestErrorsThatCannotBeUsed returns errors that panic when they are asked what they say, from all code that can return one: it fails as it would with any other error, and
// nothing else does.
func TestErrorsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		t.Helper()
		var bodies atomic.Int32
		step := cairn.NewStep("step", func(_ context.Context, kind string) (int, error) {
			bodies.Add(1)
			return 1, unusable()[kind]
		}).Retry(cairn.RetryPolicy{Attempts: 3, First: time.Millisecond})
		poll := cairn.NewPoll("poll", time.Millisecond, func(_ context.Context, kind string) (int, bool, error) { return 1, true, unusable()[kind] })
		returned := cairn.NewWorkflow("returned", func(_ cairn.Context, kind string) (int, error) { return 1, unusable()[kind] })
		caught := cairn.NewWorkflow("caught", func(ctx cairn.Context, kind string) ([]cairn.Code, error) {
			_, inStep := step.Do(ctx, kind)
			_, inPoll := poll.Wait(ctx, kind)
			f, err := cairn.Go(ctx, "branch", func(cairn.Context) (int, error) { return 1, unusable()[kind] })
			if err != nil {
				return nil, err
			}
			_, inBranch := f.Wait(ctx)
			return []cairn.Code{journal.CodeOf(inStep), journal.CodeOf(inPoll), journal.CodeOf(inBranch)}, nil
		})
		e := start(returned, caught)
		for kind := range unusable() {
			_, err := result(t, e, returned, kind)
			require.Equal(t, engine.CodePanic, journal.CodeOf(err), "%v", err)
			bodies.Store(0)
			codes, err := result(t, e, caught, kind)
			require.NoError(t, err)
			require.Equal(t, []cairn.Code{engine.CodePanic, engine.CodePanic, engine.CodePanic}, codes)
			require.EqualValues(t, 3, bodies.Load(), "its policy holds")
		}
	})
}

func TestRetryAfterNothing(t *testing.T) {
	t.Parallel()
	require.NoError(t, cairn.RetryAfter(nil, time.Second))
}

// TestReceiveFromAHookThatIsOver asks for more than can come.
func TestReceiveFromAHookThatIsOver(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		t.Helper()
		hook := cairn.NewHook[int]("mail")
		closed := cairn.NewWorkflow("closed", func(ctx cairn.Context, token string) (int, error) {
			h, err := hook.Token(token).Open(ctx)
			if err != nil {
				return 0, err
			}
			first, err := h.Receive(ctx)
			if err != nil {
				return 0, err
			}
			if err := h.Close(ctx); err != nil {
				return 0, err
			}
			_, err = h.Receive(ctx)
			_, later := h.ReceiveWithin(ctx, time.Hour)
			return first, errors.Join(err, later)
		})
		beside := cairn.NewWorkflow("beside", func(ctx cairn.Context, token string) (int, error) {
			h, err := hook.Token(token).Open(ctx)
			if err != nil {
				return 0, err
			}
			f, err := cairn.Go(ctx, "receiver", func(ctx cairn.Context) (int, error) { return h.Receive(ctx) })
			if err != nil {
				return 0, err
			}
			if err := cairn.Sleep(ctx, 30*time.Millisecond); err != nil {
				return 0, err
			}
			return 0, errors.Join(h.Close(ctx), errOf(f.Wait(ctx)))
		})
		once := cairn.NewWorkflow("once", func(ctx cairn.Context, token string) (int, error) {
			h, err := hook.Token(token).Once().Open(ctx)
			if err != nil {
				return 0, err
			}
			first, err := h.Receive(ctx)
			if err != nil {
				return 0, err
			}
			return first, errOf(h.Receive(ctx))
		})
		e := start(closed, beside, once)
		for wf, code := range map[*cairn.Workflow[string, int]]cairn.Code{closed: journal.CodeHookNotFound, beside: journal.CodeHookNotFound, once: journal.CodeHookConsumed} {
			run, err := wf.Start(t.Context(), e, wf.Name())
			require.NoError(t, err)
			if wf != beside {
				require.Eventually(t, func() bool { return cairn.Send(t.Context(), e, wf.Name(), "k", 7) == nil }, 10*time.Second, time.Millisecond)
			}
			_, err = run.Result(t.Context())
			require.Equal(t, code, journal.CodeOf(err), "%s: %v", wf.Name(), err)
		}
	})
}

func errOf[T any](_ T, err error) error { return err }

// TestWaitingEndsWithTheEngine stops an engine while somebody waits for a result, an answer and a chunk.
func TestWaitingEndsWithTheEngine(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		t.Helper()
		hook, words := cairn.NewHook[int]("mail").Token("mail"), cairn.NewStream[string]("words")
		wf := cairn.NewWorkflow("waits", func(ctx cairn.Context, _ int) (int, error) {
			if err := words.Write(ctx, "hello"); err != nil {
				return 0, err
			}
			h, err := hook.Open(ctx)
			if err != nil {
				return 0, err
			}
			_, err = h.ReceiveRequest(ctx, 0)
			return 0, errors.Join(err, cairn.Sleep(ctx, time.Hour))
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		heard, ended := make(chan struct{}), make(chan error, 3)
		go func() { ended <- errOf(run.Result(t.Context())) }()
		go func() {
			for _, err := range words.Read(t.Context(), e, run.ID()) {
				if err != nil {
					ended <- err
					return
				}
				close(heard)
			}
		}()
		<-heard
		require.Eventually(t, func() bool { _, err := e.HookInfo(t.Context(), "mail"); return err == nil }, 10*time.Second, time.Millisecond)
		go func() { ended <- errOf(cairn.Ask[int, int](t.Context(), e, "mail", "k", 1)) }()
		require.Eventually(t, func() bool {
			info, err := run.Describe(t.Context())
			return err == nil && slices.ContainsFunc(info.Waits, func(w cairn.Wait) bool { return w.Kind == "sleep" })
		}, 10*time.Second, time.Millisecond)
		require.NoError(t, e.Stop(t.Context()))
		for range 3 {
			err := <-ended
			require.Equal(t, journal.CodeClosed, journal.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, "the engine was stopped")
		}
		_, err = run.Result(t.Context())
		require.Equal(t, journal.CodeClosed, journal.CodeOf(err), "%v", err)
		_, err = wf.Start(t.Context(), e, 0)
		require.ErrorContains(t, err, "the engine was stopped")
	})
}

// TestRefuseNeedsAReason refuses a request without saying why.
func TestRefuseNeedsAReason(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		t.Helper()
		hook := cairn.NewHook[int]("mail").Token("mail")
		wf := cairn.NewWorkflow("refuses", func(ctx cairn.Context, _ int) (cairn.Code, error) {
			h, err := hook.Open(ctx)
			if err != nil {
				return "", err
			}
			r, err := h.ReceiveRequest(ctx, 0)
			if err != nil {
				return "", err
			}
			code := journal.CodeOf(r.Refuse(ctx, nil))
			return code, r.Refuse(ctx, (*cairn.Error)(nil))
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		require.Eventually(t, func() bool { _, err := e.HookInfo(t.Context(), "mail"); return err == nil }, 10*time.Second, time.Millisecond)
		_, err = cairn.Ask[int, int](t.Context(), e, "mail", "k", 1)
		require.Equal(t, engine.CodePanic, journal.CodeOf(err), "%v", err)
		code, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, journal.CodeMalformed, code)
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
