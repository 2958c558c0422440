package cairn

import (
	"context"
	"time"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// Hook is a place where the outside can send values into a run.
type Hook[T any] struct {
	name  string
	token string
	once  bool
}

// NewHook defines a hook.
func NewHook[T any](name string) Hook[T] { return Hook[T]{name: name} }

// Token returns the hook with a token that is a name and not a secret. Without it, a token is made that nobody can guess.
func (h Hook[T]) Token(token string) Hook[T] {
	h.token = token
	return h
}

// Once returns the hook such that it takes one value: of several senders, one wins.
func (h Hook[T]) Once() Hook[T] {
	h.once = true
	return h
}

// Open opens the hook in a run. When it returns, the token can be used.
func (h Hook[T]) Open(ctx Context) (*OpenHook[T], error) {
	inner, err := ctx.branch().OpenHook(engine.HookSpec{Name: h.name, Token: h.token, Once: h.once})
	if err != nil {
		return nil, err
	}
	return &OpenHook[T]{inner}, nil
}

// OpenHook is a hook that takes values.
type OpenHook[T any] struct{ inner *engine.Hook }

// Token returns what a sender needs.
func (h *OpenHook[T]) Token() string { return h.inner.Token() }

// Receive waits for the next value.
func (h *OpenHook[T]) Receive(Context) (T, error) { return h.receive(nil) }

// ReceiveWithin waits for the next value, but not longer than d: then the error is [ErrTimeout].
func (h *OpenHook[T]) ReceiveWithin(_ Context, d time.Duration) (T, error) {
	return h.receive(func(now journal.Time) journal.Time { return now.Add(d) })
}

func (h *OpenHook[T]) receive(until func(journal.Time) journal.Time) (T, error) {
	var v T
	p, err := h.inner.Receive(until)
	if err != nil {
		return v, err
	}
	return v, payload.Decode(p, &v)
}

// Close closes the hook and frees its token.
func (h *OpenHook[T]) Close(Context) error { return h.inner.Close() }

// Send sends a value to the hook that has the token. A key that is not "" makes sure that the value is received once, however
// often it is sent.
func Send[T any](ctx context.Context, e *Engine, token, key string, v T) error {
	p, err := payload.Encode(v)
	if err != nil {
		return err
	}
	return e.inner.Deliver(ctx, token, key, p)
}
