package cairn

import (
	"context"
	"io"
	"iter"

	"github.com/cairn-workflow/cairn/internal/export"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// RunHandle is one run, with all that can be done to it from outside. [Engine.Run] returns it; [Run] adds the type of its result.
type RunHandle struct {
	e     *Engine
	id    journal.ID
	err   error // of the id
	actor string
	// joined says that it was started in a transaction of the user's, who knows whether that was committed.
	joined bool
}

// Run returns the handle of a run. It asks nothing: whether there is such a run is seen by what is done with it.
func (e *Engine) Run(id string) *RunHandle {
	h := &RunHandle{e: e}
	h.id, h.err = parseRun(id)
	return h
}

// ID returns the run's id.
func (h *RunHandle) ID() string { return formatRun(h.id) }

// By returns the handle for what somebody does: who it was is recorded with it.
func (h *RunHandle) By(actor string) *RunHandle {
	next := *h
	next.actor = actor
	return &next
}

// change does something to the run.
func (h *RunHandle) change(ctx context.Context, call string, do func() error) error {
	if err := notInWorkflow(ctx, call); err != nil {
		return err
	}
	if h.err != nil {
		return h.err
	}
	return h.missing(do())
}

// Describe returns what is known about the run, and what it waits for.
func (h *RunHandle) Describe(ctx context.Context) (*RunInfo, error) {
	if h.err != nil {
		return nil, h.err
	}
	info, err := h.e.describe(ctx, h.id)
	return info, h.missing(err)
}

// Wait waits until the run has ended, and returns what is known about it then. [Run.Result] knows the type of the result.
func (h *RunHandle) Wait(ctx context.Context) (*RunInfo, error) {
	if _, err := h.wait(ctx, "Wait"); err != nil {
		return nil, err
	}
	return h.Describe(ctx)
}

// Cancel asks the run to stop. Its Context ends; what it does then is up to it: see [Cleanup]. Its children are asked, too.
//
// A run that is parked is resumed for its clean-up. If its code still cannot go on, the run ends without.
func (h *RunHandle) Cancel(ctx context.Context, reason string) error {
	return h.change(ctx, "Cancel", func() error { return h.e.inner.Cancel(ctx, h.id, reason, h.actor) })
}

// Terminate ends the run and its children at once, without clean-up.
func (h *RunHandle) Terminate(ctx context.Context, reason string) error {
	return h.change(ctx, "Terminate", func() error { return h.e.inner.Terminate(ctx, h.id, reason, h.actor) })
}

// Pause lets what is under way in the run end, and begins nothing new until [RunHandle.Resume]: no step, no child, no check of a poll. What comes through hooks is
// kept, and time goes on: what was due meanwhile is due at once. Nobody owns a run that is paused, and no process keeps it.
func (h *RunHandle) Pause(ctx context.Context, reason string) error {
	return h.change(ctx, "Pause", func() error { return h.e.inner.Pause(ctx, h.id, reason, h.actor) })
}

// Resume lets the run go on that was paused, or parked because something was wrong. [Engine.ResumeParked] resumes many.
func (h *RunHandle) Resume(ctx context.Context) error {
	return h.change(ctx, "Resume", func() error { return h.e.inner.Resume(ctx, h.id, h.actor) })
}

// PollNow lets the polls of the run check now, wherever it is executed. A run that has no polls, or has ended, is left as it is; one that is paused checks when
// it is resumed.
func (h *RunHandle) PollNow(ctx context.Context) error {
	return h.change(ctx, "PollNow", func() error { return h.e.inner.Push(ctx, h.id) })
}

// Delete removes a run that has ended, with its history and all that belongs to it. Its start key is free again. Its children and forks stay: they are
// runs of their own. A child whose parent has not ended is not deleted, unless it is [Detached]: the parent may want its result.
func (h *RunHandle) Delete(ctx context.Context) error {
	return h.change(ctx, "Delete", func() error { return h.e.inner.Delete(ctx, h.id) })
}

// SetAttributes changes attributes of a run that has not ended, all at once. The run is not told.
func (h *RunHandle) SetAttributes(ctx context.Context, changes ...AttributeChange) error {
	return h.change(ctx, "SetAttributes", func() error {
		list, err := attributeChanges(changes)
		if err != nil || len(list) == 0 {
			return err
		}
		return h.e.inner.SetAttributes(ctx, h.id, list)
	})
}

// Annotate notes something about the run, whatever its state: also about one that has ended. The run is not told. Without an actor of its own, the
// annotation has that of [RunHandle.By].
func (h *RunHandle) Annotate(ctx context.Context, a Annotation) error {
	return h.change(ctx, "Annotate", func() error {
		if a.Actor == "" {
			a.Actor = h.actor
		}
		d, err := a.encode()
		if err != nil {
			return err
		}
		return h.e.inner.Annotate(ctx, h.id, d)
	})
}

// Annotations iterates over the annotations of the run, in the order in which they were made.
func (h *RunHandle) Annotations(ctx context.Context, f AnnotationFilter) iter.Seq2[*AnnotationInfo, error] {
	return h.e.annotations(ctx, h, f)
}

// History iterates over what happened to the run, from the beginning.
func (h *RunHandle) History(ctx context.Context) iter.Seq2[*HistoryEvent, error] {
	return h.e.history(ctx, h)
}

// Logs returns what the run has said, in the order in which it was written down. There is something only if [Config.KeepLogs] was set where the run was
// executed.
func (h *RunHandle) Logs(ctx context.Context, f LogFilter) (*LogPage, error) {
	if h.err != nil {
		return nil, h.err
	}
	return h.e.logs(ctx, h.id, f)
}

// Fork starts a new run that keeps results of this one; see [Workflow.Fork]. It is for who does not have the workflow: tools, for instance.
func (h *RunHandle) Fork(ctx context.Context, f Fork) (*RunHandle, error) {
	if f.Actor == "" {
		f.Actor = h.actor
	}
	id, err := h.e.fork(ctx, h, "", f, journal.ForkSpec{})
	if err != nil {
		return nil, err
	}
	return &RunHandle{e: h.e, id: id}, nil
}

// Export writes the run to w as JSON lines: a header, one line for each event of its journal, and a last line with their number. docs/export.md describes the
// format, which stays readable. Any run can be exported, also one that goes on: it is written as it is at one moment.
//
// cairntest.Replay executes code against what was exported.
func (h *RunHandle) Export(ctx context.Context, w io.Writer) error {
	if h.err != nil {
		return h.err
	}
	e := h.e.inner
	j, err := e.Store().Journal(ctx, e.Namespace(), h.id, 0)
	if err != nil {
		return err
	}
	return export.Write(w, e.Namespace(), j.Run, j.Events)
}
