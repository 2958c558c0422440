package cairn

import (
	"context"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// RequestHook is a hook whose senders wait for an answer.
//
//	var Seat = cairn.NewRequestHook[Wish, Booking]("seat")
//
//	request, err := open.Receive(ctx)                   // in a workflow: open, err := Seat.Open(ctx)
//	err = request.Reply(ctx, booking)
//	booking, err := Seat.AskRun(ctx, eng, runID, wish)  // outside, with the id of the run or with a token
type RequestHook[T, A any] struct{ hookDef }

// NewRequestHook defines a hook whose senders wait for an answer; see [NewHook].
func NewRequestHook[T, A any](name string) RequestHook[T, A] {
	return RequestHook[T, A]{newHookDef[T](name)}
}

// Token returns the hook with a token of yours; see [Hook.Token].
func (h RequestHook[T, A]) Token(token string) RequestHook[T, A] {
	h.spec.Token = token
	return h
}

// Once returns the hook limited to one request; see [Hook.Once].
func (h RequestHook[T, A]) Once() RequestHook[T, A] {
	h.spec.Once = true
	return h
}

// Expires returns the hook with a limit on its time; see [Hook.Expires].
func (h RequestHook[T, A]) Expires(d time.Duration) RequestHook[T, A] {
	h.spec.Expires = within(d)
	return h
}

// Metadata returns the hook with data that senders can read before they send; see [Hook.Metadata].
func (h RequestHook[T, A]) Metadata(v any) RequestHook[T, A] {
	h.metadata = v
	return h
}

// Open opens the hook in a run. When it returns, the token can be used.
func (h RequestHook[T, A]) Open(ctx Context, opts ...HookOption) (*OpenRequestHook[T, A], error) {
	inner, err := h.open(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &OpenRequestHook[T, A]{inner}, nil
}

// OpenRequestHook is a hook that takes requests.
type OpenRequestHook[T, A any] struct{ inner *engine.Hook }

// Token returns what a sender needs.
func (h *OpenRequestHook[T, A]) Token() string { return h.inner.Token() }

// Receive waits for the next request, for ever or as long as a [Timeout] says: then the error is [ErrTimeout].
func (h *OpenRequestHook[T, A]) Receive(ctx Context, opts ...ReceiveOption) (*Request[T, A], error) {
	r := &Request[T, A]{}
	var err error
	if r.inner, err = h.inner.Receive(ctx.branch(), receiving(opts).until(), &r.Value); err != nil {
		return nil, err
	}
	return r, nil
}

// Close closes the hook and frees its token.
func (h *OpenRequestHook[T, A]) Close(ctx Context) error { return h.inner.Close(ctx.branch()) }

// Request is a value whose sender waits for an answer.
type Request[T, A any] struct {
	Value T
	inner engine.Delivery
}

// Reply answers the request. The sender gets the answer once it is durable. Only the first answer counts.
func (r *Request[T, A]) Reply(ctx Context, answer A) error {
	p, err := ctx.branch().Encode("the answer", answer)
	if err != nil {
		return err
	}
	return r.inner.Reply(ctx.branch(), p, nil)
}

// Refuse answers the request with an error, which must not be nil.
func (r *Request[T, A]) Refuse(ctx Context, err error) error {
	refusal := engine.Refusal(err)
	if refusal == nil {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "Refuse needs an error that says why: use Reply for an answer")
	}
	return r.inner.Reply(ctx.branch(), nil, refusal)
}

// Ask sends a request to the open hook that has a token, and waits for the answer. With a [Key] it can be repeated after a crash: it finds the answer that was
// given before. A value that does not fit is refused as with [Hook.Send].
func (h RequestHook[T, A]) Ask(ctx context.Context, e *Engine, token string, v T, opts ...SendOption) (A, error) {
	var answer A
	err := e.ask(ctx, target{token: token}, v, h.spec.Schema, opts, &answer)
	return answer, err
}

// AskRun is [RequestHook.Ask] to the open hook of this name in a run. If the run has several open, use their tokens.
func (h RequestHook[T, A]) AskRun(ctx context.Context, e *Engine, runID string, v T, opts ...SendOption) (A, error) {
	var answer A
	err := e.ask(ctx, target{run: runID, name: h.spec.Name}, v, h.spec.Schema, opts, &answer)
	return answer, err
}

// StartAsk starts a run and sends it its first request, in one commit, and waits for the answer. The hook is open
// before the workflow begins: when the workflow opens it, by its name and without a [Key], the request is there.
//
// With a [Key], the call can be repeated: the same key and input give the run that was started before, and the answer
// that it gave. If that run was started in another way, the request goes to the hook that it has open.
//
// The run is returned also if the request was refused, or ctx ended before there was an answer.
func StartAsk[In, Out, T, A any](
	ctx context.Context, e *Engine, w *Workflow[In, Out], in In, h RequestHook[T, A], v T, opts ...StartOption,
) (*Run[Out], A, error) {
	var answer A
	req, err := w.request(ctx, "StartAsk", in, opts)
	if err != nil {
		return nil, answer, err
	}
	first := &engine.FirstRequest{Hook: h.spec, Sending: engine.Sending{Key: req.StartKey, Schema: h.spec.Schema, Same: same[T]}}
	if first.Payload, err = payload.Encode(v); err != nil {
		return nil, answer, err
	}
	if h.metadata != nil {
		if first.Hook.Metadata, err = payload.Encode(h.metadata); err != nil {
			return nil, answer, err
		}
	}
	req.First = first
	id, receipt, err := e.inner.StartAsk(ctx, req)
	if id.IsZero() {
		return nil, answer, err
	}
	if err == nil {
		err = e.answer(ctx, receipt, &answer)
	}
	return newRun[Out](e, id), answer, err
}

func (e *Engine) ask(ctx context.Context, to target, v any, types []byte, opts []SendOption, into any) error {
	receipt, err := e.send(ctx, to, v, types, opts)
	if err != nil {
		return err
	}
	return e.answer(ctx, receipt, into)
}

// answer waits for the answer to a request.
func (e *Engine) answer(ctx context.Context, receipt engine.Receipt, into any) error {
	reply, err := e.inner.AwaitReply(ctx, receipt)
	switch {
	case err != nil:
		return err
	case reply.Error != nil:
		return reply.Error
	}
	return payload.Decode(reply.Value, into)
}
