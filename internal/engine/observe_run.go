package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/observe"
)

// segment is what this process does of a run between two waits. Hooks are told of it when something needs its context, by the goroutine that does, or
// when it is over: so none of the engine's own goroutines ever waits for a hook.
type segment struct {
	why observe.Begin
	at  time.Time

	once sync.Once
	ctx  context.Context // with what was recorded with the run, and what the hook has added
	b    *begun[observe.ExecutionEnd]
}

// segmentBegins notes that this process does something of the run from now on.
func (x *exec) segmentBegins(why observe.Begin) {
	if x.eng.obs != nil {
		x.segment.Store(&segment{why: why, at: time.Now()})
	}
}

// span returns the context of the present segment for its values, nil if there is none.
func (x *exec) span() context.Context {
	s := x.segment.Load()
	if s == nil {
		return nil
	}
	return x.open(s)
}

// open tells the hook of a segment, if nobody has.
func (x *exec) open(s *segment) context.Context {
	s.once.Do(func() {
		o := x.eng.obs
		s.ctx = o.recorded(x.headers)
		if o.hooks.Execute != nil {
			s.ctx, s.b = begin(s.ctx, o, "Execute", o.hooks.Execute, observe.Execution{Run: x.about(), Why: s.why, At: s.at})
		}
	})
	return s.ctx
}

// segmentEnds notes that this process does no more of the run for now.
func (x *exec) segmentEnds(why observe.End) {
	o := x.eng.obs
	if o == nil {
		return
	}
	s := x.segment.Swap(nil)
	if s == nil || o.hooks.Execute == nil {
		return
	}
	now, early := time.Now(), x.unsettled() != nil
	o.tell("Execute", func() {
		if early { // it may never have been: only who has heard of its begin hears of its end
			s.once.Do(func() { s.ctx = o.recorded(x.headers) })
		}
		x.open(s)
		if s.b != nil && s.b.end != nil {
			s.b.end(observe.ExecutionEnd{Why: why, At: now, Took: now.Sub(s.at)})
		}
	})
}

// beginOf says why a run is taken.
func beginOf(run *journal.Run, died bool) observe.Begin {
	switch {
	case died:
		return observe.BeginTakenOver
	case run.Status == journal.StatusPending:
		return observe.BeginStarted
	default:
		return observe.BeginLoaded
	}
}

// segmentEnd says why an execution is over that left for a cause.
func segmentEnd(cause error) observe.End {
	if errors.Is(cause, ErrStopped) {
		return observe.EndStopped
	}
	return observe.EndLost
}

// about returns the run for hooks.
func (x *exec) about() observe.Run {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := runAbout(x.key, x.run)
	r.Workflow, r.Epoch = x.wf.Name, x.epoch
	return r
}

func runAbout(key store.RunKey, run *journal.Run) observe.Run {
	r := observe.Run{Namespace: key.Namespace, ID: journal.PrefixRun.Format(key.Run), Workflow: run.Workflow, CreatedAt: run.CreatedAt.Std(), Epoch: run.Epoch}
	if !run.Parent.IsZero() {
		r.ParentID = journal.PrefixRun.Format(run.Parent)
	}
	return r
}

// with returns a context with the values of the present segment.
func (x *exec) with(ctx context.Context) context.Context {
	if x.eng.obs == nil {
		return ctx
	}
	return withValues(ctx, x.span())
}

// Value returns what hooks have put into the context of the branch's run for now; nil if nothing.
func (b *Branch) Value(key any) any {
	if b.x.eng.obs == nil {
		return nil
	}
	if span := b.x.span(); span != nil {
		return span.Value(key)
	}
	return nil
}

// observe tells that the body is about to be called, and returns its context.
func (s *step) observe(ctx context.Context) context.Context {
	x := s.b.x
	o := x.eng.obs
	if o == nil {
		return ctx
	}
	ctx = x.with(ctx)
	if o.hooks.Attempt != nil {
		s.calledAt = time.Now()
		ctx, s.called = begin(ctx, o, "Attempt", o.hooks.Attempt,
			observe.Attempt{Run: x.about(), Step: s.spec.Name, Key: s.key, Attempt: s.attempt, At: s.calledAt})
	}
	return ctx
}

// observed tells what became of the call, if somebody was told of it.
func (s *step) observed(outcome observe.Outcome, err error, retry time.Duration) {
	if s.called == nil {
		return
	}
	now := time.Now()
	s.called.over(observe.AttemptEnd{Outcome: outcome, Err: err, Code: codeOf(err), Retry: retry, At: now, Took: now.Sub(s.calledAt)})
	s.called = nil
}

// abandoned is called when the step is left in whatever way: nothing is recorded of a call of which nobody was told the end.
func (s *step) abandoned() { s.observed(observe.OutcomeLost, nil, 0) }

// observe tells that a poll is about to look, and returns the context of its check, and what tells the end of it.
func (p *poll) observe(ctx context.Context) (context.Context, func(ready bool, err error)) {
	x := p.b.x
	o := x.eng.obs
	if o == nil {
		return ctx, func(bool, error) {}
	}
	ctx = x.with(ctx)
	if o.hooks.Look == nil {
		return ctx, func(bool, error) {}
	}
	began := time.Now()
	ctx, b := begin(ctx, o, "Look", o.hooks.Look, observe.Look{Run: x.about(), Poll: p.spec.Name, Key: p.key, At: began})
	return ctx, func(ready bool, err error) {
		now, found := time.Now(), observe.FoundNothing
		switch {
		case err != nil:
			found = observe.FoundError
		case ready:
			found = observe.FoundAnswer
		}
		b.over(observe.LookEnd{Found: found, Err: err, Code: codeOf(err), At: now, Took: now.Sub(began)})
	}
}

// startTold starts a run, and tells of it.
func (e *Engine) startTold(ctx context.Context, r StartRequest) (started, error) {
	o := e.obs
	if o == nil {
		return e.start(ctx, r)
	}
	var b *begun[observe.RunStarted]
	at := time.Now()
	inner := ctx
	if o.hooks.StartRun != nil {
		what := observe.RunStart{Namespace: e.namespace, Workflow: r.Workflow, StartKey: r.StartKey, At: at}
		if r.Parent != nil {
			what.ParentID = journal.PrefixRun.Format(r.Parent.ID)
		}
		inner, b = begin(ctx, o, "StartRun", o.hooks.StartRun, what)
	}
	r.Headers = o.inject(inner)
	s, err := e.start(ctx, r)
	end := observe.RunStarted{Existing: s.existing, Err: err, Took: time.Since(at)}
	if err == nil {
		end.ID = journal.PrefixRun.Format(s.run)
	}
	b.over(end)
	return s, err
}

// deliverTold sends a payload through a hook, and tells of it.
func (e *Engine) deliverTold(ctx context.Context, d *journal.HookReceived, s *Sending) (Receipt, error) {
	o := e.obs
	if o == nil {
		return e.deliver(ctx, d, s)
	}
	var b *begun[observe.Sent]
	at := time.Now()
	inner := ctx
	if o.hooks.Send != nil {
		inner, b = begin(ctx, o, "Send", o.hooks.Send, observe.Send{Namespace: e.namespace, At: at})
	}
	d.Headers = o.inject(inner)
	receipt, err := e.deliver(ctx, d, s)
	end := observe.Sent{Err: err, Took: time.Since(at)}
	if err == nil {
		end.RunID = journal.PrefixRun.Format(receipt.Run)
	}
	b.over(end)
	return receipt, err
}

// observeReceived tells that the code has got something through a hook.
func (x *exec) observeReceived(hook string, d *delivery) {
	o := x.eng.obs
	if o == nil || o.hooks.Received == nil {
		return
	}
	s := x.segment.Load()
	r := observe.Received{Run: x.about(), Hook: hook, Headers: d.headers, SentAt: d.at.Std(), At: time.Now()}
	x.whenSettled(func() {
		o.tell("Received", func() {
			ctx := o.base
			if s != nil {
				ctx = withValues(ctx, x.open(s))
			}
			o.hooks.Received(ctx, r)
		})
	})
}

// observeEnd tells that a run has ended, by who wrote that.
func (e *Engine) observeEnd(key store.RunKey, run *journal.Run, end journal.Data, headers map[string]string) {
	o := e.obs
	if o == nil || o.hooks.RunEnded == nil {
		return
	}
	told := observe.RunEnd{Run: runAbout(key, run), Status: run.Status.String(), At: run.CompletedAt.Std(), Took: run.CompletedAt.Std().Sub(run.CreatedAt.Std())}
	if d, failed := end.(*journal.RunFailed); failed && d.Error != nil {
		told.Err, told.Code = d.Error, codeOf(d.Error)
	}
	s := &segment{ctx: o.recorded(headers)} // the context is the run's: who has ended it may be anybody
	o.tell("RunEnded", func() { o.hooks.RunEnded(s.ctx, told) })
}

// headersOf returns what was recorded with a run that may not be in memory.
func (e *Engine) headersOf(ctx context.Context, run journal.ID) map[string]string {
	if e.obs == nil || e.obs.hooks.RunEnded == nil || e.obs.hooks.Propagator == nil {
		return nil
	}
	if x := e.exec(run); x != nil {
		return x.headers
	}
	first, err := e.store.Event(ctx, e.namespace, run, 1, store.ResolveNone)
	if err != nil {
		return nil // its end is told without
	}
	if created, ok := first.Data.(*journal.RunCreated); ok {
		return created.Headers
	}
	return nil
}

// observeParked tells that the run is stopped until somebody has looked at it.
func (x *exec) observeParked(reason error) {
	x.eng.counts.parked.Add(1)
	if o := x.eng.obs; o != nil && o.hooks.RunParked != nil {
		p := observe.RunParked{Run: x.about(), Err: reason, Code: codeOf(reason)}
		o.tell("RunParked", func() { o.hooks.RunParked(p) })
	}
	x.segmentEnds(observe.EndParked)
}

// observeEvicted tells that the run was dropped from memory.
func (x *exec) observeEvicted() {
	x.eng.counts.evicted.Add(1)
	if o := x.eng.obs; o != nil && o.hooks.RunEvicted != nil {
		r := x.about()
		o.tell("RunEvicted", func() { o.hooks.RunEvicted(r) })
	}
}
