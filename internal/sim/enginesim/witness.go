package enginesim

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// witness sees what a process is told to be written, and what it reads: what holds at every commit is checked here.
type witness struct {
	store.Store
	p *process
}

// seen is what all witnesses have seen.
type seen struct {
	mu        sync.Mutex
	fenced    map[journal.ID]bool
	completed map[stepKey]bool  // steps whose outcome was acknowledged
	received  map[string]string // by run and sender's key: where
	dirty     map[journal.ID]bool
}

type stepKey struct {
	run journal.ID
	key string
}

func newSeen() *seen {
	return &seen{fenced: map[journal.ID]bool{}, completed: map[stepKey]bool{}, received: map[string]string{}, dirty: map[journal.ID]bool{}}
}

// Fence implements [store.Store].
func (w *witness) Fence(ctx context.Context, incarnation journal.ID) error {
	err := w.Store.Fence(ctx, incarnation)
	if err == nil {
		s := w.p.slot.w.seen
		s.mu.Lock()
		s.fenced[incarnation] = true
		s.mu.Unlock()
		w.p.slot.w.trace.Add(w.p.name, "declares %s dead", shortID(incarnation))
	}
	return err
}

// OpenWriter implements [store.Store].
func (w *witness) OpenWriter(ctx context.Context, incarnation journal.ID, number int) (store.Writer, error) {
	inner, err := w.Store.OpenWriter(ctx, incarnation, number)
	if err != nil {
		return nil, err
	}
	w.p.slot.w.trace.Add(w.p.name, "is %s", shortID(incarnation))
	return &witnessWriter{inner, w, incarnation}, nil
}

type witnessWriter struct {
	store.Writer
	w           *witness
	incarnation journal.ID
}

// Begin implements [store.Writer].
func (w *witnessWriter) Begin(ctx context.Context, now journal.Time) (store.Tx, error) {
	if err := w.w.p.gate(); err != nil {
		return nil, err
	}
	tx, err := w.Writer.Begin(ctx, now)
	if err != nil {
		return nil, err
	}
	return &witnessTx{tx, w}, nil
}

// Settle implements [store.Writer].
func (w *witnessWriter) Settle(ctx context.Context) (bool, error) {
	if err := w.w.p.gate(); err != nil {
		return false, err
	}
	return w.Writer.Settle(ctx)
}

type witnessTx struct {
	store.Tx
	w *witnessWriter
}

// Load implements [store.Tx].
func (t *witnessTx) Load(ctx context.Context, want *store.LoadSet) (*store.Loaded, error) {
	if err := t.w.w.p.gate(); err != nil {
		return nil, err
	}
	return t.Tx.Load(ctx, want)
}

// Commit implements [store.Tx].
func (t *witnessTx) Commit(ctx context.Context, changes *store.Changes) error {
	p := t.w.w.p
	if err := p.gate(); err != nil {
		t.Rollback()
		return err
	}
	world := p.slot.w
	world.seen.mu.Lock()
	fenced := world.seen.fenced[t.w.incarnation]
	world.seen.mu.Unlock()
	doomed := p.doomed.Swap(false)
	call := world.clock()
	err := t.Tx.Commit(ctx, changes)
	if err != nil {
		world.trace.Add(p.name, "commit fails: %v", err)
		return err
	}
	if doomed {
		p.die()
	}
	if fenced {
		world.fail("%s, declared dead before, has written %s", shortID(t.w.incarnation), world.describe(changes))
	}
	world.trace.Add(p.name, "commits %s", world.describe(changes))
	world.witnessed(call, changes, p.isDead())
	return p.gate()
}

// witnessed takes note of a commit. Of one whose process died meanwhile nobody was told: it may be gone after a power cut.
func (w *world) witnessed(call int64, changes *store.Changes, died bool) {
	ret := w.clock()
	for i := range changes.Runs {
		c := &changes.Runs[i]
		run := c.State.Run.ID
		w.seen.mu.Lock()
		w.seen.dirty[run] = true
		w.seen.mu.Unlock()
		for k := range c.Events {
			w.saw(run, &c.Events[k], died)
			if kind := endKind(c.Events[k].Data); kind != "" {
				w.history.ended(run, kind, call, ret, died)
			}
		}
	}
}

// saw checks one event against those before.
func (w *world) saw(run journal.ID, e *journal.Event, died bool) {
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	switch d := e.Data.(type) {
	case *journal.StepCompleted, *journal.StepFailed:
		key := stepKey{run, e.Key}
		if w.seen.completed[key] {
			w.fail("step %s of %s has a second outcome", e.Key, w.nameOf(run))
		}
		if !died {
			w.seen.completed[key] = true
		}
	case *journal.HookReceived:
		if d.Sender == "" {
			return
		}
		key := run.String() + " " + d.Sender
		if at, twice := w.seen.received[key]; twice {
			w.fail("%s was received twice by %s: %s and %d", d.Sender, w.nameOf(run), at, e.Seq)
		}
		if !died {
			w.seen.received[key] = fmt.Sprint(e.Seq)
		}
	}
}

// bodyBegins checks that the code of a step with an outcome does not run again.
func (w *world) bodyBegins(run journal.ID, key string) {
	w.seen.mu.Lock()
	defer w.seen.mu.Unlock()
	if w.seen.completed[stepKey{run, key}] {
		w.fail("the code of step %s of %s runs although its outcome is recorded", key, w.nameOf(run))
	}
}

// describe says what a commit writes.
func (w *world) describe(changes *store.Changes) string {
	var parts []string
	for i := range changes.Runs {
		c := &changes.Runs[i]
		text := []string{w.nameOf(c.State.Run.ID)}
		for k := range c.Events {
			e := &c.Events[k]
			if e.Key == "" {
				text = append(text, fmt.Sprintf("%d:%s", e.Seq, e.Type))
			} else {
				text = append(text, fmt.Sprintf("%d:%s(%s)", e.Seq, e.Type, e.Key))
			}
		}
		if owner := c.State.Run.Owner; c.Was == nil || owner != c.Was.Owner {
			text = append(text, "owner="+shortID(owner))
		}
		parts = append(parts, strings.Join(text, " "))
	}
	for i := range changes.Streams {
		parts = append(parts, "stream of "+w.nameOf(changes.Streams[i].Run))
	}
	return strings.Join(parts, "; ")
}

func shortID(id journal.ID) string {
	if id.IsZero() {
		return "-"
	}
	s := id.String()
	return s[len(s)-6:]
}

func endKind(d journal.Data) string {
	switch d.(type) {
	case *journal.RunCompleted:
		return "completed"
	case *journal.RunFailed:
		return "failed"
	case *journal.RunCancelled:
		return "cancelled"
	default:
		return ""
	}
}
