package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

const patience = 30 * time.Second

// client talks to a shop over HTTP.
type client struct {
	t   *testing.T
	eng *cairn.Engine
	url string
}

// openShop opens a shop on a SQLite file.
func openShop(t *testing.T) *client {
	t.Helper()
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "shop.db"), nil)
	require.NoError(t, err)
	eng, err := cairn.New(t.Context(), st, Checkout)
	require.NoError(t, err)
	server := httptest.NewServer(routes(eng))
	t.Cleanup(func() {
		server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, eng.Stop(ctx))
		require.NoError(t, st.Close())
	})
	return &client{t, eng, server.URL}
}

// ask sends a request and returns the status and the description of the run. Headers are pairs of name and value.
func (c *client) ask(method, path, body string, headers ...string) (int, *cairn.RunInfo) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	require.NoError(c.t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(c.t, err)
	defer func() { require.NoError(c.t, resp.Body.Close()) }()
	info := &cairn.RunInfo{}
	require.NoError(c.t, json.NewDecoder(resp.Body).Decode(info))
	return resp.StatusCode, info
}

// order places an order that must be accepted.
func (c *client) order(body string) *cairn.RunInfo {
	c.t.Helper()
	status, info := c.ask(http.MethodPost, "/orders", body)
	require.Equal(c.t, http.StatusOK, status)
	return info
}

// until waits until order a1 is as wanted.
func (c *client) until(wanted func(*cairn.RunInfo) bool) *cairn.RunInfo {
	c.t.Helper()
	var last *cairn.RunInfo
	require.Eventually(c.t, func() bool {
		status, info := c.ask(http.MethodGet, "/orders/a1", "")
		last = info
		return status == http.StatusOK && wanted(info)
	}, patience, 5*time.Millisecond)
	return last
}

func ended(info *cairn.RunInfo) bool { return !info.EndedAt.IsZero() }

func waitsForApproval(info *cairn.RunInfo) bool {
	for _, w := range info.Waits {
		if w.Kind == "hook" {
			return true
		}
	}
	return false
}

// steps returns the names of the steps that were completed, in their order.
func (c *client) steps(run string) (names []string) {
	c.t.Helper()
	for event, err := range c.eng.Run(run).History(c.t.Context()) {
		require.NoError(c.t, err)
		if event.Type == "step_completed" {
			name, _, _ := strings.Cut(event.Key[strings.LastIndexByte(event.Key, '/')+1:], "@")
			names = append(names, name)
		}
	}
	return names
}

const (
	small = `{"id":"a1","cents":900,"card":"busy"}`
	large = `{"id":"a1","cents":25000,"card":"4242"}`
)

func TestShop_SmallOrder_IsShipped(t *testing.T) {
	t.Parallel()
	c := openShop(t)
	run := c.order(small)
	require.Equal(t, "a1", run.StartKey)
	require.Equal(t, cairn.StatusCompleted, c.until(ended).Status)
	require.Equal(t, []string{"reserve", "charge", "ship"}, c.steps(run.ID), "the bank was busy twice")
}

func TestShop_OrderRepeated_IsOneRun(t *testing.T) {
	t.Parallel()
	c := openShop(t)
	first := c.order(small)
	require.Equal(t, first.ID, c.order(small).ID)
	c.until(ended)
	require.Equal(t, first.ID, c.order(small).ID, "also when it has ended")

	status, _ := c.ask(http.MethodPost, "/orders", large)
	require.Equal(t, http.StatusConflict, status, "another order has the id")
}

func TestShop_OrderMalformed_IsRefused(t *testing.T) {
	t.Parallel()
	c := openShop(t)
	for _, body := range []string{`{"cents":900}`, `{"id":7}`, ``, `{"id":"` + strings.Repeat("a", 1<<17) + `"}`} {
		status, _ := c.ask(http.MethodPost, "/orders", body)
		require.Equal(t, http.StatusBadRequest, status, "%.40s", body)
	}
	page, err := c.eng.List(t.Context(), cairn.Filter{})
	require.NoError(t, err)
	require.Empty(t, page.Runs)
}

func TestShop_ApproveMalformed_StillWaits(t *testing.T) {
	t.Parallel()
	c := openShop(t)
	run := c.order(large)
	c.until(waitsForApproval)
	for _, body := range []string{`{"approved":"maybe"}`, `approved`, ``} {
		status, _ := c.ask(http.MethodPost, "/orders/a1/approve", body)
		require.Equal(t, http.StatusBadRequest, status, body)
	}
	status, info := c.ask(http.MethodGet, "/orders/a1", "")
	require.Equal(t, http.StatusOK, status)
	require.True(t, waitsForApproval(info))
	require.Equal(t, []string{"reserve"}, c.steps(run.ID))
}

func TestShop_ApproveRepeated_CountsOnce(t *testing.T) {
	t.Parallel()
	c := openShop(t)
	run := c.order(large)
	c.until(waitsForApproval)
	approve := func() int {
		status, _ := c.ask(http.MethodPost, "/orders/a1/approve", `{"approved":true}`, "Idempotency-Key", "click 1")
		return status
	}
	require.Equal(t, http.StatusOK, approve())
	require.Equal(t, http.StatusOK, approve(), "the run may not have gone on yet")
	require.Equal(t, cairn.StatusCompleted, c.until(ended).Status)
	require.Equal(t, http.StatusOK, approve(), "the hook is closed")
	require.Equal(t, []string{"reserve", "charge", "ship"}, c.steps(run.ID))

	status, _ := c.ask(http.MethodPost, "/orders/a1/approve", `{"approved":true}`, "Idempotency-Key", "click 2")
	require.Equal(t, http.StatusNotFound, status, "nobody waits for another one")
}

func TestShop_Rejected_IsUndone(t *testing.T) {
	t.Parallel()
	c := openShop(t)
	run := c.order(large)
	c.until(waitsForApproval)
	status, _ := c.ask(http.MethodPost, "/orders/a1/approve", `{"approved":false}`)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, cairn.StatusFailed, c.until(ended).Status)
	require.Equal(t, []string{"reserve", "release"}, c.steps(run.ID))
}

func TestShop_CardDeclined_IsUndone(t *testing.T) {
	t.Parallel()
	c := openShop(t)
	run := c.order(`{"id":"a1","cents":900,"card":"empty"}`)
	require.Equal(t, cairn.StatusFailed, c.until(ended).Status)
	require.Equal(t, []string{"reserve", "refund", "release"}, c.steps(run.ID), "the last first")
}

func TestShop_Cancelled_IsUndone(t *testing.T) {
	t.Parallel()
	c := openShop(t)
	run := c.order(large)
	c.until(waitsForApproval)
	status, _ := c.ask(http.MethodPost, "/orders/a1/cancel?user=ada&reason=too+dear", "")
	require.Equal(t, http.StatusOK, status)
	info := c.until(ended)
	require.Equal(t, cairn.StatusCancelled, info.Status)
	require.Equal(t, "ada", info.Actor)
	require.Equal(t, "too dear", info.Reason)
	require.Equal(t, []string{"reserve", "release"}, c.steps(run.ID))

	status, _ = c.ask(http.MethodPost, "/orders/a1/cancel", "")
	require.Equal(t, http.StatusConflict, status, "it has ended")
}

func TestShop_UnknownOrder_IsNotFound(t *testing.T) {
	t.Parallel()
	c := openShop(t)
	for _, request := range []string{"GET /orders/b2", "POST /orders/b2/approve", "POST /orders/b2/cancel"} {
		method, path, _ := strings.Cut(request, " ")
		status, _ := c.ask(method, path, `{"approved":true}`)
		require.Equal(t, http.StatusNotFound, status, request)
	}
}

func TestShop_OtherSite_MayNotOrder(t *testing.T) {
	t.Parallel()
	c := openShop(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url+"/orders", strings.NewReader(small))
	require.NoError(t, err)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
}

func TestProgram_Interrupted_StopsAndGoesOn(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	args := []string{"-db", filepath.Join(t.TempDir(), "shop.db"), "-port", port}
	for _, path := range []string{"/orders", "/orders/a1/approve"} {
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- serve(ctx, args, io.Discard) }()
		c := &client{t: t, url: "http://127.0.0.1:" + port}
		require.Eventually(t, func() bool {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", "127.0.0.1:"+port)
			return err == nil && conn.Close() == nil
		}, patience, 5*time.Millisecond)
		if path == "/orders" {
			c.order(large)
			c.until(waitsForApproval)
		} else {
			status, _ := c.ask(http.MethodPost, path, `{"approved":true}`)
			require.Equal(t, http.StatusOK, status)
		}
		interrupt()
		require.NoError(t, <-ended)
	}
}
