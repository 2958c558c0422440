package flow

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// The names of what a page sends beside the fields of its form.
const (
	tokenParam = "token"
	flowParam  = "flow"
	tokenField = "_token"
	flowField  = "_flow"
	nonceField = "_nonce"
	askField   = "_ask"
)

// ServeHTTP serves flows at one URL.
//
//   - POST with JSON: {"flow": "auth/login"} starts a flow, {"token": "…", "input": {…}} resumes one. The answer is a
//     [Reply] as JSON.
//   - GET ?token=… shows the page of a pause, and changes nothing. GET ?flow=… shows the first form of a sealed flow that
//     does nothing before it asks, and else a button that starts the flow.
//   - POST from a page resumes a flow, and shows the next page.
//
// An answer to a pause that a [Handle] keeps can be sent again with the same Idempotency-Key, or from the same page: it
// gets the same reply.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.http.ServeHTTP(w, r) }

func (h *Handler) routes() http.Handler {
	protection := http.NewCrossOriginProtection()
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Cache-Control", "no-store")
		head.Set("Referrer-Policy", "no-referrer") // a link has a token
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
		h.serve(w, r)
	})
	return protection.Handler(serve)
}

// request is what a caller wants.
type request struct {
	Flow  string          `json:"flow"`
	Token string          `json:"token"`
	Input json.RawMessage `json:"input"`

	nonce  string
	page   bool // a person reads the answer
	values url.Values
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	q := &request{page: wantsPage(r)}
	reply, err := h.answer(w, r, q)
	switch {
	case err != nil:
		h.fail(w, r, q, err)
	case q.page:
		h.page(w, r, q, reply)
	default:
		status := http.StatusOK
		if reply.Ask != nil && len(reply.Ask.Wrong) > 0 {
			status = http.StatusUnprocessableEntity
		}
		writeJSON(w, status, reply)
	}
}

func (h *Handler) answer(w http.ResponseWriter, r *http.Request, q *request) (*Reply, error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return h.get(r, q)
	case http.MethodPost:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		return nil, errMethod
	}
	if wait := h.limiter.take(h.cfg.ClientIP(r)); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait.Seconds())+1))
		return nil, cairnerr.Errorf(cairnerr.CodeTooManyRequests, "too many requests: try again in %d seconds", int(wait.Seconds())+1)
	}
	r.Body = http.MaxBytesReader(w, r.Body, h.cfg.MaxBody)
	if err := h.read(r, q); err != nil {
		return nil, err
	}
	switch {
	case q.Token != "":
		return h.resume(r.Context(), q.Token, &submission{input: q.Input, nonce: q.nonce})
	case q.Flow != "":
		return h.Start(r.Context(), q.Flow, nil)
	default:
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "the request has neither a token nor a flow")
	}
}

var errMethod = cairnerr.Errorf(cairnerr.CodeUnsupported, "use GET or POST")

// get shows a pause, or the beginning of a flow.
func (h *Handler) get(r *http.Request, q *request) (*Reply, error) {
	query := r.URL.Query()
	switch token, flow := query.Get(tokenParam), query.Get(flowParam); {
	case token != "":
		return h.Show(r.Context(), token)
	case flow != "":
		q.Flow = flow
		return h.startToLook(r, flow)
	default:
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "the request has neither a token nor a flow")
	}
}

// startToLook starts a flow if that does nothing but ask: a browser may look ahead, and a page of another site may name
// the address of this one. Otherwise the reply asks nothing.
func (h *Handler) startToLook(r *http.Request, flow string) (*Reply, error) {
	d, err := h.flow(flow)
	if err != nil {
		return nil, err
	}
	name := h.strategyFor(flow)
	if sealed, ok := h.cfg.Strategies[name].(*Sealed); ok && r.Method == http.MethodGet {
		c := h.call(name)
		c.pure = true
		t, err := sealed.start(r.Context(), c, d, state{Flow: flow, Version: d.version})
		if err == nil {
			return h.reply(name, t), nil
		}
		if !errors.Is(err, errNotPure) {
			return nil, err
		}
	}
	return &Reply{Flow: flow}, nil
}

// read reads the body of a POST.
func (h *Handler) read(r *http.Request, q *request) error {
	kind, _, err := mime.ParseMediaType(cmp.Or(r.Header.Get("Content-Type"), "application/json"))
	if err != nil {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "the Content-Type cannot be read")
	}
	switch kind {
	case "application/json":
		q.page, q.nonce = false, r.Header.Get("Idempotency-Key")
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, q)
		}
		return h.readError(err)
	case "application/x-www-form-urlencoded":
		if err := h.readError(r.ParseForm()); err != nil {
			return err
		}
		q.page, q.values = true, r.PostForm
		q.Token, q.Flow = q.values.Get(tokenField), q.values.Get(flowField)
		q.nonce = q.values.Get(nonceField)
		ask := q.values.Get(askField)
		for _, name := range []string{nonceField, askField, tokenField} {
			q.values.Del(name)
		}
		q.values.Del(flowField)
		return h.readForm(q, ask)
	default:
		return cairnerr.Errorf(cairnerr.CodeMalformed, "the Content-Type is %q: use application/json or a form", kind)
	}
}

func (h *Handler) readError(err error) error {
	tooLarge, ok := errors.AsType[*http.MaxBytesError](err)
	switch {
	case ok:
		return cairnerr.Errorf(cairnerr.CodePayloadTooLarge, "the request has more than %d bytes", tooLarge.Limit)
	case err != nil:
		return cairnerr.Errorf(cairnerr.CodeMalformed, "the request cannot be read")
	default:
		return nil
	}
}

// readForm makes JSON of what a page has sent, with the types of its form. The page says which form it is, so that a
// request can be repeated when the flow has gone on; whether that form is wanted, the strategy knows.
func (h *Handler) readForm(q *request, ask string) error {
	if q.Token == "" {
		return nil
	}
	d, err := h.flow(q.Flow)
	if err != nil {
		return err
	}
	n := d.asks()[ask]
	if n == nil {
		return errToken
	}
	q.Input = n.ask.form.FromValues(q.values)
	return nil
}

// wantsPage reports whether a person reads the answer.
func wantsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// problem is an error as callers see it.
type problem struct {
	Code    cairnerr.Code `json:"code"`
	Message string        `json:"message"`
}

// shown returns what a caller may know of an error, and its status. What is not about the request is only logged.
func (h *Handler) shown(r *http.Request, err error) (problem, int) {
	code := cairnerr.CodeOf(err)
	switch code {
	case cairnerr.CodeTokenInvalid, cairnerr.CodePauseOver, cairnerr.CodeFlowNotAllowed, cairnerr.CodeMalformed,
		cairnerr.CodePayloadTooLarge, cairnerr.CodeTooManyRequests:
		return problem{code, cairnerr.AsError(err).Message}, code.Status()
	case cairnerr.CodeUnsupported:
		if errors.Is(err, errMethod) {
			return problem{code, cairnerr.AsError(err).Message}, http.StatusMethodNotAllowed
		}
	case cairnerr.CodeFlowChanged, cairnerr.CodeStateTooLarge:
		h.cfg.Logger.ErrorContext(r.Context(), "a flow cannot go on", slog.Any("error", err))
		return problem{code, "this cannot be continued"}, code.Status()
	default:
	}
	id := rand.Text()
	h.cfg.Logger.ErrorContext(r.Context(), "a turn of a flow failed", slog.String("id", id), slog.Any("error", err))
	return problem{cairnerr.CodeInternal, "something went wrong; the id of the error is " + id}, http.StatusInternalServerError
}

func (h *Handler) fail(w http.ResponseWriter, r *http.Request, q *request, err error) {
	p, status := h.shown(r, err)
	if q.page {
		h.write(w, r, status, &page{Title: http.StatusText(status), Message: p.Message})
		return
	}
	writeJSON(w, status, map[string]problem{"error": p})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
