package commit

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Append is what is written to one stream of a run, in order. It needs nothing of the run's journal, and shares transactions with commands.
type Append struct {
	store.StreamKey
	Owner journal.Ownership // who executes the run
	Ops   []StreamOp
}

// StreamOp is a chunk, or the wish to close the stream. One that is stored already, by its source and number, is not stored again.
type StreamOp struct {
	Key     string // of the step, or the path of the branch
	Attempt int    // of the step; 0: a branch
	N       int64  // how-manieth of its source, from 1
	At      journal.Time
	Data    journal.Payload
	Close   bool
	Void    bool // what the attempt wrote does not hold, and no event will say so
}

// check refuses what cannot be stored.
func (a *Append) check() error {
	if err := journal.CheckNamespace(a.Namespace); err != nil {
		return err
	}
	if err := journal.CheckText("the name of the stream", a.Name, journal.MaxName); err != nil {
		return err
	}
	if a.Run.IsZero() || a.Owner.Incarnation.IsZero() || len(a.Ops) == 0 {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "an append needs a run, its owner, and something to write")
	}
	for i := range a.Ops {
		if n := len(a.Ops[i].Data); n > store.MaxChunk {
			return cairnerr.Errorf(cairnerr.CodePayloadTooLarge, "a chunk has %d bytes, more than %d", n, store.MaxChunk)
		}
	}
	return nil
}

func (a *Append) bytes() int {
	n := 100
	for i := range a.Ops {
		n += 50 + len(a.Ops[i].Data)
	}
	return n
}

// Readers are those who read streams in this process.
type Readers interface {
	// Wants reports whether somebody reads a stream. It is asked for each one that is written to.
	Wants(key store.StreamKey) bool
	// Wrote tells of a stream that was written to, or whose run has another owner or has ended. Page is what was added, nil if it must be read. It must not
	// be changed.
	Wrote(key store.StreamKey, page *store.StreamPage)
	// Changed tells of a run that has another owner, or has ended.
	Changed(run journal.ID)
}

// Append puts chunks into the queue of their run, and commits them itself if nobody else commits just now, see [Committer.Do]. What is appended must not
// be changed afterwards.
func (c *Committer) Append(ctx context.Context, a *Append) (*Ticket, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	t := &Ticket{app: a, c: c, done: make(chan struct{}), bytes: a.bytes(), submitted: time.Now()}
	if err := c.put(ctx, t); err != nil {
		return nil, err
	}
	c.lead(ctx)
	return t, nil
}

// Refused returns which operations of an append were refused because the stream is closed. The others are durable. It may be called when the ticket is
// done without an error.
func (t *Ticket) Refused() []int { return t.refused }

// appendGroup is the appends of one run in a batch.
type appendGroup struct {
	key     store.RunKey
	tickets []*Ticket
}

// separate takes the appends out of a group of tickets.
func separate(tickets []*Ticket) (commands, appends []*Ticket) {
	if !slices.ContainsFunc(tickets, func(t *Ticket) bool { return t.app != nil }) {
		return tickets, nil
	}
	for _, t := range tickets {
		if t.app != nil {
			appends = append(appends, t)
		} else {
			commands = append(commands, t)
		}
	}
	return commands, appends
}

// settle is the outcome of an attempt that has written to a stream.
type settle struct {
	key  string
	good bool
}

// streamWork is what a batch does to one stream.
type streamWork struct {
	key     store.StreamKey
	owner   journal.Ownership
	mixed   bool // not everybody has the same idea of who owns the run
	tickets []*Ticket
	settles []settle

	base   *streamState       // before the batch; nil: not known
	run    *store.StreamRun   // as it was read in this transaction; nil: it was not
	head   store.StreamHead   // after the batch
	all    []*source          // that the batch touches
	byKey  map[string]*source // the newest of each key, where there are many
	chunks []store.NewChunk
}

// source is a source that a batch touches.
type source struct {
	store.Source
	begun, changed bool
}

// gather collects what the batch does to streams: what is appended, and the outcomes of attempts that the events tell of.
func (b *batch) gather() {
	b.works = nil
	for _, g := range b.appends {
		for _, t := range g.tickets {
			w := b.work(t.app.StreamKey, t.app.Owner)
			w.tickets = append(w.tickets, t)
		}
	}
	for _, r := range b.runs {
		for _, t := range r.tickets {
			if t.err == nil && t.result != nil {
				b.gatherOutcomes(r, t)
			}
		}
	}
	slices.SortStableFunc(b.works, func(x, y *streamWork) int {
		if c := compareKeys(x.key.RunKey(), y.key.RunKey()); c != 0 {
			return c
		}
		return strings.Compare(x.key.Name, y.key.Name)
	})
}

func (b *batch) gatherOutcomes(r *runBatch, t *Ticket) {
	var owner journal.Ownership
	if r.was != nil {
		owner = journal.Ownership{Incarnation: r.was.Owner, Epoch: r.was.Epoch}
	}
	for i := range t.result.Appended {
		e := &t.result.Appended[i]
		var streams []string
		switch d := e.Data.(type) {
		case *journal.StepCompleted:
			streams = d.Streams
		case *journal.StepFailed:
			streams = d.Streams
		case *journal.StepRetrying:
			streams = d.Streams
		}
		for _, name := range streams {
			w := b.work(store.StreamKey{Namespace: r.key.Namespace, Run: r.key.Run, Name: name}, owner)
			w.settles = append(w.settles, settle{e.Key, e.Type == journal.EventStepCompleted})
		}
	}
}

// work returns what the batch does to a stream. Few streams of one run are in a batch, and those of one run come one after the other.
func (b *batch) work(key store.StreamKey, owner journal.Ownership) *streamWork {
	w := b.workOf[key]
	if w == nil {
		w = &streamWork{key: key, owner: owner}
		if b.workOf == nil {
			b.workOf = map[store.StreamKey]*streamWork{}
		}
		b.workOf[key] = w
		b.works = append(b.works, w)
	}
	w.mixed = w.mixed || w.owner != owner
	return w
}

// writeStreams decides what becomes of the appends of the batch, and what is written to streams.
func (b *batch) writeStreams(ctx context.Context, tx store.Tx) error {
	clear(b.workOf)
	b.gather()
	if len(b.works) == 0 {
		return nil
	}
	var unread []*streamWork
	for _, w := range b.works {
		w.base = b.c.streams.get(w.key)
		if b.careful || w.mustRead() {
			unread = append(unread, w)
		}
	}
	if err := b.loadStreams(ctx, tx, unread); err != nil {
		return err
	}
	for _, w := range b.works {
		w.reduce()
	}
	return nil
}

// loadStreams reads streams, and locks their runs. Appends to those that somebody else holds are left for a later batch.
func (b *batch) loadStreams(ctx context.Context, tx store.Tx, works []*streamWork) error {
	if len(works) == 0 {
		return nil
	}
	want := &store.LoadSet{}
	for _, w := range works {
		want.Streams = append(want.Streams, store.LoadStream{StreamKey: w.key, Keys: w.keys()})
	}
	loaded, err := tx.Load(ctx, want)
	if err != nil {
		return err
	}
	b.c.stats.loaded(len(works))
	busy := map[store.RunKey]bool{}
	for i, w := range works {
		l := &loaded.Streams[i]
		if !l.Busy {
			w.adopt(l)
			continue
		}
		if len(w.settles) > 0 { // the run itself is in the batch, and somebody else holds it
			return store.ErrBusy
		}
		busy[w.key.RunKey()] = true
	}
	if len(busy) > 0 {
		b.postponeAppends(busy)
	}
	return nil
}

// takeAppends removes the appends of a run from the batch.
func (b *batch) takeAppends(run store.RunKey) []*Ticket {
	i := slices.IndexFunc(b.appends, func(g *appendGroup) bool { return g.key == run })
	if i < 0 {
		return nil
	}
	tickets := b.appends[i].tickets
	b.appends = slices.Delete(b.appends, i, i+1)
	return tickets
}

// postponeAppends leaves the appends of runs that another transaction holds for a later batch.
func (b *batch) postponeAppends(busy map[store.RunKey]bool) {
	b.appends = slices.DeleteFunc(b.appends, func(g *appendGroup) bool {
		if busy[g.key] {
			b.c.stats.postponed(len(g.tickets))
			b.c.queue.later(g.tickets, 4*minPause)
		}
		return busy[g.key]
	})
	for _, w := range b.works {
		if busy[w.key.RunKey()] {
			w.tickets = nil
		}
	}
	b.works = slices.DeleteFunc(b.works, func(w *streamWork) bool { return len(w.tickets) == 0 && len(w.settles) == 0 })
}

// streamChanges adds the streams to what is to be written, and hints at the end of runs that have some.
func (b *batch) streamChanges(changes *store.Changes) {
	b.streamChanged = b.streamChanged[:0]
	for _, w := range b.works {
		if c, any := w.change(); any {
			changes.Streams = append(changes.Streams, c)
			b.streamChanged = append(b.streamChanged, w)
		}
	}
	b.written = changes
	if b.c.streams.len() == 0 {
		return
	}
	for i := range changes.Runs {
		c := &changes.Runs[i]
		if c.Rows.Run && b.c.streams.has(store.RunKey{Namespace: c.State.Namespace, Run: c.State.Run.ID}) {
			changes.StreamHints = append(changes.StreamHints, c.State.Run.ID)
		}
	}
}

// rememberStreams remembers the streams as they are now that the batch is durable.
func (b *batch) rememberStreams() {
	for i, w := range b.streamChanged {
		if w.head.No = b.written.Streams[i].Head.No; w.head.No == 0 { // settled, not answered: the stream's number is not known
			b.c.streams.drop(w.key)
			continue
		}
		w.base.head = w.head
		for _, s := range w.all {
			if s.IsBranch() || s.State < store.SourceSettled {
				w.base.sources[s.Key] = &s.Source
			} else if known := w.base.sources[s.Key]; known == nil || known.No <= s.No {
				delete(w.base.sources, s.Key)
			}
		}
		b.c.streams.put(w.key, w.base)
	}
	for _, r := range b.runs {
		if r.state.Run != nil && r.state.Run.Status.Terminal() {
			b.c.streams.dropRun(r.key)
		}
	}
	b.tellReaders()
}

// tellReaders passes what was written on to those who read it in this process.
func (b *batch) tellReaders() {
	readers := b.c.cfg.Readers
	if readers == nil || b.written == nil {
		return
	}
	for i, w := range b.streamChanged {
		if readers.Wants(w.key) {
			readers.Wrote(w.key, w.page(&b.written.Streams[i]))
		}
	}
	for i := range b.written.Runs { // after that: they must look whether the run has ended
		if c := &b.written.Runs[i]; c.Rows.Run {
			readers.Changed(c.State.Run.ID)
		}
	}
}

// forgetStreams forgets what is remembered of the batch's streams: something about it was not true.
func (b *batch) forgetStreams() {
	for _, w := range b.works {
		b.c.streams.drop(w.key)
	}
}
