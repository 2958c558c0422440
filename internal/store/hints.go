package store

import (
	"context"
	"sync"
)

// Hints merges hints that nobody has read yet, so that whoever gives one never waits.
type Hints[K comparable] struct {
	mu      sync.Mutex
	pending map[K]struct{}
	wake    chan struct{}
}

// NewHints returns a box without hints.
func NewHints[K comparable]() *Hints[K] {
	return &Hints[K]{pending: map[K]struct{}{}, wake: make(chan struct{}, 1)}
}

// Give adds hints. It never blocks.
func (h *Hints[K]) Give(hints ...K) {
	if len(hints) == 0 {
		return
	}
	h.mu.Lock()
	for _, hint := range hints {
		h.pending[hint] = struct{}{}
	}
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Deliver passes hints on until ctx ends, then closes the channel.
func (h *Hints[K]) Deliver(ctx context.Context, out chan<- K) {
	defer close(out)
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		}
		for {
			hint, ok := h.take()
			if !ok {
				break
			}
			select {
			case <-ctx.Done():
				return
			case out <- hint:
			}
		}
	}
}

func (h *Hints[K]) take() (hint K, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for hint = range h.pending {
		delete(h.pending, hint)
		return hint, true
	}
	return hint, false
}
