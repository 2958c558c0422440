package cairn

import (
	"context"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Hook is a place where the outside can send values into a run.
type Hook[T any] struct {
	spec     engine.HookSpec
	metadata any
}

// NewHook defines a hook.
func NewHook[T any](name string) Hook[T] { return Hook[T]{spec: engine.HookSpec{Name: name}} }

// Token returns the hook with a token that is a name and not a secret. Without it, a token is made that nobody can guess. Opening a hook
// whose token is taken gives [ErrHookConflict].
func (h Hook[T]) Token(token string) Hook[T] {
	h.spec.Token = token
	return h
}

// Once returns the hook such that it takes one value: of several senders, one wins.
func (h Hook[T]) Once() Hook[T] {
	h.spec.Once = true
	return h
}

// Metadata returns the hook with something that senders can read before they send: see [Engine.HookInfo].
func (h Hook[T]) Metadata(v any) Hook[T] {
	h.metadata = v
	return h
}

// Open opens the hook in a run. When it returns, the token can be used.
func (h Hook[T]) Open(ctx Context) (*OpenHook[T], error) {
	spec := h.spec
	if h.metadata != nil {
		var err error
		if spec.Metadata, err = payload.Encode(h.metadata); err != nil {
			return nil, err
		}
	}
	inner, err := ctx.branch().OpenHook(spec)
	if err != nil {
		return nil, err
	}
	return &OpenHook[T]{inner}, nil
}

// Wait opens the hook, waits for one value, at most for d (0: for ever), and closes it.
func (h Hook[T]) Wait(ctx Context, d time.Duration) (T, error) {
	open, err := h.Open(ctx)
	if err != nil {
		var none T
		return none, err
	}
	v, err := open.ReceiveWithin(ctx, d)
	if closeErr := open.Close(ctx); err == nil {
		err = closeErr
	}
	return v, err
}

// OpenHook is a hook that takes values.
type OpenHook[T any] struct{ inner *engine.Hook }

// Token returns what a sender needs.
func (h *OpenHook[T]) Token() string { return h.inner.Token() }

// Receive waits for the next value.
func (h *OpenHook[T]) Receive(ctx Context) (T, error) { return h.ReceiveWithin(ctx, 0) }

// ReceiveWithin waits for the next value, but not longer than d (0: for ever): then the error is [ErrTimeout].
func (h *OpenHook[T]) ReceiveWithin(ctx Context, d time.Duration) (T, error) {
	r, err := h.ReceiveRequest(ctx, d)
	if err != nil {
		var none T
		return none, err
	}
	return r.Value, nil
}

// Request is a value whose sender waits for an answer.
type Request[T any] struct {
	Value T
	inner engine.Delivery
}

// ReceiveRequest waits for the next value, like [OpenHook.ReceiveWithin], and lets it be answered.
func (h *OpenHook[T]) ReceiveRequest(ctx Context, d time.Duration) (*Request[T], error) {
	var until engine.Until
	if d != 0 {
		until = after(d)
	}
	inner, err := h.inner.Receive(ctx.branch(), until)
	if err != nil {
		return nil, err
	}
	r := &Request[T]{inner: inner}
	return r, payload.Decode(inner.Payload, &r.Value)
}

// Reply answers a request. The sender gets the answer once it is durable; see [Ask]. Only the first answer counts.
func (r *Request[T]) Reply(ctx Context, answer any) error {
	p, err := payload.Encode(answer)
	if err != nil {
		return err
	}
	return r.inner.Reply(ctx.branch(), p, nil)
}

// Refuse answers a request with an error, which must not be nil.
func (r *Request[T]) Refuse(ctx Context, err error) error {
	refusal := engine.Refusal(err)
	if refusal == nil {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "Refuse needs an error that says why: use Reply for an answer")
	}
	return r.inner.Reply(ctx.branch(), nil, refusal)
}

// Close closes the hook and frees its token.
func (h *OpenHook[T]) Close(ctx Context) error { return h.inner.Close(ctx.branch()) }

// Send sends a value to the hook that has the token. A key that is not "" makes sure that the value is received once, however
// often it is sent. When Send returns, the value is durable.
func Send[T any](ctx context.Context, e *Engine, token, key string, v T) error {
	_, err := send(ctx, e, token, key, v)
	return err
}

// Ask sends a value like [Send], and waits for the answer that the workflow gives with [Request.Reply]. With a key it can be repeated
// after a crash: it finds the answer that was given before.
func Ask[T, A any](ctx context.Context, e *Engine, token, key string, v T) (A, error) {
	var answer A
	receipt, err := send(ctx, e, token, key, v)
	if err != nil {
		return answer, err
	}
	reply, err := e.inner.AwaitReply(ctx, receipt)
	switch {
	case err != nil:
		return answer, err
	case reply.Error != nil:
		return answer, reply.Error
	}
	return answer, payload.Decode(reply.Value, &answer)
}

func send[T any](ctx context.Context, e *Engine, token, key string, v T) (engine.Receipt, error) {
	if err := notInWorkflow(ctx, "Send"); err != nil {
		return engine.Receipt{}, err
	}
	p, err := payload.Encode(v)
	if err != nil {
		return engine.Receipt{}, err
	}
	return e.inner.Deliver(ctx, token, key, p)
}

// HookInfo is what a sender may know about a hook.
type HookInfo struct {
	RunID     string
	Name      string // with the branch that it is on
	CreatedAt time.Time
	metadata  journal.Payload
}

// HookInfo returns what is known about the hook that has a token.
func (e *Engine) HookInfo(ctx context.Context, token string) (*HookInfo, error) {
	h, err := e.inner.Store().HookByToken(ctx, e.inner.Namespace(), token, store.ResolveAll)
	if err != nil {
		return nil, err
	}
	return &HookInfo{RunID: formatRun(h.Run), Name: h.Key, CreatedAt: h.CreatedAt.Std(), metadata: h.Metadata}, nil
}

// Metadata decodes what the workflow said about the hook.
func (h *HookInfo) Metadata(into any) error {
	if h.metadata == nil {
		return nil
	}
	return payload.Decode(h.metadata, into)
}
