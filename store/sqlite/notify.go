package sqlite

import (
	"context"
	"sync"
)

// hub carries hints within the process.
type hub struct {
	store     *Store
	mu        sync.Mutex
	listeners map[*listener]struct{}
	streams   streamHub
}

// listener merges the hints that nobody has read yet.
type listener struct {
	out     chan string
	pending map[string]struct{}
	wake    chan struct{}
}

func newHub(s *Store) *hub { return &hub{store: s, listeners: map[*listener]struct{}{}} }

// Listen implements [store.Notifier].
func (h *hub) Listen(ctx context.Context) (<-chan string, error) {
	l := &listener{out: make(chan string), pending: map[string]struct{}{}, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	h.listeners[l] = struct{}{}
	h.mu.Unlock()
	go h.deliver(ctx, l)
	return l.out, nil
}

func (h *hub) deliver(ctx context.Context, l *listener) {
	defer close(l.out)
	defer func() {
		h.mu.Lock()
		delete(h.listeners, l)
		h.mu.Unlock()
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		for {
			ns, ok := h.take(l)
			if !ok {
				break
			}
			select {
			case <-ctx.Done():
				return
			case l.out <- ns:
			}
		}
	}
}

func (h *hub) take(l *listener) (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ns := range l.pending {
		delete(l.pending, ns)
		return ns, true
	}
	return "", false
}

// tell hints that something was committed in these namespaces. It never blocks.
func (h *hub) tell(namespaces []string) {
	if len(namespaces) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		for _, ns := range namespaces {
			l.pending[ns] = struct{}{}
		}
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}
