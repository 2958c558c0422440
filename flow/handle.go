package flow

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// Handle keeps each flow in a run of an engine. Its tokens are short, and stand for a row in the database: a flow
// survives restarts, waits for months, and of several answers one wins. It is given to cairn.New, too:
//
//	handle := flow.NewHandle(keys, Invite)
//	eng, err := cairn.New(ctx, st, handle)
//
// What a flow holds, what it is sent and what it answers is encrypted in the database. A token is never stored.
type Handle struct {
	keys   *Keys
	codec  *payload.Codec
	flows  map[string]*keptFlow
	list   []Flow
	ttl    time.Duration
	turner turner
	eng    *cairn.Engine
}

// keptFlow is a flow and the workflow that does its turns.
type keptFlow struct {
	*definition
	workflow *cairn.Workflow[[]byte, []byte]
}

const (
	handleTTL     = 30 * 24 * time.Hour
	handlePurpose = "handle"
	turnName      = "turn"
)

// turns is the hook of a pause: through it come answers, encrypted.
var turns = cairn.NewRequestHook[[]byte, []byte](turnName)

// NewHandle returns a strategy for flows that wait for 30 days at most, unless an [Ask] has a limit of its own.
func NewHandle(keys *Keys, flows ...Flow) *Handle {
	h := &Handle{keys: keys, list: flows, flows: map[string]*keptFlow{}, ttl: handleTTL, turner: turner{now: time.Now}}
	if keys != nil {
		h.codec = keys.codec(handlePurpose, "")
	}
	return h
}

// TTL changes how long flows wait where an [Ask] has no limit of its own. It is called before cairn.New.
func (h *Handle) TTL(d time.Duration) *Handle {
	h.ttl = d
	return h
}

// Observe tells of each item that a turn has done in this process. It is called before cairn.New.
func (h *Handle) Observe(told func(context.Context, Observed)) *Handle {
	h.turner.observe = told
	return h
}

// Flows returns the flows that the handle keeps.
func (h *Handle) Flows() []Flow { return slices.Clone(h.list) }

// Name implements [cairn.Definition].
func (h *Handle) Name() string { return "flows" }

// Define implements [cairn.Definition]: each flow is a workflow.
func (h *Handle) Define(d *cairn.Definer) {
	if h.keys == nil {
		d.Refuse(cairnerr.Errorf(cairnerr.CodeMalformed, "a handle of flows has no keys"))
		return
	}
	for i, f := range h.list {
		if f == nil || f.definition() == nil {
			d.Refuse(cairnerr.Errorf(cairnerr.CodeMalformed, "flow %d of %d is nil", i+1, len(h.list)))
			continue
		}
		def := f.definition()
		if err := def.check(); err != nil {
			d.Refuse(err)
			continue
		}
		kept := &keptFlow{definition: def}
		kept.workflow = cairn.NewWorkflow(workflowName(def.name), func(ctx cairn.Context, begin []byte) ([]byte, error) {
			return h.keep(ctx, kept, begin)
		})
		h.flows[def.name] = kept
		d.Add(kept.workflow)
	}
	d.Started(func(e *cairn.Engine) { h.eng = e })
}

// workflowName is the name of the workflow that does the turns of a flow. Names of workflows have no slashes, and those
// of flows no dots.
func workflowName(flow string) string { return "flow." + strings.ReplaceAll(flow, "/", ".") }

func (h *Handle) check(flows []*definition) error {
	var mistakes []error
	if h.eng == nil {
		mistakes = append(mistakes, cairnerr.Errorf(cairnerr.CodeMalformed, "a handle belongs to no engine: give it to cairn.New before NewHandler"))
	}
	for _, d := range flows {
		if h.flows[d.name] == nil && h.eng != nil {
			mistakes = append(mistakes, cairnerr.Errorf(cairnerr.CodeMalformed, "flow %q begins with a handle that does not have it: give it to NewHandle", d.name))
		}
	}
	return errors.Join(mistakes...)
}

// begin is the input of a run: the flow as it is when the run begins.
type begin struct {
	State state `json:"state"`
	Adopt bool  `json:"adopt,omitempty"` // it waits already, and was kept by another strategy
}

// turnRequest is what a caller sends to a pause.
type turnRequest struct {
	Input    json.RawMessage `json:"input,omitempty"`
	Strategy string          `json:"strategy"` // the name of the strategy in the caller's handler
	Base     string          `json:"base,omitempty"`
}

// turnRecord is what a turn came to. It is the whole next state, so what was done does not depend on the code of the flow.
type turnRecord struct {
	State  state           `json:"state"`
	Waits  bool            `json:"waits,omitempty"`
	Result *Result         `json:"result,omitempty"`
	Wrong  Invalid         `json:"wrong,omitempty"`
	Via    string          `json:"via,omitempty"` // the outlet that is to deliver the pause
	Sent   string          `json:"sent,omitempty"`
	Failed *cairnerr.Error `json:"failed,omitempty"`
	Over   bool            `json:"over,omitempty"` // it failed, and nobody can try again
}

// keep does the turns of a flow, one for each request, until the flow ends or waits elsewhere.
func (h *Handle) keep(ctx cairn.Context, f *keptFlow, input []byte) ([]byte, error) {
	var b begin
	parkIf(h.open(input, &b))
	pause, err := turns.Open(ctx) // it was opened with the run, and has the first request
	if err != nil {
		return nil, err
	}
	k := &keeper{Handle: h, flow: f, run: cairn.RunID(ctx), state: b.State, adopts: b.Adopt, pause: pause, first: true}
	for {
		request, err := k.pause.Receive(ctx)
		if errors.Is(err, cairn.ErrTimeout) {
			return nil, nil // nobody has answered in time: that is an end like others
		}
		if err != nil {
			return nil, err
		}
		if answer, over, err := k.answer(ctx, request); over || err != nil {
			return answer, err
		}
	}
}

// parkIf parks the run if what it holds cannot be read: a key may have been removed. With the key back, the run goes on.
func parkIf(err error) {
	if err != nil {
		panic(fmt.Sprintf("a flow cannot be read; its handle needs the keys that it was kept with: %v", err))
	}
}

// keeper keeps one flow.
type keeper struct {
	*Handle
	flow   *keptFlow
	run    string
	state  state
	pause  *cairn.OpenRequestHook[[]byte, []byte]
	first  bool // nothing was answered yet
	adopts bool // the flow waits already, and was kept by another strategy
}

// answer does a turn, opens the next pause, and answers. It reports whether the flow is kept no longer.
func (k *keeper) answer(ctx cairn.Context, request *cairn.Request[[]byte, []byte]) (answer []byte, over bool, err error) {
	record, err := k.turn(ctx, k.flow, k.state, request.Value, k.first && k.adopts)
	if err != nil {
		return nil, false, err
	}
	next := k.pause
	waits := record.Failed == nil && record.Waits && len(record.Wrong) == 0
	if waits {
		if next, err = k.openPause(ctx, k.run, record); err != nil {
			return nil, false, err
		}
		if err := k.deliver(ctx, k.run, k.flow, k.state, record, request.Value); err != nil {
			return nil, false, err
		}
	}
	if answer, err = k.seal(record); err != nil {
		return nil, false, err
	}
	if err := request.Reply(ctx, answer); err != nil {
		return nil, false, err
	}
	first, before := k.first, k.pause
	k.first = false
	switch {
	case record.Failed == nil && waits:
		k.state, k.pause = record.State, next
		return nil, false, before.Close(ctx)
	case record.Failed == nil && len(record.Wrong) > 0: // it is asked again
		k.state = record.State
		return nil, false, nil
	case record.Failed == nil: // it has ended
		return answer, true, nil
	case first || record.Over || k.state.Burn: // nobody can try again
		return answer, true, nil
	case waits: // it was not delivered: the pause before stays
		k.state.Last = record.State.Last // and the token of this one is never made again
		return nil, false, next.Close(ctx)
	default:
		return nil, false, nil
	}
}

// turn does one turn as a step. What the code of the flow returns as an error is recorded, too: the run goes on.
func (h *Handle) turn(ctx cairn.Context, f *keptFlow, st state, request []byte, adopt bool) (*turnRecord, error) {
	sealed, err := cairn.Do(ctx, turnName, func(ctx context.Context) ([]byte, error) {
		record := &turnRecord{State: st, Waits: true}
		if !adopt {
			record = h.tryTurn(ctx, f, st, request)
		}
		if record.Waits && record.Failed == nil && len(record.Wrong) == 0 {
			record.State.Key = h.keys.current
			record.State.Last++
			record.State.Serial = record.State.Last
			if record.State.Expires == 0 {
				record.State.Expires = h.turner.now().Add(h.ttl).UnixMilli()
			}
		}
		return h.seal(record)
	})
	if err != nil {
		return nil, err
	}
	record := new(turnRecord)
	parkIf(h.open(sealed, record))
	return record, nil
}

// maxKept is how many bytes a context may have that a handle keeps.
const maxKept = 1 << 20

func (h *Handle) tryTurn(ctx context.Context, f *keptFlow, st state, request []byte) *turnRecord {
	fails := func(err error) *turnRecord { return &turnRecord{State: st, Failed: cairnerr.AsError(err)} }
	r, err := h.openRequest(request)
	if err != nil {
		return fails(err)
	}
	now, n, err := f.current(st)
	if err != nil {
		return fails(err)
	}
	input := r.Input
	if n != nil {
		parsed, wrong := n.read(input)
		if len(wrong) > 0 { // the caller has an older form
			return &turnRecord{State: st, Waits: true, Wrong: wrong}
		}
		input = parsed
	}
	out, err := h.turner.turn(ctx, f.definition, now, input)
	switch {
	case err != nil:
		return fails(err)
	case out.swap != "" && out.ask != nil:
		return fails(cairnerr.Errorf(cairnerr.CodeInternal, "a handle keeps its flows to their end: Swap works only in flows that others keep"))
	case len(out.state.Context) > maxKept:
		return fails(tooLarge(out.state.Context, len(out.state.Context), maxKept))
	case len(out.wrong) > 0 && n.ask.attempts > 0 && out.state.Tries >= n.ask.attempts:
		return &turnRecord{State: out.state, Failed: errOver, Over: true}
	}
	record := &turnRecord{State: out.state, Waits: out.ask != nil, Wrong: out.wrong}
	switch {
	case out.ask == nil:
		record.Result = &out.result
	case len(out.wrong) == 0 && out.ask.ask.outlet != nil:
		record.Via = out.ask.ask.outlet.Name()
	}
	return record
}

// openPause opens the hook of the next pause.
func (h *Handle) openPause(ctx cairn.Context, run string, r *turnRecord) (*cairn.OpenRequestHook[[]byte, []byte], error) {
	token, err := h.token(run, r)
	parkIf(err)
	return turns.Token(stored(token)).Expires(r.State.expiry().Sub(cairn.Now(ctx))).Open(ctx)
}

// deliver delivers a pause that is for somebody else. If that fails, the record says so, and the state before is that of
// the flow again.
func (h *Handle) deliver(ctx cairn.Context, run string, f *keptFlow, before state, r *turnRecord, request []byte) error {
	if r.Via == "" {
		return nil
	}
	sealed, err := cairn.Do(ctx, "deliver", func(ctx context.Context) ([]byte, error) {
		before.Last = r.State.Last
		return h.seal(&turnRecord{State: before, Failed: cairnerr.AsError(h.tryDeliver(ctx, run, f, r, request)), Over: before.Burn})
	})
	if err != nil {
		return err
	}
	var delivered turnRecord
	parkIf(h.open(sealed, &delivered))
	if r.Sent = r.Via; delivered.Failed == nil {
		return nil
	}
	r.Failed = delivered.Failed
	_, err = cairn.Do(ctx, turnName, func(context.Context) ([]byte, error) { return h.seal(&delivered) })
	return err
}

func (h *Handle) tryDeliver(ctx context.Context, run string, f *keptFlow, r *turnRecord, request []byte) error {
	q, err := h.openRequest(request)
	if err != nil {
		return err
	}
	_, n, err := f.current(r.State)
	if err != nil {
		return err
	}
	if n == nil || n.ask.outlet == nil {
		return cairnerr.Errorf(cairnerr.CodeFlowChanged, "Ask %q of flow %q has no outlet any more", r.State.At, f.name)
	}
	token, err := h.token(run, r)
	if err != nil {
		return err
	}
	t := &turned{flow: f.definition, outcome: outcome{state: r.State, ask: n}, token: token, strategy: q.Strategy, expires: r.State.expiry()}
	return t.deliver(ctx, n.ask.outlet, q.Base)
}

func (h *Handle) start(ctx context.Context, c *call, d *definition, st state) (*turned, error) {
	return h.begin(ctx, c, d, begin{State: st})
}

func (h *Handle) adopt(ctx context.Context, c *call, st state) (string, time.Time, error) {
	d, err := c.flow(st.Flow)
	if err != nil {
		return "", time.Time{}, err
	}
	t, err := h.begin(ctx, c, d, begin{State: st, Adopt: true})
	if err != nil {
		return "", time.Time{}, err
	}
	return t.token, t.expires, nil
}

func (h *Handle) begin(ctx context.Context, c *call, d *definition, b begin) (*turned, error) {
	f := h.flows[d.name]
	if f == nil {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "flow %q was not given to NewHandle", d.name)
	}
	input, err := h.seal(&b)
	if err != nil {
		return nil, err
	}
	request, err := h.sealRequest(c, nil)
	if err != nil {
		return nil, err
	}
	run, answer, err := cairn.StartAsk(ctx, h.eng, f.workflow, input, turns, request)
	if err != nil {
		return nil, err
	}
	return h.answered(c, d, run.ID(), answer)
}

// answered returns what a turn came to.
func (h *Handle) answered(c *call, d *definition, run string, answer []byte) (*turned, error) {
	r := new(turnRecord)
	if err := h.open(answer, r); err != nil {
		return nil, err
	}
	if r.Failed != nil {
		return nil, r.Failed
	}
	t := &turned{flow: d, outcome: outcome{state: r.State, wrong: r.Wrong}, sent: r.Sent}
	if !r.Waits {
		t.outcome.result = *r.Result
		return t, nil
	}
	_, n, err := d.current(r.State)
	if err != nil {
		return nil, err
	}
	t.outcome.ask = n
	t.strategy, t.expires = c.strategy, r.State.expiry()
	t.token, err = h.token(run, r)
	return t, err
}

// waiting returns the flow that a token stands for, as it waits now.
func (h *Handle) waiting(ctx context.Context, c *call, token string) (*turned, handleToken, error) {
	at, err := h.read(token)
	if err != nil {
		return nil, at, err
	}
	hook, err := h.eng.HookInfo(ctx, stored(token))
	if cairnerr.CodeOf(err) == cairnerr.CodeHookNotFound {
		return nil, at, errOver // it was a token once
	}
	if err != nil {
		return nil, at, err
	}
	if !hook.ExpiresAt.IsZero() && !c.now().Before(hook.ExpiresAt) {
		return nil, at, errToken
	}
	var sealed []byte
	if err := h.eng.Run(at.run).StepResult(ctx, turnName, &sealed); err != nil {
		return nil, at, err
	}
	r := new(turnRecord)
	if err := h.open(sealed, r); err != nil {
		return nil, at, err
	}
	d, err := c.flow(r.State.Flow)
	if err != nil {
		return nil, at, err
	}
	st, n, err := d.current(r.State)
	if err != nil {
		return nil, at, err
	}
	if n == nil || uint32(st.Serial) != at.serial { //nolint:gosec // no flow has so many pauses
		return nil, at, errOver
	}
	return &turned{flow: d, outcome: outcome{state: st, ask: n}, token: token, expires: hook.ExpiresAt}, at, nil
}

func (h *Handle) show(ctx context.Context, c *call, token string) (*turned, error) {
	t, _, err := h.waiting(ctx, c, token)
	return t, err
}

func (h *Handle) resume(ctx context.Context, c *call, token string, in *submission) (*turned, error) {
	var opts []cairn.SendOption
	if in.nonce != "" {
		sum := sha256.Sum256([]byte(token + "\x00" + in.nonce))
		opts = append(opts, cairn.Key("flow:"+base64.RawURLEncoding.EncodeToString(sum[:])))
	}
	t, at, err := h.waiting(ctx, c, token)
	switch {
	case errors.Is(err, errOver) && in.nonce != "": // the same request, sent again, gets its answer
	case err != nil:
		return nil, err
	default:
		if _, wrong := t.outcome.ask.read(in.input); len(wrong) > 0 {
			t.outcome.wrong = wrong
			return t, nil
		}
	}
	request, err := h.sealRequest(c, in.input)
	if err != nil {
		return nil, err
	}
	answer, err := turns.Ask(ctx, h.eng, stored(token), request, opts...)
	if slices.Contains(lost, cairnerr.CodeOf(err)) {
		return nil, errOver
	}
	if err != nil {
		return nil, err
	}
	d, err := c.flow(flowOf(t, answer, h))
	if err != nil {
		return nil, err
	}
	return h.answered(c, d, at.run, answer)
}

// lost are the errors of those who were not the first to answer a pause.
var lost = []cairnerr.Code{cairnerr.CodeHookNotFound, cairnerr.CodeRunGone, cairnerr.CodeHookExpired, cairnerr.CodeReceiptConflict}

// flowOf returns the name of the flow of an answer.
func flowOf(t *turned, answer []byte, h *Handle) string {
	if t != nil {
		return t.flow.name
	}
	var r turnRecord
	_ = h.open(answer, &r)
	return r.State.Flow
}
