package flow_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/flow"
)

// response is an answer without its body.
type response struct {
	StatusCode int
	Header     http.Header
}

// site is a server with a handler, and a client that follows no redirects.
type site struct {
	*httptest.Server
	t      *testing.T
	client *http.Client
	log    *bytes.Buffer
}

func newSite(t *testing.T, change func(*flow.Config), flows ...flow.Flow) *site {
	t.Helper()
	s := &site{t: t, log: &bytes.Buffer{}}
	h := handlerWith(t, func(c *flow.Config) {
		c.Logger, c.MaxRequests = slog.New(slog.NewTextHandler(s.log, nil)), -1
		if change != nil {
			change(c)
		}
	}, flows...)
	s.serve(h)
	return s
}

// newSiteOf is a site with a handler that was made elsewhere.
func newSiteOf(t *testing.T, h *flow.Handler) *site {
	t.Helper()
	s := &site{t: t, log: &bytes.Buffer{}}
	s.serve(h)
	return s
}

func (s *site) serve(h http.Handler) {
	s.Server = httptest.NewServer(h)
	s.t.Cleanup(s.Close)
	jar, err := cookiejar.New(nil)
	require.NoError(s.t, err)
	s.client = &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (s *site) do(method, query, kind, accept, body string) (response, string) {
	s.t.Helper()
	return s.doKeyed("", method, query, kind, accept, body)
}

func (s *site) doKeyed(key, method, query, kind, accept, body string) (response, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+"/"+query, strings.NewReader(body))
	require.NoError(s.t, err)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	req.Header.Set("Accept", accept)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := s.client.Do(req)
	require.NoError(s.t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	return response{res.StatusCode, res.Header}, string(text)
}

// post sends JSON, and returns the status and the answer.
func (s *site) post(body any) (int, map[string]any) {
	s.t.Helper()
	return s.postKeyed("", body)
}

func (s *site) postKeyed(key string, body any) (int, map[string]any) {
	s.t.Helper()
	text, ok := body.(string)
	if !ok {
		raw, err := json.Marshal(body)
		require.NoError(s.t, err)
		text = string(raw)
	}
	res, answer := s.doKeyed(key, http.MethodPost, "", "application/json", "application/json", text)
	var v map[string]any
	require.NoError(s.t, json.Unmarshal([]byte(answer), &v), answer)
	return res.StatusCode, v
}

// submit sends a page's form.
func (s *site) submit(values url.Values) (response, string) {
	s.t.Helper()
	return s.do(http.MethodPost, "", "application/x-www-form-urlencoded", "text/html", values.Encode())
}

func (s *site) get(query string) (response, string) {
	s.t.Helper()
	return s.do(http.MethodGet, query, "", "text/html", "")
}

func at(v map[string]any, path ...string) any {
	var is any = v
	for _, name := range path {
		m, _ := is.(map[string]any)
		is = m[name]
	}
	return is
}

func TestHTTP_JSON_SignsIn(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, signIn())
	status, v := s.post(map[string]any{"flow": "auth/login"})
	require.Equal(t, 200, status)
	require.Equal(t, "credentials", at(v, "ask", "name"))
	require.Equal(t, "E-mail address", at(v, "ask", "schema", "properties", "email", "title"))
	status, v = s.post(map[string]any{"token": v["token"], "input": map[string]any{"email": "nonsense"}})
	require.Equal(t, 422, status)
	require.NotEmpty(t, at(v, "ask", "wrong", "email"))
	require.Equal(t, "is required", at(v, "ask", "wrong", "password"))
	status, v = s.post(map[string]any{"token": v["token"], "input": map[string]any{"email": "mfa@b.example", "password": "secret"}})
	require.Equal(t, 200, status)
	require.Equal(t, "code", at(v, "ask", "name"))
	status, v = s.post(map[string]any{"token": v["token"], "input": map[string]any{"code": "123456"}})
	require.Equal(t, 200, status)
	require.Equal(t, "/home", at(v, "done", "redirect"))
}

var hidden = regexp.MustCompile(`type="hidden" name="(_[a-z]+)" value="([^"]+)"`)

// fill returns the values that the form of a page sends.
func fill(page string, fields url.Values) url.Values {
	values := url.Values{}
	for _, match := range hidden.FindAllStringSubmatch(page, -1) {
		values.Set(match[1], html.UnescapeString(match[2]))
	}
	maps.Copy(values, fields)
	return values
}

func TestHTTP_Pages_SignInWithoutJavaScript(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *flow.Config) { c.Title = func(string) string { return "Sign in" } }, signIn())
	res, page := s.get("?flow=" + url.QueryEscape("auth/login"))
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, "no-referrer", res.Header.Get("Referrer-Policy"))
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	require.Contains(t, res.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
	require.Contains(t, page, "<h1>Sign in</h1>")
	require.Contains(t, page, `<label for="f-email">E-mail address</label>`)
	require.Contains(t, page, `type="password" name="password"`)
	require.NotContains(t, page, "<script")
	first := page
	res, page = s.submit(fill(first, url.Values{"email": {`"><b>`}, "password": {"hunter2"}}))
	require.Equal(t, 422, res.StatusCode)
	require.Contains(t, page, `aria-invalid="true" aria-describedby="f-email-error"`)
	require.Contains(t, page, `value="&#34;&gt;&lt;b&gt;"`, "what was typed is still there, as text")
	require.NotContains(t, page, "hunter2", "passwords are never sent back")

	res, _ = s.submit(fill(first, url.Values{"email": {"mfa@b.example"}, "password": {"secret"}}))
	require.Equal(t, 303, res.StatusCode, "the next page has an address of its own")
	where := res.Header.Get("Location")
	for range 2 { // loading it again is harmless
		res, page = s.get(strings.TrimPrefix(where, "/"))
		require.Equal(t, 200, res.StatusCode)
		require.Contains(t, page, `autocomplete="one-time-code"`)
	}
	res, page = s.submit(fill(first, url.Values{"email": {"mfa@b.example"}, "password": {"secret"}}))
	require.Equal(t, 410, res.StatusCode, "the page before, sent again")
	require.Contains(t, page, "was done before")
	_, page = s.get(strings.TrimPrefix(where, "/"))
	res, _ = s.submit(fill(page, url.Values{"code": {"123456"}}))
	require.Equal(t, 303, res.StatusCode)
	require.Equal(t, "/home", res.Header.Get("Location"))
}

// Whatever the path of a request is, the token stays on the site.
func TestHTTP_Page_StrangePath_TokenStays(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, flow.New("f", asks("x"), asks("y"), ends()))
	_, page := s.get("?flow=f")
	values := fill(page, url.Values{"text": {"1"}})
	res, _ := s.do(http.MethodPost, "/evil.example/", "application/x-www-form-urlencoded", "text/html", values.Encode())
	require.Equal(t, 303, res.StatusCode)
	require.True(t, strings.HasPrefix(res.Header.Get("Location"), "?token="), res.Header.Get("Location"))
}

// An error of the flow's own code is not one of the request, whatever code it has.
func TestHTTP_ErrorsOfTheFlow_AreNotShown(t *testing.T) {
	t.Parallel()
	f := flow.New("f", flow.Do("fails", func(context.Context, *trail) error {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "postgres://admin:hunter2@db refused")
	}), asks("x"))
	s := newSite(t, nil, f)
	status, v := s.post(map[string]any{"flow": "f"})
	require.Equal(t, 500, status)
	require.NotContains(t, at(v, "error", "message"), "hunter2")
	require.Contains(t, s.log.String(), "hunter2")
}

// A page names only so many problems that belong to none of its fields.
func TestHTTP_ManyProblems_PageStaysSmall(t *testing.T) {
	t.Parallel()
	type numbers struct {
		N []int `json:"n"`
	}
	s := newSite(t, nil, flow.New("f", flow.Ask("x", func(context.Context, *trail, numbers) error { return nil })))
	_, page := s.get("?flow=f")
	res, page := s.submit(fill(page, url.Values{"n": {strings.Repeat("x\n", 5000)}}))
	require.Equal(t, 422, res.StatusCode)
	require.Less(t, len(page), 40_000)
}

func TestHTTP_IPv6_CountsNetworks(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *flow.Config) {
		c.MaxRequests = 1
		c.ClientIP = func(r *http.Request) string { return r.Header.Get("Accept") }
	}, signIn())
	for address, want := range map[string]int{"2001:db8::1": 200, "2001:db8:0:1::1": 200, "::ffff:192.0.2.1": 200} {
		res, _ := s.do(http.MethodPost, "", "application/json", address, `{"flow":"auth/login"}`)
		require.Equal(t, want, res.StatusCode, address)
	}
	res, _ := s.do(http.MethodPost, "", "application/json", "2001:db8::ffff", `{"flow":"auth/login"}`)
	require.Equal(t, 429, res.StatusCode)
}

// A browser that looks ahead must not send mails: a flow that begins with a Do is started by a button.
func TestHTTP_GetOfAFlowThatDoesSomething_ShowsAButton(t *testing.T) {
	t.Parallel()
	done := 0
	f := flow.New("f", flow.If(when("never"), asks("w")), flow.Do("mail", func(context.Context, *trail) error { done++; return nil }), asks("x"), ends())
	s := newSite(t, nil, f)
	res, page := s.get("?flow=f")
	require.Equal(t, 200, res.StatusCode)
	require.Contains(t, page, `name="_flow" value="f"`)
	require.Zero(t, done)
	res, _ = s.submit(url.Values{"_flow": {"f"}})
	require.Equal(t, 303, res.StatusCode)
	require.Equal(t, 1, done)
}

func TestHTTP_BadRequests(t *testing.T) {
	t.Parallel()
	f := flow.New("f", asks("x"), flow.Do("fails", func(context.Context, *trail) error { return errors.New("secret detail") }))
	s := newSite(t, nil, f)
	_, v := s.post(map[string]any{"flow": "f"})
	token, _ := v["token"].(string)
	for name, c := range map[string]struct {
		body   any
		status int
		code   string
	}{
		"neither":              {`{}`, 400, "malformed"},
		"no JSON":              {`{`, 400, "malformed"},
		"not served":           {`{"flow":"g"}`, 403, "flow_not_allowed"},
		"no strategy":          {`{"token":"nonsense"}`, 410, "token_invalid"},
		"unknown strategy":     {`{"token":"other.abc"}`, 410, "token_invalid"},
		"nothing behind":       {`{"token":"sealed."}`, 410, "token_invalid"},
		"cut off":              {map[string]any{"token": token[:len(token)-4]}, 410, "token_invalid"},
		"a strategy's method":  {`{"token":"__proto__.x"}`, 410, "token_invalid"},
		"too large":            {map[string]any{"token": token, "input": map[string]any{"text": strings.Repeat("x", 70_000)}}, 413, "payload_too_large"},
		"a step fails":         {map[string]any{"token": token, "input": map[string]any{"text": "1"}}, 500, "internal"},
		"token before a flow":  {`{"token":"nonsense","flow":"f"}`, 410, "token_invalid"},
		"another kind of JSON": {`[1]`, 400, "malformed"},
	} {
		status, v := s.post(c.body)
		require.Equal(t, c.status, status, name)
		require.Equal(t, c.code, at(v, "error", "code"), name)
		require.NotContains(t, at(v, "error", "message"), "secret detail", name)
	}
	require.Contains(t, s.log.String(), "secret detail", "it is logged with the id that the caller got")
	require.NotContains(t, s.log.String(), token)

	texts := map[string]bool{}
	for _, token := range []string{"nonsense", "other.abc", "sealed.", token[:len(token)-4]} {
		_, v := s.post(map[string]any{"token": token})
		texts[at(v, "error", "message").(string)] = true
	}
	require.Len(t, texts, 1, "one text for all")

	res, _ := s.do(http.MethodPut, "", "", "", "")
	require.Equal(t, 405, res.StatusCode)
	require.Equal(t, "GET, HEAD, POST", res.Header.Get("Allow"))
	res, _ = s.do(http.MethodPost, "", "text/plain", "", "x")
	require.Equal(t, 400, res.StatusCode)
}

func TestHTTP_PageOfAnotherSite_CannotSend(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, signIn())
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("_flow=auth/login"))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", "https://evil.example")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	res, err := s.client.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 403, res.StatusCode)
}

func TestHTTP_TooManyRequests_AreToldWhenToComeBack(t *testing.T) {
	t.Parallel()
	now := newClock()
	s := newSite(t, func(c *flow.Config) {
		c.MaxRequests, c.Now = 2, now.Now
		c.ClientIP = func(r *http.Request) string { return r.Header.Get("Accept") }
	}, signIn())
	for range 2 {
		res, _ := s.do(http.MethodPost, "", "application/json", "ann", `{"flow":"auth/login"}`)
		require.Equal(t, 200, res.StatusCode)
	}
	res, _ := s.do(http.MethodPost, "", "application/json", "ann", `{"flow":"auth/login"}`)
	require.Equal(t, 429, res.StatusCode)
	require.NotEmpty(t, res.Header.Get("Retry-After"))
	res, _ = s.do(http.MethodPost, "", "application/json", "bob", `{"flow":"auth/login"}`)
	require.Equal(t, 200, res.StatusCode)
	now.pass(61e9)
	res, _ = s.do(http.MethodPost, "", "application/json", "ann", `{"flow":"auth/login"}`)
	require.Equal(t, 200, res.StatusCode)
}

// survey has one field of each kind.
type survey struct {
	Name    string   `json:"name"`
	Age     int      `json:"age,omitempty" jsonschema:"minimum=0,maximum=150"`
	Size    string   `json:"size" choices:"s=Small,m=Medium" form:"radio"`
	Color   string   `json:"color,omitempty" choices:"r=Red,g=Green"`
	Tags    []string `json:"tags,omitempty" choices:"a=Alpha,b=Beta"`
	News    bool     `json:"news,omitempty"`
	About   string   `json:"about,omitempty" form:"textarea"`
	Address struct {
		City string `json:"city"`
	} `json:"address"`
	Lines []struct {
		Item string `json:"item"`
		Qty  int    `json:"qty"`
	} `json:"lines,omitempty"`
}

func TestHTTP_Page_HasEachKindOfField(t *testing.T) {
	t.Parallel()
	var got survey
	type context0 struct{}
	f := flow.New("survey", flow.Ask("survey", func(_ context.Context, _ *context0, in survey) error { got = in; return nil }).
		Prefill(func(*context0) any { return survey{Name: "Ada", Tags: []string{"b"}, News: true} }))
	s := newSite(t, nil, f)
	_, page := s.get("?flow=survey")
	for _, text := range []string{
		`value="Ada"`, `type="number" name="age" min="0" max="150"`, `type="radio" name="size" value="m"`, `<option value="r">Red</option>`,
		`type="checkbox" name="tags" value="b" checked`, `name="news" value="true" checked`, `<textarea id="f-about"`,
		`name="address.city"`, `name="lines.0.item"`, `name="lines.1.qty"`,
	} {
		require.Contains(t, page, text)
	}
	values := url.Values{
		"name": {"Eve"}, "age": {"37"}, "size": {"m"}, "color": {""}, "tags": {"a", "b"},
		"about": {"two\r\nlines"}, "address.city": {"Bern"}, "lines.0.item": {"pen"}, "lines.0.qty": {"2"}, "lines.1.item": {""}, "lines.1.qty": {""},
	}
	res, page := s.submit(fill(page, values))
	require.Equal(t, 200, res.StatusCode, page)
	require.Contains(t, page, "Done.")
	require.Equal(t, 37, got.Age)
	require.Equal(t, []string{"a", "b"}, got.Tags)
	require.False(t, got.News)
	require.Equal(t, "Bern", got.Address.City)
	require.Len(t, got.Lines, 1)
	require.Equal(t, 2, got.Lines[0].Qty)
}
