package engine

import (
	"context"
	"strings"
	"sync"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// maxNotes is the most annotations of one attempt: they are written with its outcome, in one command.
const maxNotes = 100

// notes are the annotations of the attempt that is under way. Its body may have several goroutines, and one of them may come late.
type notes struct {
	mu   sync.Mutex
	list []*journal.Annotated
}

// Note keeps an annotation until the outcome of the step is written. It reports false where there is no step.
func (i StepInfo) Note(d *journal.Annotated) (bool, error) {
	if i.attempt == nil {
		return false, nil
	}
	if err := journal.CheckAnnotation(d); err != nil {
		return true, err
	}
	if i.attempt.ended() {
		return true, cairnerr.Errorf(cairnerr.CodeContextOver, "attempt %d of step %q has ended, and cannot annotate the run", i.Attempt, i.Key)
	}
	own := *d
	own.Step, own.Attempt = i.Key, i.Attempt
	return true, i.attempt.step.note(&own)
}

func (s *step) note(d *journal.Annotated) error {
	s.notes.mu.Lock()
	defer s.notes.mu.Unlock()
	if len(s.notes.list) >= maxNotes {
		return cairnerr.Errorf(cairnerr.CodeLimitExceeded, "step %q has %d annotations already, the most that an attempt may have", s.key, maxNotes)
	}
	s.notes.list = append(s.notes.list, d)
	return nil
}

// take returns the annotations, and forgets them.
func (n *notes) take() []*journal.Annotated {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.list
	n.list = nil
	return list
}

// Annotate notes something about a run, whatever its state.
func (e *Engine) Annotate(ctx context.Context, run journal.ID, d *journal.Annotated) error {
	res, err := e.do(ctx, &journal.Command{Namespace: e.namespace, Run: run, Events: []journal.Event{{Data: d}}})
	if err != nil {
		return err
	}
	if x := e.exec(run); x != nil { // or it would find a gap in its journal
		x.observe(nil, res.Appended, false)
	}
	return nil
}

// Annotation is an annotation of a run.
type Annotation struct {
	Seq int64
	At  journal.Time
	*journal.Annotated
}

// Annotations calls a function with the annotations of a run whose names begin with a prefix, and that an actor made ("": anybody), until it reports false.
func (e *Engine) Annotations(ctx context.Context, run journal.ID, prefix, actor string, yield func(Annotation) bool) error {
	if _, err := e.store.Run(ctx, e.namespace, run, store.ResolveNone); err != nil {
		return err
	}
	page := store.Page{Limit: store.MaxLimit}
	for {
		list, err := e.store.Events(ctx, e.namespace, store.EventFilter{Run: run, Annotations: true, Resolve: store.ResolveAll}, page)
		if err != nil {
			return err
		}
		for i := range list.Data {
			d, ok := list.Data[i].Data.(*journal.Annotated)
			if !ok || !strings.HasPrefix(d.Name, prefix) || (actor != "" && d.Actor != actor) {
				continue
			}
			if !yield(Annotation{list.Data[i].Seq, list.Data[i].At, d}) {
				return nil
			}
		}
		if !list.HasMore {
			return nil
		}
		page.Cursor = list.Cursor
	}
}
