package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var streamTests = []test{
	{"AppendAndRead", streamAppend},
	{"Boundaries", streamBoundaries},
	{"Closes", streamCloses},
	{"Hints", streamHints},
	{"HintsOfOthers", streamHintsOfOthers},
	{"Load", streamLoad},
	{"Moved", streamMoved},
	{"Namespaces", streamNamespaces},
	{"NeedsItsOwner", streamOwner},
	{"NothingThere", streamNothing},
	{"Pages", streamPages},
	{"WithTheRun", streamWithRun},
	{"Zombie", streamZombie},
}

// pen writes to one stream of one run, as its owner.
type pen struct {
	*bench
	key   store.StreamKey
	owner journal.Ownership
	head  store.StreamHead
}

func (b *bench) pen(run journal.ID, name string) *pen {
	b.Helper()
	return &pen{bench: b, key: store.StreamKey{Namespace: b.ns, Run: run, Name: name}, owner: b.owner(run)}
}

// source returns a new source of the stream.
func (p *pen) source(key string, attempt int) *store.Source {
	return &store.Source{No: -1, Key: key, Epoch: p.owner.Epoch, Attempt: attempt}
}

// change returns what appending chunks of one source changes.
func (p *pen) change(s *store.Source, texts ...string) *store.StreamChange {
	c := &store.StreamChange{StreamKey: p.key, Owner: p.owner, Was: p.head, Head: p.head}
	c.Head.Next += int64(len(texts))
	n := int64(len(texts))
	if s.No < 0 {
		s.No, s.First, s.N = p.head.Sources, p.head.Next, n
		c.Head.Sources++
		c.Begun = append(c.Begun, *s)
	} else if s.N += n; s.IsBranch() {
		c.Changed = append(c.Changed, *s)
	}
	for _, text := range texts {
		c.Chunks = append(c.Chunks, store.NewChunk{Source: s.No, At: p.now, Data: payload(text)})
	}
	return c
}

// write commits a change, and remembers where the stream is then.
func (p *pen) write(c *store.StreamChange) error {
	p.Helper()
	changes := &store.Changes{Streams: []store.StreamChange{*c}}
	err := p.commit(changes)
	if err == nil {
		p.head = changes.Streams[0].Head
	}
	return err
}

func (p *pen) append(s *store.Source, texts ...string) {
	p.Helper()
	require.NoError(p, p.write(p.change(s, texts...)))
}

// page reads a part of the stream.
func (p *pen) page(q store.StreamQuery) *store.StreamPage {
	p.Helper()
	page, err := p.store.Stream(p.ctx(), p.key, q)
	require.NoError(p, err)
	return page
}

func texts(page *store.StreamPage) string {
	var all []string
	for i := range page.Chunks {
		all = append(all, string(page.Chunks[i].Data))
	}
	return strings.Join(all, " ")
}

func streamAppend(b *bench) {
	p := b.pen(b.start(journal.Engine), "tokens")
	step, branch := p.source("step#2", 1), p.source("", 0)
	p.append(step, "a", "b")
	b.later(time.Second)
	p.append(branch, "c")
	p.append(step, "", "e")
	page := p.page(store.StreamQuery{})
	require.Equal(b, "a b c  e", texts(page))
	require.Equal(b, store.StreamRun{Exists: true, Status: journal.StatusRunning, Owner: b.self, Epoch: 1}, page.Run)
	require.Equal(b, store.StreamHead{No: p.head.No, Next: 5, Sources: 2}, page.Head)
	require.NotZero(b, p.head.No)
	require.False(b, page.More)
	require.Equal(b, store.Chunk{Index: 0, At: t0, Key: "step#2", Attempt: 1, Epoch: 1, Data: payload("a")}, page.Chunks[0])
	require.Equal(b, store.Chunk{Index: 2, At: t0 + 1000, Key: "", Attempt: 0, Epoch: 1, Data: payload("c")}, page.Chunks[2])
	for i := range page.Chunks {
		require.Equal(b, int64(i), page.Chunks[i].Index)
	}
	big := strings.Repeat("x", store.MaxChunk)
	p.append(step, big)
	require.Equal(b, big, texts(p.page(store.StreamQuery{From: 5})))
	infos, err := b.store.Streams(b.ctx(), b.ns, p.key.Run)
	require.NoError(b, err)
	require.Equal(b, []store.StreamInfo{{Name: "tokens", Head: p.head, Branches: map[string]int64{"": 1}}}, infos)
}

// Many chunks of many streams in one batch.
func streamPages(b *bench) {
	run := b.start(journal.Engine)
	pens := make([]*pen, 3)
	var changes store.Changes
	for i := range pens {
		pens[i] = b.pen(run, fmt.Sprintf("s%d", i))
		s := pens[i].source("step", 1)
		var chunks []string
		for k := range 150 {
			chunks = append(chunks, fmt.Sprintf("%d.%d", i, k))
		}
		changes.Streams = append(changes.Streams, *pens[i].change(s, chunks...))
	}
	require.NoError(b, b.commit(&changes))
	p := pens[1]
	from := int64(0)
	for pages := 1; ; pages++ {
		page := p.page(store.StreamQuery{From: from, Limit: 40})
		for i := range page.Chunks {
			require.Equal(b, fmt.Sprintf("1.%d", from), string(page.Chunks[i].Data))
			from++
		}
		if !page.More {
			require.Equal(b, 4, pages)
			break
		}
		require.Len(b, page.Chunks, 40)
	}
	require.Equal(b, int64(150), from)
	require.Len(b, p.page(store.StreamQuery{}).Chunks, store.DefaultLimit)
	require.Equal(b, "1.148 1.149", texts(p.page(store.StreamQuery{From: 2, FromEnd: true})))
	require.Len(b, p.page(store.StreamQuery{From: 1000, FromEnd: true, Limit: 1000}).Chunks, 150)
	end := p.page(store.StreamQuery{FromEnd: true})
	require.Empty(b, end.Chunks)
	require.Equal(b, int64(150), end.From)
	require.Empty(b, p.page(store.StreamQuery{From: 150}).Chunks)
	require.Empty(b, p.page(store.StreamQuery{From: 9000}).Chunks)
	bytes := p.page(store.StreamQuery{Bytes: 10}) // three bytes each at first
	require.Equal(b, "1.0 1.1 1.2 1.3", texts(bytes))
	require.True(b, bytes.More)
	_, err := b.store.Stream(b.ctx(), p.key, store.StreamQuery{From: -1})
	requireCode(b, cairnerr.CodeMalformed, err)
	_, err = b.store.Stream(b.ctx(), p.key, store.StreamQuery{Limit: -1})
	requireCode(b, cairnerr.CodeMalformed, err)
	infos, err := b.store.Streams(b.ctx(), b.ns, run)
	require.NoError(b, err)
	require.Len(b, infos, 3)
}

func streamBoundaries(b *bench) {
	p := b.pen(b.start(journal.Engine), "s")
	first, other, second := p.source("a", 1), p.source("b", 1), p.source("a", 2)
	p.append(first, "1")
	p.append(other, "2")
	p.append(second, "3", "4")
	p.append(first, "5")
	c := p.change(second)
	second.State = store.SourceSettled
	first.State = store.SourceVoid
	c.Changed = []store.Source{*first, *second}
	require.NoError(b, p.write(c))
	page := p.page(store.StreamQuery{})
	var boundaries []bool
	var states []store.SourceState
	for i := range page.Chunks {
		boundaries, states = append(boundaries, page.Chunks[i].Boundary), append(states, page.Chunks[i].State)
	}
	require.Equal(b, []bool{false, false, true, false, false}, boundaries)
	require.Equal(b, []store.SourceState{3, 0, 2, 2, 3}, states)
	require.Equal(b, 2, page.Chunks[2].Attempt)
}

func streamCloses(b *bench) {
	p := b.pen(b.start(journal.Engine), "s")
	s := p.source("", 0)
	c := p.change(s, "x")
	c.Head.Closed = true
	require.NoError(b, p.write(c))
	page := p.page(store.StreamQuery{})
	require.True(b, page.Head.Closed)
	require.Equal(b, "x", texts(page))
}

func streamNothing(b *bench) {
	run := b.start(journal.Engine)
	page := b.pen(run, "none").page(store.StreamQuery{From: 3})
	require.True(b, page.Run.Exists)
	require.Zero(b, page.Head)
	require.Empty(b, page.Chunks)
	page, err := b.store.Stream(b.ctx(), store.StreamKey{Namespace: b.ns, Run: b.mint(), Name: "s"}, store.StreamQuery{})
	require.NoError(b, err)
	require.False(b, page.Run.Exists)
	page, err = b.store.Stream(b.ctx(), store.StreamKey{Namespace: "never seen", Run: run, Name: "s"}, store.StreamQuery{FromEnd: true, From: 7})
	require.NoError(b, err)
	require.Equal(b, &store.StreamPage{}, page)
	infos, err := b.store.Streams(b.ctx(), b.ns, run)
	require.NoError(b, err)
	require.Empty(b, infos)
}

func streamNamespaces(b *bench) {
	run := b.start(journal.Engine)
	p := b.pen(run, "s")
	p.append(p.source("a", 1), "mine")
	other := b.foreign()
	page, err := b.store.Stream(b.ctx(), store.StreamKey{Namespace: other.ns, Run: run, Name: "s"}, store.StreamQuery{})
	require.NoError(b, err)
	require.Equal(b, &store.StreamPage{}, page)
	infos, err := b.store.Streams(b.ctx(), other.ns, run)
	require.NoError(b, err)
	require.Empty(b, infos)
	c := p.change(p.source("a", 1), "theirs")
	c.Namespace = other.ns
	require.ErrorIs(b, other.commit(&store.Changes{Streams: []store.StreamChange{*c}}), store.ErrConflict, "the run is not in that namespace")
	require.Equal(b, "mine", texts(p.page(store.StreamQuery{})))
}

// A change that does not continue the stream is refused, with everything else in its batch.
func streamMoved(b *bench) {
	p := b.pen(b.start(journal.Engine), "s")
	s := p.source("a", 1)
	stale := *p
	p.append(s, "1")
	again := *s
	again.No = -1
	c := stale.change(&again, "new stream")
	message := b.message("q", "", "x")
	require.ErrorIs(b, b.commit(&store.Changes{Streams: []store.StreamChange{*c}, Messages: []journal.Message{message}}), store.ErrConflict)
	_, err := b.store.Message(b.ctx(), b.ns, message.ID)
	requireCode(b, cairnerr.CodeMessageNotFound, err)
	stale.head = p.head
	p.append(s, "2")
	require.ErrorIs(b, stale.write(stale.change(s, "x")), store.ErrConflict)
	closing := p.change(s)
	closing.Head.Closed = true
	stale.head = p.head
	require.NoError(b, p.write(closing))
	require.ErrorIs(b, stale.write(stale.change(s, "x")), store.ErrConflict)
	require.Equal(b, "1 2", texts(p.page(store.StreamQuery{})))
}

func streamOwner(b *bench) {
	run := b.start(journal.Engine)
	p := b.pen(run, "s")
	s := p.source("a", 1)
	p.append(s, "1")
	for _, wrong := range []journal.Ownership{{Incarnation: b.self, Epoch: 2}, {Incarnation: b.mint(), Epoch: 1}} {
		other := *p
		other.owner = wrong
		require.ErrorIs(b, other.write(other.change(s, "x")), store.ErrConflict)
	}
	b.must(b.release(run))
	require.ErrorIs(b, p.write(p.change(s, "x")), store.ErrConflict, "nobody owns it")
	b.must(&journal.Command{Run: run, Lease: journal.LeasePush})
	b.must(b.claim(run))
	require.ErrorIs(b, p.write(p.change(s, "x")), store.ErrConflict, "the epoch is another")
	p.owner = b.owner(run)
	p.append(s, "2")
	b.outsider(run, plain(&journal.RunCancelled{}))
	require.ErrorIs(b, p.write(p.change(s, "x")), store.ErrConflict, "the run has ended")
	page := p.page(store.StreamQuery{})
	require.Equal(b, "1 2", texts(page))
	require.Equal(b, journal.StatusCancelled, page.Run.Status)
	free := *p
	free.owner = journal.Ownership{}
	free.append(s, "3") // who asks for no owner needs none
	require.Equal(b, "1 2 3", texts(p.page(store.StreamQuery{})))
}

// A batch can write to a stream and give its run back: the owner is that before the batch.
func streamWithRun(b *bench) {
	run := b.start(journal.Engine)
	p := b.pen(run, "s")
	state := b.cached(run)
	changes := b.optimistic(state, &journal.Command{Run: run, Lease: journal.LeaseRelease, Guards: journal.Guards{Owner: p.owner}})
	changes.Streams = []store.StreamChange{*p.change(p.source("", 0), "last")}
	require.NoError(b, b.commit(changes))
	require.Equal(b, "last", texts(p.page(store.StreamQuery{})))
	require.True(b, b.run(run).Owner.IsZero())
}

func streamZombie(b *bench) {
	dead := b.peer()
	run := dead.start(journal.Engine)
	p := dead.pen(run, "s")
	s := p.source("a", 1)
	p.append(s, "1")
	require.NoError(b, b.store.Fence(b.ctx(), dead.self))
	err := p.write(p.change(s, "x"))
	requireCode(b, cairnerr.CodeFenced, err)
	require.Equal(b, "1", texts(p.page(store.StreamQuery{})))
}

func streamLoad(b *bench) {
	run := b.start(journal.Engine)
	p := b.pen(run, "s")
	first, second, branch := p.source("a", 1), p.source("a", 2), p.source("x/", 0)
	p.append(first, "1")
	p.append(branch, "2")
	p.append(second, "3")
	p.append(branch, "4", "5")
	tx := b.begin()
	defer tx.Rollback()
	loaded, err := tx.Load(b.ctx(), &store.LoadSet{Streams: []store.LoadStream{
		{StreamKey: p.key, Keys: []string{"x/", "a", "unknown"}},
		{StreamKey: store.StreamKey{Namespace: b.ns, Run: run, Name: "none"}, Keys: []string{"a"}},
		{StreamKey: store.StreamKey{Namespace: b.ns, Run: b.mint(), Name: "s"}},
		{StreamKey: store.StreamKey{Namespace: "never seen", Run: run, Name: "s"}},
	}})
	require.NoError(b, err)
	require.Len(b, loaded.Streams, 4)
	got := loaded.Streams[0]
	require.Equal(b, p.head, got.Head)
	require.Equal(b, store.StreamRun{Exists: true, Status: journal.StatusRunning, Owner: b.self, Epoch: 1}, got.Run)
	require.ElementsMatch(b, []store.Source{*second, *branch}, got.Sources)
	require.Equal(b, int64(3), branch.N)
	require.Equal(b, store.LoadedStream{Run: got.Run}, loaded.Streams[1])
	require.Equal(b, store.LoadedStream{}, loaded.Streams[2])
	require.Equal(b, store.LoadedStream{}, loaded.Streams[3])
	// What was loaded can be written in the same batch.
	require.NoError(b, tx.Commit(b.ctx(), &store.Changes{Streams: []store.StreamChange{*p.change(second, "6")}}))
	require.Equal(b, "1 2 3 4 5 6", texts(p.page(store.StreamQuery{})))
}

// awaitHint waits until a run is named, or any is.
func awaitHint(b *bench, hints <-chan journal.ID, run journal.ID, any bool) {
	b.Helper()
	for {
		select {
		case got, ok := <-hints:
			require.True(b, ok, "the channel was closed")
			if got == run || (any && got.IsZero()) {
				return
			}
		case <-b.ctx().Done():
			require.Fail(b, "no hint")
		}
	}
}

func streamHints(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx())
	hints, err := b.store.Notifier().ListenStreams(ctx, nil)
	require.NoError(b, err)
	p := b.pen(b.start(journal.Engine), "s")
	s := p.source("a", 1)
	for range 3 {
		p.append(s, "x")
		awaitHint(b, hints, p.key.Run, false)
	}
	ended := b.mint()
	require.NoError(b, b.commit(&store.Changes{Notify: []string{b.ns}, StreamHints: []journal.ID{ended}}))
	awaitHint(b, hints, ended, false)
	cancel()
	for open := true; open; {
		select {
		case _, open = <-hints:
		case <-b.ctx().Done():
			require.Fail(b, "the channel stays open")
		}
	}
	p.append(s, "nobody listens")
}

// What another process writes is hinted at, too.
func streamHintsOfOthers(b *bench) {
	other := b.peer()
	hints, err := b.store.Notifier().ListenStreams(b.ctx(), nil)
	require.NoError(b, err)
	p := other.pen(other.start(journal.Engine), "s")
	s := p.source("a", 1)
	for i := range 3 {
		p.append(s, "x")
		awaitHint(b, hints, p.key.Run, true)
		require.Len(b, b.pen(p.key.Run, "s").page(store.StreamQuery{}).Chunks, i+1)
	}
}
