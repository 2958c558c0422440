package flow_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/cairntest"
	"github.com/cairn-workflow/cairn/flow"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/store/open"
)

// starter starts a process: an engine with a handle, and a handler.
type starter func(change func(*flow.Config), flows ...flow.Flow) (*flow.Handler, *cairn.Engine)

// onEveryStore runs a test on each store.
func onEveryStore(t *testing.T, test func(t *testing.T, start starter)) {
	t.Helper()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			where := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
			if kind == "postgres" {
				where = pgtest.URL(t)
			}
			test(t, func(change func(*flow.Config), flows ...flow.Flow) (*flow.Handler, *cairn.Engine) {
				st, err := open.URL(t.Context(), where)
				require.NoError(t, err)
				handle := flow.NewHandle(keys(t), flows...)
				eng, err := cairn.NewWith(t.Context(), st, cairn.Config{Poll: 50 * time.Millisecond}, handle)
				require.NoError(t, err)
				t.Cleanup(func() {
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
					defer cancel()
					_ = eng.Stop(ctx)
					_ = st.Close()
				})
				h := handlerWith(t, func(c *flow.Config) {
					c.Strategies = flow.Strategies{"handle": handle, "sealed": flow.NewSealed(keys(t))}
					c.Default = func(string) string { return "handle" }
					if change != nil {
						change(c)
					}
				}, flows...)
				return h, eng
			})
		})
	}
}

func TestHandle_SignsIn(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, start starter) {
		t.Helper()
		h, _ := start(nil, signIn())
		r, err := h.Start(t.Context(), "auth/login", nil)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(r.Token, "handle."))
		require.Less(t, len(r.Token), 200)
		wrong, err := h.Resume(t.Context(), r.Token, json.RawMessage(`{"email":"nonsense"}`))
		require.NoError(t, err)
		require.Contains(t, wrong.Ask.Wrong, "email")
		wrong, err = h.Resume(t.Context(), r.Token, json.RawMessage(`{"email":"mfa@b.example","password":"guess"}`))
		require.NoError(t, err)
		require.Equal(t, flow.Invalid{"password": "is wrong"}, wrong.Ask.Wrong)
		require.Equal(t, r.Token, wrong.Token, "it is the same pause")
		next, err := h.Resume(t.Context(), r.Token, json.RawMessage(`{"email":"mfa@b.example","password":"secret"}`))
		require.NoError(t, err)
		require.Equal(t, "code", next.Ask.Name)
		require.WithinDuration(t, time.Now().Add(10*time.Minute), next.Expires, time.Minute)
		_, err = h.Resume(t.Context(), r.Token, json.RawMessage(`{"email":"mfa@b.example","password":"secret"}`))
		requireCode(t, cairnerr.CodePauseOver, err)
		_, err = h.Show(t.Context(), r.Token)
		requireCode(t, cairnerr.CodePauseOver, err)
		shown, err := h.Show(t.Context(), next.Token)
		require.NoError(t, err)
		require.Equal(t, "code", shown.Ask.Name)
		done, err := h.Resume(t.Context(), next.Token, json.RawMessage(`{"code":"123456"}`))
		require.NoError(t, err)
		require.Equal(t, "/home", done.Done.Redirect)
	})
}

// Of 200 who click at the same time in three processes, one proceeds.
func TestHandle_ManyClicks_OneWins(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, start starter) {
		t.Helper()
		var done atomic.Int32
		f := func() flow.Flow {
			count := flow.Do("count", func(context.Context, *trail) error { done.Add(1); return nil })
			return flow.New("f", asks("x"), count, asks("y"), ends())
		}
		var handlers []*flow.Handler
		for range 3 {
			h, _ := start(nil, f())
			handlers = append(handlers, h)
		}
		r, err := handlers[0].Start(t.Context(), "f", nil)
		require.NoError(t, err)
		var won, over atomic.Int32
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				next, err := handlers[i%3].Resume(t.Context(), r.Token, one)
				switch {
				case err == nil && next.Ask.Name == "y":
					won.Add(1)
				case cairnerr.CodeOf(err) == cairnerr.CodePauseOver:
					over.Add(1)
				default:
					t.Errorf("%+v: %v", next, err)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, won.Load())
		require.EqualValues(t, 199, over.Load())
		require.EqualValues(t, 1, done.Load())
	})
}

// Nothing of what a flow holds, is sent or answers is in the database in clear, nor are its tokens.
func TestHandle_DatabaseHasNoSecrets(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, start starter) {
		t.Helper()
		h, eng := start(nil, signIn())
		r, err := h.Start(t.Context(), "auth/login", json.RawMessage(`{"Email":"canary@begin.example"}`))
		require.NoError(t, err)
		next, err := h.Resume(t.Context(), r.Token, json.RawMessage(`{"email":"mfa-canary@b.example","password":"secret"}`))
		require.NoError(t, err)
		page, err := eng.List(t.Context(), cairn.Filter{Workflow: "flow.auth.login"})
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
		var exported bytes.Buffer
		require.NoError(t, eng.Run(page.Runs[0].ID).Export(t.Context(), &exported))
		for _, secret := range []string{"canary", "secret", strings.TrimPrefix(r.Token, "handle."), strings.TrimPrefix(next.Token, "handle.")} {
			require.NotContains(t, exported.String(), secret)
		}
		require.Contains(t, exported.String(), `"key":"turn"`)
	})
}

// The same request, sent again, gets the same answer; another one does not.
func TestHandle_RepeatedRequest_GetsItsAnswer(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, start starter) {
		t.Helper()
		h, _ := start(nil, flow.New("f", asks("x"), asks("y"), ends()))
		s := newSiteOf(t, h)
		_, v := s.post(map[string]any{"flow": "f"})
		send := func(nonce, text string) (int, map[string]any) {
			return s.postKeyed(nonce, map[string]any{"token": v["token"], "input": map[string]any{"text": text}})
		}
		status, first := send("a", "1")
		require.Equal(t, 200, status)
		for range 2 {
			status, again := send("a", "1")
			require.Equal(t, 200, status)
			require.Equal(t, first, again)
		}
		for _, other := range [][2]string{{"b", "1"}, {"a", "2"}, {"", "1"}} {
			status, _ := send(other[0], other[1])
			require.Equal(t, 410, status, other)
		}
		_, done := s.post(map[string]any{"token": first["token"], "input": map[string]any{"text": "2"}})
		require.Equal(t, []any{"x=1", "y=2"}, at(done, "done", "data"))
	})
}

// A page that is sent again, because its answer was lost, gets the same answer.
func TestHandle_PageSentAgain_GoesOn(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, start starter) {
		t.Helper()
		h, _ := start(nil, flow.New("f", asks("x"), asks("y"), ends()))
		s := newSiteOf(t, h)
		_, page := s.get("?flow=f")
		began, _ := s.submit(fill(page, nil))
		require.Equal(t, 303, began.StatusCode)
		_, page = s.get(began.Header.Get("Location"))
		values := fill(page, url.Values{"text": {"1"}})
		res, _ := s.submit(values)
		require.Equal(t, 303, res.StatusCode)
		again, _ := s.submit(values)
		require.Equal(t, 303, again.StatusCode)
		require.Equal(t, res.Header.Get("Location"), again.Header.Get("Location"))
	})
}

func TestHandle_TurnFails_ThePauseStays(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, start starter) {
		t.Helper()
		var broken atomic.Bool
		broken.Store(true)
		fails := flow.Do("fails", func(context.Context, *trail) error {
			if broken.Load() {
				return errors.New("the mail server is down")
			}
			return nil
		})
		h, _ := start(nil, flow.New("f", asks("x"), fails, ends()), flow.New("g", asks("x").Burn(), fails, ends()), flow.New("h", fails, asks("x")))
		r, err := h.Start(t.Context(), "f", nil)
		require.NoError(t, err)
		burned, err := h.Start(t.Context(), "g", nil)
		require.NoError(t, err)
		_, err = h.Start(t.Context(), "h", nil)
		require.ErrorContains(t, err, "the mail server is down")
		for _, token := range []string{r.Token, burned.Token} {
			_, err = h.Resume(t.Context(), token, one)
			require.ErrorContains(t, err, "the mail server is down")
		}
		broken.Store(false)
		done, err := h.Resume(t.Context(), r.Token, json.RawMessage(`{"text":"2"}`))
		require.NoError(t, err)
		require.JSONEq(t, `["x=2"]`, string(done.Done.Data))
		_, err = h.Resume(t.Context(), burned.Token, one)
		requireCode(t, cairnerr.CodePauseOver, err)
	})
}

func TestHandle_Attempts(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, start starter) {
		t.Helper()
		f := flow.New("f", flow.Ask("x", func(_ context.Context, _ *trail, in answer) error {
			if in.Text == "right" {
				return nil
			}
			return flow.Invalid{"text": "is wrong"}
		}).Attempts(3))
		h, _ := start(nil, f)
		r, err := h.Start(t.Context(), "f", nil)
		require.NoError(t, err)
		for range 2 {
			again, err := h.Resume(t.Context(), r.Token, one)
			require.NoError(t, err)
			require.NotEmpty(t, again.Ask.Wrong)
		}
		for _, text := range []string{"1", "1", "right"} {
			_, err = h.Resume(t.Context(), r.Token, json.RawMessage(fmt.Sprintf(`{"text":%q}`, text)))
			requireCode(t, cairnerr.CodePauseOver, err)
		}
	})
}

func TestHandle_DeliversAPause(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, start starter) {
		t.Helper()
		var down atomic.Bool
		down.Store(true)
		mails := make(chan *flow.Delivery, 10)
		mail := flow.OutletFunc("mail", func(_ context.Context, d *flow.Delivery) error {
			mails <- d
			if down.Load() {
				return errors.New("the mail server is down")
			}
			return nil
		})
		f := flow.New("users/invite", asks("whom"), asks("account").Via(mail, func(s *trail) string { return s.Done[0] }).TTL(7*24*time.Hour), ends())
		h, _ := start(func(c *flow.Config) { c.Outlets, c.BaseURL = []flow.Outlet{mail}, "https://app.example/flow" }, f)
		r, err := h.Start(t.Context(), "users/invite", nil)
		require.NoError(t, err)
		_, err = h.Resume(t.Context(), r.Token, one)
		require.ErrorContains(t, err, "the mail server is down")
		lost := <-mails // it may have arrived
		down.Store(false)
		sent, err := h.Resume(t.Context(), r.Token, one)
		require.NoError(t, err)
		_, err = h.Resume(t.Context(), lost.Token, one)
		requireCode(t, cairnerr.CodePauseOver, err)
		require.Equal(t, &flow.Reply{Flow: "users/invite", Sent: "mail"}, sent, "the caller gets no token")
		d := <-mails
		require.Equal(t, "whom=1", d.To)
		require.Equal(t, "https://app.example/flow?token="+d.Token, d.URL)
		require.WithinDuration(t, time.Now().Add(7*24*time.Hour), d.Expires, time.Minute)
		_, err = h.Resume(t.Context(), r.Token, one)
		requireCode(t, cairnerr.CodePauseOver, err)
		done, err := h.Resume(t.Context(), d.Token, json.RawMessage(`{"text":"2"}`))
		require.NoError(t, err)
		require.JSONEq(t, `["whom=1","account=2"]`, string(done.Done.Data))
	})
}

// A flow may go from a token into a handle, and then stays there.
func TestHandle_Swap(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, start starter) {
		t.Helper()
		swap := func(name, to string) flow.Item[trail] {
			return flow.Do(name, func(ctx context.Context, _ *trail) error { return flow.Swap(ctx, to) })
		}
		f := flow.New("f", asks("x"), swap("to handle", "handle"), asks("y"), flow.If(when("back"), swap("to sealed", "sealed")), asks("z"), ends())
		h, _ := start(func(c *flow.Config) { c.Default = func(string) string { return "sealed" } }, f)
		r, err := h.Start(t.Context(), "f", nil)
		require.NoError(t, err)
		answers := []string{"0", "+back", "1", "2"}
		for i, name := range []string{"sealed.", "handle.", "handle.", "handle."} {
			require.True(t, strings.HasPrefix(r.Token, name), "%d: %s", i, r.Token)
			before := r.Token
			next, err := h.Resume(t.Context(), before, json.RawMessage(fmt.Sprintf(`{"text":%q}`, answers[i])))
			if answers[i] == "+back" {
				require.ErrorContains(t, err, "a handle keeps its flows to their end")
				continue
			}
			require.NoError(t, err)
			r = next
			_, err = h.Resume(t.Context(), before, one)
			requireCode(t, cairnerr.CodePauseOver, err)
		}
		require.JSONEq(t, `["x=0","y=1","z=2"]`, string(r.Done.Data))
	})
}

func TestHandle_TokensThatItDidNotMake_AreRefused(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, start starter) {
		t.Helper()
		h, _ := start(nil, flow.New("f", asks("x")), flow.New("short", asks("x").TTL(-time.Second)))
		r, err := h.Start(t.Context(), "f", nil)
		require.NoError(t, err)
		raw := []byte(r.Token)
		for i := len("handle."); i < len(raw); i += 7 {
			changed := bytes.Clone(raw)
			changed[i] ^= 1
			_, err := h.Resume(t.Context(), string(changed), one)
			requireCode(t, cairnerr.CodeTokenInvalid, err)
		}
		for _, token := range []string{"handle.", "handle.A", "handle." + strings.Repeat("A", 200), "handle." + strings.Repeat("_", 5000)} {
			_, err := h.Resume(t.Context(), token, one)
			requireCode(t, cairnerr.CodeTokenInvalid, err)
		}
		short, err := h.Start(t.Context(), "short", nil)
		require.NoError(t, err)
		_, err = h.Resume(t.Context(), short.Token, one)
		require.Equal(t, 410, cairnerr.CodeOf(err).Status())
	})
}

// A flow waits for days, its process dies, and it goes on.
func TestHandle_WaitsAcrossACrash(t *testing.T) {
	t.Parallel()
	handle := flow.NewHandle(keys(t), flow.New("f", asks("x"), asks("y").TTL(7*24*time.Hour), ends()))
	cairntest.Run(t, func(e *cairntest.Env) {
		handler := func() *flow.Handler {
			h, err := flow.NewHandler(flow.Config{Strategies: flow.Strategies{"handle": handle}, Allow: handle.Flows()})
			require.NoError(t, err)
			return h
		}
		r, err := handler().Start(e.Context(), "f", nil)
		require.NoError(t, err)
		e.Sleep(29 * 24 * time.Hour)
		e.Crash()
		next, err := handler().Resume(e.Context(), r.Token, one)
		require.NoError(t, err)
		late, err := handler().Start(e.Context(), "f", nil)
		require.NoError(t, err)
		e.Sleep(6 * 24 * time.Hour)
		e.Crash()
		done, err := handler().Resume(e.Context(), next.Token, one)
		require.NoError(t, err)
		require.JSONEq(t, `["x=1","y=1"]`, string(done.Done.Data))
		e.Sleep(25 * 24 * time.Hour)
		_, err = handler().Resume(e.Context(), late.Token, one)
		require.Equal(t, 410, cairnerr.CodeOf(err).Status())
	}, handle)
}

func TestHandle_Misused(t *testing.T) {
	t.Parallel()
	unused := flow.NewHandle(keys(t), flow.New("f", asks("x")))
	_, err := flow.NewHandler(flow.Config{Strategies: flow.Strategies{"handle": unused}, Allow: unused.Flows()})
	require.ErrorContains(t, err, "belongs to no engine")
	st, err := open.URL(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	_, err = cairn.New(t.Context(), st, flow.NewHandle(nil), flow.NewHandle(keys(t), nil, flow.New("f", asks("x"), asks("x"))))
	for _, text := range []string{"no keys", "flow 1 of 2 is nil", "two Asks"} {
		require.ErrorContains(t, err, text)
	}
}

// A flow whose key is gone is not lost: its run is parked, and goes on when the key is back.
func TestHandle_KeyIsGone_RunIsParked(t *testing.T) {
	t.Parallel()
	where := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
	process := func(current string, names ...string) (*cairn.Engine, *flow.Handler) {
		all := map[string][]byte{}
		for _, name := range names {
			all[name] = bytes.Repeat([]byte(name), flow.KeySize)
		}
		ring, err := flow.NewKeys(current, all)
		require.NoError(t, err)
		handle := flow.NewHandle(ring, flow.New("f", asks("x").TTL(time.Second), ends()))
		st, err := open.URL(t.Context(), where)
		require.NoError(t, err)
		eng, err := cairn.NewWith(t.Context(), st, cairn.Config{Poll: 20 * time.Millisecond}, handle)
		require.NoError(t, err)
		h := handlerWith(t, func(c *flow.Config) { c.Strategies = flow.Strategies{"handle": handle} }, handle.Flows()...)
		t.Cleanup(func() { _ = st.Close() })
		return eng, h
	}
	phase := func(eng *cairn.Engine, want cairn.Phase) *cairn.RunInfo {
		var info *cairn.RunInfo
		require.Eventually(t, func() bool {
			page, err := eng.List(t.Context(), cairn.Filter{})
			require.NoError(t, err)
			info = page.Runs[0]
			return info.Phase == want
		}, time.Minute, 10*time.Millisecond)
		return info
	}
	eng, h := process("a", "a")
	r, err := h.Start(t.Context(), "f", nil)
	require.NoError(t, err)
	require.NoError(t, eng.Stop(t.Context()))
	eng, h = process("b", "b")
	_, err = h.Resume(t.Context(), r.Token, one)
	requireCode(t, cairnerr.CodeTokenInvalid, err)
	parked := phase(eng, cairn.PhaseParked)
	require.Contains(t, parked.Reason, "needs the keys")
	require.NoError(t, eng.Stop(t.Context()))
	eng, _ = process("b", "a", "b")
	_, err = eng.ResumeParked(t.Context(), cairn.Filter{})
	require.NoError(t, err)
	info, err := eng.Run(parked.ID).Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, cairn.StatusCompleted, info.Status)
	require.NoError(t, eng.Stop(t.Context()))
}
