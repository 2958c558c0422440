package flow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// Config says which flows a handler serves, and how.
type Config struct {
	// Strategies keep flows while they are paused, by their names.
	Strategies Strategies
	// Default chooses the strategy for a new flow. With one strategy it may be nil.
	Default func(flow string) string
	// Allow are the flows that are served. Others can neither be started nor resumed.
	Allow []Flow
	// Outlets are those that the flows use.
	Outlets []Outlet
	// BaseURL is where the handler is reached, for links in what outlets deliver. It is needed if there are outlets.
	BaseURL string
	// Observe is told of each item that a turn has done. Defaults to nil.
	Observe func(context.Context, Observed)
	// Logger gets failed turns. Defaults to [slog.Default].
	Logger *slog.Logger
	// ClientIP returns the address of a caller, for the limit on requests. Defaults to that of the connection.
	ClientIP func(*http.Request) string
	// MaxBody is how many bytes a request may have. Defaults to 64 KiB.
	MaxBody int64
	// MaxRequests is how many answers one address may send in a minute. Defaults to 60; negative: any number.
	MaxRequests int
	// Title stands above the pages. Defaults to the name of the flow.
	Title func(flow string) string
	// Now is the clock. Defaults to [time.Now].
	Now func() time.Time
}

const (
	defaultMaxBody     = 64 << 10
	defaultMaxRequests = 60
)

// Handler starts and resumes flows, for programs and over HTTP.
type Handler struct {
	cfg     Config
	flows   map[string]*definition
	limiter *limiter
	http    http.Handler
}

// NewHandler returns a handler. The error lists all mistakes, those in the flows too.
func NewHandler(cfg Config) (*Handler, error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.MaxBody = cmp.Or(cfg.MaxBody, defaultMaxBody)
	cfg.MaxRequests = cmp.Or(cfg.MaxRequests, defaultMaxRequests)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.ClientIP == nil {
		cfg.ClientIP = remoteIP
	}
	if cfg.Title == nil {
		cfg.Title = func(flow string) string { return flow }
	}
	h := &Handler{cfg: cfg, flows: map[string]*definition{}, limiter: newLimiter(cfg.MaxRequests, cfg.Now)}
	if err := h.check(); err != nil {
		return nil, err
	}
	h.http = h.routes()
	return h, nil
}

// check returns all mistakes in the configuration.
func (h *Handler) check() error {
	var mistakes []error
	mistake := func(format string, args ...any) {
		mistakes = append(mistakes, cairnerr.Errorf(cairnerr.CodeMalformed, format, args...))
	}
	for i, o := range h.cfg.Outlets {
		if o == nil {
			mistake("outlet %d of %d is nil", i+1, len(h.cfg.Outlets))
			return errors.Join(mistakes...)
		}
	}
	var list []*definition
	for i, f := range h.cfg.Allow {
		if f == nil || reflect.ValueOf(f).IsNil() {
			mistake("flow %d of %d is nil", i+1, len(h.cfg.Allow))
			continue
		}
		d := f.definition()
		if h.flows[d.name] != nil {
			mistake("two flows have the name %q", d.name)
			continue
		}
		h.flows[d.name], list = d, append(list, d)
		mistakes = append(mistakes, d.check(), h.checkOutlets(d))
	}
	if len(h.cfg.Strategies) == 0 {
		mistake("a handler needs a strategy: flow.NewSealed(keys) needs no database")
	}
	for _, name := range slices.Sorted(maps.Keys(h.cfg.Strategies)) {
		if !isStrategyName(name) {
			mistake("bad name of a strategy: %q: letters, digits, _ and - are allowed", name)
		}
		if s := h.cfg.Strategies[name]; s == nil || reflect.ValueOf(s).IsNil() {
			mistake("strategy %q is nil", name)
		} else {
			mistakes = append(mistakes, s.check(h.keptBy(name, list)))
		}
	}
	mistakes = append(mistakes, h.checkDefault(list)...)
	if h.cfg.BaseURL != "" {
		base, err := url.Parse(h.cfg.BaseURL)
		if err != nil || base.Scheme != "https" && base.Scheme != "http" || base.Host == "" {
			mistake("BaseURL %q is not an absolute http or https URL", h.cfg.BaseURL)
		}
	} else if len(h.cfg.Outlets) > 0 {
		mistake("outlets need a BaseURL for their links")
	}
	return errors.Join(mistakes...)
}

// checkOutlets finds outlets that a flow uses and the handler does not have.
func (h *Handler) checkOutlets(d *definition) error {
	var mistakes []error
	asks := d.asks()
	for _, place := range slices.Sorted(maps.Keys(asks)) {
		if o := asks[place].ask.outlet; o != nil && !slices.ContainsFunc(h.cfg.Outlets, func(has Outlet) bool { return has.Name() == o.Name() }) {
			mistakes = append(mistakes, cairnerr.Errorf(cairnerr.CodeMalformed, "flow %q: the outlet %q of Ask %q is not in Config.Outlets", d.name, o.Name(), place))
		}
	}
	return errors.Join(mistakes...)
}

func (h *Handler) checkDefault(flows []*definition) (mistakes []error) {
	if h.cfg.Default == nil && len(h.cfg.Strategies) > 1 {
		return []error{cairnerr.Errorf(cairnerr.CodeMalformed, "with several strategies, Config.Default must choose one for each flow")}
	}
	for _, d := range flows {
		if name := h.strategyFor(d.name); h.cfg.Strategies[name] == nil && len(h.cfg.Strategies) > 0 {
			mistakes = append(mistakes, cairnerr.Errorf(cairnerr.CodeMalformed, "Config.Default chooses the strategy %q for flow %q, which does not exist", name, d.name))
		}
	}
	return mistakes
}

// keptBy returns the flows that begin with a strategy.
func (h *Handler) keptBy(strategy string, flows []*definition) []*definition {
	return slices.DeleteFunc(slices.Clone(flows), func(d *definition) bool { return h.strategyFor(d.name) != strategy })
}

func (h *Handler) strategyFor(flow string) string {
	if h.cfg.Default != nil {
		return h.cfg.Default(flow)
	}
	for name := range h.cfg.Strategies {
		return name
	}
	return ""
}

// flow returns a flow that is served.
func (h *Handler) flow(name string) (*definition, error) {
	if d := h.flows[name]; d != nil {
		return d, nil
	}
	return nil, cairnerr.Errorf(cairnerr.CodeFlowNotAllowed, "flow %q is not served here", name)
}

// call returns what a strategy needs.
func (h *Handler) call(strategy string) *call {
	c := &call{turner: turner{now: h.cfg.Now, observe: h.cfg.Observe}, strategy: strategy, base: h.cfg.BaseURL, flow: h.flow}
	c.place = func(ctx context.Context, t *turned) error { return h.place(ctx, strategy, c.pure, t) }
	return c
}

// Reply is what a flow says to its caller.
type Reply struct {
	Flow string `json:"flow"`
	// Token resumes the flow. It is empty if the flow has ended, or waits for somebody else.
	Token   string    `json:"token,omitempty"`
	Expires time.Time `json:"expires,omitzero"` // of the token; zero: never
	// Ask is what the flow asks, nil: nothing.
	Ask *Question `json:"ask,omitempty"`
	// Sent is the outlet that has delivered the pause to somebody else.
	Sent string `json:"sent,omitempty"`
	// Done is how the flow has ended, nil: it has not.
	Done *Result `json:"done,omitempty"`
}

// Question is a form to fill in.
type Question struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Fields []Field         `json:"fields"`
	// Values are what the form is filled with, without those of sensitive fields.
	Values json.RawMessage `json:"values,omitempty"`
	// Wrong is what was filled in wrongly, by the paths of fields.
	Wrong Invalid `json:"wrong,omitempty"`
}

// Start starts a flow, and does what comes before its first pause. The context is the one that it begins with, as JSON;
// nil: an empty one.
func (h *Handler) Start(ctx context.Context, flow string, begin json.RawMessage) (*Reply, error) {
	d, err := h.flow(flow)
	if err != nil {
		return nil, err
	}
	name := h.strategyFor(flow)
	t, err := h.cfg.Strategies[name].start(ctx, h.call(name), d, state{Flow: flow, Version: d.version, Context: begin})
	if err != nil {
		return nil, err
	}
	return h.reply(name, t), nil
}

// Resume answers the pause that a token stands for, and does what comes before the next one. What was filled in wrongly
// is no error: the reply asks again.
func (h *Handler) Resume(ctx context.Context, token string, input json.RawMessage) (*Reply, error) {
	return h.resume(ctx, token, &submission{input: input})
}

func (h *Handler) resume(ctx context.Context, token string, in *submission) (*Reply, error) {
	name, raw, err := h.split(token)
	if err != nil {
		return nil, err
	}
	t, err := h.cfg.Strategies[name].resume(ctx, h.call(name), raw, in)
	if err != nil {
		return nil, err
	}
	return h.reply(name, t), nil
}

// Show returns what the flow that a token stands for waits for. It changes nothing.
func (h *Handler) Show(ctx context.Context, token string) (*Reply, error) {
	name, raw, err := h.split(token)
	if err != nil {
		return nil, err
	}
	t, err := h.cfg.Strategies[name].show(ctx, h.call(name), raw)
	if err != nil {
		return nil, err
	}
	return h.reply(name, t), nil
}

// split returns the strategy that a token names, and the rest.
func (h *Handler) split(token string) (name, raw string, err error) {
	name, raw, ok := strings.Cut(token, ".")
	if !ok || raw == "" || h.cfg.Strategies[name] == nil {
		return "", "", errToken
	}
	return name, raw, nil
}

// place keeps a pause where it is to be kept, and delivers it.
func (h *Handler) place(ctx context.Context, own string, pure bool, t *turned) error {
	out := &t.outcome
	if out.ask == nil {
		return nil
	}
	if pure && (out.swap != "" || out.ask.ask.outlet != nil) {
		return errNotPure
	}
	t.strategy = cmp.Or(out.swap, own)
	if t.token == "" {
		next := h.cfg.Strategies[t.strategy]
		if next == nil {
			return cairnerr.Errorf(cairnerr.CodeInternal, "Swap names the strategy %q, which does not exist", t.strategy)
		}
		var err error
		if t.token, t.expires, err = next.adopt(ctx, h.call(t.strategy), out.state); err != nil {
			return err
		}
	}
	if o := out.ask.ask.outlet; o != nil {
		t.sent = o.Name()
		return t.deliver(ctx, o, h.cfg.BaseURL)
	}
	return nil
}

// deliver delivers a pause through an outlet.
func (t *turned) deliver(ctx context.Context, o Outlet, base string) (err error) {
	defer recovered(&err)
	s, err := t.context()
	if err != nil {
		return err
	}
	token := t.strategy + "." + t.token
	d := &Delivery{
		To: t.outcome.ask.ask.to(s), Flow: t.flow.name, Ask: t.outcome.state.At, Token: token, URL: link(base, token), Expires: t.expires,
	}
	if err := o.Deliver(ctx, d); err != nil {
		return cairnerr.Errorf(cairnerr.CodeInternal, "outlet %q: %w", o.Name(), err)
	}
	return nil
}

// reply returns what the caller may know.
func (h *Handler) reply(strategy string, t *turned) *Reply {
	r := &Reply{Flow: t.flow.name, Sent: t.sent}
	switch {
	case t.outcome.ask == nil:
		r.Done = &t.outcome.result
	case t.sent == "":
		r.Ask = t.question()
		r.Token, r.Expires = cmp.Or(t.strategy, strategy)+"."+t.token, t.expires
	}
	return r
}

// link returns the URL of the page for a token. It never depends on the request, whose Host anybody can choose.
func link(base, token string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	u.RawQuery = url.Values{tokenParam: {token}}.Encode()
	return u.String()
}

// context returns the context that the Ask works on: of a Sub, its part.
func (t *turned) context() (any, error) {
	s := t.flow.zero()
	if err := json.Unmarshal(t.outcome.state.Context, s); err != nil {
		return nil, cairnerr.Errorf(cairnerr.CodeFlowChanged, "the context of flow %q does not fit its type any more: %w", t.flow.name, err)
	}
	return contextAt(t.flow.items, locate(t.flow.items, t.outcome.state.At, ""), s), nil
}

// question returns the form that the flow waits for.
func (t *turned) question() *Question {
	form := t.outcome.ask.ask.form
	q := &Question{Name: t.outcome.state.At, Schema: form.Schema(), Fields: fieldsOf(form.Fields()), Wrong: t.outcome.wrong}
	if values, err := t.prefilled(); err == nil && values != nil { // without them the form can be filled in, too
		q.Values = shownValues(values, q.Fields)
	}
	return q
}

// prefilled returns what the form begins with, as JSON.
func (t *turned) prefilled() (values json.RawMessage, err error) {
	defer recovered(&err)
	if t.outcome.ask.ask.prefill == nil {
		return nil, nil
	}
	s, err := t.context()
	if err != nil {
		return nil, err
	}
	return t.outcome.ask.ask.prefill(s)
}
