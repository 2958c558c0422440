package cairn_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

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
			_, err = h.Receive(ctx)
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
		go func() {
			ended <- errOf(cairn.NewRequestHook[int, int]("asked").Ask(t.Context(), e, "mail", 1, cairn.Key("k")))
		}()
		require.Eventually(t, func() bool {
			info, err := run.Describe(t.Context())
			return err == nil && slices.ContainsFunc(info.Waits, func(w cairn.Wait) bool { return w.Kind == "sleep" })
		}, 10*time.Second, time.Millisecond)
		require.NoError(t, e.Stop(t.Context()))
		for range 3 {
			err := <-ended
			require.Equal(t, cairnerr.CodeClosed, cairnerr.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, "the engine was stopped")
		}
		_, err = run.Result(t.Context())
		require.Equal(t, cairnerr.CodeClosed, cairnerr.CodeOf(err), "%v", err)
		_, err = wf.Start(t.Context(), e, 0)
		require.ErrorContains(t, err, "the engine was stopped")
	})
}

// unreachable is a store whose writers cannot reach the database once down is closed.
type unreachable struct {
	store.Store
	down chan struct{}
}

func (s *unreachable) OpenWriter(ctx context.Context, incarnation journal.ID, number int) (store.Writer, error) {
	w, err := s.Store.OpenWriter(ctx, incarnation, number)
	return &unreachableWriter{w, s.down}, err
}

type unreachableWriter struct {
	store.Writer
	down chan struct{}
}

func (w *unreachableWriter) Begin(ctx context.Context, now journal.Time) (store.Tx, error) {
	select {
	case <-w.down:
		return nil, cairnerr.Errorf(cairnerr.CodeUnreachable, "the database is down")
	default:
		return w.Writer.Begin(ctx, now)
	}
}

// TestStopWithoutADatabase stops an engine that cannot write any more: it comes back.
func TestStopWithoutADatabase(t *testing.T) {
	t.Parallel()
	inner, err := sqlite.Memory(t.Context(), nil)
	require.NoError(t, err)
	st := &unreachable{inner, make(chan struct{})}
	began := make(chan struct{}, 1000)
	wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
		for {
			//cairnvet:ignore loopkey all calls are the same
			_, err := cairn.Do(ctx, "s", func(context.Context) (int, error) {
				select {
				case began <- struct{}{}:
				default:
				}
				return 0, nil
			})
			if err != nil {
				return 0, err
			}
		}
	})
	e, err := cairn.New(t.Context(), store.NewHandle(st), wf)
	require.NoError(t, err)
	_, err = wf.Start(t.Context(), e, 0)
	require.NoError(t, err)
	<-began
	close(st.down)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- e.Stop(ctx) }()
	select {
	case <-stopped:
	case <-time.After(30 * time.Second):
		require.Fail(t, "it has not come back")
	}
}

func TestByKey_EmptyKey_IsRefused(t *testing.T) {
	t.Parallel()
	wf := cairn.NewWorkflow("w", func(cairn.Context, int) (int, error) { return 0, nil })
	e := memory(t, cairn.Config{}, wf)
	_, err := wf.Start(t.Context(), e, 0, cairn.Key("somebody's"))
	require.NoError(t, err)
	_, err = wf.ByKey(t.Context(), e, "")
	requireCode(t, "malformed", err)
	_, err = e.ByKey(t.Context(), "", "somebody's")
	requireCode(t, "malformed", err)
}

func TestDoJSON_LargeNumberInAnyValue_KeepsItsDigits(t *testing.T) {
	t.Parallel()
	echo := cairn.NewStep("echo", func(_ context.Context, in map[string]any) (map[string]any, error) { return in, nil })
	wf := cairn.NewWorkflow("w", func(ctx cairn.Context, in json.RawMessage) (json.RawMessage, error) { return echo.DoJSON(ctx, in) })
	e := memory(t, cairn.Config{}, wf)
	for _, number := range []string{"9007199254740993", "18446744073709551615", "-123456789012345678901234567890"} {
		run, err := wf.Start(t.Context(), e, json.RawMessage(`{"n":`+number+`}`))
		require.NoError(t, err)
		out, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Contains(t, string(out), number)
	}
}
