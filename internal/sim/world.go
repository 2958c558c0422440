package sim

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

const namespace = "sim"

// Options say how large a simulation is. The zero value is a good one.
type Options struct {
	Processes int  // at the same time; default 3
	Clients   int  // of each process; default 4
	Commands  int  // of each client; default 12
	Runs      int  // that they share; default 5
	Calm      bool // no faults
	// Break changes the store that processes use: the tests plant bugs with it.
	Break func(store.Store) store.Store
}

func (o Options) withDefaults() Options {
	def := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	def(&o.Processes, 3)
	def(&o.Clients, 4)
	def(&o.Commands, 12)
	def(&o.Runs, 5)
	return o
}

// world is a database and what runs on it.
type world struct {
	seed  uint64
	opts  Options
	dir   string
	trace Trace
	runs  []journal.ID
	// end is closed when the simulation is over.
	end chan struct{}

	mu      sync.Mutex
	claims  []claim
	fences  []fence
	errs    []error
	started int // processes so far
}

// claim is what a client was told about a command that carried a mark.
type claim struct {
	mark        string
	run         journal.ID
	incarnation journal.ID
	fate        fate
	seq         int64
	epoch       int64 // of an owner's command; of a claim, the new one
	claims      bool
	releases    bool
}

type fate string

const (
	acknowledged fate = "acknowledged" // it must be there, once
	refused      fate = "refused"      // it must not be there
	unknown      fate = "unknown"      // it may be there, once
)

// fence is an incarnation that was declared dead, with the marks of it that were there at that time.
type fence struct {
	incarnation journal.ID
	marks       map[string]bool
}

// Run simulates one seed in the current bubble, with a database in dir. It returns the trace, and what is wrong.
func Run(seed uint64, dir string, opts Options) ([]byte, error) {
	w := &world{seed: seed, opts: opts.withDefaults(), dir: dir, end: make(chan struct{})}
	err := w.run()
	if err != nil {
		err = fmt.Errorf("seed %d: %w\n%s", seed, err, w.trace.Tail(40))
	}
	return w.trace.Bytes(), err
}

func (w *world) run() error {
	god := NewActor(w.seed, "world")
	minter := journal.NewMinter(god)
	for range w.opts.Runs {
		id, err := minter.Mint(now())
		if err != nil {
			return err
		}
		w.runs = append(w.runs, id)
	}
	first, err := w.open() // makes the schema, so that the processes do not race for it
	if err != nil {
		return err
	}
	defer func() { _ = first.Close() }()

	var wg sync.WaitGroup
	for range w.opts.Processes {
		p := w.newProcess()
		wg.Go(func() { w.live(p) })
	}
	wg.Wait()
	close(w.end)
	// What hung goes on to its end, and late commits have landed.
	time.Sleep(time.Minute)
	return errors.Join(append(w.errs, w.check(first))...)
}

func (w *world) open() (store.Store, error) {
	return sqlite.Open(context.Background(), filepath.Join(w.dir, "sim.db"), &sqlite.Config{Readers: 1})
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, fmt.Errorf(format, args...))
}

func now() journal.Time { return journal.TimeOf(time.Now()) }

// process is one life of a program: an incarnation with a store, a committer and clients.
type process struct {
	*Actor
	store       store.Store
	committer   *commit.Committer
	incarnation journal.ID
	killed      chan struct{} // closed when the process is no more
	kill        func()
	hang        chan struct{} // closed when the simulation is over, and one that was killed goes on to its end

	mu    sync.Mutex
	owned map[journal.ID]*journal.Run // the runs that the process has claimed, as it saw them last
}

// claimed returns a run that the process has claimed, as it saw it last; nil if it has not.
func (p *process) claimed(run journal.ID) *journal.Run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.owned[run]
}

// learn remembers what the process was told about a run.
func (p *process) learn(run *journal.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if run.Owner == p.incarnation {
		p.owned[run.ID] = run
	} else {
		delete(p.owned, run.ID)
	}
}

// ownable reports whether a run is the engine's: two of five are.
func (w *world) ownable(run journal.ID) bool { return run == w.runs[0] || run == w.runs[len(w.runs)/2] }

func (w *world) newProcess() *process {
	w.mu.Lock()
	w.started++
	name := fmt.Sprintf("p%d", w.started)
	w.mu.Unlock()
	p := &process{Actor: NewActor(w.seed, name), killed: make(chan struct{}), hang: make(chan struct{}), owned: map[journal.ID]*journal.Run{}}
	p.kill = sync.OnceFunc(func() {
		close(p.killed)
		go func() {
			<-w.end
			NewActor(w.seed, name+"/end").Point() // all of them go on
			close(p.hang)
		}()
	})
	return p
}

// live starts a process and lets its clients work. When it is killed, another one takes its place for what is left.
func (w *world) live(p *process) {
	left := w.opts.Commands
	for left > 0 {
		done, err := w.lifetime(p, left)
		if err != nil {
			w.fail("%s: %w", p.name, err)
			return
		}
		left -= max(done, 1)
		p = w.newProcess()
	}
}

// lifetime runs one process until its clients are done or it is killed. It returns how far its slowest client came.
func (w *world) lifetime(p *process, commands int) (int, error) {
	p.Point()
	st, err := w.open()
	if err != nil {
		return 0, err
	}
	defer func() { _ = st.Close() }()
	p.store = st
	minter := journal.NewMinter(NewActor(w.seed, p.name+"/ids"))
	if p.incarnation, err = minter.Mint(now()); err != nil {
		return 0, err
	}
	broken := st
	if w.opts.Break != nil {
		broken = w.opts.Break(st)
	}
	plan := func(journal.ID) faultstore.Plan { return w.plan(p) }
	p.committer, err = commit.New(context.Background(), faultstore.Wrap(broken, plan), p.incarnation, &commit.Config{Now: now, MaxBatch: 4})
	if err != nil {
		return 0, err
	}
	w.trace.Add(p.name, "starts")
	done := make([]int, w.opts.Clients)
	var wg sync.WaitGroup
	for i := range w.opts.Clients {
		c := &client{Actor: NewActor(w.seed, fmt.Sprintf("%s/c%d", p.name, i)), w: w, p: p}
		wg.Go(func() { done[i] = c.work(commands) })
	}
	wg.Wait()
	w.closeProcess(p)
	least := commands
	for _, n := range done {
		least = min(least, n)
	}
	return least, nil
}

// closeProcess ends a process that is done. One that was killed, perhaps only now, hangs until the end: nothing waits for it.
func (w *world) closeProcess(p *process) {
	p.Point()
	closed := make(chan error, 1)
	go func() {
		select {
		case <-p.killed:
			<-p.hang
			NewActor(w.seed, p.name+"/close").Point()
		default:
		}
		closed <- p.committer.Close(context.Background())
	}()
	select {
	case err := <-closed:
		if err != nil {
			w.fail("%s: close: %w", p.name, err)
		}
	case <-p.killed:
		w.declareDead(p)
	}
}

// declareDead fences a process, and remembers what it had written by then.
func (w *world) declareDead(p *process) {
	p.Point()
	if err := p.store.Fence(context.Background(), p.incarnation); err != nil {
		w.fail("fence %s: %w", p.name, err)
		return
	}
	marks, err := w.marks(p.store, p.incarnation)
	if err != nil {
		w.fail("fence %s: %w", p.name, err)
		return
	}
	w.mu.Lock()
	w.fences = append(w.fences, fence{p.incarnation, marks})
	w.mu.Unlock()
	w.trace.Add(p.name, "is declared dead with %d marks", len(marks))
}

// plan decides what happens at the interaction points of a process's writer.
func (w *world) plan(p *process) faultstore.Plan {
	a := NewActor(w.seed, p.name+"/writer")
	return func(op faultstore.Op, n int) faultstore.Fault {
		f := faultstore.Fault{Delay: a.delay()}
		roll := a.Pick(1000)
		if !w.opts.Calm {
			w.mischief(p, a, op, roll, &f)
		}
		w.trace.Add(p.name, "%s %d%s", op, n, describe(f))
		return f
	}
}

// mischief picks a fault.
func (w *world) mischief(p *process, a *Actor, op faultstore.Op, roll int, f *faultstore.Fault) {
	switch {
	case roll < 15: // kill -9, before or after the database has it
		p.kill()
		f.Hang = p.hang
		f.AfterCommit = op == faultstore.OpCommit && a.Chance(500)
	case roll < 30: // stopped for longer than any lease, and then it goes on
		f.Delay += 10 * time.Second
	case roll < 60:
		f.Delay += time.Duration(a.Pick(50_000_000))
	case op == faultstore.OpCommit && roll < 110:
		f.AfterCommit = true
	case op == faultstore.OpCommit && roll < 150:
		f.Before = store.ErrUnknownOutcome
	case op == faultstore.OpCommit && roll < 190:
		f.Late = time.Duration(1+a.Pick(4)) * 700 * time.Millisecond
	case op == faultstore.OpCommit && roll < 230:
		f.Before = store.ErrBusy
	case op == faultstore.OpCommit && roll < 250:
		f.Before = cairnerr.Errorf(cairnerr.CodeDiskFull, "simulated")
	case op == faultstore.OpSettle && roll < 300, op == faultstore.OpBegin && roll < 90:
		f.Before = cairnerr.Errorf(cairnerr.CodeUnreachable, "simulated")
	}
}

func describe(f faultstore.Fault) string {
	switch {
	case f.Hang != nil && f.AfterCommit:
		return ": killed after"
	case f.Hang != nil:
		return ": killed before"
	case f.AfterCommit:
		return ": applied, then lost"
	case f.Late > 0:
		return fmt.Sprintf(": lands %s late", f.Late)
	case f.Before != nil:
		return ": " + f.Before.Error()
	default:
		return ""
	}
}
