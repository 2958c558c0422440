package enginesim

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/sim"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/check"
)

// auditor reads the journals that have changed, again and again: what was read once stays, and what comes follows it.
type auditor struct {
	w    *world
	a    *sim.Actor
	path string
	st   store.Store
	runs map[journal.ID]*audited
}

// audited is what the auditor has read of a run.
type audited struct {
	events []journal.Event
	epoch  int64
	ended  bool
	// cancelled says that it was asked to stop: it may not have come to its result.
	cancelled bool
}

func newAuditor(w *world) *auditor {
	return &auditor{w: w, a: sim.NewActor(w.plan.Seed, "auditor"), runs: map[journal.ID]*audited{}}
}

// run looks until the world is calm; then the judge goes on.
func (a *auditor) run() {
	for !a.w.calm.Load() {
		time.Sleep(30*time.Millisecond + within(a.a, 60*time.Millisecond))
		a.tick()
	}
}

func (a *auditor) close() {
	if a.st != nil {
		_ = a.st.Close()
	}
}

// reopen follows the database through a power cut.
func (a *auditor) reopen() error {
	a.w.mu.Lock()
	path := a.w.path
	a.w.mu.Unlock()
	if path == a.path {
		return nil
	}
	a.close()
	st, err := a.w.open()
	if err != nil {
		return err
	}
	cut := a.path != ""
	a.path, a.st = path, st
	if cut { // everything that was ever read must still be there
		for _, id := range sortedIDs(a.runs) {
			a.look(id, true)
		}
	}
	return nil
}

func (a *auditor) tick() {
	if !a.w.hasPower() {
		return
	}
	if err := a.reopen(); err != nil {
		a.w.fail("audit: %w", err)
		return
	}
	a.w.seen.mu.Lock()
	dirty := a.w.seen.dirty
	a.w.seen.dirty = map[journal.ID]bool{}
	a.w.seen.mu.Unlock()
	for _, id := range sortedIDs(dirty) {
		a.look(id, a.a.Pick(8) == 0)
	}
}

// look reads what is new of a run; closely: all of it, and its views.
func (a *auditor) look(id journal.ID, closely bool) {
	old := a.runs[id]
	if old == nil {
		old = &audited{}
		a.runs[id] = old
	}
	after := int64(len(old.events))
	if closely {
		after = 0
	}
	j, err := a.st.Journal(context.Background(), namespace, id, after)
	if cairnerr.CodeOf(err) == cairnerr.CodeRunNotFound && a.w.mayBeGone(id) {
		delete(a.runs, id)
		return
	}
	if err != nil {
		a.w.fail("audit of %s: %w", a.w.nameOf(id), err)
		return
	}
	a.compare(id, old, j, after)
	if closely {
		a.views(id)
	}
}

// compare holds what was read against what was read before.
func (a *auditor) compare(id journal.ID, old *audited, j *store.Journal, after int64) {
	name := a.w.nameOf(id)
	if j.Seq < int64(len(old.events)) {
		a.w.fail("%s has %d events; %d were read before", name, j.Seq, len(old.events))
	}
	if j.Run.Epoch < old.epoch {
		a.w.fail("%s is in epoch %d; it was in %d", name, j.Run.Epoch, old.epoch)
	}
	old.epoch = j.Run.Epoch
	for i := range j.Events {
		e := &j.Events[i]
		if want := after + int64(i) + 1; e.Seq != want {
			a.w.fail("%s has event %d where %d should be", name, e.Seq, want)
			return
		}
		if e.Seq <= int64(len(old.events)) {
			if !reflect.DeepEqual(*e, old.events[e.Seq-1]) {
				a.w.fail("event %d of %s is %s now; it was %s", e.Seq, name, e.Type, old.events[e.Seq-1].Type)
			}
			continue
		}
		if old.ended && e.Type != journal.EventAnnotated {
			a.w.fail("%s has %s after its end", name, e.Type)
		}
		old.ended = old.ended || endKind(e.Data) != ""
		old.cancelled = old.cancelled || e.Type == journal.EventCancelRequested || e.Type == journal.EventRunCancelled
		old.events = append(old.events, *e)
	}
	if old.ended != j.Run.Status.Terminal() {
		a.w.fail("%s is %s; its journal says otherwise", name, j.Run.Status)
	}
}

// views compares the views of a run with the fold of its journal.
func (a *auditor) views(id journal.ID) {
	differences, err := check.Views(context.Background(), a.st, namespace, id, journal.TimeOf(time.Now()))
	if err != nil {
		a.w.fail("views: %w", err)
	}
	for _, d := range differences {
		a.w.fail("views: %v", d)
	}
}

func sortedIDs[V any](m map[journal.ID]V) []journal.ID {
	return slices.SortedFunc(maps.Keys(m), journal.ID.Compare)
}
