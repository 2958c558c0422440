package store

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// Hints merges hints that nobody has read yet, so that whoever gives one never waits.
type Hints[K comparable] struct {
	mu      sync.Mutex
	pending map[K]struct{}
	order   []K // of those that are pending: a simulation must not depend on the order of a map
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
		if _, there := h.pending[hint]; !there {
			h.pending[hint] = struct{}{}
			h.order = append(h.order, hint)
		}
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
	if len(h.order) == 0 {
		return hint, false
	}
	hint = h.order[0]
	h.order = h.order[1:]
	delete(h.pending, hint)
	return hint, true
}

// RunListeners are the listeners of one process for hints about runs. The zero value has none.
type RunListeners struct {
	count     atomic.Int32
	mu        sync.Mutex
	listeners map[*runListener]struct{}
}

type runListener struct {
	own   func(writer journal.ID) bool
	hints *Hints[journal.ID]
}

// Listen adds a listener until ctx ends; then it calls left. A listener is not told of what own says is its own writer;
// nil: it is told of every writer.
func (l *RunListeners) Listen(ctx context.Context, own func(writer journal.ID) bool, left func()) <-chan journal.ID {
	r, out := &runListener{own: own, hints: NewHints[journal.ID]()}, make(chan journal.ID)
	l.mu.Lock()
	if l.listeners == nil {
		l.listeners = map[*runListener]struct{}{}
	}
	l.listeners[r] = struct{}{}
	l.count.Add(1)
	l.mu.Unlock()
	go func() {
		defer func() {
			l.mu.Lock()
			delete(l.listeners, r)
			l.count.Add(-1)
			l.mu.Unlock()
			left()
		}()
		r.hints.Deliver(ctx, out)
	}()
	return out
}

// Len returns how many listen.
func (l *RunListeners) Len() int { return int(l.count.Load()) }

// Tell hints at what a writer has written about runs. It never blocks.
func (l *RunListeners) Tell(writer journal.ID, runs ...journal.ID) {
	if len(runs) == 0 || l.Len() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.listeners {
		if r.own != nil && r.own(writer) {
			continue // it knows
		}
		r.hints.Give(runs...)
	}
}
