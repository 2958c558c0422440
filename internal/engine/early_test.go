package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/observe"
	"github.com/cairn-workflow/cairn/store/faultstore"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// TestOneCommitForWhatFollows counts the commits from the moment at which something comes for a run that waits in memory. What its code does next is in the same commit, unless
// that is an effect: then what led to it is durable first.
func TestOneCommitForWhatFollows(t *testing.T) {
	t.Parallel()
	receive := func(b *engine.Branch, n int, then func(i int) error) error {
		h, err := b.OpenHook(engine.HookSpec{Name: "hook", Token: "token"})
		for i := 0; err == nil && i < n; i++ {
			if _, err = h.Receive(b, nil); err == nil {
				err = then(i)
			}
		}
		return err
	}
	nothing := func(int) error { return nil }
	step := func(b *engine.Branch) error {
		_, err := b.Step(engine.StepSpec{Name: "s"}, value("s"))
		return err
	}
	nap := func(now journal.Time) journal.Time { return now.Add(time.Minute) }
	for name, test := range map[string]struct {
		code    func(b *engine.Branch) error
		sends   int
		commits int64
	}{
		"a payload, and the run ends":         {func(b *engine.Branch) error { return receive(b, 1, nothing) }, 1, 1},
		"three payloads, one after the other": {func(b *engine.Branch) error { return receive(b, 3, nothing) }, 3, 3},
		"a payload, and a step":               {func(b *engine.Branch) error { return receive(b, 1, func(int) error { return step(b) }) }, 1, 2},
		"a payload, and another hook": {func(b *engine.Branch) error {
			return receive(b, 1, func(int) error { _, err := b.OpenHook(engine.HookSpec{Name: "next"}); return err })
		}, 1, 2},
		"a nap, and the run ends":  {func(b *engine.Branch) error { return b.Sleep("nap", nap) }, 0, 1},
		"a nap, and then a second": {func(b *engine.Branch) error { _ = b.Sleep("nap", nap); return b.Sleep("nap", nap) }, 0, 2},
		"a nap, and a step":        {func(b *engine.Branch) error { _ = b.Sleep("nap", nap); return step(b) }, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir() + "/x.db"
			bubble.Run(t, func(t *testing.T) { require.Equal(t, test.commits, commitsAfter(t, path, test.code, test.sends)) }) //nolint:thelper // it is the test
		})
	}
}

// commitsAfter executes a run until it waits, sends to its hook, and returns how many commits follow until it has ended.
func commitsAfter(t *testing.T, path string, code func(b *engine.Branch) error, sends int) int64 {
	t.Helper()
	st, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	var commits atomic.Int64
	var plan faultstore.Plan = func(op faultstore.Op, _ int) faultstore.Fault {
		if op == faultstore.OpCommit {
			commits.Add(1)
		}
		return faultstore.Fault{}
	}
	wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) { return nil, code(b) }}
	e, err := engine.New(t.Context(), faultstore.Wrap(st, func(journal.ID) faultstore.Plan { return plan }), engine.Config{}, wf)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Stop(context.WithoutCancel(t.Context()))) }()
	id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w"})
	require.NoError(t, err)
	synctest.Wait() // it has come to wait
	commits.Store(0)
	for i := range sends {
		_, err := e.Deliver(t.Context(), "token", fmt.Sprint(i), journal.Payload("x"))
		require.NoError(t, err)
		synctest.Wait()
	}
	run, err := e.Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, journal.StatusCompleted, run.Status, run.Error)
	return commits.Load()
}

// TestNothingIsSaidOfWhatNeverWas has a run that waits in the memory of one process, and to which another one has written. What the first gives it is refused then, after its code has
// gone on with it. Of that nobody hears: neither the logger, nor those who observe, nor a step.
func TestNothingIsSaidOfWhatNeverWas(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	st, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	var got, bodies, received atomic.Int64
	var said bytes.Buffer
	wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		h, err := b.OpenHook(engine.HookSpec{Name: "hook", Token: "token"})
		if err != nil {
			return nil, err
		}
		d, err := h.Receive(b, nil)
		if err != nil {
			return nil, err
		}
		got.Add(1)
		b.Logger().Info("got", slog.String("payload", string(d.Payload)))
		return b.Step(engine.StepSpec{Name: "s"}, func(context.Context, engine.StepInfo) (journal.Payload, error) {
			bodies.Add(1)
			return d.Payload, nil
		})
	}}
	e, err := engine.New(t.Context(), st, engine.Config{
		Poll: 20 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&said, nil)),
		Hooks: observe.Hooks{Received: func(context.Context, observe.Received) { received.Add(1) }},
	}, wf)
	require.NoError(t, err)
	id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w"})
	require.NoError(t, err)
	rests(t, st, id, 1)
	other, _ := life(t, path)
	require.NoError(t, other.Annotate(t.Context(), id, &journal.Annotated{Name: "seen", Actor: "somebody"}))

	_, err = e.Deliver(t.Context(), "token", "", journal.Payload("yes"))
	require.NoError(t, err)
	run, err := e.Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "yes", string(run.Output))
	require.NoError(t, e.Stop(context.WithoutCancel(t.Context()))) // all was told
	require.EqualValues(t, 2, got.Load(), "the code went on, was dropped, and was executed again")
	require.Equal(t, 1, strings.Count(said.String(), "msg=got"), "said:\n%s", &said)
	require.EqualValues(t, 1, received.Load())
	require.EqualValues(t, 1, bodies.Load())
}

// TestASenderThatGivesUp lets a sender give up before anybody has committed what it sent. It never was, although the code has gone on with it.
func TestASenderThatGivesUp(t *testing.T) {
	t.Parallel()
	var slow atomic.Bool
	reached, release := make(chan struct{}), make(chan struct{})
	plan := func(op faultstore.Op, _ int) faultstore.Fault {
		if op == faultstore.OpCommit && slow.CompareAndSwap(true, false) {
			close(reached)
			<-release
		}
		return faultstore.Fault{}
	}
	e, st := plannedLife(t, t.TempDir()+"/x.db", plan, twice())
	id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "twice"})
	require.NoError(t, err)
	rests(t, st, id, 1)
	slow.Store(true)
	busy := make(chan error, 1)
	go func() {
		_, err := e.Start(t.Context(), engine.StartRequest{Workflow: "elsewhere", Elsewhere: true})
		busy <- err
	}()
	<-reached
	sending, giveUp := context.WithCancel(t.Context())
	sent := make(chan error, 1)
	go func() {
		_, err := e.Deliver(sending, "token", "", journal.Payload("a"))
		sent <- err
	}()
	require.Never(t, func() bool { return len(sent) > 0 }, 20*time.Millisecond, time.Millisecond)
	giveUp()
	require.ErrorIs(t, <-sent, context.Canceled)
	close(release)
	require.NoError(t, <-busy)
	for _, payload := range []string{"b", "c"} {
		_, err = e.Deliver(t.Context(), "token", "", journal.Payload(payload))
		require.NoError(t, err)
	}
	run, err := e.Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "bc", string(run.Output))
}
