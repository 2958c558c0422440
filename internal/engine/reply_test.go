package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// large is an answer that is not remembered.
var large = bytes.Repeat([]byte("x"), 10_000)

// answering returns a workflow "w" whose hook takes requests. The work for each is done in a step. "end" ends the run
// without an answer, "last" with one, and "close" closes the hook.
func answering(work func(ctx context.Context) error) *engine.Workflow {
	body := func(ctx context.Context, _ engine.StepInfo) (journal.Payload, error) {
		return journal.Payload("done"), work(ctx)
	}
	answer := func(b *engine.Branch, d engine.Delivery) error {
		if _, err := b.Step(engine.StepSpec{Name: "work"}, body); err != nil {
			return err
		}
		if string(d.Payload) == "large" {
			return d.Reply(b, large, nil)
		}
		return d.Reply(b, append(journal.Payload("re "), d.Payload...), nil)
	}
	return &engine.Workflow{Name: "w", Run: func(b *engine.Branch, token journal.Payload) (journal.Payload, error) {
		h, err := b.OpenHook(engine.HookSpec{Name: "hook", Token: string(token)})
		if err != nil {
			return nil, err
		}
		for {
			d, err := h.Receive(b, nil, nil)
			if err != nil {
				return nil, err
			}
			switch string(d.Payload) {
			case "end":
				return nil, nil
			case "close":
				if err := h.Close(b); err != nil {
					return nil, err
				}
				forLong := func(ctx context.Context, _ engine.StepInfo) (journal.Payload, error) {
					return nil, takes(24 * time.Hour)(ctx)
				}
				return b.Step(engine.StepSpec{Name: "rest"}, forLong)
			}
			if err := answer(b, d); err != nil || string(d.Payload) == "last" {
				return nil, err
			}
		}
	}}
}

// atOnce is work that takes no time.
func atOnce(context.Context) error { return nil }

// takes is work that takes so long.
func takes(d time.Duration) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send sends a request to the run with the token "token".
func send(t *testing.T, n *node, key, request string) engine.Receipt {
	t.Helper()
	r, err := n.Deliver(t.Context(), engine.Sending{Token: "token", Key: key, Payload: journal.Payload(request)})
	require.NoError(t, err)
	return r
}

// answer waits for an answer, for at most a minute.
func answer(t *testing.T, n *node, r engine.Receipt) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d, err := n.AwaitReply(ctx, r)
	if err != nil {
		return "", err
	}
	return string(d.Value), nil
}

func requireAnswer(t *testing.T, n *node, r engine.Receipt, want string) {
	t.Helper()
	got, err := answer(t, n, r)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestAwaitReply_AnswerGivenHere_ReadsNothing(t *testing.T) {
	t.Parallel()
	later := takes(900 * time.Millisecond)
	for name, work := range map[string]func(context.Context) error{"AtOnce": atOnce, "Later": later} {
		for when, pause := range map[string]time.Duration{"CallerIsThere": 0, "CallerComesLater": 5 * time.Second} {
			t.Run(name+"_"+when, func(t *testing.T) {
				t.Parallel()
				path := t.TempDir() + "/x.db"
				bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
					n := newNode(t, path, answering(work))
					begin(t, n.Engine, "token")
					time.Sleep(time.Second)
					n.taken()
					for _, request := range []string{"a", "b", "last"} {
						r := send(t, n, "", request)
						time.Sleep(pause)
						requireAnswer(t, n, r, "re "+request)
					}
					calls := n.taken()
					require.Zero(t, calls["run"])
					require.Zero(t, calls["heads"])
					require.Zero(t, calls["events"])
				})
			})
		}
	}
}

func TestAwaitReply_LargeAnswerGivenHere_ReadsNothing(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		n := newNode(t, path, answering(takes(900*time.Millisecond)))
		begin(t, n.Engine, "token")
		time.Sleep(time.Second)
		n.taken()
		requireAnswer(t, n, send(t, n, "", "large"), string(large))
		require.Zero(t, n.taken()["events"])
	})
}

// TestAwaitReply_AnswerGivenBefore_IsFound asks for answers that this process does not remember.
func TestAwaitReply_AnswerGivenBefore_IsFound(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		first := newNode(t, path, answering(atOnce))
		begin(t, first.Engine, "token")
		time.Sleep(time.Second)
		r := send(t, first, "", "large")
		time.Sleep(time.Second)
		requireAnswer(t, first, r, string(large))
		requireAnswer(t, first, send(t, first, "key", "a"), "re a")
		require.NoError(t, first.Stop(t.Context()))

		second := newNode(t, path, answering(atOnce))
		again := send(t, second, "key", "a")
		requireAnswer(t, second, again, "re a")
		requireAnswer(t, second, send(t, second, "", "b"), "re b") // which takes the run into memory
		requireAnswer(t, second, again, "re a")
		requireAnswer(t, second, send(t, second, "", "last"), "re last")
		requireAnswer(t, second, again, "re a")
	})
}

// TestAwaitReply_AnswerGivenBeforeByAnother_IsFound asks again while the run does something: it tells nobody of an
// answer that another process gave.
func TestAwaitReply_AnswerGivenBeforeByAnother_IsFound(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		first := newNode(t, path, answering(atOnce))
		begin(t, first.Engine, "token")
		time.Sleep(time.Second)
		requireAnswer(t, first, send(t, first, "key", "a"), "re a")
		require.NoError(t, first.Stop(t.Context()))
		st, err := sqlite.Open(t.Context(), path, nil)
		require.NoError(t, err)
		second := nodeOn(t, silent{st}, time.Hour, answering(takes(time.Hour)))
		send(t, second, "", "b")
		time.Sleep(time.Second)
		requireAnswer(t, second, send(t, second, "key", "a"), "re a")
	})
}

// TestAwaitReply_NoAnswerWillCome_SaysSo closes the hook, or ends the run. A caller in the same process is told from
// memory, whether it came before that or later.
func TestAwaitReply_NoAnswerWillCome_SaysSo(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]cairnerr.Code{"close": cairnerr.CodeHookNotFound, "end": cairnerr.CodeRunGone} {
		t.Run(request, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir() + "/x.db"
			bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
				st, err := sqlite.Open(t.Context(), path, nil)
				require.NoError(t, err)
				n := nodeOn(t, silent{st}, time.Hour, answering(takes(time.Second)))
				begin(t, n.Engine, "token")
				time.Sleep(time.Second)
				busy := send(t, n, "", "a") // the next two are received when this is answered
				r := send(t, n, "", request)
				_, err = answer(t, n, r)
				require.Equal(t, want, cairnerr.CodeOf(err), "%v", err)
				_, err = answer(t, n, r)
				require.Equal(t, want, cairnerr.CodeOf(err), "%v", err)
				requireAnswer(t, n, busy, "re a")
			})
		})
	}
}

// TestAwaitReply_AnsweredElsewhereWithoutHints_IsFound has a caller that is told nothing.
func TestAwaitReply_AnsweredElsewhereWithoutHints_IsFound(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		owner := newNode(t, path, answering(takes(5*time.Second)))
		st, err := sqlite.Open(t.Context(), path, nil)
		require.NoError(t, err)
		other := nodeOn(t, silent{st}, time.Second)
		begin(t, owner.Engine, "token")
		time.Sleep(time.Second)
		other.taken()
		requireAnswer(t, other, send(t, other, "", "a"), "re a")
		require.LessOrEqual(t, other.taken()["heads"], 12)
	})
}

// TestAwaitReply_OwnerDeclaredDead_FindsTheAnswerOfAnother has an owner that does not know that it was declared dead:
// another process has its run, and answers.
func TestAwaitReply_OwnerDeclaredDead_FindsTheAnswerOfAnother(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		st, err := sqlite.Open(t.Context(), path, nil)
		require.NoError(t, err)
		dead := nodeOn(t, st, 300*time.Millisecond, answering(takes(time.Hour)))
		begin(t, dead.Engine, "token")
		time.Sleep(time.Second)
		r := send(t, dead, "", "a")
		again, err := sqlite.Open(t.Context(), path, nil)
		require.NoError(t, err)
		nodeOn(t, again, 100*time.Millisecond, answering(atOnce))
		require.NoError(t, dead.Fence(t.Context(), ownerOf(t, dead.counting)))
		// When the step has taken a second, the owner writes that down, and learns that it was declared dead.
		ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
		defer cancel()
		d, err := dead.AwaitReply(ctx, r)
		require.NoError(t, err)
		require.Equal(t, "re a", string(d.Value))
	})
}

func TestAwaitReply_AnsweredElsewhere_IsTold(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, process func(wfs ...*engine.Workflow) *node) {
		t.Helper()
		owner, other := process(answering(takes(100*time.Millisecond))), process()
		begin(t, owner.Engine, "token")
		require.Eventually(t, func() bool {
			_, err := other.HookByToken(t.Context(), "default", "token", store.ResolveNone)
			return err == nil
		}, time.Minute, 5*time.Millisecond)
		for i := range 3 {
			request := fmt.Sprint(i)
			requireAnswer(t, other, send(t, other, "", request), "re "+request)
		}
	})
}

// TestAwaitReply_ManyCallers_EachGetsItsAnswer has callers beside each other, in two processes.
func TestAwaitReply_ManyCallers_EachGetsItsAnswer(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, process func(wfs ...*engine.Workflow) *node) {
		t.Helper()
		owner, other := process(answering(atOnce)), process()
		run := begin(t, owner.Engine, "token")
		rests(t, owner.counting, run, 1)
		errs := make(chan error)
		const callers, each = 8, 10
		for i := range callers {
			n := []*node{owner, other}[i%2]
			go func() {
				var err error
				for k := 0; k < each && err == nil; k++ {
					err = ask(t.Context(), n, fmt.Sprint(i, " ", k))
				}
				errs <- err
			}()
		}
		for range callers {
			require.NoError(t, <-errs)
		}
	})
}

// ask sends a request and waits for its answer.
func ask(ctx context.Context, n *node, request string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := n.Deliver(ctx, engine.Sending{Token: "token", Payload: journal.Payload(request)})
	if err != nil {
		return err
	}
	d, err := n.AwaitReply(ctx, r)
	if err == nil && string(d.Value) != "re "+request {
		err = fmt.Errorf("%q was answered with %q", request, d.Value)
	}
	return err
}
