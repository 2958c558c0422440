package commit

import (
	"container/list"

	"github.com/cairn-workflow/cairn/internal/store"
)

// streamState is what is remembered of a stream. Like the states of runs it is a guess; the row of the stream finds out whether it is true.
type streamState struct {
	head    store.StreamHead
	sources map[string]*store.Source // by key, the newest of those that may still write
}

// streamCache remembers streams that were written to lately. It belongs to the committer's goroutine.
type streamCache struct {
	limit  int // runs
	runs   map[store.RunKey]*list.Element
	recent list.List // of *runStreams, the most recent first
}

type runStreams struct {
	key     store.RunKey
	streams map[string]*streamState
}

// maxStreamRuns is of how many runs the streams are remembered.
const maxStreamRuns = 10_000

func newStreamCache() *streamCache {
	return &streamCache{limit: maxStreamRuns, runs: map[store.RunKey]*list.Element{}}
}

func (c *streamCache) len() int { return len(c.runs) }

func (c *streamCache) has(run store.RunKey) bool { return c.runs[run] != nil }

func (c *streamCache) get(key store.StreamKey) *streamState {
	e := c.runs[key.RunKey()]
	if e == nil {
		return nil
	}
	return streamsOf(e).streams[key.Name]
}

func (c *streamCache) put(key store.StreamKey, s *streamState) {
	e := c.runs[key.RunKey()]
	if e == nil {
		e = c.recent.PushFront(&runStreams{key: key.RunKey(), streams: map[string]*streamState{}})
		c.runs[key.RunKey()] = e
	} else {
		c.recent.MoveToFront(e)
	}
	streamsOf(e).streams[key.Name] = s
	for len(c.runs) > c.limit {
		c.dropRun(streamsOf(c.recent.Back()).key)
	}
}

func (c *streamCache) drop(key store.StreamKey) {
	if e := c.runs[key.RunKey()]; e != nil {
		delete(streamsOf(e).streams, key.Name)
	}
}

func (c *streamCache) dropRun(run store.RunKey) {
	if e := c.runs[run]; e != nil {
		c.recent.Remove(e)
		delete(c.runs, run)
	}
}

func streamsOf(e *list.Element) *runStreams {
	return e.Value.(*runStreams) //nolint:forcetypeassert // nothing else is put in
}
