package cairn

import (
	"context"
	"io"
	"iter"

	"github.com/cairn-workflow/cairn/internal/export"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// RunHandle is one run, with everything that can be done to it from outside. [Engine.Run] returns it; [Run] adds the
// type of its result.
type RunHandle struct {
	e     *Engine
	id    journal.ID
	err   error // of the id
	actor string
	// joined says that it was started in a transaction of the user's, who knows whether that was committed.
	joined bool
}

// Run returns the handle of a run. It does not ask the database: if there is no such run, the methods of the handle say
// so.
func (e *Engine) Run(id string) *RunHandle {
	h := &RunHandle{e: e}
	h.id, h.err = parseRun(id)
	return h
}

// ID returns the run's id.
func (h *RunHandle) ID() string { return formatRun(h.id) }

// By returns the handle with an actor: what is done with it is recorded as done by this actor.
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

// Cancel asks the run to stop. Its Context ends; the run can still clean up: see [Cleanup]. Its children are asked to
// stop too.
//
// A run that is parked is resumed for its clean-up. If its code still cannot go on, the run ends without clean-up. If it
// turns out only after the cancel that the code cannot go on, the run is parked, and goes on with its clean-up when the
// code is fixed; another Cancel ends it.
func (h *RunHandle) Cancel(ctx context.Context, reason string) error {
	return h.change(ctx, "Cancel", func() error { return h.e.inner.Cancel(ctx, h.id, reason, h.actor) })
}

// Terminate ends the run and its children at once, without clean-up.
func (h *RunHandle) Terminate(ctx context.Context, reason string) error {
	return h.change(ctx, "Terminate", func() error { return h.e.inner.Terminate(ctx, h.id, reason, h.actor) })
}

// Pause lets calls that are under way in the run end, and begins nothing new until [RunHandle.Resume]: no step, no
// child, no check of a poll. Values from hooks are kept, and time goes on: timers that were due meanwhile fire at once
// after the resume. No process owns a paused run or keeps it in memory.
func (h *RunHandle) Pause(ctx context.Context, reason string) error {
	return h.change(ctx, "Pause", func() error { return h.e.inner.Pause(ctx, h.id, reason, h.actor) })
}

// Resume lets a paused or parked run go on. [Engine.ResumeParked] resumes many.
func (h *RunHandle) Resume(ctx context.Context) error {
	return h.change(ctx, "Resume", func() error { return h.e.inner.Resume(ctx, h.id, h.actor) })
}

// PollNow makes the polls of the run check now, in whatever process it is executed. A run that has no polls, or has
// ended, is left as it is; a paused run checks when it is resumed.
func (h *RunHandle) PollNow(ctx context.Context) error {
	return h.change(ctx, "PollNow", func() error { return h.e.inner.Push(ctx, h.id) })
}

// Delete removes a run that has ended, with its history and everything else that belongs to it. Its start key is free
// again. Its children and forks stay: they are runs of their own. A child whose parent has not ended is not deleted,
// unless it is [Detached]: the parent may want its result.
func (h *RunHandle) Delete(ctx context.Context) error {
	return h.change(ctx, "Delete", func() error { return h.e.inner.Delete(ctx, h.id) })
}

// SetAttributes changes attributes of a run that has not ended, all at once. The run is not notified.
func (h *RunHandle) SetAttributes(ctx context.Context, changes ...AttributeChange) error {
	return h.change(ctx, "SetAttributes", func() error {
		list, err := attributeChanges(changes)
		if err != nil || len(list) == 0 {
			return err
		}
		return h.e.inner.SetAttributes(ctx, h.id, list)
	})
}

// Annotate adds an annotation to the run in any state, even after it has ended. The run is not notified. If the
// annotation has no actor, the actor of [RunHandle.By] is recorded.
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

// StepResult decodes the result of a step by its key, as [RunHandle.History] has it. A name that is used several times
// on one branch stands for the newest result. Without a result, because the step failed, is under way or does not exist,
// the error has the code step_not_found.
func (h *RunHandle) StepResult(ctx context.Context, key string, into any) error {
	if h.err != nil {
		return h.err
	}
	result, err := h.e.inner.StepResult(ctx, h.id, key)
	if err != nil {
		return h.missing(err)
	}
	return payload.Decode(result, into)
}

// Logs returns the log lines of the run, in the order in which they were stored. There are lines only if
// [Config.KeepLogs] was set in the process that executed the run.
func (h *RunHandle) Logs(ctx context.Context, f LogFilter) (*LogPage, error) {
	if h.err != nil {
		return nil, h.err
	}
	return h.e.logs(ctx, h.id, f)
}

// Fork starts a new run that keeps results of this one; see [Workflow.Fork]. It is for callers that do not have the
// workflow, such as tools.
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

// Export writes the run to w as JSON lines: a header, one line for each event of its journal, and a last line with
// their number. docs/export.md describes the format, which later versions can read. Any run can be exported, even one
// that has not ended: it is written as it is at one moment.
//
// cairntest.Replay executes code against an exported run.
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
