package commit

import (
	"container/list"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// cache remembers the complete states of runs that were written lately and have not ended. What it holds is a guess:
// another process may have written since. The database's unique keys find that out.
//
// It belongs to the committer's goroutine.
type cache struct {
	limit  int
	weight int
	runs   map[store.RunKey]*list.Element
	recent *list.List // of *cached, the most recent first
}

type cached struct {
	key    store.RunKey
	state  *journal.State
	weight int
}

func newCache(limit int) *cache {
	return &cache{limit: limit, runs: map[store.RunKey]*list.Element{}, recent: list.New()}
}

// get returns the state of a run, nil if it is not remembered.
func (c *cache) get(key store.RunKey) *journal.State {
	e := c.runs[key]
	if e == nil {
		return nil
	}
	c.recent.MoveToFront(e)
	return entry(e).state
}

// put remembers a state that is stored. Runs that have ended, and states that are not complete, are forgotten.
func (c *cache) put(key store.RunKey, s *journal.State) {
	if s.Run == nil || s.Run.Status.Terminal() || !s.Complete {
		c.drop(key)
		return
	}
	w := s.Weight()
	if e := c.runs[key]; e != nil {
		old := entry(e)
		c.weight += w - old.weight
		old.state, old.weight = s, w
	} else {
		c.runs[key] = c.recent.PushFront(&cached{key: key, state: s, weight: w})
		c.weight += w
	}
	for c.weight > c.limit && c.recent.Len() > 1 {
		c.drop(entry(c.recent.Back()).key)
	}
}

func (c *cache) drop(key store.RunKey) {
	if e := c.runs[key]; e != nil {
		c.weight -= entry(e).weight
		c.recent.Remove(e)
		delete(c.runs, key)
	}
}

func entry(e *list.Element) *cached {
	return e.Value.(*cached) //nolint:forcetypeassert // nothing else is put in
}
