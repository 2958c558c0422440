package flow_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/flow"
)

// login is the context of the sign-in flow.
type login struct {
	Email  string
	OK     bool
	MFA    bool
	Tries  int
	Mailed int
}

type credentials struct {
	Email    string `json:"email" jsonschema:"title=E-mail address,format=email"`
	Password string `json:"password" form:"password"`
}

type code struct {
	Code string `json:"code" jsonschema:"title=Code,pattern=^[0-9]{6}$" autocomplete:"one-time-code"`
}

// signIn asks for credentials, three times at most, and then for a code.
func signIn() *flow.Def[login] {
	return flow.New("auth/login",
		flow.While(func(s *login) bool { return !s.OK },
			flow.Ask("credentials", func(_ context.Context, s *login, in credentials) error {
				s.Tries++
				s.Email, s.MFA = in.Email, strings.HasPrefix(in.Email, "mfa")
				if s.OK = in.Password == "secret"; !s.OK && s.Tries < 3 {
					return flow.Invalid{"password": "is wrong"}
				}
				return nil
			}),
			flow.Break(func(s *login) bool { return s.Tries == 3 && !s.OK })),
		flow.If(func(s *login) bool { return s.MFA && s.OK },
			flow.Do("mail code", func(_ context.Context, s *login) error { s.Mailed++; return nil }),
			flow.Ask("code", func(_ context.Context, _ *login, in code) error {
				if in.Code != "123456" {
					return flow.Invalid{"code": "is wrong"}
				}
				return nil
			}).TTL(10*time.Minute).Attempts(3)),
		flow.End(func(s *login) flow.Result {
			if !s.OK {
				return flow.Message("Too many tries.")
			}
			return flow.Redirect("/home")
		}))
}

func keys(tb testing.TB) *flow.Keys {
	tb.Helper()
	k, err := flow.NewKeys("a", map[string][]byte{"a": bytes.Repeat([]byte("a"), flow.KeySize)})
	require.NoError(tb, err)
	return k
}

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// handlerOf returns a handler with one sealed strategy.
func handlerOf(tb testing.TB, flows ...flow.Flow) *flow.Handler {
	tb.Helper()
	return handlerWith(tb, func(*flow.Config) {}, flows...)
}

func handlerWith(tb testing.TB, change func(*flow.Config), flows ...flow.Flow) *flow.Handler {
	tb.Helper()
	cfg := flow.Config{Strategies: flow.Strategies{"sealed": flow.NewSealed(keys(tb))}, Allow: flows}
	change(&cfg)
	h, err := flow.NewHandler(cfg)
	require.NoError(tb, err)
	return h
}

func requireCode(t *testing.T, code cairnerr.Code, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, cairnerr.CodeOf(err), "%v", err)
}

// trail is a context that notes what was done.
type trail struct {
	Done  []string
	Flags map[string]bool
	Part  *trail
}

func (s *trail) flag(name string) bool { return s.Flags[name] }

func (s *trail) set(name string, on bool) {
	if s.Flags == nil {
		s.Flags = map[string]bool{}
	}
	s.Flags[name] = on
}

type answer struct {
	Text string `json:"text"`
}

func do(name string) flow.Item[trail] {
	return flow.Do(name, func(_ context.Context, s *trail) error { s.Done = append(s.Done, name); return nil })
}

// asks returns an Ask that notes its answer. An answer like "+x" sets a flag, one like "-x" removes it.
func asks(name string) flow.AskItem[trail] {
	return flow.Ask(name, func(_ context.Context, s *trail, in answer) error {
		s.Done = append(s.Done, name+"="+in.Text)
		if flag, ok := strings.CutPrefix(in.Text, "+"); ok {
			s.set(flag, true)
		} else if flag, ok := strings.CutPrefix(in.Text, "-"); ok {
			s.set(flag, false)
		}
		return nil
	})
}

func when(flag string) func(*trail) bool { return func(s *trail) bool { return s.flag(flag) } }

func unless(flag string) func(*trail) bool { return func(s *trail) bool { return !s.flag(flag) } }

// ends shows what was done.
func ends() flow.Item[trail] {
	return flow.End(func(s *trail) flow.Result { return flow.Data(s.Done) })
}

// play starts a flow, gives the answers, and returns what was asked and what was done.
func play(t *testing.T, f flow.Flow, answers ...string) (asked []string, done []string) {
	t.Helper()
	h := handlerOf(t, f)
	r, err := h.Start(t.Context(), f.Name(), nil)
	require.NoError(t, err)
	for _, text := range answers {
		require.NotNil(t, r.Ask, "nothing is asked; asked before: %v", asked)
		asked = append(asked, r.Ask.Name)
		input, err := json.Marshal(answer{text})
		require.NoError(t, err)
		r, err = h.Resume(t.Context(), r.Token, input)
		require.NoError(t, err)
	}
	if r.Done != nil {
		if r.Done.Data != nil {
			require.NoError(t, json.Unmarshal(r.Done.Data, &done))
		}
		return asked, done
	}
	return append(asked, r.Ask.Name), nil
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }
