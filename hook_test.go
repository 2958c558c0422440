package cairn_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
)

func TestAsk(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		counter := cairn.NewRequestHook[int, int]("counter").Token("the counter").Metadata("adds up")
		wf := cairn.NewWorkflow("counter", func(ctx cairn.Context, _ int) (int, error) {
			h, err := counter.Open(ctx)
			if err != nil {
				return 0, err
			}
			sum := 0
			for {
				r, err := h.Receive(ctx)
				if err != nil {
					return 0, err
				}
				if r.Value < 0 {
					return sum, r.Refuse(ctx, errDeclined)
				}
				sum += r.Value
				if err := r.Reply(ctx, sum); err != nil {
					return 0, err
				}
			}
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		var info *cairn.HookInfo
		require.Eventually(t, func() bool {
			info, err = e.HookInfo(t.Context(), "the counter")
			return err == nil
		}, 10*time.Second, time.Millisecond)
		var about string
		require.NoError(t, info.Metadata(&about))
		require.Equal(t, "adds up", about)
		require.Equal(t, run.ID(), info.RunID)

		other := cairn.NewWorkflow("other", func(ctx cairn.Context, _ int) (int, error) { _, err := counter.Open(ctx); return 0, err })
		_, err = result(t, start(other), other, 0)
		require.ErrorIs(t, err, cairn.ErrHookConflict)

		for i, want := range []int{1, 3, 6} {
			got, err := counter.Ask(t.Context(), e, "the counter", i+1, cairn.Key(fmt.Sprint("key ", i)))
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		got, err := counter.Ask(t.Context(), e, "the counter", 2, cairn.Key("key 1"))
		require.NoError(t, err)
		require.Equal(t, 3, got, "the same key has the same answer")
		_, err = counter.Ask(t.Context(), e, "the counter", -1)
		require.ErrorIs(t, err, errDeclined)
		sum, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, 6, sum)
	})
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
			_, later := h.Receive(ctx, cairn.Timeout(time.Hour))
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
		for wf, code := range map[*cairn.Workflow[string, int]]cairn.Code{closed: cairnerr.CodeHookNotFound, beside: cairnerr.CodeHookNotFound, once: cairnerr.CodeHookConsumed} {
			run, err := wf.Start(t.Context(), e, wf.Name())
			require.NoError(t, err)
			if wf != beside {
				require.Eventually(t, func() bool {
					return cairn.NewHook[int]("sent").Send(t.Context(), e, wf.Name(), 7, cairn.Key("k")) == nil
				}, 10*time.Second, time.Millisecond)
			}
			_, err = run.Result(t.Context())
			require.Equal(t, code, cairnerr.CodeOf(err), "%s: %v", wf.Name(), err)
		}
	})
}

// TestRefuseNeedsAReason refuses a request without saying why.
func TestRefuseNeedsAReason(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		t.Helper()
		hook := cairn.NewRequestHook[int, int]("mail").Token("mail")
		wf := cairn.NewWorkflow("refuses", func(ctx cairn.Context, _ int) (cairn.Code, error) {
			h, err := hook.Open(ctx)
			if err != nil {
				return "", err
			}
			r, err := h.Receive(ctx)
			if err != nil {
				return "", err
			}
			code := cairnerr.CodeOf(r.Refuse(ctx, nil))
			return code, r.Refuse(ctx, (*cairn.Error)(nil))
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		require.Eventually(t, func() bool { _, err := e.HookInfo(t.Context(), "mail"); return err == nil }, 10*time.Second, time.Millisecond)
		_, err = cairn.NewRequestHook[int, int]("asked").Ask(t.Context(), e, "mail", 1, cairn.Key("k"))
		require.Equal(t, cairnerr.CodePanic, cairnerr.CodeOf(err), "%v", err)
		code, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, cairnerr.CodeMalformed, code)
	})
}

// TestAskAHookThatCloses asks through a hook that is closed without an answer.
func TestAskAHookThatCloses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
			if _, err := cairn.NewHook[int]("question").Token("t").Wait(ctx); err != nil {
				return 0, err
			}
			return 0, cairn.Sleep(ctx, time.Hour)
		})
		e := start(wf)
		_, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		require.Eventually(t, func() bool { _, err := e.HookInfo(t.Context(), "t"); return err == nil }, 10*time.Second, time.Millisecond)
		_, err = cairn.NewRequestHook[int, int]("asked").Ask(t.Context(), e, "t", 1)
		require.ErrorContains(t, err, "hook_not_found")
	})
}

func TestHook_SendToRepeatedAfterClose_CountsOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		t.Helper()
		mail, done := cairn.NewHook[int]("mail").Token("the mail"), cairn.NewHook[int]("done")
		wf := cairn.NewWorkflow("reader", func(ctx cairn.Context, _ int) (int, error) {
			got, err := mail.Wait(ctx)
			if err != nil {
				return 0, err
			}
			_, err = done.Wait(ctx)
			return got, err
		})
		e := start(wf)
		opened := func(run *cairn.Run[int], hook string) {
			t.Helper()
			require.Eventually(t, func() bool {
				info, err := run.Describe(t.Context())
				return err == nil && len(info.Waits) == 1 && info.Waits[0].Key == hook
			}, 10*time.Second, time.Millisecond)
		}
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		opened(run, "mail")
		require.NoError(t, mail.SendTo(t.Context(), e, run.ID(), 7, cairn.Key("a")))
		opened(run, "done")
		other, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		opened(other, "mail") // it has the token now

		require.NoError(t, mail.SendTo(t.Context(), e, run.ID(), 7, cairn.Key("a")), "the hook is closed")
		requireCode := func(want cairn.Code, err error) {
			t.Helper()
			require.Equal(t, want, cairn.CodeOf(err), "%v", err)
		}
		requireCode(cairnerr.CodeReceiptConflict, mail.SendTo(t.Context(), e, run.ID(), 8, cairn.Key("a")))
		requireCode(cairnerr.CodeHookNotFound, mail.SendTo(t.Context(), e, run.ID(), 7, cairn.Key("b")))
		requireCode(cairnerr.CodeHookNotFound, mail.SendTo(t.Context(), e, run.ID(), 7))
		opened(other, "mail")

		require.NoError(t, done.SendTo(t.Context(), e, run.ID(), 1))
		got, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, 7, got)
		require.NoError(t, mail.SendTo(t.Context(), e, run.ID(), 7, cairn.Key("a")), "the run has ended")
	})
}

// A webhook's retry gets success as long as the run is kept, also after the hook was closed and the run has ended. It never reaches a later
// hook that has the token.
func TestSend_RepeatedWithItsKey_IsFoundByTokenAndKey(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		paid := cairn.NewHook[int]("paid").Token("order 7")
		wf := cairn.NewWorkflow("order", func(ctx cairn.Context, _ int) (int, error) { return paid.Wait(ctx) })
		e, other := start(wf), start(wf)
		opened := func(run *cairn.Run[int]) {
			t.Helper()
			require.Eventually(t, func() bool {
				info, err := e.HookInfo(t.Context(), "order 7")
				return err == nil && info.RunID == run.ID()
			}, 10*time.Second, time.Millisecond)
		}
		first, err := wf.Start(t.Context(), e, 1)
		require.NoError(t, err)
		opened(first)
		require.NoError(t, paid.Send(t.Context(), e, "order 7", 10, cairn.Key("webhook 1")))
		out, err := first.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, 10, out)
		for _, sender := range []*cairn.Engine{e, other} { // the hook is closed
			require.NoError(t, paid.Send(t.Context(), sender, "order 7", 10, cairn.Key("webhook 1")))
			requireCode(t, "receipt_conflict", paid.Send(t.Context(), sender, "order 7", 11, cairn.Key("webhook 1")))
			requireCode(t, "hook_not_found", paid.Send(t.Context(), sender, "order 7", 10, cairn.Key("webhook 2")))
		}
		second, err := wf.Start(t.Context(), e, 2)
		require.NoError(t, err)
		opened(second)
		for _, sender := range []*cairn.Engine{e, other} {
			require.NoError(t, paid.Send(t.Context(), sender, "order 7", 10, cairn.Key("webhook 1")))
		}
		require.NoError(t, paid.Send(t.Context(), other, "order 7", 20, cairn.Key("webhook 2")))
		out, err = second.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, 20, out, "what was sent to the first run did not reach the second")
		require.NoError(t, e.Run(first.ID()).Delete(t.Context()))
		requireCode(t, "hook_not_found", paid.Send(t.Context(), e, "order 7", 10, cairn.Key("webhook 1")))
	})
}

// visitor is a value with parts that decode themselves: a schema does not tell what they take.
type visitor struct {
	IP    netip.Addr
	Token [4]byte
	Name  string
}

// TestSend_TypeDecodesItself_GarbageIsRefused sends what only the type itself can tell is wrong.
func TestSend_TypeDecodesItself_GarbageIsRefused(t *testing.T) {
	t.Parallel()
	visits := cairn.NewHook[visitor]("visit").Token("door")
	wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (string, error) {
		v, err := visits.Wait(ctx)
		return v.IP.String() + " " + v.Name, err
	})
	onEveryStore(t, func(t *testing.T, open func(...cairn.Definition) *cairn.Engine) {
		e, client := open(wf), open()
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		waitsFor(t, e, run.ID(), "door")
		for _, garbage := range []string{`{"IP":"nonsense"}`, `{"IP":5}`, `{"Token":"x"}`, `[]`} {
			for _, from := range []*cairn.Engine{e, client} {
				err := from.SendJSON(t.Context(), "door", json.RawMessage(garbage))
				require.Equal(t, cairnerr.CodeValueRefused, cairn.CodeOf(err), "%s: %v", garbage, err)
				_, err = from.AskJSON(t.Context(), "door", json.RawMessage(garbage))
				require.Equal(t, cairnerr.CodeValueRefused, cairn.CodeOf(err), "%s: %v", garbage, err)
			}
		}
		err = cairn.NewHook[struct{ IP string }]("visit").Send(t.Context(), client, "door", struct{ IP string }{"?"})
		require.Equal(t, cairnerr.CodeValueRefused, cairn.CodeOf(err))
		require.NoError(t, client.SendJSON(t.Context(), "door", json.RawMessage(`{"IP":"127.0.0.1","Name":"ada"}`)))
		out, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "127.0.0.1 ada", out)
	})
}

// panicky is a type whose decoder panics.
type panicky struct{ V int }

// UnmarshalJSON panics.
func (*panicky) UnmarshalJSON([]byte) error { panic("a bug in a decoder") }

// TestSend_UnreadableValue_IsRefused sends values that look as if they fit, and cannot be read into the hook's type.
func TestSend_UnreadableValue_IsRefused(t *testing.T) {
	t.Parallel()
	type part struct {
		A any
		M map[string]any
	}
	onEveryStore(t, func(t *testing.T, open func(...cairn.Definition) *cairn.Engine) {
		refuses(t, open, cairn.NewHook[any]("any"), `1`, `1e400`, `-1e999`, `[[1e400]]`)
		refuses(t, open, cairn.NewHook[part]("part"), `{"A":1,"M":{"n":1e300}}`, `{"A":1e999}`, `{"M":{"n":[1e999]}}`)
		refuses(t, open, cairn.NewHook[json.Number]("number"), `18446744073709551616`, `"x"`, `""`, `{}`)
		refuses(t, open, cairn.NewHook[struct{ N json.Number }]("numbers"), `{"N":1.50}`, `{"N":"x"}`)
		refuses(t, open, cairn.NewHook[map[netip.Addr]int]("addresses"), `{"127.0.0.1":1}`, `{"1.2":1}`)
		refuses(t, open, cairn.NewHook[map[bool]int]("bools"), ``, `{"maybe":1}`)
		refuses(t, open, cairn.NewHook[panicky]("panics"), ``, `{"V":1}`)
	})
}

// refuses sends garbage to a hook, and then a value that fits, if there is one.
func refuses[T any](t *testing.T, open func(...cairn.Definition) *cairn.Engine, hook cairn.Hook[T], fits string, garbage ...string) {
	t.Helper()
	wf := cairn.NewWorkflow("takes "+hook.Name(), func(ctx cairn.Context, _ int) (T, error) { return hook.Token(hook.Name()).Wait(ctx) })
	e := open(wf)
	run, err := wf.Start(t.Context(), e, 0)
	require.NoError(t, err)
	waitsFor(t, e, run.ID(), hook.Name())
	for _, text := range garbage {
		err := e.SendJSON(t.Context(), hook.Name(), json.RawMessage(text))
		require.Equal(t, cairnerr.CodeValueRefused, cairn.CodeOf(err), "%s: %s: %v", hook.Name(), text, err)
	}
	if fits == "" {
		require.NoError(t, run.Terminate(t.Context(), "enough"))
		return
	}
	require.NoError(t, e.SendJSON(t.Context(), hook.Name(), json.RawMessage(fits)), hook.Name())
	_, err = run.Result(within(t))
	require.NoError(t, err, hook.Name())
}

// TestSendTo_RepeatedWhileTheNextHookIsOpen_CountsOnce repeats a send to a run that has gone on to its next hook.
func TestSendTo_RepeatedWhileTheNextHookIsOpen_CountsOnce(t *testing.T) {
	t.Parallel()
	mail := cairn.NewHook[string]("mail")
	wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (string, error) {
		first, err := mail.Wait(ctx)
		if err != nil {
			return "", err
		}
		second, err := mail.Wait(ctx)
		return first + second, err
	})
	onEveryStore(t, func(t *testing.T, open func(...cairn.Definition) *cairn.Engine) {
		e := open(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		send := func(text, key string) error { return mail.SendTo(t.Context(), e, run.ID(), text, cairn.Key(key)) }
		require.Eventually(t, func() bool { return send("a", "1") == nil }, 10*time.Second, time.Millisecond)
		eventually(t, e, run.ID(), func(info *cairn.RunInfo) bool { return len(info.Waits) == 1 && info.Waits[0].Key == "mail#2" })
		require.NoError(t, send("a", "1"))
		require.Equal(t, cairnerr.CodeReceiptConflict, cairn.CodeOf(send("b", "1")))
		require.NoError(t, send("b", "2"))
		out, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "ab", out)
	})
}

// TestSendTo_AnotherRunHadTheToken_Delivers names the run: what an earlier one got does not count.
func TestSendTo_AnotherRunHadTheToken_Delivers(t *testing.T) {
	t.Parallel()
	mail := cairn.NewHook[string]("mail").Token("fixed")
	wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (string, error) { return mail.Wait(ctx) })
	onEveryStore(t, func(t *testing.T, open func(...cairn.Definition) *cairn.Engine) {
		e := open(wf)
		for range 2 {
			run, err := wf.Start(t.Context(), e, 0)
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				return mail.SendTo(t.Context(), e, run.ID(), "text", cairn.Key("k")) == nil
			}, 10*time.Second, time.Millisecond)
			out, err := run.Result(t.Context())
			require.NoError(t, err)
			require.Equal(t, "text", out)
		}
	})
}

// TestSend_RepeatedInOtherWords_IsTheSame repeats a send whose value is the same, and written in another way.
func TestSend_RepeatedInOtherWords_IsTheSame(t *testing.T) {
	t.Parallel()
	type v1 struct{ A, B int }
	type v2 struct {
		A, B int
		New  string
	}
	hook := cairn.NewHook[v1]("hook").Token("t")
	wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (v1, error) { return hook.Wait(ctx) })
	onEveryStore(t, func(t *testing.T, open func(...cairn.Definition) *cairn.Engine) {
		e := open(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		waitsFor(t, e, run.ID(), "t")
		require.NoError(t, hook.Send(t.Context(), e, "t", v1{1, 2}, cairn.Key("k")))
		_, err = run.Result(t.Context())
		require.NoError(t, err)
		require.NoError(t, e.SendJSON(t.Context(), "t", json.RawMessage(`{ "B": 2, "A": 1 }`), cairn.Key("k")))
		require.NoError(t, cairn.NewHook[v2]("hook").Send(t.Context(), e, "t", v2{A: 1, B: 2}, cairn.Key("k")))
		require.NoError(t, cairn.NewHook[v2]("hook").SendTo(t.Context(), e, run.ID(), v2{A: 1, B: 2}, cairn.Key("k")))
		for _, other := range []string{`{"A":1,"B":3}`, `{"A":1}`} {
			err := e.SendJSON(t.Context(), "t", json.RawMessage(other), cairn.Key("k"))
			require.Equal(t, cairnerr.CodeReceiptConflict, cairn.CodeOf(err), other)
		}
	})
}
