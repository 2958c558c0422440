package cairn

import (
	"context"
	"iter"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// Annotation notes who did what to a run, and why. Annotations are part of the history, and are never changed. Unlike
// attributes, they are not used to search for runs.
type Annotation struct {
	Name  string // such as "review.approved"; a filter selects annotations by a prefix of it
	Actor string // who did it; "" if that does not matter
	Value any    // encoded like the input of a step
}

func (a *Annotation) encode() (*journal.Annotated, error) {
	d := &journal.Annotated{Name: a.Name, Actor: a.Actor}
	if a.Value != nil {
		var err error
		if d.Value, err = payload.Encode(a.Value); err != nil {
			return nil, err
		}
	}
	return d, journal.CheckAnnotation(d)
}

// Annotations starts a run with annotations.
func Annotations(list ...Annotation) StartOption {
	return startFunc(func(r *engine.StartRequest) {
		for i := range list {
			d, err := list[i].encode()
			if err != nil {
				r.Err = err
				return
			}
			r.Notes = append(r.Notes, d)
		}
	})
}

// Annotate adds an annotation to the current run. In a step it is written together with the outcome of the attempt,
// whether the attempt succeeds or fails. If the outcome is not recorded, for example because another process took the
// run over, the annotation is not recorded either. In a workflow it is recorded once, as a step of its own.
func Annotate(ctx context.Context, a Annotation) error {
	c, inWorkflow := ctx.(Context)
	if inWorkflow {
		// What cannot be stored is a mistake of the code, like the input of a step.
		if _, err := c.branch().Encode("the value of annotation "+a.Name, a.Value); err != nil {
			return err
		}
	}
	d, err := a.encode()
	if err != nil && inWorkflow && cairnerr.CodeOf(err) == cairnerr.CodeMalformed {
		return c.branch().Halt(cairnerr.AsError(err))
	}
	if err != nil {
		return err
	}
	if inWorkflow {
		_, err := Do(c, "annotate", func(ctx context.Context) (struct{}, error) {
			_, err := engine.InfoOf(ctx).Note(d)
			return struct{}{}, err
		})
		return err
	}
	inStep, err := engine.InfoOf(ctx).Note(d)
	if err == nil && !inStep {
		err = cairnerr.Errorf(cairnerr.CodeNotInRun, "Annotate was called outside of a step or workflow: use eng.Run(id).Annotate")
	}
	return err
}

// AnnotationInfo is an annotation as it was recorded.
type AnnotationInfo struct {
	Seq     int64     `json:"seq"` // its place in the history
	At      time.Time `json:"at"`
	Name    string    `json:"name"`
	Actor   string    `json:"actor,omitempty"`
	Step    string    `json:"step,omitempty"` // the key of the step that noted it, "" if none did
	Attempt int       `json:"attempt,omitempty"`

	value journal.Payload
}

// Value decodes what the annotation says.
func (a *AnnotationInfo) Value(into any) error { return payload.Decode(a.value, into) }

// AnnotationFilter selects annotations. An empty field matches all.
type AnnotationFilter struct {
	Prefix string // of the name
	Actor  string
}

func (e *Engine) annotations(ctx context.Context, h *RunHandle, f AnnotationFilter) iter.Seq2[*AnnotationInfo, error] {
	return func(yield func(*AnnotationInfo, error) bool) {
		err := h.err
		if err == nil {
			err = e.inner.Annotations(ctx, h.id, f.Prefix, f.Actor, func(a engine.Annotation) bool {
				return yield(&AnnotationInfo{
					Seq: a.Seq, At: a.At.Std(), Name: a.Name, Actor: a.Actor, Step: a.Step, Attempt: a.Attempt, value: a.Value,
				}, nil)
			})
		}
		if err != nil {
			yield(nil, err)
		}
	}
}
