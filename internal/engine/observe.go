package engine

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/observe"
)

const (
	// maxObservations is how many calls of hooks wait; more are left out.
	maxObservations = 8192
	// observeGrace is how long an engine that stops waits for the calls that are left.
	observeGrace = 2 * time.Second
)

// observer calls the hooks of an engine. It is nil where there are none, and then costs a comparison.
type observer struct {
	hooks   observe.Hooks
	base    context.Context // has the values of the engine's, and never ends
	log     *slog.Logger
	queue   chan func()
	stop    chan struct{}
	done    chan struct{}
	end     func() // closes stop, once
	dropped atomic.Int64
	warned  sync.Map // the hooks that have panicked, by name
	large   sync.Once
}

func newObserver(ctx context.Context, hooks observe.Hooks, log *slog.Logger) *observer {
	if reflect.ValueOf(hooks).IsZero() {
		return nil
	}
	o := &observer{hooks: hooks, base: context.WithoutCancel(ctx), log: log, queue: make(chan func(), maxObservations), stop: make(chan struct{}), done: make(chan struct{})}
	o.end = sync.OnceFunc(func() { close(o.stop) })
	go o.run()
	return o
}

// run makes the calls that nobody waits for, one after the other. When the engine stops it makes those that are left.
func (o *observer) run() {
	defer close(o.done)
	for {
		select {
		case f := <-o.queue:
			f()
		case <-o.stop:
			for {
				select {
				case f := <-o.queue:
					f()
				default:
					return
				}
			}
		}
	}
}

// close ends the observer, and waits for what is left, for a while: a hook may be what stops the engine.
func (o *observer) close() {
	if o == nil {
		return
	}
	o.end()
	timer := time.NewTimer(observeGrace)
	defer timer.Stop()
	select {
	case <-o.done:
	case <-timer.C:
	}
}

// tell makes a call later. The engine does not wait: what does not fit is dropped.
func (o *observer) tell(name string, f func()) {
	select {
	case o.queue <- func() { o.safely(name, f) }:
	default:
		o.dropped.Add(1)
	}
}

// safely makes a call. A panic is logged, once for each hook.
func (o *observer) safely(name string, f func()) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if _, told := o.warned.LoadOrStore(name, true); !told {
			o.log.Error("a hook panicked; the engine goes on, and says this once", slog.String("hook", name), slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
		}
	}()
	f()
}

// begun is something that a hook was told the beginning of. Nil: nobody was.
type begun[E any] struct {
	o    *observer
	name string
	end  func(E)
}

// over tells the end.
func (b *begun[E]) over(e E) {
	if b != nil && b.end != nil {
		b.o.tell(b.name, func() { b.end(e) })
	}
}

// begin calls a hook that returns a context. Of that only the values are taken: what ends the context stays the engine's matter.
func begin[B, E any](ctx context.Context, o *observer, name string, hook func(context.Context, B) (context.Context, func(E)), what B) (context.Context, *begun[E]) {
	b := &begun[E]{o: o, name: name}
	o.safely(name, func() {
		next, end := hook(ctx, what)
		ctx, b.end = withValues(ctx, next), end
	})
	return ctx, b
}

// valued is a context with values of another one.
type valued struct {
	context.Context
	values context.Context
}

func withValues(ctx, values context.Context) context.Context {
	if values == nil || values == ctx {
		return ctx
	}
	return valued{ctx, context.WithoutCancel(values)}
}

// Value implements [context.Context].
func (v valued) Value(key any) any {
	if found := v.values.Value(key); found != nil {
		return found
	}
	return v.Context.Value(key)
}

// inject returns what belongs to the trace of a context, nil if nothing does.
func (o *observer) inject(ctx context.Context) map[string]string {
	if o == nil || o.hooks.Propagator == nil {
		return nil
	}
	headers := map[string]string{}
	o.safely("Propagator.Inject", func() { o.hooks.Propagator.Inject(ctx, headers) })
	if size := journal.HeaderBytes(headers); size == 0 {
		return nil
	} else if size > journal.MaxHeaders {
		o.large.Do(func() {
			o.log.WarnContext(ctx, "what belongs to a trace is too large to be recorded, and is left out; this is said once", slog.Int("bytes", size), slog.Int("limit", journal.MaxHeaders))
		})
		return nil
	}
	return headers
}

// recorded returns a context with what was recorded.
func (o *observer) recorded(headers map[string]string) context.Context {
	ctx := o.base
	if o.hooks.Propagator == nil || len(headers) == 0 {
		return ctx
	}
	o.safely("Propagator.Extract", func() { ctx = withValues(ctx, o.hooks.Propagator.Extract(ctx, headers)) })
	return ctx
}

// codeOf returns the code of an error for those who count.
func codeOf(err error) string {
	if err == nil {
		return ""
	}
	if code := asFailure(err).Code; code != "" {
		return string(code)
	}
	return observe.CodeNone
}

// counters count what seldom happens, for [Engine.Stats].
type counters struct {
	evicted, parked, leasesLost, peersDied atomic.Int64
}

// Stats returns the numbers of the engine.
func (e *Engine) Stats() observe.Stats {
	e.mu.Lock()
	me, past := e.me, e.retired
	s := observe.Stats{Namespace: e.namespace, Active: e.active, Waiting: len(e.waiting.byRun)}
	e.mu.Unlock()
	now := me.committer.Stats()
	s.Queue = me.committer.Waiting()
	s.Commands, s.Refused = past.Commands+now.Commands, past.Refused+now.Refused
	s.Events, s.Batches = past.Events+now.Events, past.Batches+now.Batches
	s.Evicted, s.Parked = e.counts.evicted.Load(), e.counts.parked.Load()
	s.LeasesLost, s.PeersDied = e.counts.leasesLost.Load(), e.counts.peersDied.Load()
	s.LogLinesDropped = e.keeper.drops()
	if e.obs != nil {
		s.ObservationsDropped = e.obs.dropped.Load()
	}
	return s
}

// retire keeps the numbers of an incarnation that is over.
func (e *Engine) retire(me *incarnation) {
	s := me.committer.Stats()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.retired.Commands += s.Commands
	e.retired.Refused += s.Refused
	e.retired.Events += s.Events
	e.retired.Batches += s.Batches
}

// lostLease is called when this process has lost its runs.
func (e *Engine) lostLease(me *incarnation) {
	e.counts.leasesLost.Add(1)
	if o := e.obs; o != nil && o.hooks.LeaseLost != nil {
		o.tell("LeaseLost", func() { o.hooks.LeaseLost(observe.Lease{Incarnation: journal.PrefixIncarnation.Format(me.id)}) })
	}
}

// peerDied is called when this process has declared another one dead.
func (e *Engine) peerDied(id journal.ID) {
	e.counts.peersDied.Add(1)
	if o := e.obs; o != nil && o.hooks.PeerDied != nil {
		o.tell("PeerDied", func() { o.hooks.PeerDied(observe.Lease{Incarnation: journal.PrefixIncarnation.Format(id)}) })
	}
}

// committed returns what the committer calls after each transaction, nil if nobody wants to know.
func (e *Engine) committed() func(commit.Batch) {
	o := e.obs
	if o == nil || o.hooks.Committed == nil {
		return nil
	}
	return func(b commit.Batch) { o.tell("Committed", func() { o.hooks.Committed(observe.Commit(b)) }) }
}

// observeLife tells that the engine is there, or gone. Who starts and stops it waits for that.
func (e *Engine) observeLife(hook func(observe.Source), name string) {
	if hook != nil {
		e.obs.safely(name, func() { hook(e) })
	}
}
