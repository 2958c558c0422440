package stream

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Hub wakes those who read streams in this process.
type Hub struct {
	store store.Store
	poll  time.Duration
	own   func(writer journal.ID) bool
	ended <-chan struct{} // closed when nobody is to wait any more

	joined atomic.Int64 // readers; whoever wakes asks this first

	mu    sync.Mutex
	tails map[store.StreamKey]*tail
	byRun map[journal.ID]map[*tail]struct{}
	stop  context.CancelFunc // ends listening, nil while nobody reads
}

// NewHub returns a hub for the streams of a store. Whoever waits looks again at the latest after poll. Of what own says is written by this process's committer, the
// hub is told by that: see [commit.Readers]; nil: of nothing. When ended is closed, nobody waits any more; nil: it never is.
func NewHub(st store.Store, poll time.Duration, own func(writer journal.ID) bool, ended <-chan struct{}) *Hub {
	if poll <= 0 {
		poll = time.Second
	}
	return &Hub{store: st, poll: poll, own: own, ended: ended, tails: map[store.StreamKey]*tail{}, byRun: map[journal.ID]map[*tail]struct{}{}}
}

// tail is the end of a stream that somebody reads. Its readers share their looks at the database.
type tail struct {
	key store.StreamKey

	// Guarded by the hub.
	readers int
	version int64             // moves with each hint
	changed chan struct{}     // closed, and made anew, with each hint
	last    *store.StreamPage // the end of the stream, as it was when version was seen
	seen    int64

	looking chan struct{} // held by who looks
}

// join begins to read a stream.
func (h *Hub) join(ctx context.Context, key store.StreamKey) *tail {
	h.joined.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tails[key]
	if t == nil {
		t = &tail{key: key, changed: make(chan struct{}), looking: make(chan struct{}, 1)}
		h.tails[key] = t
		if h.byRun[key.Run] == nil {
			h.byRun[key.Run] = map[*tail]struct{}{}
		}
		h.byRun[key.Run][t] = struct{}{}
	}
	t.readers++
	if h.stop == nil {
		var listen context.Context
		listen, h.stop = context.WithCancel(context.WithoutCancel(ctx))
		go h.listen(listen)
	}
	return t
}

// leave ends reading. With the last reader, the hub ends listening.
func (h *Hub) leave(t *tail) {
	h.joined.Add(-1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.readers--; t.readers > 0 {
		return
	}
	delete(h.tails, t.key)
	delete(h.byRun[t.key.Run], t)
	if len(h.byRun[t.key.Run]) == 0 {
		delete(h.byRun, t.key.Run)
	}
	if len(h.tails) == 0 {
		h.stop()
		h.stop = nil
	}
}

// state returns how often the tail was hinted at, and what is closed with the next hint.
func (h *Hub) state(t *tail) (int64, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return t.version, t.changed
}

// Wake lets those look again who read streams of a run.
func (h *Hub) Wake(run journal.ID) {
	if h.joined.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range h.byRun[run] {
		t.wake()
	}
}

func (h *Hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.tails {
		t.wake()
	}
}

// wake is a hint. The hub's lock is held.
func (t *tail) wake() {
	t.version++
	close(t.changed)
	t.changed = make(chan struct{})
}

// A hint that does not say what it is about makes everybody look. That costs about a tenth of a millisecond each, of which others may want some.
const (
	leastGap = 3 * time.Millisecond
	gapEach  = 500 * time.Microsecond
)

func (h *Hub) gap() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return leastGap + time.Duration(len(h.tails))*gapEach
}

// listen passes hints on while there are readers.
func (h *Hub) listen(ctx context.Context) {
	hints, err := h.store.Notifier().ListenStreams(ctx, h.own)
	if err != nil {
		hints = nil // then the clock has to do
	}
	tick := time.NewTicker(h.poll)
	defer tick.Stop()
	var last time.Time             // when all were woken
	later := time.NewTimer(h.poll) // wakes all, when it is armed
	defer later.Stop()
	later.Stop()
	armed := false
	for {
		select {
		case <-ctx.Done():
			return
		case run, open := <-hints:
			switch {
			case !open:
				hints = nil
			case !run.IsZero():
				h.Wake(run)
			case !armed:
				armed = true
				later.Reset(max(time.Until(last.Add(h.gap())), 0))
			}
		case <-later.C:
			armed = false
			last = time.Now()
			h.wakeAll()
		case <-tick.C:
			h.wakeAll()
		}
	}
}

// look reads the end of a stream. Readers that want the same share one look, if it began after what they know of.
func (h *Hub) look(ctx context.Context, t *tail, version int64, q store.StreamQuery) (*store.StreamPage, error) {
	if page := h.known(t, version, q.From); page != nil {
		return page, nil
	}
	select {
	case t.looking <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-t.looking }()
	if page := h.known(t, version, q.From); page != nil {
		return page, nil
	}
	now, _ := h.state(t) // before the look
	page, err := h.store.Stream(ctx, t.key, q)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.seen <= now {
		t.last, t.seen = page, now
	}
	return page, nil
}

// known returns what is known of the end of a stream from an index on, nil if that is not enough.
func (h *Hub) known(t *tail, version, from int64) *store.StreamPage {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := t.last
	if last == nil || t.seen < version || from < last.From || from > last.From+int64(len(last.Chunks)) {
		return nil
	}
	if from == last.From {
		return last
	}
	page := *last
	page.Chunks = last.Chunks[from-last.From:]
	page.From = from
	return &page
}

// Wants implements [commit.Readers].
func (h *Hub) Wants(key store.StreamKey) bool {
	if h.joined.Load() == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tails[key] != nil
}

// Changed implements [commit.Readers].
func (h *Hub) Changed(run journal.ID) { h.Wake(run) }

// Wrote implements [commit.Readers]. Those who wait at the end get what was written without looking.
func (h *Hub) Wrote(key store.StreamKey, page *store.StreamPage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tails[key]
	if t == nil {
		return
	}
	if page != nil && t.seen == t.version { // nothing happened since that is not known
		page = t.join(page)
	}
	t.wake()
	t.last, t.seen = page, t.version
}

// join puts what comes behind the end that is known, unless that becomes too long. The hub's lock is held.
func (t *tail) join(page *store.StreamPage) *store.StreamPage {
	last := t.last
	if last == nil || last.More || last.From+int64(len(last.Chunks)) != page.From || len(last.Chunks)+len(page.Chunks) > pageChunks {
		return page
	}
	bytes := 0
	for _, chunks := range [][]store.Chunk{last.Chunks, page.Chunks} {
		for i := range chunks {
			bytes += len(chunks[i].Data)
		}
	}
	if bytes > pageBytes/4 {
		return page
	}
	both := *page
	both.From = last.From
	both.Chunks = slices.Concat(last.Chunks, page.Chunks)
	return &both
}
