package engine

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
	"github.com/cairn-workflow/cairn/internal/store"
)

// A replay executes the code of a recorded run as it is executed after a crash: what the record has under a key is returned. What it does not have
// is not done. The branch that asks for it has come to the end of the record, and stays there; the others go on as far as they can. So no body
// and no check runs, nothing is written, and the outside hears nothing. When every branch rests, what the code has asked for is compared with the
// record: see [replay.first].

// replay is what is known of a replay. Its fields are guarded by the execution.
type replay struct {
	record  []journal.Event
	end     *journal.Event            // that the code came to; nil: the run goes on, or was ended from outside
	replies map[int64]*journal.Event  // by the delivery that they answer
	closes  map[string]*journal.Event // of hooks, by key

	asked    map[string]bool // keys that the code has asked for
	answered map[int64]bool  // deliveries that it has answered
	closed   map[string]bool // hooks that it has closed
	streams  map[string]bool // that are closed
	moves    int             // how often it did one of these
	found    []*Difference
	outcome  journal.Data // what it came to; nil: it did not come to an end

	settled chan struct{} // closed when every branch rests
	settle  func()        // closes it, once
}

// What a branch can ask for beyond what has a memo.
const (
	kindAnswer kind = "answer"
	kindClose  kind = "close"
)

// Replay executes the code of this engine against the journal of a run, which may have ended. It returns the first difference, in the order of the
// journal; nil: there is none. Nothing is written.
func (e *Engine) Replay(ctx context.Context, namespace string, run journal.ID) (*Difference, error) {
	j, err := e.store.Journal(ctx, namespace, run, 0)
	if err != nil {
		return nil, err
	}
	return e.ReplayEvents(ctx, namespace, run, j.Events)
}

// ReplayEvents is [Engine.Replay] for a journal that is not in the store, from its first event on.
func (e *Engine) ReplayEvents(ctx context.Context, namespace string, run journal.ID, record []journal.Event) (*Difference, error) {
	state, err := journal.Fold(namespace, run, slices.Clone(record))
	if err != nil {
		return nil, err
	}
	if state.Run == nil || state.Run.Dialect != journal.Engine {
		return nil, cairnerr.Errorf(cairnerr.CodeUnsupported, "only runs of dialect engine can be replayed: Cairn does not execute the code of other runs")
	}
	wf := e.workflows[state.Run.Workflow]
	if wf == nil {
		return nil, cairnerr.Errorf(cairnerr.CodeNotRegistered, "the record is of workflow %q, which was not given", state.Run.Workflow)
	}
	r, history := newReplay(record)
	if state.Run.StartedAt == 0 && state.Run.Status.Terminal() {
		return nil, nil //nolint:nilnil // its code was never executed
	}
	if state, err = journal.Fold(namespace, run, history); err != nil {
		return nil, err
	}
	x := newExec(e, e.self(), store.RunKey{Namespace: namespace, Run: run}, wf, state.Run)
	x.replay = r
	if created, ok := history[0].Data.(*journal.RunCreated); ok {
		x.bornAs(created)
	}
	if !x.learn(state.Run, history) {
		return nil, cairnerr.Errorf(cairnerr.CodeUnknownEvent, "the record has events of a newer program")
	}
	x.memos.paused = false // the code is executed anyway
	x.start()
	defer x.leave(ErrEvicted) // what deferred functions do then is not compared
	select {
	case <-r.settled:
		x.mu.Lock()
		defer x.mu.Unlock()
		return r.first(x), nil
	case <-ctx.Done():
		x.mu.Lock()
		defer x.mu.Unlock()
		if d := r.first(x); d != nil {
			return d, nil
		}
		return nil, cairnerr.Errorf(cairnerr.CodeTimeout, "the code has neither ended nor made a durable call: it blocks on something else (%w)", context.Cause(ctx))
	}
}

// newReplay returns a replay of a record, and the events that the code is given: those before the end.
func newReplay(record []journal.Event) (r *replay, history []journal.Event) {
	r = &replay{
		record: record, replies: map[int64]*journal.Event{}, closes: map[string]*journal.Event{},
		asked: map[string]bool{}, answered: map[int64]bool{}, closed: map[string]bool{}, streams: map[string]bool{}, settled: make(chan struct{}),
	}
	r.settle = sync.OnceFunc(func() { close(r.settled) })
	var request *journal.CancelRequested
	for i := range record {
		e := &record[i]
		switch d := e.Data.(type) {
		case *journal.HookReplied:
			if r.replies[d.To] == nil { // only the first answer counts
				r.replies[d.To] = e
			}
		case *journal.HookDisposed:
			r.closes[e.Key] = e
		case *journal.CancelRequested:
			if request == nil {
				request = d
			}
		case *journal.RunCompleted, *journal.RunFailed:
			r.end = e
			return r, slices.Clone(record[:i])
		case *journal.RunCancelled:
			// A run that is terminated ends wherever its code is. One that ends after a cancel says what the cancel said.
			if request != nil && request.Reason == d.Reason && request.Actor == d.Actor {
				r.end = e
			}
			return r, slices.Clone(record[:i])
		}
	}
	return r, slices.Clone(record)
}

// frontier is where a branch asks for something that is to be done now. In a replay it stays there: what would become of it is not recorded.
func (b *Branch) frontier(key string, k kind) {
	for b.x.replay != nil {
		b.x.block(&waiter{line: b.line, ready: never, key: key, kind: k})
	}
}

// differ notes a difference. The branch cannot go on.
func (b *Branch) differ(d *Difference) {
	b.x.mu.Lock()
	b.x.replay.found = append(b.x.replay.found, d)
	b.x.mu.Unlock()
	for {
		b.x.block(&waiter{line: b.line, ready: never})
	}
}

// replayAsk notes that the code asks for a key.
func (b *Branch) replayAsk(key string, k kind, m *memo) {
	r := b.x.replay
	if r == nil {
		return
	}
	b.x.mu.Lock()
	r.asked[key] = true
	r.moves++
	b.x.mu.Unlock()
	if m != nil && m.kind != k {
		b.differ(&Difference{Seq: m.seq, Key: key, What: "another kind of thing", Recorded: r.describe(m.seq), Now: "asks for " + string(k) + " " + quote(key)})
	}
}

// replayHalts is called where the code cannot go on with what is recorded.
func (b *Branch) replayHalts(reason *cairnerr.Error) {
	r := b.x.replay
	key := reason.Details[detailPlace]
	b.x.mu.Lock()
	m := b.x.memos.byKey[key]
	b.x.mu.Unlock()
	d := &Difference{Seq: 1, What: "the code cannot go on", Recorded: r.describe(1), Now: "stops with " + quote(reason.Error())}
	if m != nil {
		d.Seq, d.Key = max(m.completed, m.seq), key
		d.Recorded = r.describe(d.Seq)
	}
	if was := reason.Details[detailRecorded]; was != "" {
		d.Recorded += ", " + was
		d.Now = "wants " + reason.Details[detailWanted] + ": " + quote(reason.Message)
	}
	b.differ(d)
}

// replayTimer is called where a recorded timer is asked for with another duration.
func (b *Branch) replayTimer(key string, m *memo, was, is string) {
	if r := b.x.replay; r != nil {
		b.differ(&Difference{
			Seq: m.seq, Key: key, What: "another duration", Recorded: r.describe(m.seq) + ", " + was, Now: "asks for wait " + quote(key) + ", " + is,
		})
	}
}

// replayChoice is called where a decision was made for a branch that the code does not start any more.
func (b *Branch) replayChoice(key, branch string) {
	r := b.x.replay
	if r == nil {
		return
	}
	b.x.mu.Lock()
	m := b.x.memos.byKey[key]
	b.x.mu.Unlock()
	b.differ(&Difference{
		Seq: m.completed, Key: key, What: "a branch that was chosen is missing", Recorded: r.describe(m.completed) + " chose " + quote(branch),
		Now: "does not start branch " + quote(branch),
	})
}

// replayReply compares an answer with the recorded one.
func (b *Branch) replayReply(d Delivery, v journal.Payload, failure *cairnerr.Error) {
	b.x.mu.Lock()
	r := b.x.replay
	again, lost, e := r.answered[d.seq], b.isClosed(), r.replies[d.seq]
	r.answered[d.seq] = true
	r.moves++
	b.x.mu.Unlock()
	switch {
	case again || lost:
		return
	case e == nil:
		b.frontier(d.hook.key, kindAnswer)
	}
	reply, _ := e.Data.(*journal.HookReplied)
	if was, is := answer(reply.Value, reply.Error), answer(v, failure); !samePayload(reply.Value, v) || was != is {
		was, is = clip(was, is)
		b.differ(&Difference{Seq: e.Seq, Key: e.Key, What: "another answer", Recorded: r.describe(e.Seq) + " " + was, Now: "answers " + is})
	}
}

func answer(v journal.Payload, failure *cairnerr.Error) string {
	if failure != nil {
		return "with the error " + quote(failure.Error())
	}
	return view(v)
}

// replayClose notes that the code closes a hook.
func (b *Branch) replayClose(h *Hook) {
	b.x.mu.Lock()
	r := b.x.replay
	fine := r.closed[h.key] || r.closes[h.key] != nil || b.isClosed()
	r.closed[h.key] = true
	r.moves++
	b.x.mu.Unlock()
	if !fine {
		b.frontier(h.key, kindClose)
	}
}

// replayStream is called where the code writes to a stream, or closes it. What was written is not part of the record, but who closed a stream is.
func (x *exec) replayStream(name string, closes bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	closed := x.replay.streams[name]
	if closes {
		x.replay.streams[name] = true
	} else if closed {
		return streamClosed(name)
	}
	return nil
}

// replayCloses notes the streams that a finished step has closed.
func (b *Branch) replayCloses(m *memo) {
	if b.x.replay == nil || m.copied { // the streams of a fork begin empty
		return
	}
	for _, name := range m.streamsClosed {
		_ = b.x.replayStream(name, true)
	}
}

// replayRests is called when the last branch has come to rest.
func (x *exec) replayRests() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase == phaseRunning && x.active == 0 && !x.tellWaiting() {
		x.replay.settle()
	}
}

// replayedTo is called when the code has come to an end. Branches that nobody has waited for may still have to ask for what they had done by then.
func (x *exec) replayedTo(b *Branch, end journal.Data) {
	x.mu.Lock()
	x.replay.outcome = end
	delete(x.lines, b.line)
	b.counted = false
	x.active--
	idle := x.active == 0
	x.mu.Unlock()
	if idle {
		x.replayRests()
	} else {
		x.replayLeftovers(-1)
	}
}

// replayLeftovers ends the replay when the branches that are left have asked for nothing for a while.
func (x *exec) replayLeftovers(before int) {
	x.turns.Take("leftovers", 0)
	x.mu.Lock()
	moves := x.replay.moves
	x.mu.Unlock()
	if moves == before {
		x.replay.settle()
		return
	}
	x.eng.timers.set(x.eng.now().Add(maxLeftover), func() { go x.replayLeftovers(moves) })
}

// maxLeftover is how long a branch that nobody waits for may ask for nothing before it is taken for one that waits for something else. It is long because a
// busy machine may not let it come to its next call, and costs nothing where branches rest.
const maxLeftover = 10 * time.Second

// samePayload reports whether two values are equal, however they are stored.
func samePayload(a, b journal.Payload) bool {
	if bytes.Equal(a, b) {
		return true
	}
	first, err := payload.Digest(a)
	if err != nil {
		return false
	}
	second, err := payload.Digest(b)
	return err == nil && bytes.Equal(first, second)
}
