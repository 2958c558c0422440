package sim

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/check"
)

// check compares what the database holds with what the clients were told.
func (w *world) check(st store.Store) error {
	var errs []error
	found := map[string][]place{}
	for _, run := range w.runs {
		j, err := st.Journal(context.Background(), namespace, run, 0)
		if cairnerr.CodeOf(err) == cairnerr.CodeRunNotFound {
			continue
		}
		if err != nil {
			return err
		}
		if _, err := j.State(namespace); err != nil { // contiguous, and begins with run_created
			errs = append(errs, err)
		}
		errs = append(errs, onceOnly(run, j.Events), sameViews(st, run))
		for i := range j.Events {
			if mark := markOf(j.Events[i].Data); mark != "" {
				found[mark] = append(found[mark], place{run, j.Events[i].Seq})
			}
		}
	}
	for _, c := range w.claims {
		errs = append(errs, c.check(found[c.mark]))
	}
	errs = append(errs, w.oneOwner())
	for _, f := range w.fences {
		now, err := w.marks(st, f.incarnation)
		if err != nil {
			return err
		}
		for mark := range now {
			if !f.marks[mark] {
				errs = append(errs, fmt.Errorf("%s was written after its process was declared dead", mark))
			}
		}
	}
	return errors.Join(errs...)
}

// sameViews compares the views of a run with the fold of its journal.
func sameViews(st store.Store, run journal.ID) error {
	differences, err := check.Views(context.Background(), st, namespace, run, now())
	for _, d := range differences {
		err = errors.Join(err, fmt.Errorf("%v", d))
	}
	return err
}

// oneOwner checks that what owners were told fits together: an epoch belongs to one incarnation, and what was written in it stands
// between its claim and the next.
func (w *world) oneOwner() error {
	type epoch struct {
		run   journal.ID
		epoch int64
	}
	claimed := map[epoch]claim{}
	var errs []error
	for _, c := range w.claims {
		if c.fate != acknowledged || !c.claims {
			continue
		}
		if other, twice := claimed[epoch{c.run, c.epoch}]; twice {
			errs = append(errs, fmt.Errorf("%s and %s claimed the same run in epoch %d", c.mark, other.mark, c.epoch))
		}
		claimed[epoch{c.run, c.epoch}] = c
	}
	for _, c := range w.claims {
		if c.fate != acknowledged || c.claims || c.epoch == 0 {
			continue
		}
		if mine, ok := claimed[epoch{c.run, c.epoch}]; ok && (mine.incarnation != c.incarnation || mine.seq > c.seq) {
			errs = append(errs, fmt.Errorf("%s was written in epoch %d, which %s claimed at %d", c.mark, c.epoch, mine.mark, mine.seq))
		}
		if next, ok := claimed[epoch{c.run, c.epoch + 1}]; ok && next.seq < c.seq {
			errs = append(errs, fmt.Errorf("%s was written at %d in epoch %d, after %s had claimed the run at %d", c.mark, c.seq, c.epoch, next.mark, next.seq))
		}
	}
	return errors.Join(append(errs, w.noRobbery())...)
}

// noRobbery checks that a run is claimed only when its last owner gave it back or was declared dead.
func (w *world) noRobbery() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	dead := map[journal.ID]bool{}
	for _, f := range w.fences {
		dead[f.incarnation] = true
	}
	var errs []error
	for _, next := range w.claims {
		if next.fate != acknowledged || !next.claims {
			continue
		}
		for _, mine := range w.claims {
			if mine.fate != acknowledged || !mine.claims || mine.run != next.run || mine.epoch != next.epoch-1 || dead[mine.incarnation] {
				continue
			}
			if !w.releasedIn(mine) {
				errs = append(errs, fmt.Errorf("%s claimed a run that %s owned and had not given back", next.mark, mine.mark))
			}
		}
	}
	return errors.Join(errs...)
}

// releasedIn reports whether a command that may have been applied gave the run back, or ended it, in the epoch of a claim. The lock is held.
func (w *world) releasedIn(mine claim) bool {
	for _, c := range w.claims {
		if c.run == mine.run && c.incarnation == mine.incarnation && c.epoch == mine.epoch && c.releases && c.fate != refused {
			return true
		}
	}
	return false
}

type place struct {
	run journal.ID
	seq int64
}

func (c *claim) check(found []place) error {
	switch {
	case len(found) > 1:
		return fmt.Errorf("%s was applied %d times", c.mark, len(found))
	case c.fate == acknowledged && len(found) == 0:
		return fmt.Errorf("%s was acknowledged and is not there", c.mark)
	case c.fate == acknowledged && c.seq != found[0].seq:
		return fmt.Errorf("%s was acknowledged at %d and is at %d", c.mark, c.seq, found[0].seq)
	case c.fate == refused && len(found) != 0:
		return fmt.Errorf("%s was refused and is there", c.mark)
	case len(found) == 1 && found[0].run != c.run:
		return fmt.Errorf("%s is in another run", c.mark)
	}
	return nil
}

// onceOnly checks what a journal must never hold twice.
func onceOnly(run journal.ID, events []journal.Event) error {
	var errs []error
	completed, received := map[journal.ID]bool{}, map[journal.ID]bool{}
	ended := false
	for i := range events {
		e := &events[i]
		switch e.Data.(type) {
		case *journal.StepCompleted, *journal.StepFailed:
			step := stepOf(run, e)
			if completed[step] {
				errs = append(errs, fmt.Errorf("step %s %s finished twice", step, e.Key))
			}
			completed[step] = true
		case *journal.HookCreated, *journal.HookDisposed:
			delete(received, e.Entity)
		case *journal.HookReceived:
			if received[e.Entity] {
				errs = append(errs, fmt.Errorf("%s was used twice", e.CorrelationID()))
			}
			if ended {
				errs = append(errs, fmt.Errorf("%s received after the end", e.CorrelationID()))
			}
			received[e.Entity] = true
		case *journal.RunCompleted:
			if ended {
				errs = append(errs, fmt.Errorf("%s ended twice", journal.PrefixRun.Format(run)))
			}
			ended = true
		}
	}
	return errors.Join(errs...)
}

// stepOf returns the step that an event is about: in the engine's runs it follows from the key.
func stepOf(run journal.ID, e *journal.Event) journal.ID {
	if e.Key != "" {
		return journal.DeriveID(run, journal.PrefixStep, e.Key)
	}
	return e.Entity
}

// marks returns the marks of an incarnation that are in the database.
func (w *world) marks(st store.Store, incarnation journal.ID) (map[string]bool, error) {
	w.mu.Lock()
	var names []claim
	for _, c := range w.claims {
		if c.incarnation == incarnation {
			names = append(names, c)
		}
	}
	w.mu.Unlock()
	present := map[string]bool{}
	for _, run := range w.runs {
		j, err := st.Journal(context.Background(), namespace, run, 0)
		if cairnerr.CodeOf(err) == cairnerr.CodeRunNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range j.Events {
			present[markOf(j.Events[i].Data)] = true
		}
	}
	marks := map[string]bool{}
	for _, c := range names {
		if present[c.mark] {
			marks[c.mark] = true
		}
	}
	return marks, nil
}

// markOf returns the mark that a client put into an event. A hook that lost its token to another lost the mark too.
func markOf(d journal.Data) string {
	switch d := d.(type) {
	case *journal.RunCreated:
		return string(d.Input)
	case *journal.StepCreated:
		return string(d.Input)
	case *journal.StepStarted:
		return d.Name
	case *journal.StepCompleted:
		return string(d.Result)
	case *journal.StepFailed:
		return string(d.Value)
	case *journal.AttrSet:
		return d.Changes[0].Value
	case *journal.HookCreated:
		return string(d.Metadata)
	case *journal.HookReceived:
		return string(d.Payload)
	case *journal.WaitCreated:
		return d.Kind
	case *journal.RunCompleted:
		return string(d.Output)
	case *journal.Annotated:
		return string(d.Value)
	default:
		return ""
	}
}
