package engine

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/stream"
	"github.com/cairn-workflow/cairn/internal/turn"
	"github.com/cairn-workflow/cairn/internal/version"
	"github.com/cairn-workflow/cairn/observe"
)

// Workflow is code with a permanent name.
type Workflow struct {
	Name string
	Run  func(b *Branch, input journal.Payload) (journal.Payload, error)
	// Rewrite reads an input and writes it as its type is written today; nil: it stays as it is.
	Rewrite func(journal.Payload) (journal.Payload, []byte, error)
	// Same reports whether a recorded input, read as the type that it has now, is the present one; nil: it cannot be said.
	Same func(recorded, now journal.Payload) bool
}

// Config tunes an engine. The zero value is good for most.
type Config struct {
	// Namespace is the one that New returns the engine in. Its runs are executed. Defaults to "default".
	Namespace string
	// Namespaces are others whose runs are executed; [AllNamespaces]: those of everybody.
	Namespaces []string
	// MaxActive is the most runs that do something at the same time; more wait in the database. Defaults to 10,000.
	MaxActive int
	// MaxWaiting is the most waiting runs that are kept in memory; the rest goes on from the journal. Defaults to 5,000; negative: none.
	MaxWaiting int
	// Poll is how often the engine looks for runs that are due and of which it was not told. Defaults to a second.
	Poll time.Duration
	// Lease is how long a process may show no heartbeat before its peers take its runs over. Defaults to 5 seconds.
	Lease time.Duration
	// Strict parks a run when a finished step is asked for with another input, also where its name is used once.
	Strict bool
	// Entropy is where ids and tokens come from. Defaults to crypto/rand.
	Entropy io.Reader
	// Logger gets what the engine has to say. Defaults to nothing.
	Logger *slog.Logger
	// Build names the build of this program. Defaults to one that follows from the executable.
	Build func() string
	// Ready is called when the engine is made, before it executes anything.
	Ready func(*Engine)
	// Hooks are told what the engine does.
	Hooks observe.Hooks
	// KeepLogs lets what runs say be kept; nil: it is not.
	KeepLogs *KeepLogs
}

// AllNamespaces stands for all namespaces that there are and will be.
const AllNamespaces = "*"

// Engine is what executes runs in one process, as it is seen in one namespace. All that it has is the same in every namespace.
type Engine struct {
	*shared

	namespace string
}

// In returns the engine in another namespace.
func (e *Engine) In(namespace string) *Engine {
	if namespace == e.namespace {
		return e
	}
	return &Engine{shared: e.shared, namespace: namespace}
}

// shared is an engine without the namespace that it is seen in.
type shared struct {
	cfg       Config
	store     store.Store
	workflows map[string]*Workflow
	scope     store.Scope // what is executed
	timers    *timers
	log       *slog.Logger
	testing   *Testing
	turns     turn.Taker   // nil, but for simulations
	numbers   atomic.Int64 // of those who take turns
	streams   *stream.Hub
	lives     sync.Map  // the incarnations of this engine so far
	obs       *observer // nil: nobody wants to know what happens
	counts    counters
	keeper    *keeper // nil: what runs say is not kept

	life context.Context // ends when the engine stops: code sees that its context is over
	hard context.Context // ends when nothing more can be written
	stop context.CancelFunc
	kill context.CancelFunc
	work sync.WaitGroup

	wall     func() time.Time
	born     time.Time    // where clock begins
	nextLook atomic.Int64 // when the poller looks again; journal.Time

	mintMu sync.Mutex
	minter *journal.Minter

	mu       sync.Mutex
	me       *incarnation
	execs    map[store.RunKey]*exec
	claiming map[store.RunKey]bool // runs that are being claimed, and whether something came for them meanwhile
	waiting  waitingList
	active   int
	suspects int           // runs whose last owner died and that have not shown yet that they do no harm
	trust    int           // how many have shown it
	drained  chan struct{} // closed when active becomes 0 while the engine stops
	drain    func()        // closes it, once
	ended    chan struct{} // closed when the engine has stopped
	end      func()        // closes it, once
	stopped  bool
	results  map[store.RunKey][]*runWaiter             // those who wait for a run
	watched  map[store.RunKey]bool                     // the runs that watchRuns looks at
	replies  map[store.RunKey]map[int64][]*replyWaiter // those who wait for answers of a run, by delivery
	answers  *answers
	recent   *recent
	tokens   map[store.Token]hookRef // of open hooks of runs that are in memory: a hint that saves a look into the database
	reviving bool                    // the incarnation is over, and the next one not there yet
	revived  chan struct{}           // closed, and made anew, with each new incarnation
	look     chan struct{}           // asks the poller to look now
	watchAny chan struct{}           // tells watchRuns that there is a run to watch
	retired  commit.Stats            // of incarnations that are over
}

// New starts an engine on a store. Workflows are known from the beginning: a run of another one is left to other processes.
func New(ctx context.Context, st store.Store, cfg Config, workflows ...*Workflow) (*Engine, error) {
	e := &Engine{namespace: cfg.Namespace, shared: &shared{
		cfg: cfg, store: st, workflows: map[string]*Workflow{}, execs: map[store.RunKey]*exec{}, claiming: map[store.RunKey]bool{}, results: map[store.RunKey][]*runWaiter{},
		replies: map[store.RunKey]map[int64][]*replyWaiter{}, answers: newAnswers(), recent: newRecent(), tokens: map[store.Token]hookRef{}, born: time.Now(), revived: make(chan struct{}), look: make(chan struct{}, 1), log: cfg.Logger, testing: testingOf(ctx), drained: make(chan struct{}), ended: make(chan struct{}),
	}}
	e.watched, e.watchAny = map[store.RunKey]bool{}, make(chan struct{}, 1)
	e.drain = sync.OnceFunc(func() { close(e.drained) })
	e.end = sync.OnceFunc(func() { close(e.ended) })
	e.wall, e.turns = e.testing.wall(), e.testing.Turn
	e.defaults()
	e.streams = stream.NewHub(st, e.cfg.Poll, e.isOwnWriter, e.ended)
	if err := e.checkNamespaces(); err != nil {
		return nil, err
	}
	if err := errors.Join(CheckWorkflows(workflows)...); err != nil {
		return nil, err
	}
	for _, w := range workflows {
		e.workflows[w.Name] = w
		e.scope.Workflows = append(e.scope.Workflows, w.Name)
	}
	e.hard, e.kill = context.WithCancel(context.WithoutCancel(ctx))
	e.life, e.stop = context.WithCancel(e.hard)
	e.timers = newTimers(e.now, e.turns)
	e.obs = newObserver(ctx, cfg.Hooks, e.log)
	me, err := e.newIncarnation(ctx)
	if err != nil {
		e.kill()
		e.obs.close()
		return nil, err
	}
	e.me = me
	e.keeper = newKeeper(ctx, cfg.KeepLogs, st, e.log)
	e.observeLife(cfg.Hooks.EngineStarted, "EngineStarted")
	if cfg.Ready != nil {
		cfg.Ready(e)
	}
	e.work.Go(e.poll)
	e.work.Go(e.heart)
	e.work.Go(e.watch)
	if !e.scope.IsEmpty() {
		e.work.Go(e.retryParked)
	}
	e.work.Go(e.watchRuns)
	if e.testing.Started != nil {
		e.testing.Started(e)
	}
	return e, nil
}

// checkNamespaces notes whose runs are executed, and returns all that is wrong with their names.
func (e *Engine) checkNamespaces() error {
	e.scope.All = slices.Contains(e.cfg.Namespaces, AllNamespaces)
	names := append([]string{e.namespace}, e.cfg.Namespaces...)
	names = slices.DeleteFunc(names, func(name string) bool { return name == AllNamespaces })
	slices.Sort(names)
	e.scope.Namespaces = slices.Compact(names)
	return errors.Join(CheckNamespaces(e.namespace, e.cfg.Namespaces)...)
}

// CheckNamespaces returns all that is wrong with the names of an engine's own namespace and of the others.
func CheckNamespaces(own string, others []string) (mistakes []error) {
	for i, name := range append([]string{own}, others...) {
		if err := journal.CheckNamespace(name); err != nil && (i == 0 || name != AllNamespaces) {
			mistakes = append(mistakes, err)
		}
	}
	return mistakes
}

// executes reports whether the runs of a workflow in the engine's namespace are executed by this process.
func (e *Engine) executes(workflow string) bool {
	return e.workflows[workflow] != nil && (e.scope.All || slices.Contains(e.scope.Namespaces, e.namespace))
}

// CheckWorkflows returns all that is wrong with the names of workflows.
func CheckWorkflows(workflows []*Workflow) (mistakes []error) {
	seen := map[string]bool{}
	for _, w := range workflows {
		if err := CheckName(w.Name); err != nil {
			mistakes = append(mistakes, err)
		} else if seen[w.Name] {
			mistakes = append(mistakes, cairnerr.Errorf(cairnerr.CodeDuplicateName, "two workflows are named %q", w.Name))
		}
		seen[w.Name] = true
	}
	return mistakes
}

func (e *Engine) defaults() {
	if e.namespace == "" {
		e.namespace = "default"
	}
	if e.cfg.MaxActive <= 0 {
		e.cfg.MaxActive = 10_000
	}
	if e.cfg.MaxWaiting == 0 {
		e.cfg.MaxWaiting = 5_000
	}
	if e.cfg.Poll <= 0 {
		e.cfg.Poll = time.Second
	}
	if e.cfg.Lease <= 0 {
		e.cfg.Lease = 5 * time.Second
	}
	if e.cfg.Build == nil {
		e.cfg.Build = version.Build
	}
	if e.cfg.Entropy == nil {
		e.cfg.Entropy = rand.Reader
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	e.minter = journal.NewMinter(e.cfg.Entropy)
}

// Namespace returns the namespace that the engine is seen in.
func (e *Engine) Namespace() string { return e.namespace }

// Store returns the store that the engine works on.
func (e *Engine) Store() store.Store { return e.store }

func (e *Engine) now() journal.Time { return journal.TimeOf(e.wall()) }

// pause waits a moment before something is tried again. It reports false when nothing can be written any more.
func (e *Engine) pause() bool {
	select {
	case <-time.After(50 * time.Millisecond):
		return true
	case <-e.hard.Done():
		return false
	}
}

func (e *Engine) mint() (journal.ID, error) {
	e.mintMu.Lock()
	defer e.mintMu.Unlock()
	return e.minter.Mint(e.now())
}

// newToken returns 160 random bits as text, which can be an argument on a command line and be marked with a double click.
func (e *Engine) newToken() (string, error) {
	var b [20]byte
	e.mintMu.Lock()
	defer e.mintMu.Unlock()
	if _, err := io.ReadFull(e.cfg.Entropy, b[:]); err != nil {
		return "", err
	}
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:])), nil
}

// StartRequest asks for a run.
type StartRequest struct {
	Workflow   string
	Input      journal.Payload
	Digest     []byte
	StartKey   string
	Attributes map[string]string
	Parent     *journal.Run
	Elsewhere  bool         // another process has the workflow
	At         journal.Time // when it is to begin; 0: now
	Notes      []*journal.Annotated
	Err        error // what is wrong with the request
	Headers    map[string]string
	// Same reports whether a recorded input, read as the type that it has now, is the present one; nil: it cannot be said.
	Same func(recorded, now journal.Payload) bool
	// First is asked of the run in the commit that makes it; nil: nothing.
	First *FirstRequest
}

// Start makes a run durable, and begins to execute it if this process has its workflow and room for it.
func (e *Engine) Start(ctx context.Context, r StartRequest) (journal.ID, error) {
	s, err := e.startOnce(ctx, r)
	return s.run, err
}

// startOnce starts a run, or finds the one that was started with the same key and input.
func (e *Engine) startOnce(ctx context.Context, r StartRequest) (started, error) {
	s, err := e.startTold(ctx, r)
	if before, same := e.sameStart(ctx, r, err); same {
		return started{run: before, existing: true}, nil
	}
	return s, err
}

// StartAs is [Engine.Start] for who does not have the type of the input. If this process has the workflow, the input is read as that.
func (e *Engine) StartAs(ctx context.Context, r StartRequest) (journal.ID, error) {
	if wf := e.workflows[r.Workflow]; wf != nil && wf.Rewrite != nil {
		in, digest, err := wf.Rewrite(r.Input)
		if err != nil {
			return journal.ID{}, cairnerr.Errorf(cairnerr.CodeValueRefused, "the input does not fit workflow %q: %w", r.Workflow, err)
		}
		r.Input, r.Digest, r.Same = in, digest, wf.Same
	}
	return e.Start(ctx, r)
}

// sameStart finds the run of a start whose key was used with an input that only looks different, because its type has changed since: decoded into today's
// type and encoded again, it is the same.
func (e *Engine) sameStart(ctx context.Context, r StartRequest, err error) (journal.ID, bool) {
	if cairnerr.CodeOf(err) != cairnerr.CodeStartKeyConflict || r.Same == nil {
		return journal.ID{}, false
	}
	list, err := e.store.Runs(ctx, e.namespace, store.RunFilter{Workflow: r.Workflow, StartKey: r.StartKey}, store.Page{Limit: 1})
	if err != nil || len(list.Data) == 0 {
		return journal.ID{}, false
	}
	run, err := e.store.Run(ctx, e.namespace, list.Data[0].ID, store.ResolveAll)
	if err != nil || !run.ForkedFrom.IsZero() { // a fork is more than its input
		return journal.ID{}, false
	}
	return run.ID, r.Same(run.Input, r.Input)
}

// started is what became of a start.
type started struct {
	run      journal.ID
	existing bool  // its start key is that of an older run
	first    int64 // the event of the first request, 0: none was written
}

func (e *Engine) start(ctx context.Context, r StartRequest) (started, error) {
	if err := e.checkStart(&r); err != nil {
		return started{}, err
	}
	for {
		me := e.self()
		s, err := e.tryStart(ctx, me, r)
		if !e.died(me, err) {
			return s, stopped(err)
		}
		if err := e.awaitLife(ctx, me); err != nil {
			return s, err
		}
	}
}

func (e *Engine) tryStart(ctx context.Context, me *incarnation, r StartRequest) (started, error) {
	id, err := e.mint()
	if err != nil {
		return started{}, err
	}
	cmd := &journal.Command{Namespace: e.namespace, Run: id, Events: []journal.Event{{Data: r.birth(id)}}}
	wf := e.workflows[r.Workflow]
	mine := e.executes(r.Workflow) && r.At <= e.now() && e.admit()
	if mine {
		cmd.Events = append(cmd.Events, journal.Event{Data: &journal.RunStarted{}})
		cmd.Guards.Owner = journal.Ownership{Incarnation: me.id, Epoch: 1}
	}
	for _, note := range r.Notes {
		cmd.Events = append(cmd.Events, journal.Event{Data: note})
	}
	cmd.Events = append(cmd.Events, r.First.events(id, e.now())...)
	res, err := me.committer.Do(ctx, cmd)
	if err != nil || res.Existing || !mine {
		if mine {
			e.release()
		}
		if err != nil {
			return started{}, err
		}
		if r.At == 0 {
			e.lookNow()
		}
		e.lookBy(r.At)
		return started{res.Run.ID, res.Existing, firstOf(res)}, nil
	}
	x := newExec(e, me, store.RunKey{Namespace: e.namespace, Run: id}, wf, res.Run)
	x.input, x.headers, x.why = r.Input, r.Headers, observe.BeginStarted
	x.observe(res.Run, res.Appended, true)
	e.mu.Lock()
	kept := e.keep(x)
	e.mu.Unlock()
	if kept {
		x.start()
	}
	return started{run: id, first: firstOf(res)}, nil
}

// keep remembers an execution, which takes the place that was admitted. It reports false if its incarnation is over, or the engine
// stops: then the run is freed with the incarnation. The lock is held.
func (e *Engine) keep(x *exec) bool {
	x.place = placeActive
	if e.me != x.me || e.stopped {
		x.place = placeNone
		e.leftActive()
		e.cleared(x)
		return false
	}
	e.execs[x.key] = x
	return true
}

// forget drops an execution that is over, and tells those who wait for the run.
func (e *Engine) forget(x *exec) {
	e.mu.Lock()
	if e.execs[x.key] == x {
		delete(e.execs, x.key)
	}
	waiting := e.results[x.key]
	delete(e.results, x.key)
	e.wakeReplies(x.key, anyReply)
	e.move(x, placeNone)
	e.cleared(x)
	for _, token := range x.tokens {
		e.forgetToken(x.key, token)
	}
	e.mu.Unlock()
	e.streams.Wake(x.key.Run) // it has ended, or nobody executes it
	for _, w := range waiting {
		close(w.over)
	}
}

// stopGrace is how long giving runs back may take, and then freeing what could not be given back.
const stopGrace = 5 * time.Second

// Stop ends the engine: it takes no more runs, lets those that do something come to a wait or their end, and gives the
// rest back when ctx ends. Nothing is lost: other processes, or this one when it starts again, go on with them.
func (e *Engine) Stop(ctx context.Context) error {
	e.mu.Lock()
	if e.stopped {
		e.mu.Unlock()
		select { // somebody else stops it
		case <-e.ended:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	e.stopped = true
	idle := e.active == 0
	e.mu.Unlock()
	defer e.end()
	if !idle {
		select {
		case <-e.drained:
		case <-ctx.Done():
		}
	}
	e.timers.stop()
	late := time.AfterFunc(stopGrace, e.kill) // the database may not answer
	defer late.Stop()
	e.handOver() // before any context ends: what code does because of that must not be recorded
	e.stop()
	e.handOver() // who was just being started
	me := e.self()
	err := me.committer.Close(ctx)
	e.kill()
	e.work.Wait()
	e.keeper.close()
	e.obs.close()
	e.observeLife(e.cfg.Hooks.EngineStopped, "EngineStopped")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	// What this incarnation still owns, if anything, is free now.
	err = errors.Join(err, e.store.Fence(ctx, me.id))
	if last := e.self(); last != me { // it was being replaced meanwhile
		err = errors.Join(err, last.committer.Abort(), e.store.Fence(ctx, last.id))
	}
	return err
}

// handOver gives all runs back.
func (e *Engine) handOver() {
	var handed sync.WaitGroup
	for _, x := range e.all() {
		handed.Go(func() {
			x.turns.Take("hand over", 0)
			x.handOver()
		})
	}
	handed.Wait()
}

// all returns the executions that there are.
func (e *Engine) all() []*exec {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]*exec, 0, len(e.execs))
	for _, x := range e.execs {
		all = append(all, x)
	}
	return all
}

func (e *Engine) logDrift(x *exec, k kind, key, what string) {
	x.settle()
	x.logger().WarnContext(e.life, "a recorded call is made differently now; its record is used", slog.String(string(k), key), slog.String("another", what))
}

func (e *Engine) logParked(x *exec, reason *cairnerr.Error) {
	x.logger().WarnContext(e.life, "a run is parked: it goes on when somebody has looked at it and resumed it", slog.Any("error", reason), slog.String("place", reason.Details[detailPlace]), slog.String("stack", reason.Stack))
}

func (e *Engine) logHalted(x *exec, reason *cairnerr.Error) {
	x.logger().WarnContext(e.life, "the code of a cancelled run cannot go on: the run ends without its clean-up", slog.Any("error", reason), slog.String("stack", reason.Stack))
}

// build names the program that this engine is part of.
func (e *Engine) build() string { return e.cfg.Build() }

func (e *Engine) logRefusal(x *exec, cmd *journal.Command, err error) {
	x.logger().ErrorContext(e.life, "what a run did was refused; it is left as it is", slog.Int("events", len(cmd.Events)), slog.Any("error", err))
}
