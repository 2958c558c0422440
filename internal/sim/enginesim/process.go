package enginesim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/sim"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
)

// slot is the place of a process: when one dies, another takes it. Interactions are counted over all of them.
type slot struct {
	w      *world
	no     int
	faults map[Point]map[int]PointFault
	pace   map[Point]*sim.Actor

	mu      sync.Mutex
	counts  map[Point]int
	lives   int
	current *process // nil: nobody is there
	ready   bool     // its engine has started
}

func newSlot(w *world, no int) *slot {
	s := &slot{w: w, no: no, faults: map[Point]map[int]PointFault{}, pace: map[Point]*sim.Actor{}, counts: map[Point]int{}}
	for _, at := range faultsAt {
		s.faults[at.point] = map[int]PointFault{}
		s.pace[at.point] = sim.NewActor(w.plan.Seed, fmt.Sprintf("pace of %s in %d", at.point, no))
	}
	for _, f := range w.plan.Faults {
		if f.Slot == no {
			s.faults[f.Point][f.N] = f
		}
	}
	return s
}

// pause returns about d: what is done after it is done at an instant that nothing else has.
func (s *slot) pause(d time.Duration) time.Duration {
	return s.w.turns.reserve(laneDatabase+lane(s.no), d)
}

// next returns what happens at the next interaction of a kind, and how long it takes without a fault.
func (s *slot) next(p Point) (PointFault, time.Duration) {
	s.mu.Lock()
	n := s.counts[p]
	s.counts[p]++
	pace := s.pause(within(s.pace[p], 2*time.Millisecond))
	s.mu.Unlock()
	f := s.faults[p][n]
	if f.Kind == "" || s.w.calm.Load() {
		return PointFault{}, pace
	}
	s.w.fired(f)
	return f, pace
}

// engine returns the engine that is there now.
func (s *slot) engine() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready {
		return nil
	}
	return s.current
}

// strike kills the process that is there, also one that is just being started.
func (s *slot) strike() {
	s.mu.Lock()
	p := s.current
	s.mu.Unlock()
	if p != nil {
		p.die()
	}
}

// process is one life of a program: an engine on a store of its own.
type process struct {
	slot *slot
	name string
	eng  *engine.Engine
	st   store.Store
	// died is closed when the process is no more: from then on, nothing of it reaches the database.
	died chan struct{}
	die  func()
	// hang is closed a moment later: what was on its way when the process died comes back.
	hang   chan struct{}
	doomed atomic.Bool  // it dies when the commit that it makes is in the database, and lives on if that fails
	frozen atomic.Int64 // until when; virtual nanoseconds
	skew   atomic.Int64 // of the clock on its wall
	waits  atomic.Int64 // how often somebody came to its gate
}

func (p *process) isDead() bool {
	select {
	case <-p.died:
		return true
	default:
		return false
	}
}

func (p *process) isFrozen() bool { return p.frozen.Load() > time.Now().UnixNano() }

// turn is taken by the goroutines of the process. What those of a dead one do, nobody sees.
func (p *process) turn(who string, n int64) {
	if p.isDead() {
		return
	}
	name := fmt.Sprint(p.name, " ", who, " ", n)
	p.slot.w.turns.take(laneTurns+lane(p.slot.no), name)
	if !p.isDead() {
		p.slot.w.turns.note(name)
	}
}

// gate holds somebody of a process that is frozen, and stops one of a process that is dead.
func (p *process) gate() error {
	n := p.waits.Add(1)
	for !p.isDead() {
		left := time.Duration(p.frozen.Load() - time.Now().UnixNano())
		if left <= 0 {
			return nil
		}
		select {
		case <-time.After(left):
		case <-p.died:
		}
		p.turn("gate", n) // they all go on at once
	}
	return errDead
}

var errDead = fmt.Errorf("simulated: %w", faultstore.ErrKilled)

// start begins a life in a slot.
func (s *slot) start() (*process, error) {
	s.lives++
	name := fmt.Sprintf("e%d.%d", s.no, s.lives)
	a := sim.NewActor(s.w.plan.Seed, "life "+name)
	p := &process{slot: s, name: name, died: make(chan struct{}), hang: make(chan struct{})}
	p.die = sync.OnceFunc(func() {
		s.w.trace.Add(p.name, "dies")
		close(p.died)
	})
	if a.Pick(3) == 0 {
		p.skew.Store(int64(within(a, 4*time.Second) - 2*time.Second))
	}
	s.mu.Lock()
	s.current, s.ready = p, false
	s.mu.Unlock()
	<-s.w.powerless() // who comes later is struck by the next cut
	p.turn("start", 0)
	st, err := s.w.open()
	if err != nil {
		return p, err
	}
	p.st = st
	stack := st
	if s.w.opts.Break != nil {
		stack = s.w.opts.Break(st)
	}
	stack = &witness{Store: stack, p: p}
	stack = &shaky{Store: stack, p: p}
	stack = faultstore.Wrap(stack, func(journal.ID) faultstore.Plan { return p.plan })
	ctx := engine.WithTesting(context.Background(), &engine.Testing{Now: p.now, Turn: p.turn})
	p.eng, err = engine.New(ctx, stack, engine.Config{
		Lease: lease + within(a, time.Millisecond), Poll: poll + within(a, time.Millisecond), Entropy: sim.NewActor(s.w.plan.Seed, "ids of "+name), Build: func() string { return name }, Namespace: "another", Namespaces: []string{engine.AllNamespaces}, MaxWaiting: []int{0, -1, 2}[a.Pick(3)],
	}, &engine.Workflow{Name: "random", Run: s.w.workflow}, &engine.Workflow{Name: "child", Run: s.w.child}, &engine.Workflow{Name: "short", Run: s.w.short})
	if err != nil {
		return p, errors.Join(err, st.Close())
	}
	p.eng = p.eng.In(namespace)
	s.w.trace.Add(p.name, "starts")
	s.mu.Lock()
	s.ready = true
	s.mu.Unlock()
	return p, nil
}

func (p *process) now() time.Time { return time.Now().Add(time.Duration(p.skew.Load())) }

// bury ends what is left of a process that died.
func (p *process) bury() {
	p.slot.mu.Lock()
	p.slot.current, p.slot.ready = nil, false
	p.slot.mu.Unlock()
	p.slot.w.work.Go(func() {
		time.Sleep(time.Millisecond)
		close(p.hang)
	})
	p.slot.w.work.Go(func() {
		p.eng.Kill()
		_ = p.st.Close()
	})
}

// plan says what happens at an interaction of the process's writer.
func (p *process) plan(op faultstore.Op, _ int) faultstore.Fault {
	if p.isDead() {
		return faultstore.Fault{Before: errDead}
	}
	point := map[faultstore.Op]Point{
		faultstore.OpBegin: pointBegin, faultstore.OpLoad: pointLoad, faultstore.OpCommit: pointCommit, faultstore.OpSettle: pointSettle,
	}[op]
	planned, pace := p.slot.next(point)
	f := faultstore.Fault{Delay: pace}
	switch planned.Kind {
	case faultDelay:
		f.Delay += planned.For
	case faultFail:
		f.Before = cairnerr.Errorf(cairnerr.CodeUnreachable, "simulated")
	case faultApplied:
		f.AfterCommit = true
	case faultUnknown:
		f.Before = store.ErrUnknownOutcome
	case faultBusy:
		f.Before = store.ErrBusy
	case faultFull:
		f.Before = cairnerr.Errorf(cairnerr.CodeDiskFull, "simulated")
	case faultLate:
		f.Late = planned.For
	case faultDieBefore:
		p.die()
		f.Hang = p.hang
	case faultDieAfter:
		p.doomed.Store(true)
		f.AfterCommit, f.Hang = true, p.hang
	case faultLost, faultDuplicated:
	}
	return f
}

// run lets processes live in a slot until the world ends.
func (s *slot) run() {
	a := sim.NewActor(s.w.plan.Seed, fmt.Sprint("slot ", s.no))
	time.Sleep(within(a, time.Millisecond))
	for {
		p, err := s.start()
		switch {
		case err == nil:
			select {
			case <-p.died:
				p.bury()
			case <-s.w.end:
				p.turn("end", 0)
				s.w.stop(p)
				return
			}
		case !p.isDead():
			s.w.fail("engine %d does not start: %w", s.no, err)
			return
		}
		time.Sleep(within(a, 500*time.Millisecond))
	}
}
