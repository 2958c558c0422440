package postgres

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/internal/store"
)

// notifier carries hints between processes. One connection listens for all listeners of this process, while there are any.
type notifier struct {
	store   *Store
	channel string

	mu        sync.Mutex
	listeners map[*store.Hints[string]]struct{}
	receiver  *receiver // nil: nobody listens
	closed    bool

	self        string // tells hints of this process from those of others
	streams     store.RunListeners
	streamHints hintSender
	runs        store.RunListeners
	runHints    hintSender
}

func newNotifier(s *Store) *notifier {
	n := &notifier{store: s, channel: "cairn_" + s.cfg.Schema, self: rand.Text()}
	n.listeners = map[*store.Hints[string]]struct{}{}
	n.streamHints = hintSender{n: n, channel: n.channel + streamChannel}
	n.runHints = hintSender{n: n, channel: n.channel + runChannel, gap: runHintGap}
	return n
}

// Listen implements [store.Notifier]. When it returns, the server is asked for hints, unless it cannot be reached: then it will be asked again
// and again.
func (n *notifier) Listen(ctx context.Context) (<-chan string, error) {
	l, out := store.NewHints[string](), make(chan string)
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil, errClosed()
	}
	n.listeners[l] = struct{}{}
	ready := n.start(ctx)
	n.mu.Unlock()
	go func() {
		defer n.leave(l)
		l.Deliver(ctx, out)
	}()
	select {
	case <-ready:
		return out, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// tell hints that something was committed in a namespace. It never blocks.
func (n *notifier) tell(namespace string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.listeners {
		l.Give(namespace)
	}
}

// start makes sure that somebody receives. The channel that it returns is closed after the first try to reach the server. The caller has the
// lock.
func (n *notifier) start(ctx context.Context) <-chan struct{} {
	if n.receiver != nil {
		return n.receiver.ready
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it outlives the first listener
	r := &receiver{n: n, stop: cancel, ready: make(chan struct{}), ended: make(chan struct{})}
	n.receiver = r
	go r.run(ctx)
	return r.ready
}

// leave ends a listener; the last one gives the connection back.
func (n *notifier) leave(l *store.Hints[string]) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.listeners, l)
	n.idle()
}

// idle gives the connection back if nobody listens. The lock is held.
func (n *notifier) idle() {
	if len(n.listeners) == 0 && n.streams.Len() == 0 && n.runs.Len() == 0 && n.receiver != nil {
		n.receiver.stop()
		n.receiver = nil
	}
}

// close ends the connection. Listeners hear no more.
func (n *notifier) close() {
	n.mu.Lock()
	n.closed = true
	r := n.receiver
	n.receiver = nil
	n.mu.Unlock()
	if r != nil {
		r.stop()
		<-r.ended
	}
}

// receiver has the connection that listens.
type receiver struct {
	n            *notifier
	stop         context.CancelFunc
	ready, ended chan struct{}
	once         sync.Once
}

// The pauses between tries to reach the server again.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

func (r *receiver) run(ctx context.Context) {
	defer close(r.ended)
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, lastPause) {
		began := time.Now()
		err := r.receive(ctx)
		r.once.Do(func() { close(r.ready) })
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		r.n.store.cfg.Logger.WarnContext(ctx, "hints of other processes are missed until the database answers again", slog.Any("error", err))
		_ = sleep(ctx, pause)
	}
}

// receive listens until the connection breaks.
func (r *receiver) receive(ctx context.Context) error {
	conn, err := r.n.store.connect(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	for _, channel := range []string{r.n.channel, r.n.channel + streamChannel, r.n.channel + runChannel} {
		if _, err := conn.Exec(ctx, `listen `+pgx.Identifier{channel}.Sanitize()); err != nil {
			return err
		}
	}
	r.once.Do(func() { close(r.ready) })
	for {
		hint, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		switch hint.Channel {
		case r.n.channel:
			r.n.tell(hint.Payload)
		case r.n.channel + streamChannel:
			r.n.received(hint.Payload, &r.n.streams)
		default:
			r.n.received(hint.Payload, &r.n.runs)
		}
	}
}
