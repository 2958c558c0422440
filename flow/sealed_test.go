package flow_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/flow"
)

// asked returns a handler with one flow, and the token of its first pause.
func asked(tb testing.TB, s *flow.Sealed, change func(*flow.Config)) (*flow.Handler, string) {
	tb.Helper()
	h := handlerWith(tb, func(c *flow.Config) {
		c.Strategies = flow.Strategies{"sealed": s}
		if change != nil {
			change(c)
		}
	}, flow.New("f", asks("x"), asks("y"), ends()))
	r, err := h.Start(tb.Context(), "f", nil)
	require.NoError(tb, err)
	return h, r.Token
}

var one = json.RawMessage(`{"text":"1"}`)

func TestSealed_TokenWorksOnce(t *testing.T) {
	t.Parallel()
	h, token := asked(t, flow.NewSealed(keys(t)), nil)
	next, err := h.Resume(t.Context(), token, one)
	require.NoError(t, err)
	_, err = h.Resume(t.Context(), token, one)
	requireCode(t, cairnerr.CodePauseOver, err)
	done, err := h.Resume(t.Context(), next.Token, one)
	require.NoError(t, err)
	require.JSONEq(t, `["x=1","y=1"]`, string(done.Done.Data))

	free, token := asked(t, flow.NewSealed(keys(t)).Guard(nil), nil)
	for range 2 {
		_, err = free.Resume(t.Context(), token, one)
		require.NoError(t, err, "without a guard it works until its time is over")
	}
}

func TestSealed_ManyAtOnce_OneWins(t *testing.T) {
	t.Parallel()
	h, token := asked(t, flow.NewSealed(keys(t)), nil)
	var won, over atomic.Int32
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			if _, err := h.Resume(t.Context(), token, one); err == nil {
				won.Add(1)
			} else if cairnerr.CodeOf(err) == cairnerr.CodePauseOver {
				over.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, won.Load())
	require.EqualValues(t, 199, over.Load())
}

// Whoever sends the first token again does not get all attempts again.
func TestSealed_Attempts_AreCountedForThePause(t *testing.T) {
	t.Parallel()
	f := flow.New("f", flow.Ask("x", func(context.Context, *trail, answer) error { return flow.Invalid{"text": "is wrong"} }).Attempts(3))
	h := handlerOf(t, f)
	r, err := h.Start(t.Context(), "f", nil)
	require.NoError(t, err)
	first, tokens := r.Token, []string{r.Token}
	for range 2 {
		r, err = h.Resume(t.Context(), first, one)
		require.NoError(t, err)
		require.NotEmpty(t, r.Ask.Wrong)
		tokens = append(tokens, r.Token)
	}
	_, err = h.Resume(t.Context(), tokens[2], one)
	requireCode(t, cairnerr.CodePauseOver, err)
	for _, token := range tokens {
		_, err = h.Resume(t.Context(), token, one)
		requireCode(t, cairnerr.CodePauseOver, err)
	}
}

func TestSealed_Expires(t *testing.T) {
	t.Parallel()
	now := newClock()
	clocked := func(c *flow.Config) { c.Now = now.Now }
	for _, d := range []time.Duration{0, -time.Hour} {
		h := handlerWith(t, clocked, flow.New("f", asks("x").TTL(d)))
		r, err := h.Start(t.Context(), "f", nil)
		require.NoError(t, err)
		_, err = h.Resume(t.Context(), r.Token, one)
		requireCode(t, cairnerr.CodeTokenInvalid, err)
	}
	h, token := asked(t, flow.NewSealed(keys(t)).TTL(10*time.Minute), clocked)
	now.pass(10*time.Minute - time.Millisecond)
	r, err := h.Show(t.Context(), token)
	require.NoError(t, err)
	require.Equal(t, now.Now().Add(time.Millisecond), r.Expires)
	now.pass(time.Millisecond)
	_, err = h.Resume(t.Context(), token, one)
	requireCode(t, cairnerr.CodeTokenInvalid, err)
}

func TestSealed_KeysRotate(t *testing.T) {
	t.Parallel()
	secret := func(c string) []byte { return bytes.Repeat([]byte(c), flow.KeySize) }
	ring := func(current string, names ...string) *flow.Keys {
		all := map[string][]byte{}
		for _, name := range names {
			all[name] = secret(name)
		}
		k, err := flow.NewKeys(current, all)
		require.NoError(t, err)
		return k
	}
	_, old := asked(t, flow.NewSealed(ring("a", "a")), nil)
	both, _ := asked(t, flow.NewSealed(ring("b", "a", "b")), nil)
	only, _ := asked(t, flow.NewSealed(ring("b", "b")), nil)
	_, err := only.Resume(t.Context(), old, one)
	requireCode(t, cairnerr.CodeTokenInvalid, err)
	next, err := both.Resume(t.Context(), old, one)
	require.NoError(t, err)
	_, err = only.Resume(t.Context(), next.Token, one)
	require.NoError(t, err, "new tokens are made with the current key")

	for _, bad := range []map[string][]byte{{}, {"a": secret("a")[:16]}, {"b": secret("b")}, {"a": nil}} {
		_, err := flow.NewKeys("a", bad)
		requireCode(t, cairnerr.CodeMalformed, err)
	}
}

// A token is not valid in another namespace, under the name of another strategy, or for a flow that is not served.
func TestSealed_TokenOfSomewhereElse_IsRefused(t *testing.T) {
	t.Parallel()
	_, token := asked(t, flow.NewSealed(keys(t)).Namespace("acme"), nil)
	other, _ := asked(t, flow.NewSealed(keys(t)).Namespace("globex"), nil)
	_, err := other.Resume(t.Context(), token, one)
	requireCode(t, cairnerr.CodeTokenInvalid, err)
	_, err = other.Resume(t.Context(), "handle."+strings.TrimPrefix(token, "sealed."), one)
	requireCode(t, cairnerr.CodeTokenInvalid, err)
	elsewhere := handlerWith(t, func(c *flow.Config) {
		c.Strategies = flow.Strategies{"sealed": flow.NewSealed(keys(t)).Namespace("acme")}
	}, flow.New("g", asks("x")))
	_, err = elsewhere.Resume(t.Context(), token, one)
	requireCode(t, cairnerr.CodeFlowNotAllowed, err)
	_, err = elsewhere.Start(t.Context(), "f", nil)
	requireCode(t, cairnerr.CodeFlowNotAllowed, err)
}

func TestSealed_ContextTooLarge_NamesTheField(t *testing.T) {
	t.Parallel()
	f := flow.New("f", flow.Do("fill", func(_ context.Context, s *trail) error {
		s.Done = []string{strings.Repeat("x", 5000)}
		return nil
	}), asks("x"))
	_, err := handlerOf(t, f).Start(t.Context(), "f", nil)
	requireCode(t, cairnerr.CodeStateTooLarge, err)
	require.ErrorContains(t, err, `"Done"`)
	roomy := handlerWith(t, func(c *flow.Config) {
		c.Strategies = flow.Strategies{"sealed": flow.NewSealed(keys(t)).Limit(16 << 10)}
	}, f)
	_, err = roomy.Start(t.Context(), "f", nil)
	require.NoError(t, err)
}

// The token tells nothing of what it holds, and little of how long that is.
func TestSealed_TokenTellsNothing(t *testing.T) {
	t.Parallel()
	size := map[int]bool{}
	for _, n := range []int{1, 2, 5, 9} {
		canary := strings.Repeat("q", n)
		f := flow.New("f", flow.Do("fill", func(_ context.Context, s *trail) error { s.Done = []string{canary + "canary"}; return nil }), asks("x"))
		r, err := handlerOf(t, f).Start(t.Context(), "f", nil)
		require.NoError(t, err)
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(r.Token, "sealed."))
		require.NoError(t, err)
		require.NotContains(t, string(raw), "canary")
		size[len(r.Token)] = true
	}
	require.Len(t, size, 1, "a few letters more or less do not show")
}

func TestSealed_DeliveryFails_ThePauseStays(t *testing.T) {
	t.Parallel()
	var mails []*flow.Delivery
	down := true
	mail := flow.OutletFunc("mail", func(_ context.Context, d *flow.Delivery) error {
		if down {
			return context.DeadlineExceeded
		}
		mails = append(mails, d)
		return nil
	})
	f := flow.New("users/invite", asks("whom"), asks("account").Via(mail, func(s *trail) string { return s.Done[0] }).TTL(time.Hour), ends())
	h := handlerWith(t, func(c *flow.Config) {
		c.Outlets, c.BaseURL = []flow.Outlet{mail}, "https://app.example/flow"
	}, f)
	r, err := h.Start(t.Context(), "users/invite", nil)
	require.NoError(t, err)
	_, err = h.Resume(t.Context(), r.Token, one)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	down = false
	sent, err := h.Resume(t.Context(), r.Token, one)
	require.NoError(t, err)
	require.Equal(t, "mail", sent.Sent)
	require.Empty(t, sent.Token, "the caller is not the one who may go on")
	require.Len(t, mails, 1)
	require.Equal(t, "whom=1", mails[0].To)
	require.Equal(t, "https://app.example/flow?token="+mails[0].Token, mails[0].URL)
	require.Equal(t, "account", mails[0].Ask)
	done, err := h.Resume(t.Context(), mails[0].Token, json.RawMessage(`{"text":"2"}`))
	require.NoError(t, err)
	require.JSONEq(t, `["whom=1","account=2"]`, string(done.Done.Data))
}

func TestSwap_KeepsTheNextPauseElsewhere(t *testing.T) {
	t.Parallel()
	f := flow.New("f", asks("x"), flow.Do("swap", func(ctx context.Context, _ *trail) error { return flow.Swap(ctx, "other") }), asks("y"), asks("z"), ends())
	h := handlerWith(t, func(c *flow.Config) {
		c.Strategies["other"] = flow.NewSealed(keys(t)).Namespace("other")
		c.Default = func(string) string { return "sealed" }
	}, f)
	r, err := h.Start(t.Context(), "f", nil)
	require.NoError(t, err)
	for _, prefix := range []string{"sealed.", "other.", "other."} {
		require.True(t, strings.HasPrefix(r.Token, prefix), r.Token)
		r, err = h.Resume(t.Context(), r.Token, one)
		require.NoError(t, err)
	}
	require.JSONEq(t, `["x=1","y=1","z=1"]`, string(r.Done.Data))

	requireCode(t, cairnerr.CodeUnsupported, flow.Swap(t.Context(), "other"))
	lost := flow.New("f", flow.Do("swap", func(ctx context.Context, _ *trail) error { return flow.Swap(ctx, "nowhere") }), asks("y"))
	_, err = handlerOf(t, lost).Start(t.Context(), "f", nil)
	requireCode(t, cairnerr.CodeInternal, err)
}

// Two strategies with the same keys do not take each other's tokens: else the one without a guard would take all.
func TestSealed_TokenOfAnotherStrategy_IsRefused(t *testing.T) {
	t.Parallel()
	h := handlerWith(t, func(c *flow.Config) {
		c.Strategies["free"] = flow.NewSealed(keys(t)).Guard(nil)
		c.Default = func(string) string { return "sealed" }
	}, flow.New("f", asks("x").Attempts(2)))
	r, err := h.Start(t.Context(), "f", nil)
	require.NoError(t, err)
	_, err = h.Resume(t.Context(), "free."+strings.TrimPrefix(r.Token, "sealed."), one)
	requireCode(t, cairnerr.CodeTokenInvalid, err)
}

// brokenGuard cannot write down what became of a pause.
type brokenGuard struct{ flow.Guard }

func (brokenGuard) Give(context.Context, string, flow.Became) error { return context.DeadlineExceeded }

func TestSealed_GuardFails_NobodyGoesOn(t *testing.T) {
	t.Parallel()
	h, token := asked(t, flow.NewSealed(keys(t)).Guard(brokenGuard{flow.NewMemoryGuard()}), nil)
	_, err := h.Resume(t.Context(), token, one)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = h.Resume(t.Context(), token, one)
	requireCode(t, cairnerr.CodePauseOver, err)
}

// FuzzToken changes tokens: none but the true one is taken, and nothing panics.
func FuzzToken(f *testing.F) {
	h, token := asked(f, flow.NewSealed(keys(f)).Guard(nil), func(c *flow.Config) { c.Now = newClock().Now })
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "sealed."))
	require.NoError(f, err)
	f.Add("nonsense", 0, byte(1)) // and not the token: each process that fuzzes makes one of its own
	f.Add("sealed.", 3, byte(1))
	f.Add("sealed."+strings.Repeat("A", 5000), 20, byte(255))
	f.Fuzz(func(t *testing.T, text string, at int, change byte) {
		_, err := h.Resume(t.Context(), text, one)
		requireCode(t, cairnerr.CodeTokenInvalid, err)
		if change == 0 || at < 0 {
			return
		}
		changed := bytes.Clone(raw)
		changed[at%len(changed)] ^= change
		_, err = h.Resume(t.Context(), "sealed."+base64.RawURLEncoding.EncodeToString(changed), one)
		requireCode(t, cairnerr.CodeTokenInvalid, err)
	})
}

// BenchmarkSealed compares a token for a context of 1 KiB with encoding and decoding that.
func BenchmarkSealed(b *testing.B) {
	f := flow.New("f", flow.Do("fill", func(_ context.Context, s *trail) error {
		s.Done = []string{strings.Repeat("x", 1000)}
		return nil
	}), asks("x"))
	h := handlerWith(b, func(c *flow.Config) { c.Strategies = flow.Strategies{"sealed": flow.NewSealed(keys(b)).Guard(nil)} }, f)
	r, err := h.Start(b.Context(), "f", nil)
	require.NoError(b, err)
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			if _, err := h.Start(b.Context(), "f", nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("show", func(b *testing.B) {
		for b.Loop() {
			if _, err := h.Show(b.Context(), r.Token); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("json", func(b *testing.B) {
		v := trail{Done: []string{strings.Repeat("x", 1000)}}
		for b.Loop() {
			text, err := json.Marshal(v)
			if err != nil || json.Unmarshal(text, &trail{}) != nil {
				b.Fatal(err)
			}
		}
	})
}
