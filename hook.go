package cairn

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
	"github.com/cairn-workflow/cairn/internal/schema"
)

// Hook is a place where the outside can send values into a run.
//
//	var Approved = cairn.NewHook[Decision]("approved")
//
//	decision, err := Approved.Wait(ctx, cairn.Timeout(48*time.Hour)) // in a workflow
//	err := Approved.SendTo(ctx, eng, runID, Decision{OK: true})      // outside, with the id of the run or with a token
type Hook[T any] struct{ hookDef }

// hookDef is what all hooks have.
type hookDef struct {
	spec     engine.HookSpec
	metadata any
}

func newHookDef[T any](name string) hookDef {
	return hookDef{spec: engine.HookSpec{Name: name, Schema: schema.Of(reflect.TypeFor[T]())}}
}

// Name returns the permanent name of the hook.
func (h hookDef) Name() string { return h.spec.Name }

// hookWait is a wait for a value.
type hookWait struct {
	key   string
	limit time.Duration // 0: for ever
}

func (w hookWait) until() engine.Until {
	if w.limit == 0 {
		return nil
	}
	return within(w.limit)
}

// NewHook defines a hook whose senders wait for no answer; see [NewRequestHook].
func NewHook[T any](name string) Hook[T] { return Hook[T]{newHookDef[T](name)} }

// Token returns the hook with a token of your choice, which is a name and not a secret. By default, Cairn generates a
// token that nobody can guess. Opening a hook whose token is taken gives [ErrHookConflict].
func (h Hook[T]) Token(token string) Hook[T] {
	h.spec.Token = token
	return h
}

// Once returns the hook limited to one value: of several senders, one wins.
func (h Hook[T]) Once() Hook[T] {
	h.spec.Once = true
	return h
}

// Expires returns the hook with a limit on its time, counted from when it is opened: then what is sent to it is refused
// (hook_expired), and receiving from it fails with [ErrTimeout].
func (h Hook[T]) Expires(d time.Duration) Hook[T] {
	h.spec.Expires = within(d)
	return h
}

// Metadata returns the hook with data that senders can read before they send: see [Engine.HookInfo].
func (h Hook[T]) Metadata(v any) Hook[T] {
	h.metadata = v
	return h
}

// Open opens the hook in a run. When it returns, the token can be used.
func (h Hook[T]) Open(ctx Context, opts ...HookOption) (*OpenHook[T], error) {
	inner, err := h.open(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &OpenHook[T]{inner}, nil
}

func (h hookDef) open(ctx Context, opts []HookOption) (*engine.Hook, error) {
	spec := h.spec
	for _, o := range opts {
		o.hookOption(&spec)
	}
	if h.metadata != nil {
		var err error
		if spec.Metadata, err = ctx.branch().Encode("the metadata of hook "+spec.Name, h.metadata); err != nil {
			return nil, err
		}
	}
	return ctx.branch().OpenHook(spec)
}

// Wait opens the hook, waits for one value, and closes the hook. It waits for ever unless a [Timeout] limits it.
func (h Hook[T]) Wait(ctx Context, opts ...WaitOption) (T, error) {
	var w hookWait
	for _, o := range opts {
		o.waitOption(&w)
	}
	var v T
	open, err := h.Open(ctx, Key(w.key))
	if err != nil {
		return v, err
	}
	_, err = open.inner.Receive(ctx.branch(), w.until(), &v)
	if closeErr := open.Close(ctx); err == nil {
		err = closeErr
	}
	return v, err
}

// OpenHook is a hook that takes values.
type OpenHook[T any] struct{ inner *engine.Hook }

// Token returns what a sender needs.
func (h *OpenHook[T]) Token() string { return h.inner.Token() }

// Receive waits for the next value, for ever or as long as a [Timeout] says: then the error is [ErrTimeout].
func (h *OpenHook[T]) Receive(ctx Context, opts ...ReceiveOption) (T, error) {
	var v T
	_, err := h.inner.Receive(ctx.branch(), receiving(opts).until(), &v)
	return v, err
}

func receiving(opts []ReceiveOption) hookWait {
	var w hookWait
	for _, o := range opts {
		o.receiveOption(&w)
	}
	return w
}

// Close closes the hook and frees its token.
func (h *OpenHook[T]) Close(ctx Context) error { return h.inner.Close(ctx.branch()) }

// sending is a value that is sent.
type sending struct{ key string }

func sendingWith(opts []SendOption) sending {
	var s sending
	for _, o := range opts {
		o.sendOption(&s)
	}
	return s
}

// Send sends a value to the open hook that has a token. When it returns, the value is durable. A [Key] makes sure that
// it is received once, however often it is sent: a repeated send succeeds as long as the run is stored, also after the
// hook was closed.
//
// A value that does not fit the type of the hook in the workflow is refused (value_refused), and does not reach the run.
func (h Hook[T]) Send(ctx context.Context, e *Engine, token string, v T, opts ...SendOption) error {
	_, err := e.send(ctx, target{token: token}, v, h.spec.Schema, opts)
	return err
}

// SendTo is [Hook.Send] to the open hook of this name in a run. If the run has several open, use their tokens. A send
// with a [Key] may be repeated after the run has closed the hook.
func (h Hook[T]) SendTo(ctx context.Context, e *Engine, runID string, v T, opts ...SendOption) error {
	_, err := e.send(ctx, target{run: runID, name: h.spec.Name}, v, h.spec.Schema, opts)
	return err
}

// target is the hook that a value is sent to: one with a token, or one of a run with a name.
type target struct{ token, run, name string }

func (e *Engine) send(ctx context.Context, to target, v any, types []byte, opts []SendOption) (engine.Receipt, error) {
	if err := notInWorkflow(ctx, "Send"); err != nil {
		return engine.Receipt{}, err
	}
	var p journal.Payload
	var err error
	if text, ok := v.(json.RawMessage); ok {
		if p, err = payload.FromJSON(text); cairnerr.CodeOf(err) == cairnerr.CodeMalformed {
			err = cairnerr.Errorf(cairnerr.CodeValueRefused, "%w", err)
		}
	} else {
		p, err = payload.Encode(v)
	}
	if err != nil {
		return engine.Receipt{}, err
	}
	s := engine.Sending{Token: to.token, Key: sendingWith(opts).key, Payload: p, Schema: types}
	if t := reflect.TypeOf(v); t != nil {
		s.Same = func(recorded, now journal.Payload) bool {
			return payload.Same(recorded, reflect.New(t).Interface(), now)
		}
	}
	if to.run == "" && to.name == "" {
		return e.inner.Deliver(ctx, s)
	}
	id, err := parseRun(to.run)
	if err != nil {
		return engine.Receipt{}, err
	}
	return e.inner.DeliverTo(ctx, id, to.name, s)
}

// SendJSON sends a value to the open hook that has a token. It is for callers that do not have the Go type; see
// [Hook.Send].
func (e *Engine) SendJSON(ctx context.Context, token string, v json.RawMessage, opts ...SendOption) error {
	_, err := e.send(ctx, target{token: token}, v, nil, opts)
	return err
}

// AskJSON sends a value to the open hook that has a token, and waits for the answer. It is for callers that do not have
// the Go types; see [RequestHook.Ask].
func (e *Engine) AskJSON(ctx context.Context, token string, v json.RawMessage, opts ...SendOption) (json.RawMessage, error) {
	var answer json.RawMessage
	err := e.ask(ctx, target{token: token}, v, nil, opts, &answer)
	return answer, err
}
