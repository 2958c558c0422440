package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/flow"
)

func TestTurn_Items_DoWhatTheySay(t *testing.T) {
	t.Parallel()
	inner := flow.New("inner", do("in"), asks("which"), flow.Break(when("leave")), do("in again"), ends())
	always := func(*trail) bool { return true }
	for name, c := range map[string]struct {
		items   []flow.Item[trail]
		answers []string
		asked   []string
		done    []string
	}{
		"in order": {
			[]flow.Item[trail]{do("a"), asks("x"), do("b"), asks("y"), ends()},
			[]string{"1", "2"},
			[]string{"x", "y"},
			[]string{"a", "x=1", "b", "y=2"},
		},
		"if": {
			[]flow.Item[trail]{asks("x"), flow.If(when("f"), do("yes")), flow.If(unless("f"), do("no")), ends()},
			[]string{"+f"},
			[]string{"x"},
			[]string{"x=+f", "yes"},
		},
		"while": {
			[]flow.Item[trail]{flow.While(unless("f"), asks("x"), do("b")), ends()},
			[]string{"1", "2", "+f"},
			[]string{"x", "x", "x"},
			[]string{"x=1", "b", "x=2", "b", "x=+f", "b"},
		},
		"break leaves the loop": {
			[]flow.Item[trail]{flow.While(always, asks("x"), flow.If(always, flow.Break(when("f"))), do("b")), ends()},
			[]string{"1", "+f"},
			[]string{"x", "x"},
			[]string{"x=1", "b", "x=+f"},
		},
		"continue begins the next pass": {
			[]flow.Item[trail]{flow.While(unless("g"), asks("x"), flow.Continue(when("f")), do("b")), ends()},
			[]string{"1", "+f", "+g"},
			[]string{"x", "x", "x"},
			[]string{"x=1", "b", "x=+f", "x=+g"},
		},
		"break leaves a list": {
			[]flow.Item[trail]{flow.List(asks("x"), flow.Break(when("f")), do("a")), do("b"), ends()},
			[]string{"+f"},
			[]string{"x"},
			[]string{"x=+f", "b"},
		},
		"break in a list in a loop": {
			[]flow.Item[trail]{flow.While(unless("f"), flow.List(asks("x"), flow.Break(always), do("never")), do("b")), ends()},
			[]string{"1", "+f"},
			[]string{"x", "x"},
			[]string{"x=1", "b", "x=+f", "b"},
		},
		"break outside ends the flow": {
			[]flow.Item[trail]{asks("x"), flow.Break(when("f")), do("never"), ends()},
			[]string{"+f"},
			[]string{"x"},
			nil,
		},
		"end leaves everything": {
			[]flow.Item[trail]{flow.While(always, flow.If(always, asks("x"), ends())), do("never")},
			[]string{"1"},
			[]string{"x"},
			[]string{"x=1"},
		},
		"sub": {
			[]flow.Item[trail]{do("a"), flow.Sub("part", inner, func(s *trail) *trail { return s }), do("b"), ends()},
			[]string{"1"},
			[]string{"part/which"},
			[]string{"a", "in", "which=1", "in again", "b"},
		},
		"break in a sub": {
			[]flow.Item[trail]{flow.Sub("part", inner, func(s *trail) *trail { return s }), do("b"), ends()},
			[]string{"+leave"},
			[]string{"part/which"},
			[]string{"in", "which=+leave", "b"},
		},
		"one flow twice": {
			[]flow.Item[trail]{
				flow.Sub("one", inner, func(s *trail) *trail { return s }), flow.Sub("two", inner, func(s *trail) *trail { return s }), ends(),
			},
			[]string{"1", "2"},
			[]string{"one/which", "two/which"},
			[]string{"in", "which=1", "in again", "in", "which=2", "in again"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, done := play(t, flow.New("f", c.items...), c.answers...)
			require.Equal(t, c.asked, asked)
			require.Equal(t, c.done, done)
		})
	}
}

// A flow goes on exactly where it was paused: what happened to the conditions around the Ask since does not matter, and
// the answer reaches no other Ask. (Three ways in which another engine hands an answer to the wrong step, or drops it.)
func TestTurn_Resumed_GoesOnAtItsAsk(t *testing.T) {
	t.Parallel()
	flip := func(flag string, on bool) flow.Item[trail] {
		return flow.Do("flip "+flag, func(_ context.Context, s *trail) error { s.set(flag, on); return nil })
	}
	t.Run("its own condition has changed", func(t *testing.T) {
		t.Parallel()
		f := flow.New("f", flow.If(unless("asked"), flip("asked", true), asks("first")), asks("second"), ends())
		asked, done := play(t, f, "1", "2")
		require.Equal(t, []string{"first", "second"}, asked)
		require.Equal(t, []string{"first=1", "second=2"}, done)
	})
	t.Run("the condition of the loop has changed", func(t *testing.T) {
		t.Parallel()
		f := flow.New("f", flow.While(unless("over"), flip("over", true), asks("x"), do("after x")), ends())
		asked, done := play(t, f, "1")
		require.Equal(t, []string{"x"}, asked)
		require.Equal(t, []string{"x=1", "after x"}, done)
	})
	t.Run("a later group begins at its beginning", func(t *testing.T) {
		t.Parallel()
		f := flow.New("f", flow.While(unless("over"), do("a"), do("b"), asks("x")), flow.List(do("c"), do("d"), do("e")), ends())
		_, done := play(t, f, "+over")
		require.Equal(t, []string{"a", "b", "x=+over", "c", "d", "e"}, done)
	})
}

func TestTurn_SubWorksOnItsPart(t *testing.T) {
	t.Parallel()
	part := func(s *trail) *trail {
		if s.Part == nil {
			s.Part = &trail{}
		}
		return s.Part
	}
	inner := flow.New("inner", asks("x"))
	f := flow.New("outer", flow.Sub("part", inner, part),
		flow.End(func(s *trail) flow.Result { return flow.Data(append(s.Done, s.Part.Done...)) }))
	_, done := play(t, f, "1")
	require.Equal(t, []string{"x=1"}, done)
}

func TestTurn_Invalid_AsksAgainAndKeepsTheContext(t *testing.T) {
	t.Parallel()
	h := handlerOf(t, signIn())
	r, err := h.Start(t.Context(), "auth/login", nil)
	require.NoError(t, err)
	require.Equal(t, "credentials", r.Ask.Name)
	require.Empty(t, r.Ask.Wrong)
	wrong := json.RawMessage(`{"email":"a@b.example","password":"guess"}`)
	for range 2 {
		r, err = h.Resume(t.Context(), r.Token, wrong)
		require.NoError(t, err)
		require.Equal(t, flow.Invalid{"password": "is wrong"}, r.Ask.Wrong)
	}
	r, err = h.Resume(t.Context(), r.Token, wrong)
	require.NoError(t, err)
	require.Equal(t, "Too many tries.", r.Done.Message)
}

func TestTurn_FormIsWrong_NothingIsDone(t *testing.T) {
	t.Parallel()
	h := handlerOf(t, signIn())
	r, err := h.Start(t.Context(), "auth/login", nil)
	require.NoError(t, err)
	for input, wrong := range map[string][]string{
		``:                                    {"email", "password"},
		`{"email":"nonsense","password":"x"}`: {"email"},
		`[]`:                                  {""},
		`{`:                                   {""},
		`{"email":1,"password":{}}`:           {"email", "password"},
	} {
		again, err := h.Resume(t.Context(), r.Token, json.RawMessage(input))
		require.NoError(t, err, input)
		var paths []string
		for path := range again.Ask.Wrong {
			paths = append(paths, path)
		}
		require.Equal(t, wrong, sorted(paths), input)
		require.Equal(t, r.Token, again.Token, "it is the same pause")
	}
	r, err = h.Resume(t.Context(), r.Token, json.RawMessage(`{"email":"a@b.example","password":"secret"}`))
	require.NoError(t, err)
	require.Equal(t, "/home", r.Done.Redirect)
}

// order checks itself.
type order struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Validate refuses ranges that are upside down.
func (o *order) Validate() error {
	if o.From > o.To {
		return errors.New("from must not be above to")
	}
	if o.To > 10 {
		return flow.Invalid{"to": "is too far"}
	}
	return nil
}

func TestAsk_FormValidatesItself(t *testing.T) {
	t.Parallel()
	h := handlerOf(t, flow.New("range", flow.Ask("range", func(context.Context, *trail, order) error { return nil })))
	r, err := h.Start(t.Context(), "range", nil)
	require.NoError(t, err)
	for input, wrong := range map[string]flow.Invalid{
		`{"from":2,"to":1}`:  {"": "from must not be above to"},
		`{"from":2,"to":11}`: {"to": "is too far"},
	} {
		again, err := h.Resume(t.Context(), r.Token, json.RawMessage(input))
		require.NoError(t, err)
		require.Equal(t, wrong, again.Ask.Wrong)
	}
}

// A turn that fails changes nothing: the same token can be tried again.
func TestTurn_Fails_ThePauseStays(t *testing.T) {
	t.Parallel()
	broken := true
	fails := flow.Do("fails", func(_ context.Context, s *trail) error {
		if s.Done = append(s.Done, "tried"); broken {
			return errors.New("the mail server is down")
		}
		return nil
	})
	panics := flow.Do("panics", func(context.Context, *trail) error {
		if broken {
			panic("a bug")
		}
		return nil
	})
	for name, item := range map[string]flow.Item[trail]{"error": fails, "panic": panics} {
		broken = true
		h := handlerOf(t, flow.New("f", asks("x"), item, ends()))
		r, err := h.Start(t.Context(), "f", nil)
		require.NoError(t, err)
		_, err = h.Resume(t.Context(), r.Token, json.RawMessage(`{"text":"1"}`))
		require.Error(t, err, name)
		broken = false
		r, err = h.Resume(t.Context(), r.Token, json.RawMessage(`{"text":"2"}`))
		require.NoError(t, err, name)
		require.Contains(t, string(r.Done.Data), `"x=2"`, name)
		require.NotContains(t, string(r.Done.Data), `"x=1"`, name)
	}
}

func TestTurn_Burn_ClosesThePauseWhenItFails(t *testing.T) {
	t.Parallel()
	f := flow.New("f", asks("x").Burn(), flow.Do("fails", func(context.Context, *trail) error { return errors.New("no") }))
	h := handlerOf(t, f)
	r, err := h.Start(t.Context(), "f", nil)
	require.NoError(t, err)
	_, err = h.Resume(t.Context(), r.Token, json.RawMessage(`{"text":"1"}`))
	require.ErrorContains(t, err, "no")
	_, err = h.Resume(t.Context(), r.Token, json.RawMessage(`{"text":"1"}`))
	requireCode(t, cairnerr.CodePauseOver, err)
}

func TestTurn_TooManyItems_IsALoopLimit(t *testing.T) {
	t.Parallel()
	always := func(*trail) bool { return true }
	for _, f := range []*flow.Def[trail]{
		flow.New("f", flow.While(always, flow.If(when("never"), asks("x")))),
		flow.New("f", flow.While(always, flow.Continue(always), asks("x"))),
	} {
		_, err := handlerOf(t, f).Start(t.Context(), "f", nil)
		requireCode(t, cairnerr.CodeLoopLimit, err)
	}
}

func TestObserve_IsToldOfEachItem(t *testing.T) {
	t.Parallel()
	var seen []string
	inner := flow.New("inner", asks("which"))
	f := flow.New("f", do("a"), flow.Sub("part", inner, func(s *trail) *trail { return s }), flow.If(when("never"), do("b")), ends())
	h := handlerWith(t, func(c *flow.Config) {
		c.Observe = func(_ context.Context, o flow.Observed) { seen = append(seen, o.Kind+" "+o.Name) }
	}, f)
	r, err := h.Start(t.Context(), "f", nil)
	require.NoError(t, err)
	_, err = h.Resume(t.Context(), r.Token, json.RawMessage(`{"text":"1"}`))
	require.NoError(t, err)
	require.Equal(t, []string{"do a", "ask part/which", "sub part", "ask part/which", "sub part", "if ", "end "}, seen)
}

// The code of a flow changes while flows are paused.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	now := newClock()
	cfg := func(c *flow.Config) { c.Now = now.Now }
	before := handlerWith(t, cfg, flow.New("f", do("a"), asks("old name"), ends()))
	r, err := before.Start(t.Context(), "f", nil)
	require.NoError(t, err)
	input := json.RawMessage(`{"text":"1"}`)

	added := handlerWith(t, cfg, flow.New("f", do("new"), flow.List(do("a"), asks("old name")), do("b"), ends()))
	done, err := added.Resume(t.Context(), r.Token, input)
	require.NoError(t, err, "items around it may change")
	require.JSONEq(t, `["a","old name=1","b"]`, string(done.Done.Data))

	renamed := flow.New("f", do("a"), asks("new name"), ends())
	_, err = handlerWith(t, cfg, renamed).Resume(t.Context(), r.Token, input)
	requireCode(t, cairnerr.CodeFlowChanged, err)

	upgraded := renamed.Upgrade(2, func(from int, place string, context json.RawMessage) (string, json.RawMessage, error) {
		if from != 0 || place != "old name" {
			return "", nil, errors.New("not known")
		}
		return "new name", context, nil
	})
	done, err = handlerWith(t, cfg, upgraded).Resume(t.Context(), r.Token, input)
	require.NoError(t, err)
	require.JSONEq(t, `["a","new name=1"]`, string(done.Done.Data))

	type other struct{ Done int }
	retyped := flow.New("f", flow.Ask("old name", func(context.Context, *other, answer) error { return nil }))
	_, err = handlerWith(t, cfg, retyped).Resume(t.Context(), r.Token, input)
	requireCode(t, cairnerr.CodeFlowChanged, err)
	now.pass(2 * time.Hour)
	_, err = before.Resume(t.Context(), r.Token, input)
	requireCode(t, cairnerr.CodeTokenInvalid, err)
}

func TestNewHandler_ListsAllMistakes(t *testing.T) {
	t.Parallel()
	type unfit struct{ C chan int }
	always := func(*trail) bool { return true }
	mail := flow.OutletFunc("mail", func(context.Context, *flow.Delivery) error { return nil })
	_, err := flow.NewHandler(flow.Config{
		Strategies: flow.Strategies{"a b": flow.NewSealed(nil), "nothing": nil, "free": flow.NewSealed(keys(t)).Guard(nil)},
		Default:    func(string) string { return "free" },
		Allow: []flow.Flow{
			flow.New("bad name", do("a")),
			flow.New("twice", asks("x"), asks("x")),
			flow.New("twice", asks("x")),
			flow.New("loop", flow.While(always, do("a")), flow.Continue(always)),
			flow.New("names", do("a/b"), do(""), nil, flow.Sub[trail, trail]("none", nil, nil)),
			flow.New("form", flow.Ask("x", func(context.Context, *trail, unfit) error { return nil })),
			flow.New("counts", asks("x").Attempts(3)),
			flow.New("mails", asks("x").Via(mail, func(*trail) string { return "" })),
			nil,
		},
		BaseURL: "app.example",
	})
	require.Error(t, err)
	for _, text := range []string{
		`bad name of a strategy: "a b"`, `sealed strategy has no keys`, `strategy "nothing" is nil`,
		`flow "bad name": bad name`, `two Asks have the name "x"`, `two flows have the name "twice"`, `a While has no Ask`,
		`a Continue is outside of every While`, `bad name "a/b"`, `bad name ""`, `an item is nil`, `sub "none": it has no flow`,
		`flow "form"`, `no Guard that counts them`, `outlet "mail" of Ask "x" is not in Config.Outlets`, `flow 9 of 9 is nil`, `BaseURL "app.example"`,
	} {
		require.ErrorContains(t, err, text)
	}
	_, err = flow.NewHandler(flow.Config{})
	require.ErrorContains(t, err, "a handler needs a strategy")
}

// An Ask in a Sub delivers, and fills its form in, by its part of the context.
func TestAsk_InASub_UsesItsPart(t *testing.T) {
	t.Parallel()
	type outer struct{ Part trail }
	var to string
	mail := flow.OutletFunc("mail", func(_ context.Context, d *flow.Delivery) error { to = d.To; return nil })
	inner := flow.New("inner", do("in"),
		asks("first").Prefill(func(s *trail) any { return answer{s.Done[0]} }),
		asks("second").Via(mail, func(s *trail) string { return s.Done[1] }))
	h := handlerWith(t, func(c *flow.Config) { c.Outlets, c.BaseURL = []flow.Outlet{mail}, "https://app.example/flow" },
		flow.New("f", flow.Sub("part", inner, func(s *outer) *trail { return &s.Part })))
	r, err := h.Start(t.Context(), "f", nil)
	require.NoError(t, err)
	require.JSONEq(t, `{"text":"in"}`, string(r.Ask.Values))
	sent, err := h.Resume(t.Context(), r.Token, one)
	require.NoError(t, err)
	require.Equal(t, "mail", sent.Sent)
	require.Equal(t, "first=1", to)
}

func TestInvalid_Empty_IsNoError(t *testing.T) {
	t.Parallel()
	f := flow.New("f", flow.Ask("x", func(context.Context, *trail, answer) error { return flow.Invalid{} }), do("after"), ends())
	_, done := play(t, f, "1")
	require.Equal(t, []string{"after"}, done)
}

func TestPrefill_ShowsOnlyWhatTheFormHas(t *testing.T) {
	t.Parallel()
	type line struct {
		Item   string `json:"item"`
		Secret string `json:"secret,omitempty" form:"password"`
	}
	type shown struct {
		ID       int64  `json:"id"`
		Password string `json:"password,omitempty" form:"password"`
		Address  struct {
			City string `json:"city"`
		} `json:"address"`
		Lines []line `json:"lines"`
	}
	f := flow.New("f", flow.Ask("x", func(context.Context, *trail, shown) error { return nil }).Prefill(func(*trail) any {
		return json.RawMessage(`{"id":9007199254740993,"password":"hunter2","other":"hidden","address":{"city":"Bern","zip":1},"lines":[{"item":"pen","secret":"hunter2"}]}`)
	}))
	r, err := handlerOf(t, f).Start(t.Context(), "f", nil)
	require.NoError(t, err)
	require.JSONEq(t, `{"address":{"city":"Bern"},"id":9007199254740993,"lines":[{"item":"pen"}]}`, string(r.Ask.Values))
	require.Contains(t, string(r.Ask.Values), "9007199254740993")
}
