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

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
	"github.com/cairn-workflow/cairn/observe"
)

// TestOneCommitForWhatFollows counts the commits from the moment at which something comes for a run that waits in memory. What its code does next is in the same commit, unless
// that is an effect: then what led to it is durable first.
func TestOneCommitForWhatFollows(t *testing.T) {
	t.Parallel()
	receive := func(b *engine.Branch, n int, then func(i int) error) error {
		h, err := b.OpenHook(engine.HookSpec{Name: "hook", Token: "token"})
		for i := 0; err == nil && i < n; i++ {
			if _, err = h.Receive(b, nil, nil); err == nil {
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
		"a nap, and the run ends": {func(b *engine.Branch) error { return b.Sleep(engine.TimerSpec{Name: "nap", Until: nap}) }, 0, 1},
		"a nap, and then a second": {func(b *engine.Branch) error {
			_ = b.Sleep(engine.TimerSpec{Name: "nap", Until: nap})
			return b.Sleep(engine.TimerSpec{Name: "nap", Until: nap})
		}, 0, 2},
		"a nap, and a step": {func(b *engine.Branch) error { _ = b.Sleep(engine.TimerSpec{Name: "nap", Until: nap}); return step(b) }, 0, 2},
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
		_, err := e.Deliver(t.Context(), engine.Sending{Token: "token", Key: fmt.Sprint(i), Payload: journal.Payload("x")})
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
	// On a busy machine the refusal may come before the code has gone on. It does so in one of many tries.
	for end := time.Now().Add(time.Minute); saidOfWhatNeverWas(t) != 2; {
		require.True(t, time.Now().Before(end), "the code never went on before the refusal")
	}
}

// saidOfWhatNeverWas returns how often the code went on: twice, if it was dropped and executed again.
func saidOfWhatNeverWas(t *testing.T) int64 {
	t.Helper()
	path := t.TempDir() + "/x.db"
	st, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	var got, bodies, received, executions atomic.Int64
	var said bytes.Buffer
	wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		h, err := b.OpenHook(engine.HookSpec{Name: "hook", Token: "token"})
		if err != nil {
			return nil, err
		}
		d, err := h.Receive(b, nil, nil)
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
		Hooks: observe.Hooks{
			Received: func(context.Context, observe.Received) { received.Add(1) },
			Execute: func(ctx context.Context, _ observe.Execution) (context.Context, func(observe.ExecutionEnd)) {
				executions.Add(1)
				return ctx, nil
			},
		},
	}, wf)
	require.NoError(t, err)
	id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w"})
	require.NoError(t, err)
	rests(t, st, id, 1)
	other, _ := life(t, path)
	require.NoError(t, other.Annotate(t.Context(), id, &journal.Annotated{Name: "seen", Actor: "somebody"}))

	_, err = e.Deliver(t.Context(), engine.Sending{Token: "token", Payload: journal.Payload("yes")})
	require.NoError(t, err)
	run, err := e.Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "yes", string(run.Output))
	require.NoError(t, e.Stop(context.WithoutCancel(t.Context()))) // all was told
	require.Equal(t, 1, strings.Count(said.String(), "msg=got"), "said:\n%s", &said)
	require.EqualValues(t, 1, received.Load())
	require.EqualValues(t, 1, bodies.Load())
	require.EqualValues(t, 2, executions.Load(), "until it waited, and after that")
	return got.Load()
}

// TestARaceThatNobodyWon has a race that a payload would decide, which another process has overtaken with one that does not: the child of the other branch goes on.
func TestARaceThatNobodyWon(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	other, plain := life(t, path)
	var armed atomic.Bool
	plan := func(op faultstore.Op, _ int) faultstore.Fault {
		if op == faultstore.OpBegin && armed.CompareAndSwap(true, false) {
			_, _ = other.Deliver(context.WithoutCancel(t.Context()), engine.Sending{Token: "b", Key: "k", Payload: journal.Payload("no")})
		}
		return faultstore.Fault{}
	}
	until := func(b *engine.Branch, token string) (journal.Payload, error) {
		h, err := b.OpenHook(engine.HookSpec{Name: "h", Token: token})
		for err == nil {
			var d engine.Delivery
			if d, err = h.Receive(b, nil, nil); string(d.Payload) == "yes" {
				return nil, nil
			}
		}
		return nil, err
	}
	var child atomic.Pointer[journal.ID]
	start := func(b *engine.Branch) error {
		c, err := b.StartChild(engine.ChildSpec{Workflow: "child"})
		if err == nil {
			id := c.ID()
			child.Store(&id)
		}
		return err
	}
	wait := &engine.Workflow{Name: "child", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) { return until(b, "c") }}
	race := &engine.Workflow{Name: "race", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		one, err := b.Go(engine.BranchSpec{Name: "one"}, func(b *engine.Branch) (journal.Payload, error) {
			if err := start(b); err != nil {
				return nil, err
			}
			return until(b, "a")
		})
		if err != nil {
			return nil, err
		}
		two, err := b.Go(engine.BranchSpec{Name: "two"}, func(b *engine.Branch) (journal.Payload, error) { return until(b, "b") })
		if err != nil {
			return nil, err
		}
		_, err = b.Choose(engine.Choice{Name: "race", Close: true, Enough: func(e []*engine.Future) bool { return len(e) > 0 }}, []*engine.Future{one, two})
		return nil, err
	}}
	e, _ := plannedLife(t, path, plan, race, wait)
	id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "race"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return child.Load() != nil }, 20*time.Second, time.Millisecond)
	rests(t, plain, *child.Load(), 1)
	rests(t, plain, id, 1)
	armed.Store(true)
	_, err = e.Deliver(t.Context(), engine.Sending{Token: "b", Key: "k", Payload: journal.Payload("yes")})
	require.Equal(t, cairnerr.CodeReceiptConflict, cairnerr.CodeOf(err), err)
	require.Never(t, func() bool {
		run, err := plain.Run(t.Context(), "default", *child.Load(), store.ResolveNone)
		return err != nil || run.CancelledAt != 0
	}, 100*time.Millisecond, 5*time.Millisecond)
}

// TestAttributesFromOutside sets an attribute while the run is being given back. The code that goes on early has it.
func TestAttributesFromOutside(t *testing.T) {
	t.Parallel()
	var commits atomic.Int64
	reached, release := make(chan struct{}), make(chan struct{})
	plan := func(op faultstore.Op, _ int) faultstore.Fault {
		if op == faultstore.OpCommit && commits.Add(1) == 3 { // after the start, and the hook
			close(reached)
			<-release
		}
		return faultstore.Fault{}
	}
	wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		h, err := b.OpenHook(engine.HookSpec{Name: "hook", Token: "token"})
		if err != nil {
			return nil, err
		}
		_, err = h.Receive(b, nil, nil)
		return journal.Payload(b.Run().Attributes["k"]), err
	}}
	e, _ := plannedLife(t, t.TempDir()+"/x.db", plan, wf)
	id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w"})
	require.NoError(t, err)
	<-reached // it is being given back
	set := make(chan error, 1)
	go func() { set <- e.SetAttributes(t.Context(), id, []journal.AttrChange{{Key: "k", Value: "v"}}) }()
	require.Never(t, func() bool { return len(set) > 0 }, 20*time.Millisecond, time.Millisecond)
	close(release)
	require.NoError(t, <-set)
	_, err = e.Deliver(t.Context(), engine.Sending{Token: "token", Payload: journal.Payload("x")})
	require.NoError(t, err)
	run, err := e.Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "v", string(run.Output))
}

// TestABadDeliveryDisturbsNobody sends what no hook takes: the code does not hear of it, and the run stays in memory.
func TestABadDeliveryDisturbsNobody(t *testing.T) {
	t.Parallel()
	var begun, got atomic.Int64
	wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		begun.Add(1)
		h, err := b.OpenHook(engine.HookSpec{Name: "hook", Token: "token"})
		if err != nil {
			return nil, err
		}
		d, err := h.Receive(b, nil, nil)
		got.Add(1)
		return d.Payload, err
	}}
	e, st := life(t, t.TempDir()+"/x.db", wf)
	id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w"})
	require.NoError(t, err)
	rests(t, st, id, 1)
	_, err = e.Deliver(t.Context(), engine.Sending{Token: "token", Key: strings.Repeat("k", 100_000), Payload: journal.Payload("x")})
	require.Equal(t, cairnerr.CodeLimitExceeded, cairnerr.CodeOf(err), err)
	require.Zero(t, got.Load())
	_, err = e.Deliver(t.Context(), engine.Sending{Token: "token", Payload: journal.Payload("y")})
	require.NoError(t, err)
	run, err := e.Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "y", string(run.Output))
	require.EqualValues(t, 1, begun.Load())
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
		_, err := e.Deliver(sending, engine.Sending{Token: "token", Payload: journal.Payload("a")})
		sent <- err
	}()
	require.Never(t, func() bool { return len(sent) > 0 }, 20*time.Millisecond, time.Millisecond)
	giveUp()
	require.ErrorIs(t, <-sent, context.Canceled)
	close(release)
	require.NoError(t, <-busy)
	for _, payload := range []string{"b", "c"} {
		_, err = e.Deliver(t.Context(), engine.Sending{Token: "token", Payload: journal.Payload(payload)})
		require.NoError(t, err)
	}
	run, err := e.Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "bc", string(run.Output))
}
