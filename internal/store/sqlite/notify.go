package sqlite

import (
	"context"
	"sync"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// hub carries hints. What this process commits, its listeners are told by name. That others have committed something
// shows in the version of the file: see watchVersion.
type hub struct {
	store     *Store
	mu        sync.Mutex
	listeners map[*store.Hints[string]]struct{}
	runs      store.RunListeners
	streams   store.RunListeners
	version   versionWatch
}

func newHub(s *Store) *hub {
	h := &hub{store: s, listeners: map[*store.Hints[string]]struct{}{}}
	h.version.wake = make(chan struct{}, 1)
	return h
}

// Listen implements [store.Notifier].
func (h *hub) Listen(ctx context.Context) (<-chan string, error) {
	l, out := store.NewHints[string](), make(chan string)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners[l] = struct{}{}
	h.watch(ctx)
	go func() {
		defer h.leave(l)
		l.Deliver(ctx, out)
	}()
	return out, nil
}

func (h *hub) leave(l *store.Hints[string]) {
	h.mu.Lock()
	delete(h.listeners, l)
	h.mu.Unlock()
	h.left()
}

// ListenRuns implements [store.Notifier].
func (h *hub) ListenRuns(ctx context.Context, own func(writer journal.ID) bool) (<-chan journal.ID, error) {
	return h.listenFor(ctx, &h.runs, own), nil
}

// ListenStreams implements [store.Notifier].
func (h *hub) ListenStreams(ctx context.Context, own func(writer journal.ID) bool) (<-chan journal.ID, error) {
	return h.listenFor(ctx, &h.streams, own), nil
}

// listenFor adds a listener for hints about runs.
func (h *hub) listenFor(
	ctx context.Context, listeners *store.RunListeners, own func(writer journal.ID) bool,
) <-chan journal.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := listeners.Listen(ctx, own, h.left)
	h.watch(ctx)
	return out
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
