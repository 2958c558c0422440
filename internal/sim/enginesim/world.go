package enginesim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/sim"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

const namespace = "default"

// Options change a simulation. The zero value is the ordinary one.
type Options struct {
	// Break changes the store that processes use: the tests plant bugs with it.
	Break func(store.Store) store.Store
	// Unsynced loses what was written last when the power is cut, although it was acknowledged: a planted bug.
	Unsynced bool
}

// Report is what came of a simulation.
type Report struct {
	Trace []byte
	// Fired are the faults that happened: those of the plan that did not can be left out.
	Fired []PointFault
	// Histories is how many runs and hooks had operations to put in order, Undecided for how many of them that took too long.
	Histories, Undecided int

	errs    []error
	history *history
}

// world is a database on which engines come and go.
type world struct {
	plan  *Plan
	opts  Options
	dir   string
	began time.Time
	trace sim.Trace
	turns *turns

	slots   []*slot
	seen    *seen
	history *history
	audit   *auditor
	ids     []journal.ID
	calm    atomic.Bool   // no more faults
	end     chan struct{} // closed when all is done
	work    sync.WaitGroup
	cutOver chan struct{} // closed after the power was cut, of which there is one cut at most
	unsure  sync.Map      // by branch: what the code has seen that may not be true

	mu     sync.Mutex
	path   string
	power  chan struct{} // closed while there is power
	cuts   int
	errs   []error
	names  map[journal.ID]string
	tokens map[string]*mailbox
	bells  map[string]*bell
	faults []PointFault
	// doomed are short runs that somebody has asked to delete, deleted are those of which that was acknowledged.
	doomed  map[journal.ID]bool
	deleted []journal.ID
	joins   []joined
	forks   []forked
}

// Run simulates a plan in the current bubble, with a database in dir. What came of it is judged by [Report.Err], outside of the bubble.
func Run(plan *Plan, dir string, opts Options) *Report {
	w := &world{
		plan: plan, opts: opts, dir: dir, began: time.Now(), seen: newSeen(), history: newHistory(), end: make(chan struct{}), path: filepath.Join(dir, "sim.db"),
		power: make(chan struct{}), cutOver: make(chan struct{}), names: map[journal.ID]string{}, tokens: map[string]*mailbox{}, bells: map[string]*bell{}, doomed: map[journal.ID]bool{},
	}
	close(w.power)
	w.turns = newTurns(plan.Seed, w.began)
	if err := w.run(); err != nil {
		w.fail("%w", err)
	}
	return &Report{Trace: w.trace.Bytes(), Fired: w.faults, errs: w.errs, history: w.history}
}

// Err returns what was wrong. It looks at the histories of runs and hooks only now, because that takes real time.
func (r *Report) Err() error {
	errs := r.errs
	if r.history != nil {
		all, undecided, err := r.history.check()
		r.Histories, r.Undecided, r.history = all, undecided, nil
		errs = append(errs, err)
	}
	r.errs = []error{errors.Join(errs...)}
	return r.errs[0]
}

func (w *world) run() error {
	first, err := w.open() // makes the schema, so that the processes do not race for it
	if err != nil {
		return err
	}
	if err := first.Close(); err != nil {
		return err
	}
	var all, audit, clients sync.WaitGroup
	for no := range w.plan.Slots {
		s := newSlot(w, no)
		w.slots = append(w.slots, s)
		all.Go(s.run)
	}
	w.audit = newAuditor(w)
	defer w.audit.close()
	audit.Go(w.audit.run)
	all.Go(w.post)
	w.startAll()
	readers := w.followAll()
	clients.Go(w.blows)
	for i, ask := range w.plan.Asks {
		clients.Go(func() { w.ask(i, ask) })
	}
	clients.Wait()
	time.Sleep(max(0, w.plan.Chaos-time.Since(w.began)))
	w.calm.Store(true)
	w.trace.Add("world", "calm")
	audit.Wait()
	w.judge(readers)
	close(w.end)
	all.Wait()
	w.work.Wait()
	w.trace.Add("world", "ends after %s", w.turns)
	return nil
}

// turn is taken by those who belong to no process.
func (w *world) turn(who string) {
	w.turns.take(laneWorld, who)
	w.turns.note(who)
}

func (w *world) open() (store.Store, error) {
	w.mu.Lock()
	path := w.path
	w.mu.Unlock()
	return sqlite.Open(context.Background(), path, &sqlite.Config{Readers: 2})
}

// fail notes that something is wrong.
func (w *world) fail(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	w.trace.Add("world", "FAILS: %v", err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errs) < 20 {
		w.errs = append(w.errs, err)
	}
}

// failed reports whether something is wrong: then there is no need to go on for long.
func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.errs) > 0
}

func (w *world) fired(f PointFault) {
	w.trace.Add(fmt.Sprint("e", f.Slot), "%s %d: %s (%s)", f.Point, f.N, f.Kind, f.For)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, f)
}

// name gives a run a name for the trace.
func (w *world) name(run journal.ID, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[run] = name
}

func (w *world) nameOf(run journal.ID) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if name := w.names[run]; name != "" {
		return name
	}
	return shortID(run)
}

// stop ends a process in peace.
func (w *world) stop(p *process) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(p.eng.Stop(ctx), p.st.Close()); err != nil {
		w.fail("stop %s: %w", p.name, err)
	}
}

// someone returns a process that lives, the one of a slot if possible; nil when the world ends first.
func (w *world) someone(slot int) *process {
	for {
		for i := range w.slots {
			if p := w.slots[(slot+i)%len(w.slots)].engine(); p != nil && !p.isDead() {
				return p
			}
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-w.end:
			return nil
		}
	}
}

// blows strikes processes as planned.
func (w *world) blows() {
	for _, b := range w.plan.Blows {
		time.Sleep(max(0, b.At-time.Since(w.began)))
		w.turn("blows")
		if b.Kind == blowCut {
			w.cut()
			continue
		}
		p := w.slots[b.Slot].engine()
		if p == nil {
			continue
		}
		w.trace.Add(p.name, "%s%s", b.Kind, within0(b.For))
		switch b.Kind {
		case blowKill:
			p.die()
		case blowFreeze:
			p.frozen.Store(time.Now().Add(b.For).UnixNano())
		case blowJump:
			p.skew.Add(int64(b.For))
		case blowCut:
		}
	}
}

// powerless returns a channel that is closed when there is power.
func (w *world) powerless() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.power
}

func (w *world) hasPower() bool {
	select {
	case <-w.powerless():
		return true
	default:
		return false
	}
}

// cut takes the power from all processes at the same instant. They come back with the files as they are.
func (w *world) cut() {
	w.trace.Add("world", "power cut")
	w.mu.Lock()
	power := make(chan struct{})
	w.power = power
	w.cuts++
	next := filepath.Join(w.dir, fmt.Sprintf("sim%d.db", w.cuts))
	w.mu.Unlock()
	for _, s := range w.slots {
		s.strike()
	}
	time.Sleep(3 * time.Millisecond) // nobody is in the middle of a system call any more
	for _, suffix := range []string{"", "-wal"} {
		lost := int64(0)
		if suffix != "" && w.opts.Unsynced {
			lost = 3
		}
		if err := copyFile(w.path+suffix, next+suffix, lost); err != nil {
			w.fail("power cut: %w", err)
		}
	}
	w.mu.Lock()
	w.path = next
	w.mu.Unlock()
	close(power)
	close(w.cutOver)
}

// copyFile copies a file, without the last quarters of it.
func copyFile(from, to string, lost int64) error {
	in, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, info.Size()*(4-lost)/4))
	return errors.Join(err, out.Close())
}
