package stream

import (
	"context"
	"iter"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Request is what somebody wants to read of a stream.
type Request struct {
	Key store.StreamKey
	// From is the first index. With FromEnd it counts back from the end of the stream as it is now: 0 is only what comes next.
	From    int64
	FromEnd bool
	// Settled leaves out what attempts of steps wrote that failed, and waits with what those write whose outcome is open.
	Settled bool
	// Stored ends with what there is, and waits for nothing.
	Stored bool
}

// The size of a page. History is read page by page; at the end of a stream most are much smaller.
const (
	pageChunks = 256
	pageBytes  = 1 << 20
)

// Read returns the chunks of a stream: those that there are, and then those that come, until the stream is closed or its run has ended. The bytes of a
// chunk may be shared with other readers, and must not be changed.
func (h *Hub) Read(ctx context.Context, r Request) iter.Seq2[store.Chunk, error] {
	return func(yield func(store.Chunk, error) bool) {
		if r.From < 0 {
			yield(store.Chunk{}, cairnerr.Errorf(cairnerr.CodeMalformed, "bad index %d of a chunk: the first one is 0", r.From))
			return
		}
		t := h.join(ctx, r.Key)
		defer h.leave(t)
		l := &reading{hub: h, tail: t, request: r, from: -1, yield: yield}
		if err := l.run(ctx); err != nil {
			yield(store.Chunk{}, err)
		}
	}
}

// reading is one reader on its way.
type reading struct {
	hub     *Hub
	tail    *tail
	request Request
	from    int64 // the next index; -1: not known yet
	yield   func(store.Chunk, error) bool
}

func (l *reading) run(ctx context.Context) error {
	waited := false
	for {
		version, changed := l.hub.state(l.tail) // before the look, so that no hint is missed
		page, err := l.page(ctx, version, waited)
		if err != nil {
			return err
		}
		if !page.Run.Exists && page.Head.No == 0 {
			return store.RunNotFound(l.request.Key.Run)
		}
		blocked, stopped := l.pass(page)
		switch {
		case stopped:
			return nil
		case page.More && !blocked:
			waited = false
			continue
		case l.request.Stored || (!blocked && (page.Head.Closed || page.Run.Status.Terminal() || !page.Run.Exists)):
			return l.ended(page)
		}
		select {
		case <-changed:
			waited = true
		case <-l.hub.ended:
			return cairnerr.Errorf(cairnerr.CodeClosed, "the engine was stopped")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// page reads on. Readers that wait at the end of a stream share what they read.
func (l *reading) page(ctx context.Context, version int64, shared bool) (*store.StreamPage, error) {
	q := store.StreamQuery{From: l.from, Limit: pageChunks, Bytes: pageBytes}
	if l.from < 0 {
		q.From, q.FromEnd = l.request.From, l.request.FromEnd
	}
	var page *store.StreamPage
	var err error
	if shared {
		page, err = l.hub.look(ctx, l.tail, version, q)
	} else {
		page, err = l.hub.store.Stream(ctx, l.tail.key, q)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	if l.from < 0 {
		l.from = page.From
	}
	return page, nil
}

// pass hands the chunks of a page over. It reports whether it is blocked by an attempt whose outcome is open, and whether the reader has had enough.
func (l *reading) pass(page *store.StreamPage) (blocked, stopped bool) {
	for i := range page.Chunks {
		c := page.Chunks[i]
		if l.request.Settled && c.Attempt > 0 && c.State != store.SourceSettled {
			if c.State != store.SourceVoid && !page.Run.Void(c.Epoch) {
				return true, false
			}
			l.from = c.Index + 1
			continue
		}
		l.from = c.Index + 1
		if !l.yield(c, nil) {
			return false, true
		}
	}
	return false, false
}

// ended is the end of a stream. One to which nothing was ever written is most likely a mistake.
func (l *reading) ended(page *store.StreamPage) error {
	if page.Head.No == 0 {
		return cairnerr.Errorf(cairnerr.CodeStreamNotFound, "%s has no stream %q", journal.PrefixRun.Format(l.request.Key.Run), l.request.Key.Name)
	}
	return nil
}
