package flow

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
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
	Key    string          `json:"key,omitempty"` // the name of the key of the pause's token
	Waits  bool            `json:"waits,omitempty"`
	Result *Result         `json:"result,omitempty"`
	Wrong  Invalid         `json:"wrong,omitempty"`
	Swap   string          `json:"swap,omitempty"`
	Sent   string          `json:"sent,omitempty"`
	Failed *cairnerr.Error `json:"failed,omitempty"`
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
	waits := record.Failed == nil && record.Waits && len(record.Wrong) == 0 && record.Swap == ""
	if waits {
		if next, err = k.openPause(ctx, k.run, k.flow, record); err != nil {
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
	case record.Failed == nil: // it has ended, or waits elsewhere
		return answer, true, nil
	case first || k.flow.burns(k.state.At): // nobody can try again
		return answer, true, nil
	case waits: // it was not delivered: the pause before stays
		return nil, false, next.Close(ctx)
	default:
		return nil, false, nil
	}
}

// burns reports whether a failure closes the pause at an Ask.
func (f *keptFlow) burns(at string) bool {
	n := f.asks()[at]
	return n != nil && n.ask.burn
}

// turn does one turn as a step. What the code of the flow returns as an error is recorded, too: the run goes on.
func (h *Handle) turn(ctx cairn.Context, f *keptFlow, st state, request []byte, adopt bool) (*turnRecord, error) {
	sealed, err := cairn.Do(ctx, turnName, func(ctx context.Context) ([]byte, error) {
		if adopt {
			return h.seal(&turnRecord{State: st, Waits: true, Key: h.keys.current})
		}
		r, err := h.openRequest(request)
		if err != nil {
			return h.seal(&turnRecord{State: st, Failed: cairnerr.AsError(err)})
		}
		out, err := h.tryTurn(ctx, f, st, r.Input)
		if err != nil {
			return h.seal(&turnRecord{State: st, Failed: cairnerr.AsError(err)})
		}
		record := &turnRecord{State: out.state, Waits: out.ask != nil, Wrong: out.wrong, Swap: out.swap, Key: h.keys.current}
		if out.ask == nil {
			record.Result = &out.result
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

func (h *Handle) tryTurn(ctx context.Context, f *keptFlow, st state, input json.RawMessage) (outcome, error) {
	st, n, err := f.current(st)
	if err != nil {
		return outcome{}, err
	}
	if n != nil {
		if most := n.ask.attempts; most > 0 && st.Tries >= most {
			return outcome{}, errOver
		}
		parsed, wrong := n.read(input)
		if len(wrong) > 0 { // the caller has an older form
			return outcome{state: st, ask: n, wrong: wrong}, nil
		}
		input = parsed
	}
	out, err := h.turner.turn(ctx, f.definition, st, input)
	if err == nil && len(out.wrong) > 0 && n.ask.attempts > 0 && out.state.Tries >= n.ask.attempts {
		return outcome{}, errOver
	}
	return out, err
}

// openPause opens the hook of the next pause.
func (h *Handle) openPause(ctx cairn.Context, run string, f *keptFlow, r *turnRecord) (*cairn.OpenRequestHook[[]byte, []byte], error) {
	token, err := h.token(run, r)
	parkIf(err)
	ttl := h.ttl
	if n := f.asks()[r.State.At]; n != nil && n.ask.limited {
		ttl = n.ask.ttl
	}
	return turns.Token(stored(token)).Expires(ttl).Open(ctx)
}

// deliver delivers a pause that is for somebody else. If that fails, the record says so, and the state before is that of
// the flow again.
func (h *Handle) deliver(ctx cairn.Context, run string, f *keptFlow, before state, r *turnRecord, request []byte) error {
	n := f.asks()[r.State.At]
	if n == nil || n.ask.outlet == nil {
		return nil
	}
	sealed, err := cairn.Do(ctx, "deliver", func(ctx context.Context) ([]byte, error) {
		q, err := h.openRequest(request)
		token := ""
		if err == nil {
			token, err = h.token(run, r)
		}
		if err == nil {
			t := &turned{flow: f.definition, outcome: outcome{state: r.State, ask: n}, token: token, strategy: q.Strategy, expires: h.expiryOf(ctx, token)}
			err = t.deliver(ctx, n.ask.outlet, q.Base)
		}
		return h.seal(&turnRecord{State: before, Failed: cairnerr.AsError(err), Sent: n.ask.outlet.Name()})
	})
	if err != nil {
		return err
	}
	var delivered turnRecord
	parkIf(h.open(sealed, &delivered))
	if r.Sent = delivered.Sent; delivered.Failed == nil {
		return nil
	}
	r.Failed = delivered.Failed
	_, err = cairn.Do(ctx, turnName, func(context.Context) ([]byte, error) { return h.seal(&delivered) })
	return err
}

// expiryOf returns until when a token is valid.
func (h *Handle) expiryOf(ctx context.Context, token string) time.Time {
	hook, err := h.eng.HookInfo(ctx, stored(token))
	if err != nil {
		return time.Time{}
	}
	return hook.ExpiresAt
}

// seal encrypts what is written to the database.
func (h *Handle) seal(v any) ([]byte, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return nil, cairnerr.Errorf(cairnerr.CodeEncode, "a flow cannot be written: %w", err)
	}
	return h.codec.Encode(plain)
}

// sealRequest encrypts what is sent to a pause: a request that is repeated has the same bytes.
func (h *Handle) sealRequest(c *call, input json.RawMessage) ([]byte, error) {
	if len(input) == 0 {
		input = nil
	}
	plain, err := json.Marshal(&turnRequest{Input: input, Strategy: c.strategy, Base: c.base})
	if err != nil {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "the input is not JSON")
	}
	return h.keys.sealSame(handlePurpose, plain)
}

func (h *Handle) openRequest(sealed []byte) (*turnRequest, error) {
	plain, err := h.keys.openSame(handlePurpose, sealed)
	if err != nil {
		return nil, err
	}
	r := new(turnRequest)
	return r, json.Unmarshal(plain, r)
}

func (h *Handle) open(sealed []byte, v any) error {
	var plain []byte
	if err := h.codec.Decode(sealed, &plain); err != nil {
		return err
	}
	return json.Unmarshal(plain, v)
}

// handleToken is what a token of a handle says: which pause of which run it is for, and by which key that is true.
type handleToken struct {
	run   string
	pause uint32
}

// token makes the token of a pause. It is the same whenever and wherever it is made.
func (h *Handle) token(run string, r *turnRecord) (string, error) {
	plain := binary.BigEndian.AppendUint32(nil, uint32(r.State.Pause)) //nolint:gosec // no flow has so many pauses
	plain = append(plain, byte(len(r.Key)))
	plain = append(plain, r.Key...)
	plain = append(plain, run...)
	mac := h.keys.mac(r.Key, handlePurpose, string(plain))
	if mac == nil {
		return "", cairnerr.Errorf(cairnerr.CodeUnsupported, "the key %q, with which a token was made, is not among the keys", r.Key)
	}
	return base64.RawURLEncoding.EncodeToString(append(plain, mac...)), nil
}

// read returns what a token is for. A token that this handle has not made is refused without asking the database.
func (h *Handle) read(token string) (handleToken, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) < 5+sha256.Size || len(raw) < 5+int(raw[4])+sha256.Size || len(raw) > 1024 {
		return handleToken{}, errToken
	}
	plain, mac := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	want := h.keys.mac(string(plain[5:5+int(plain[4])]), handlePurpose, string(plain))
	if want == nil || !hmac.Equal(mac, want) {
		return handleToken{}, errToken
	}
	return handleToken{run: string(plain[5+int(plain[4]):]), pause: binary.BigEndian.Uint32(plain)}, nil
}

// stored is what the database has of a token.
func stored(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "flow:" + base64.RawURLEncoding.EncodeToString(sum[:])
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
	return h.answered(ctx, c, d, run.ID(), answer)
}

// answered returns what a turn came to.
func (h *Handle) answered(ctx context.Context, c *call, d *definition, run string, answer []byte) (*turned, error) {
	r := new(turnRecord)
	if err := h.open(answer, r); err != nil {
		return nil, err
	}
	if r.Failed != nil {
		return nil, r.Failed
	}
	t := &turned{flow: d, outcome: outcome{state: r.State, wrong: r.Wrong, swap: r.Swap}, sent: r.Sent}
	if !r.Waits {
		t.outcome.result = *r.Result
		return t, nil
	}
	_, n, err := d.current(r.State)
	if err != nil {
		return nil, err
	}
	t.outcome.ask = n
	if r.Swap != "" {
		return t, c.place(ctx, t)
	}
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
	if n == nil || uint32(st.Pause) != at.pause { //nolint:gosec // no flow has so many pauses
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
	return h.answered(ctx, c, d, at.run, answer)
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
