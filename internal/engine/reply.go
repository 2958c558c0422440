package engine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// replyKey names a delivery that may be answered.
type replyKey struct {
	run journal.ID
	seq int64
}

// replyWaiter is a caller that waits for the answer to a delivery.
type replyWaiter struct {
	to      int64                     // the delivery
	answer  chan *journal.HookReplied // gets the answer; it is closed if there may be something to read
	watched bool                      // watchRuns tells the caller; guarded by the engine
	seen    int64                     // events up to here the caller has read; guarded by the engine
}

// AwaitReply waits for the answer to a delivery. An answer that is given in this process is passed on from memory. The
// database is read only if this process does not own the run, or the answer may have been given before, or if there is
// news: see watchRuns.
func (e *Engine) AwaitReply(ctx context.Context, r Receipt) (*journal.HookReplied, error) {
	key := store.RunKey{Namespace: e.namespace, Run: r.Run}
	n := e.numbers.Add(1)
	page := store.Page{Cursor: store.NumberCursor(store.CursorEvents, 0, r.Seq)} // it comes later than what it answers
	seen := int64(0)
	for look := false; ; look = true {
		d, w, watched := e.awaitReply(key, r, look, seen)
		if d != nil {
			return d, nil
		}
		if watched || e.mayBeAnswered(key, r) {
			var err error
			d, seen, err = e.findReply(ctx, r, &page)
			if err != nil || d != nil {
				e.leaveReply(key, w)
				return d, err
			}
			e.hasRead(w, seen)
		}
		d, err := e.toldReply(ctx, w, watched, n)
		e.leaveReply(key, w)
		if d != nil || err != nil {
			return d, err
		}
	}
}

// awaitReply returns an answer that was given here lately, or begins to wait for it. A run that this process does not
// own is watched in the database, and so is any other if the caller asks for that.
func (e *Engine) awaitReply(
	key store.RunKey, r Receipt, watch bool, seen int64,
) (d *journal.HookReplied, w *replyWaiter, watched bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if d := e.answers.get(replyKey{r.Run, r.Seq}); d != nil {
		return d, nil, false
	}
	watched = watch || !e.owns(key)
	w = &replyWaiter{to: r.Seq, answer: make(chan *journal.HookReplied, 1), watched: watched, seen: seen}
	of := e.replies[key]
	if of == nil {
		of = map[int64][]*replyWaiter{}
		e.replies[key] = of
	}
	of[w.to] = append(of[w.to], w)
	if watched {
		e.watchRun(key)
	}
	return nil, w, watched
}

// mayBeAnswered reports whether the answer to a delivery, or that there will be none, may be durable already. Callers
// are told of everything that an execution in this process writes from now on.
func (e *Engine) mayBeAnswered(key store.RunKey, r Receipt) bool {
	x := e.exec(key.Run)
	if x == nil {
		return true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase != phaseRunning && x.phase != phaseParking { // what others have written is not known
		return true
	}
	hook := x.memos.hooks[r.Hook]
	return x.memos.replied[r.Seq] || hook == nil || hook.disposed
}

// hasRead notes how far a caller has read the events of its run.
func (e *Engine) hasRead(w *replyWaiter, seen int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w.seen = seen
}

// toldReply waits until a caller is told of the answer. It returns nothing if the caller has to look.
func (e *Engine) toldReply(
	ctx context.Context, w *replyWaiter, watched bool, n int64,
) (d *journal.HookReplied, err error) {
	var look <-chan time.Time
	if !watched { // this process owns the run, but it may be declared dead
		timer := time.NewTimer(e.cfg.Poll)
		defer timer.Stop()
		look = timer.C
	}
	select {
	case d = <-w.answer:
	case <-look:
	case <-e.ended:
		err = errStopped()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	e.turns.Take("reply", n)
	if d == nil {
		select {
		case d = <-w.answer: // it has come, too
		default:
		}
	}
	if d != nil {
		return d, nil
	}
	return nil, err
}

// leaveReply ends waiting.
func (e *Engine) leaveReply(key store.RunKey, w *replyWaiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keepReplies(key, w.to, slices.DeleteFunc(e.replies[key][w.to], func(o *replyWaiter) bool { return o == w }))
	e.unwatchRun(key)
}

// keepReplies makes some callers all who wait for the answer to a delivery. The lock is held.
func (e *Engine) keepReplies(key store.RunKey, to int64, waiting []*replyWaiter) {
	of := e.replies[key]
	switch {
	case len(waiting) > 0:
		of[to] = waiting
	case len(of) == 1 && of[to] != nil:
		delete(e.replies, key)
	default:
		delete(of, to)
	}
}

// wakeReplies lets callers look that wait for answers of a run. The lock is held.
func (e *Engine) wakeReplies(key store.RunKey, wake func(*replyWaiter) bool) {
	for to, waiting := range e.replies[key] {
		var left []*replyWaiter
		for _, w := range waiting {
			if wake(w) {
				close(w.answer)
			} else {
				left = append(left, w)
			}
		}
		e.keepReplies(key, to, left)
	}
}

// anyReply chooses all callers that wait for answers.
func anyReply(*replyWaiter) bool { return true }

// findReply reads the answer to a delivery, from the page on, which it moves. It returns up to which event it has
// read. A run that has ended gives no answer any more.
func (e *Engine) findReply(ctx context.Context, r Receipt, page *store.Page) (*journal.HookReplied, int64, error) {
	heads, err := e.store.Heads(ctx, e.namespace, []journal.ID{r.Run})
	switch {
	case err != nil:
		return nil, 0, err
	case len(heads) == 0:
		return nil, 0, store.RunNotFound(r.Run)
	}
	filter := store.EventFilter{Run: r.Run, Entity: r.Hook, Resolve: store.ResolveAll}
	for {
		list, err := e.store.Events(ctx, e.namespace, filter, *page)
		if err != nil {
			return nil, 0, err
		}
		for i := range list.Data {
			switch d := list.Data[i].Data.(type) {
			case *journal.HookReplied:
				if d.To == r.Seq {
					return d, 0, nil
				}
			case *journal.HookDisposed:
				return nil, 0, cairnerr.Errorf(cairnerr.CodeHookNotFound, "the hook was closed without an answer")
			}
		}
		page.Cursor = cmp.Or(list.Cursor, page.Cursor)
		if !list.HasMore {
			break
		}
	}
	if heads[0].Status.Terminal() {
		return nil, 0, cairnerr.Errorf(cairnerr.CodeRunGone, "the run ended without an answer")
	}
	return nil, heads[0].Seq, nil
}

// replied passes answers that are durable on to those who wait for them. If a hook was closed, all who wait for an
// answer of the run look whether they will get one.
func (e *Engine) replied(run journal.ID, events []journal.Event) {
	key := store.RunKey{Namespace: e.namespace, Run: run}
	for i := range events {
		switch d := events[i].Data.(type) {
		case *journal.HookReplied:
			e.mu.Lock()
			e.answers.put(replyKey{run, d.To}, d)
			waiting := e.replies[key][d.To]
			e.keepReplies(key, d.To, nil)
			e.mu.Unlock()
			for _, w := range waiting {
				w.answer <- copyReply(d)
			}
		case *journal.HookDisposed:
			e.mu.Lock()
			e.wakeReplies(key, anyReply)
			e.mu.Unlock()
		}
	}
}

// The most that is remembered of answers that were given here.
const (
	maxAnswers     = 4096
	maxAnswerBytes = 2048 // of one answer
)

// answers remembers the answers that were given here lately: most callers ask for theirs when it is given already,
// because what they send and what is answered are often one commit. An answer is final.
type answers struct {
	order []replyKey // the oldest first, from first on
	first int
	byKey map[replyKey]*journal.HookReplied
}

func newAnswers() *answers { return &answers{byKey: map[replyKey]*journal.HookReplied{}} }

func (a *answers) put(key replyKey, d *journal.HookReplied) {
	if len(d.Value) > maxAnswerBytes || a.byKey[key] != nil {
		return
	}
	a.byKey[key] = d
	if len(a.order) < maxAnswers {
		a.order = append(a.order, key)
		return
	}
	delete(a.byKey, a.order[a.first])
	a.order[a.first] = key
	a.first = (a.first + 1) % maxAnswers
}

// get returns an answer, nil if it is not remembered.
func (a *answers) get(key replyKey) *journal.HookReplied {
	if d := a.byKey[key]; d != nil {
		return copyReply(d)
	}
	return nil
}

// copyReply returns a copy: the caller that gets it may change it.
func copyReply(d *journal.HookReplied) *journal.HookReplied {
	own := *d
	own.Value = slices.Clone(d.Value)
	return &own
}
