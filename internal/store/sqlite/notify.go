package sqlite

import (
	"context"
	"sync"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// hub carries hints within the process.
type hub struct {
	store     *Store
	mu        sync.Mutex
	listeners map[*store.Hints[string]]struct{}
	runs      store.RunListeners
	streams   streamHub
}

func newHub(s *Store) *hub { return &hub{store: s, listeners: map[*store.Hints[string]]struct{}{}} }

// Listen implements [store.Notifier].
func (h *hub) Listen(ctx context.Context) (<-chan string, error) {
	l, out := store.NewHints[string](), make(chan string)
	h.mu.Lock()
	h.listeners[l] = struct{}{}
	h.mu.Unlock()
	go func() {
		defer h.leave(l)
		l.Deliver(ctx, out)
	}()
	return out, nil
}

func (h *hub) leave(l *store.Hints[string]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
}

// tell hints that something was committed in these namespaces. It never blocks.
func (h *hub) tell(namespaces []string) {
	if len(namespaces) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		l.Give(namespaces...)
	}
}

// ListenRuns implements [store.Notifier].
func (h *hub) ListenRuns(ctx context.Context, own func(writer journal.ID) bool) (<-chan journal.ID, error) {
	return h.runs.Listen(ctx, own, func() {}), nil
}
