package engine

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/store"
)

// Workflow is code with a permanent name.
type Workflow struct {
	Name string
	Run  func(b *Branch, input journal.Payload) (journal.Payload, error)
}

// Config tunes an engine. The zero value is good for most.
type Config struct {
	// Namespace of the runs that the engine starts. Defaults to "default".
	Namespace string
	// MaxActive is the most runs that do something at the same time; more wait in the database. Defaults to 10,000.
	MaxActive int
	// Poll is how often the engine looks for runs that are due and of which it was not told. Defaults to a second.
	Poll time.Duration
	// Lease is how long a process may show no sign of life before its peers take its runs over. Defaults to 5 seconds.
	Lease time.Duration
	// Entropy is where ids and tokens come from. Defaults to crypto/rand.
	Entropy io.Reader
	// Logger gets what the engine has to say. Defaults to nothing.
	Logger *slog.Logger
}

// Engine executes runs in one process.
type Engine struct {
	cfg       Config
	store     store.Store
	committer *commit.Committer
	self      journal.ID
	workflows map[string]*Workflow
	timers    *timers
	log       *slog.Logger

	life context.Context // ends when the engine stops: code sees that its context is over
	hard context.Context // ends when nothing more can be written
	stop context.CancelFunc
	kill context.CancelFunc
	work sync.WaitGroup

	mintMu sync.Mutex
	minter *journal.Minter

	mu      sync.Mutex
	execs   map[store.RunKey]*exec
	active  int
	drained chan struct{} // closed when active becomes 0 while the engine stops
	stopped bool
	results map[store.RunKey][]chan *journal.Run // those who wait for a run
	look    chan struct{}                        // asks the poller to look now
}

// New starts an engine on a store. Workflows are known from the beginning: a run of another one is left to other processes.
func New(ctx context.Context, st store.Store, cfg Config, workflows ...*Workflow) (*Engine, error) {
	e := &Engine{
		cfg: cfg, store: st, workflows: map[string]*Workflow{}, execs: map[store.RunKey]*exec{}, results: map[store.RunKey][]chan *journal.Run{},
		look: make(chan struct{}, 1), log: cfg.Logger, drained: make(chan struct{}),
	}
	e.defaults()
	for _, w := range workflows {
		if e.workflows[w.Name] != nil {
			return nil, journal.Errorf(CodeDuplicateName, "two workflows are named %q", w.Name)
		}
		e.workflows[w.Name] = w
	}
	var err error
	if e.self, err = e.mint(); err != nil {
		return nil, err
	}
	e.hard, e.kill = context.WithCancel(context.WithoutCancel(ctx))
	e.life, e.stop = context.WithCancel(e.hard)
	e.timers = newTimers(e.now)
	e.committer, err = commit.New(ctx, st, e.self, &commit.Config{Now: e.now, Logger: e.log})
	if err != nil {
		return nil, err
	}
	e.work.Go(e.poll)
	e.work.Go(e.heart)
	e.work.Go(e.watch)
	return e, nil
}

func (e *Engine) defaults() {
	if e.cfg.Namespace == "" {
		e.cfg.Namespace = "default"
	}
	if e.cfg.MaxActive <= 0 {
		e.cfg.MaxActive = 10_000
	}
	if e.cfg.Poll <= 0 {
		e.cfg.Poll = time.Second
	}
	if e.cfg.Lease <= 0 {
		e.cfg.Lease = 5 * time.Second
	}
	if e.cfg.Entropy == nil {
		e.cfg.Entropy = rand.Reader
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	e.minter = journal.NewMinter(e.cfg.Entropy)
}

func (e *Engine) now() journal.Time { return journal.TimeOf(time.Now()) }

func (e *Engine) mint() (journal.ID, error) {
	e.mintMu.Lock()
	defer e.mintMu.Unlock()
	return e.minter.Mint(e.now())
}

// newToken returns 160 random bits as text.
func (e *Engine) newToken() (string, error) {
	var b [20]byte
	if _, err := io.ReadFull(e.cfg.Entropy, b[:]); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// StartRequest asks for a run.
type StartRequest struct {
	Workflow   string
	Input      journal.Payload
	Digest     []byte
	StartKey   string
	Attributes map[string]string
	Parent     *journal.Run
	ID         journal.ID // of the run; zero: a new one
}

// Start makes a run durable, and begins to execute it if this process has its workflow and room for it.
func (e *Engine) Start(ctx context.Context, r StartRequest) (journal.ID, error) {
	id := r.ID
	if id.IsZero() {
		var err error
		if id, err = e.mint(); err != nil {
			return id, err
		}
	}
	created := &journal.RunCreated{
		Workflow: r.Workflow, Input: r.Input, StartKey: r.StartKey, StartDigest: r.Digest, Attributes: r.Attributes, Root: id,
	}
	if r.Parent != nil {
		created.Parent, created.Root = r.Parent.ID, r.Parent.Root
	}
	cmd := &journal.Command{Namespace: e.cfg.Namespace, Run: id, Events: []journal.Event{{Data: created}}}
	wf := e.workflows[r.Workflow]
	mine := wf != nil && e.admit()
	if mine {
		cmd.Events = append(cmd.Events, journal.Event{Data: &journal.RunStarted{}})
		cmd.Guards.Owner = journal.Ownership{Incarnation: e.self, Epoch: 1}
	}
	res, err := e.committer.Do(ctx, cmd)
	if err != nil || res.Existing || !mine {
		if mine {
			e.release()
		}
		if err != nil {
			return id, err
		}
		e.lookNow()
		return res.Run.ID, nil
	}
	x := newExec(e, store.RunKey{Namespace: e.cfg.Namespace, Run: id}, wf, res.Run)
	x.input = r.Input
	x.observe(res.Run, res.Appended)
	e.keep(x)
	x.start()
	return id, nil
}

// admit takes a place among the runs that do something.
func (e *Engine) admit() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped || e.active >= e.cfg.MaxActive {
		return false
	}
	e.active++
	return true
}

// release gives a place back.
func (e *Engine) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active--
	if e.stopped && e.active == 0 {
		close(e.drained)
	}
	if e.active == e.cfg.MaxActive-1 {
		e.lookNow()
	}
}

// keep remembers an execution.
func (e *Engine) keep(x *exec) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.execs[x.key] = x
	x.counted = true
}

// rests is called when an execution waits: it takes no place.
func (e *Engine) rests(x *exec) {
	if x.uncount() {
		e.release()
	}
}

// works is called when an execution goes on: it takes a place, also if there is none.
func (e *Engine) works(x *exec) {
	if x.count() {
		e.mu.Lock()
		e.active++
		e.mu.Unlock()
	}
}

// forget drops an execution that is over, and tells those who wait for the run.
func (e *Engine) forget(x *exec) {
	e.mu.Lock()
	if e.execs[x.key] == x {
		delete(e.execs, x.key)
	}
	waiting := e.results[x.key]
	delete(e.results, x.key)
	e.mu.Unlock()
	if x.uncount() {
		e.release()
	}
	for _, ch := range waiting {
		close(ch)
	}
}

// announce gives the result of a run that ended here to those who wait for it, so that they need not read it.
func (e *Engine) announce(key store.RunKey, run *journal.Run, end journal.Data) {
	e.mu.Lock()
	waiting := e.results[key]
	delete(e.results, key)
	e.mu.Unlock()
	for _, ch := range waiting {
		own := *run
		store.RunOutcome(&own, end)
		ch <- &own
	}
}

func (x *exec) count() bool {
	x.eng.mu.Lock()
	defer x.eng.mu.Unlock()
	was := x.counted
	x.counted = true
	return !was
}

func (x *exec) uncount() bool {
	x.eng.mu.Lock()
	defer x.eng.mu.Unlock()
	was := x.counted
	x.counted = false
	return was
}

// Stop ends the engine: it takes no more runs, lets those that do something come to a wait or their end, and gives the
// rest back when ctx ends. Nothing is lost: other processes, or this one when it starts again, go on with them.
func (e *Engine) Stop(ctx context.Context) error {
	e.mu.Lock()
	if e.stopped {
		e.mu.Unlock()
		return nil
	}
	e.stopped = true
	idle := e.active == 0
	e.mu.Unlock()
	if !idle {
		select {
		case <-e.drained:
		case <-ctx.Done():
		}
	}
	e.stop()
	e.timers.stop()
	e.mu.Lock()
	all := make([]*exec, 0, len(e.execs))
	for _, x := range e.execs {
		all = append(all, x)
	}
	e.mu.Unlock()
	for _, x := range all {
		x.leave(ErrStopped)
	}
	err := e.committer.Close(ctx)
	e.kill()
	e.work.Wait()
	// What this incarnation still owned is free now.
	return errors.Join(err, e.store.Fence(context.WithoutCancel(ctx), e.self))
}

// ErrStopped is the cause of a context whose engine stops.
var ErrStopped = errors.New("the engine stops")

func (e *Engine) logDrift(x *exec, key string) {
	e.log.WarnContext(e.life, "a finished step is asked for with another input; its recorded result is used",
		slog.String("run", journal.PrefixRun.Format(x.key.Run)), slog.String("step", key))
}

func (e *Engine) logRefusal(x *exec, cmd *journal.Command, err error) {
	e.log.ErrorContext(e.life, "what a run did was refused; it is left as it is", slog.String("run", journal.PrefixRun.Format(x.key.Run)),
		slog.Int("events", len(cmd.Events)), slog.Any("error", err))
}
