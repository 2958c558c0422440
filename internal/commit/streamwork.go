package commit

import (
	"slices"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// mustRead reports whether what is remembered of the stream is not enough.
func (w *streamWork) mustRead() bool {
	if w.base == nil || w.mixed {
		return true
	}
	for _, t := range w.tickets {
		for i := range t.app.Ops {
			op := &t.app.Ops[i]
			if i > 0 && op.Key == t.app.Ops[i-1].Key {
				continue
			}
			// The first of an attempt is surely new; a branch may have written before it was executed again.
			if !op.continues(w.base.sources[op.Key], w.owner.Epoch) && (op.Attempt == 0 || op.N != 1) {
				return true
			}
		}
	}
	for _, s := range w.settles {
		if w.base.sources[s.key] == nil {
			return true
		}
	}
	return false
}

// continues reports whether an operation belongs to a source.
func (op *StreamOp) continues(s *store.Source, epoch int64) bool {
	return s != nil && s.Attempt == op.Attempt && (op.Attempt == 0 || s.Epoch == epoch)
}

// keys returns the sources that the work is about.
func (w *streamWork) keys() []string {
	var keys []string
	for _, t := range w.tickets {
		for i := range t.app.Ops {
			if key := t.app.Ops[i].Key; len(keys) == 0 || keys[len(keys)-1] != key {
				keys = append(keys, key)
			}
		}
	}
	for _, s := range w.settles {
		keys = append(keys, s.key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// adopt makes the base of the work what was read. What is remembered of other sources stays true if the stream has not moved.
func (w *streamWork) adopt(l *store.LoadedStream) {
	state := &streamState{head: l.Head, sources: map[string]*store.Source{}}
	if w.base != nil && w.base.head == l.Head {
		state = w.base
	}
	for i := range l.Sources {
		state.sources[l.Sources[i].Key] = &l.Sources[i]
	}
	w.base, w.run = state, &l.Run
}

// reduce decides what becomes of the operations.
func (w *streamWork) reduce() {
	w.head, w.byKey, w.all, w.chunks = w.base.head, nil, nil, nil
	owner := w.owner
	for _, t := range w.tickets {
		t.refused, t.err = nil, w.refusal(t.app.Owner)
		if t.err != nil {
			continue
		}
		owner = t.app.Owner
		for i := range t.app.Ops {
			if !w.apply(&t.app.Ops[i], owner.Epoch) {
				t.refused = append(t.refused, i)
			}
		}
	}
	w.owner = owner
	for _, s := range w.settles {
		w.settle(s)
	}
}

// refusal says why somebody may not write to the streams of the run, as far as that was read; otherwise the database finds out.
func (w *streamWork) refusal(owner journal.Ownership) error {
	id := journal.PrefixRun.Format(w.key.Run)
	switch run := w.run; {
	case run == nil:
		return nil
	case !run.Exists:
		return store.RunNotFound(w.key.Run)
	case run.Status.Terminal():
		return cairnerr.Errorf(cairnerr.CodeRunEnded, "%s has ended: nothing is written to its streams any more", id)
	case run.Owner != owner.Incarnation || run.Epoch != owner.Epoch || run.Status != journal.StatusRunning:
		return cairnerr.Errorf(cairnerr.CodeStaleEpoch, "%s is not executed by this process in epoch %d any more", id, owner.Epoch)
	default:
		return nil
	}
}

// find returns the newest source of a key, nil if none is known.
func (w *streamWork) find(key string) *source {
	if w.byKey != nil {
		if s := w.byKey[key]; s != nil {
			return s
		}
	} else {
		for _, s := range slices.Backward(w.all) {
			if s.Key == key {
				return s
			}
		}
	}
	if known := w.base.sources[key]; known != nil {
		return w.touch(&source{Source: *known})
	}
	return nil
}

// fewSources is how many are looked through one by one.
const fewSources = 16

// touch adds a source that is the newest of its key.
func (w *streamWork) touch(s *source) *source {
	w.all = append(w.all, s)
	switch {
	case w.byKey != nil:
		w.byKey[s.Key] = s
	case len(w.all) > fewSources:
		w.byKey = make(map[string]*source, 2*len(w.all))
		for _, s := range w.all {
			w.byKey[s.Key] = s
		}
	}
	return s
}

// apply does one operation. It reports false if the stream is closed.
func (w *streamWork) apply(op *StreamOp, epoch int64) bool {
	s := w.find(op.Key)
	known := s != nil && op.continues(&s.Source, epoch)
	switch {
	case op.Void:
		if known && s.State < store.SourceSettled {
			s.State, s.changed = store.SourceVoid, true
		}
		return true
	case known && op.N <= s.N:
		return true // it is stored
	case w.head.Closed:
		return op.Close
	case known && s.State == store.SourceClosing:
		return op.Close
	case !known:
		s = w.touch(&source{begun: true, Source: store.Source{No: w.head.Sources, Key: op.Key, Epoch: epoch, Attempt: op.Attempt, First: w.head.Next}})
		w.head.Sources++
	}
	s.N = op.N
	s.changed = s.changed || s.IsBranch() // of an attempt, N matters only while somebody remembers it
	switch {
	case !op.Close:
		w.chunks = append(w.chunks, store.NewChunk{Source: s.No, At: op.At, Data: op.Data})
		w.head.Next++
	case s.IsBranch():
		w.head.Closed = true
	default:
		s.State, s.changed = store.SourceClosing, true
	}
	return true
}

// settle notes the outcome of the attempt that a step is in. The stream that it wanted to close is closed if that was good.
func (w *streamWork) settle(o settle) {
	s := w.find(o.key)
	if s == nil || s.IsBranch() || s.Epoch != w.owner.Epoch || s.State >= store.SourceSettled {
		return
	}
	if o.good && s.State == store.SourceClosing {
		w.head.Closed = true
	}
	s.State, s.changed = store.SourceVoid, true
	if o.good {
		s.State = store.SourceSettled
	}
}

// change returns what is to be written, and whether it is anything.
func (w *streamWork) change() (store.StreamChange, bool) {
	c := store.StreamChange{StreamKey: w.key, Owner: w.owner, Was: w.base.head, Head: w.head, Chunks: w.chunks}
	for _, s := range w.all {
		switch {
		case s.begun:
			c.Begun = append(c.Begun, s.Source)
		case s.changed:
			c.Changed = append(c.Changed, s.Source)
		}
	}
	return c, c.Head != c.Was || len(c.Changed) > 0
}

// page returns what was added to a stream as somebody would read it, nil if not all of that is known.
func (w *streamWork) page(c *store.StreamChange) *store.StreamPage {
	sources := make(map[int64]*store.Source, len(w.all))
	for _, s := range w.all {
		switch {
		case s.IsBranch():
		case s.begun && (s.Attempt != 1 || s.Epoch != 1): // whether this is a boundary, only the database knows
			return nil
		case !s.begun && s.changed: // what became of an attempt concerns chunks that were there before
			return nil
		}
		sources[s.No] = &s.Source
	}
	page := &store.StreamPage{
		Run:  store.StreamRun{Exists: true, Status: journal.StatusRunning, Owner: c.Owner.Incarnation, Epoch: c.Owner.Epoch},
		Head: c.Head, From: c.Was.Next, Chunks: make([]store.Chunk, len(c.Chunks)),
	}
	for i := range c.Chunks {
		s := sources[c.Chunks[i].Source]
		page.Chunks[i] = store.Chunk{
			Index: c.Was.Next + int64(i), At: c.Chunks[i].At, Key: s.Key, Attempt: s.Attempt, Epoch: s.Epoch, State: s.State, Data: c.Chunks[i].Data,
		}
	}
	return page
}
