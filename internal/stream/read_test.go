package stream

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// fake is a store with one stream.
type fake struct {
	store.Store
	mu     sync.Mutex
	page   store.StreamPage // Run, Head and all chunks
	looks  []int64          // the first index of each look
	hints  chan journal.ID
	silent bool
}

func newFake() *fake {
	f := &fake{hints: make(chan journal.ID, 10)}
	f.page.Run = store.StreamRun{Exists: true, Status: journal.StatusRunning, Owner: journal.ID{1}, Epoch: 1}
	return f
}

func (f *fake) Notifier() store.Notifier { return f }

func (f *fake) Listen(context.Context) (<-chan string, error) { return nil, nil } //nolint:nilnil // not used

func (f *fake) ListenRuns(context.Context, func(journal.ID) bool) (<-chan journal.ID, error) {
	return nil, nil //nolint:nilnil // not used
}

func (f *fake) ListenStreams(context.Context, func(journal.ID) bool) (<-chan journal.ID, error) {
	if f.silent {
		return make(chan journal.ID), nil
	}
	return f.hints, nil
}

var key = store.StreamKey{Namespace: "n", Run: journal.ID{7}, Name: "s"}

// change changes the stream, and hints at it.
func (f *fake) change(hint journal.ID, do func(p *store.StreamPage)) {
	f.mu.Lock()
	do(&f.page)
	f.mu.Unlock()
	if !f.silent {
		f.hints <- hint
	}
}

// add appends chunks of a source.
func (f *fake) add(key string, attempt int, state store.SourceState, n int) func(p *store.StreamPage) {
	return func(p *store.StreamPage) {
		for range n {
			p.Chunks = append(p.Chunks, store.Chunk{Index: p.Head.Next, Key: key, Attempt: attempt, Epoch: 1, State: state, Data: journal.Payload(fmt.Sprint(p.Head.Next))})
			p.Head.Next++
			p.Head.No = 1
		}
	}
}

func (f *fake) Stream(_ context.Context, _ store.StreamKey, q store.StreamQuery) (*store.StreamPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	page := f.page
	page.From = q.Start(page.Head.Next)
	f.looks = append(f.looks, page.From)
	page.Chunks = nil
	for _, c := range f.page.Chunks {
		if c.Index >= page.From && len(page.Chunks) < q.Limit {
			page.Chunks = append(page.Chunks, c)
		}
	}
	page.More = page.From+int64(len(page.Chunks)) < page.Head.Next
	return &page, nil
}

func (f *fake) looked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.looks)
}

// reader collects the indices that somebody reads.
type reader struct {
	mu   sync.Mutex
	got  []int64
	err  error
	done chan struct{}
}

func read(t *testing.T, h *Hub, r Request) *reader {
	t.Helper()
	r.Key = key
	out := &reader{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() {
		defer close(out.done)
		for c, err := range h.Read(ctx, r) {
			out.mu.Lock()
			if out.err = err; err == nil {
				out.got = append(out.got, c.Index)
			}
			out.mu.Unlock()
		}
	}()
	synctest.Wait()
	return out
}

func (r *reader) indices() []int64 {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

func (r *reader) ended(t *testing.T) []int64 {
	t.Helper()
	<-r.done
	require.NoError(t, r.err)
	return r.got
}

const minute = time.Minute

func TestReadHistoryThenLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add("", 0, 0, 600)(&f.page)
		h := NewHub(f, minute, nil, nil)
		r := read(t, h, Request{})
		require.Len(t, r.indices(), 600)
		require.Equal(t, []int64{0, 256, 512}, f.looks, "page by page")
		f.change(key.Run, f.add("", 0, 0, 2))
		require.Len(t, r.indices(), 602)
		f.change(journal.ID{9}, f.add("", 0, 0, 1)) // a hint about another run
		require.Len(t, r.indices(), 602)
		f.change(journal.ID{}, func(*store.StreamPage) {}) // one that says nothing
		time.Sleep(10 * time.Millisecond)
		require.Len(t, r.indices(), 603)
		f.change(key.Run, func(p *store.StreamPage) { p.Head.Closed = true })
		for i, got := range r.ended(t) {
			require.EqualValues(t, i, got)
		}
		require.Nil(t, h.stop, "nobody reads, nobody listens")
	})
}

func TestReadFromTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add("", 0, 0, 10_000)(&f.page)
		h := NewHub(f, minute, nil, nil)
		r, tail := read(t, h, Request{FromEnd: true}), read(t, h, Request{FromEnd: true, From: 2})
		require.Equal(t, []int64{10_000, 9_998}, f.looks, "no history is read")
		f.change(key.Run, f.add("", 0, 0, 1))
		require.Equal(t, []int64{10_000}, r.indices())
		require.Equal(t, []int64{9_998, 9_999, 10_000}, tail.indices())
	})
}

// Hints that are lost delay a reader, and do not stop it.
func TestReadWithoutHints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.silent = true
		h := NewHub(f, time.Second, nil, nil)
		r := read(t, h, Request{})
		f.change(key.Run, f.add("", 0, 0, 3))
		require.Empty(t, r.indices())
		time.Sleep(time.Second)
		require.Len(t, r.indices(), 3)
		h.Wake(key.Run)
		f.change(key.Run, func(p *store.StreamPage) { p.Run.Status = journal.StatusFailed })
		time.Sleep(time.Second)
		require.Len(t, r.ended(t), 3)
	})
}

// Many readers at the end of a stream look at the database once.
func TestReadersShareLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.add("", 0, 0, 5)(&f.page)
		h := NewHub(f, minute, nil, nil)
		var readers []*reader
		for range 20 {
			readers = append(readers, read(t, h, Request{}))
		}
		before := f.looked()
		for i := range 10 {
			f.change(key.Run, f.add("", 0, 0, 1))
			for _, r := range readers {
				require.Len(t, r.indices(), 6+i)
			}
		}
		require.Equal(t, 10, f.looked()-before)
	})
}

func TestReadSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		set := func(state store.SourceState, from, to int) func(p *store.StreamPage) {
			return func(p *store.StreamPage) {
				for i := from; i < to; i++ {
					p.Chunks[i].State = state
				}
			}
		}
		f.add("", 0, 0, 1)(&f.page)                        // 0: a branch
		f.add("failed", 1, store.SourceVoid, 1)(&f.page)   // 1
		f.add("done", 1, store.SourceSettled, 1)(&f.page)  // 2
		f.add("open", 1, store.SourceOpen, 2)(&f.page)     // 3, 4
		f.add("done", 1, store.SourceSettled, 1)(&f.page)  // 5
		f.add("other", 1, store.SourceClosing, 1)(&f.page) // 6
		f.add("", 0, 0, 1)(&f.page)                        // 7
		h := NewHub(f, minute, nil, nil)
		r, stored := read(t, h, Request{Settled: true}), read(t, h, Request{Settled: true, Stored: true})
		require.Equal(t, []int64{0, 2}, r.indices(), "what comes behind an attempt that is under way is held back")
		require.Equal(t, []int64{0, 2}, stored.ended(t))
		f.change(key.Run, set(store.SourceSettled, 3, 5))
		require.Equal(t, []int64{0, 2, 3, 4, 5}, r.indices())
		f.change(key.Run, func(p *store.StreamPage) { p.Head.Closed = true })
		require.Equal(t, []int64{0, 2, 3, 4, 5}, r.indices())
		f.change(key.Run, func(p *store.StreamPage) { p.Run.Epoch = 2 }) // who executed it is gone
		require.Equal(t, []int64{0, 2, 3, 4, 5, 7}, r.ended(t))

		f = newFake()
		f.add("open", 1, store.SourceOpen, 1)(&f.page)
		f.add("", 0, 0, 1)(&f.page)
		h = NewHub(f, minute, nil, nil)
		r = read(t, h, Request{Settled: true})
		require.Empty(t, r.indices())
		f.change(key.Run, func(p *store.StreamPage) { p.Run.Owner = journal.ID{} })
		require.Equal(t, []int64{1}, r.indices())
		f.change(key.Run, func(p *store.StreamPage) { p.Run.Status = journal.StatusCancelled })
		require.Equal(t, []int64{1}, r.ended(t))
	})
}

func TestReadNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		h := NewHub(f, minute, nil, nil)
		r := read(t, h, Request{From: 5})
		require.Empty(t, r.indices(), "it is waited for")
		f.change(key.Run, func(p *store.StreamPage) { p.Run.Status = journal.StatusCompleted })
		<-r.done
		require.Equal(t, cairnerr.CodeStreamNotFound, cairnerr.CodeOf(r.err))
		f.page = store.StreamPage{}
		r = read(t, h, Request{})
		<-r.done
		require.Equal(t, cairnerr.CodeRunNotFound, cairnerr.CodeOf(r.err))
		r = read(t, h, Request{From: -1})
		<-r.done
		require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(r.err))
	})
}
