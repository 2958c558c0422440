package main

import (
	"bytes"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var hidden = regexp.MustCompile(`type="hidden" name="(_[a-z]+)" value="([^"]+)"`)

// browser opens pages and sends their forms.
type browser struct {
	t      *testing.T
	client *http.Client
	base   string
	page   string
}

func (b *browser) take(res *http.Response, err error) int {
	b.t.Helper()
	require.NoError(b.t, err)
	defer func() { require.NoError(b.t, res.Body.Close()) }()
	page, err := io.ReadAll(res.Body)
	require.NoError(b.t, err)
	b.page = string(page)
	return res.StatusCode
}

func (b *browser) send(fields map[string]string) int {
	b.t.Helper()
	values := url.Values{}
	for _, match := range hidden.FindAllStringSubmatch(b.page, -1) {
		values.Set(match[1], html.UnescapeString(match[2]))
	}
	for name, value := range fields {
		values.Set(name, value)
	}
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.base+"/flow", bytes.NewReader([]byte(values.Encode())))
	require.NoError(b.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "text/html")
	return b.take(b.client.Do(req)) //nolint:bodyclose // take closes it
}

func TestSignIn_OverPages(t *testing.T) {
	t.Parallel()
	var sent []string
	handler, err := site(bytes.Repeat([]byte("k"), 32), func(to, code string) error {
		sent = append(sent, to+" "+code)
		return nil
	})
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	b := &browser{t: t, client: server.Client(), base: server.URL}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/login", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/html")
	require.Equal(t, 200, b.take(b.client.Do(req))) //nolint:bodyclose // take closes it
	require.Contains(t, b.page, "E-mail address")

	require.Equal(t, 422, b.send(map[string]string{"email": "ada@example.com", "password": "guess"}))
	require.Contains(t, b.page, "do not go together")
	require.Empty(t, sent)
	require.Equal(t, 200, b.send(map[string]string{"email": "ada@example.com", "password": "correct horse"}))
	require.Len(t, sent, 1)
	require.Contains(t, b.page, "Six digits.")
	wrong := "000000"
	if sent[0] == "ada@example.com "+wrong {
		wrong = "000001"
	}
	require.Equal(t, 422, b.send(map[string]string{"code": wrong}))
	require.Equal(t, 200, b.send(map[string]string{"code": sent[0][len("ada@example.com "):]}))
	require.Contains(t, b.page, "You are signed in.")
	require.Len(t, sent, 1)
}
