package engine

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// SetAttributes changes attributes of the run, once, however often the code is executed.
func (b *Branch) SetAttributes(name string, changes []journal.AttrChange) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	key, err := b.keyOf(name, "")
	if err != nil {
		return err
	}
	if err := checkUserKeys(keysOf(changes)); err != nil {
		return err
	}
	if err := journal.CheckAttributes(nil, changes); err != nil {
		return err
	}
	if done, err := b.recallChange(key); done {
		return err
	}
	if err := b.stopped(); err != nil {
		return err
	}
	b.frontier(key, kindAttributes)
	x := b.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if b.isClosed() {
		return ErrLost
	}
	have := maps.Clone(x.run.Attributes) // perhaps without the last changes of this execution
	if have == nil {
		have = map[string]string{}
	}
	applyAttributes(have, x.sets)
	if err := journal.CheckAttributes(have, changes); err != nil {
		// Whether there is room depends on what others did, so the refusal is written down: executed again, it is the same.
		x.put(b.line, journal.Event{Key: key, Data: &journal.StepFailed{Name: name, Attempt: 1, StartedAt: x.eng.now(), Error: asFailure(err)}})
		return err
	}
	x.sets = append(x.sets, changes...)
	x.put(b.line, journal.Event{Key: key, Data: &journal.AttrSet{Changes: changes}})
	return nil
}

// recallChange reports whether the journal has a change of attributes, or that there was no room for it.
func (b *Branch) recallChange(key string) (done bool, refusal error) {
	b.x.mu.Lock()
	m := b.x.memos.byKey[key]
	refused := m != nil && m.kind == kindStep && m.failed != nil
	b.x.mu.Unlock()
	if refused {
		return true, b.recall(key, kindStep).failed
	}
	return b.recall(key, kindAttributes) != nil, nil
}

func applyAttributes(have map[string]string, changes []journal.AttrChange) {
	for _, c := range changes {
		if c.Remove {
			delete(have, c.Key)
		} else {
			have[c.Key] = c.Value
		}
	}
}

// SetAttributes changes attributes of a run from outside.
func (e *Engine) SetAttributes(ctx context.Context, run journal.ID, changes []journal.AttrChange) error {
	if err := checkUserKeys(keysOf(changes)); err != nil {
		return err
	}
	_, err := e.tell(ctx, run, &journal.AttrSet{Changes: changes}, journal.ID{})
	return err
}

// checkUserKeys refuses keys that only the engine may use. The journal refuses them, too, but with the code that
// clients of the World dialects expect.
func checkUserKeys(keys iter.Seq[string]) error {
	for _, key := range slices.Sorted(keys) {
		if journal.IsReservedAttribute(key) {
			return cairnerr.Errorf(cairnerr.CodeMalformed, "attribute %q: keys that begin with $ are reserved", key)
		}
	}
	return nil
}

func keysOf(changes []journal.AttrChange) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, c := range changes {
			if !yield(c.Key) {
				return
			}
		}
	}
}

// UserAttributes returns the attributes of a run without those of the engine, which are reserved.
func UserAttributes(all map[string]string) map[string]string {
	own := maps.Clone(all)
	maps.DeleteFunc(own, func(key, _ string) bool { return journal.IsReservedAttribute(key) })
	return own
}
