package enginesim

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// judge waits for the end of all runs, now that nothing happens to the processes any more, and compares what came of them with what should have.
func (w *world) judge(readers *audience) {
	time.Sleep(lease) // a process that was about to die has died
	eng := w.someone(0).eng
	w.resumeParked(eng)
	for i, id := range w.ids {
		w.resume(eng, id)
		w.awaitEnd(eng, id, w.reference(fmt.Sprint(w.plan.Runs[i])))
	}
	w.judgeShorts(eng)
	w.history.close()
	readers.check(w)
	if w.failed() {
		return
	}
	w.forkAll(eng)
	w.auditAll()
	if !w.failed() {
		w.replayAll(eng)
	}
}

// resume lets a run go on that a client has paused.
func (w *world) resume(eng *engine.Engine, id journal.ID) {
	switch err := eng.Resume(context.Background(), id, "judge"); cairnerr.CodeOf(err) {
	case "", cairnerr.CodeIllegalTransition, cairnerr.CodeRunEnded:
	default:
		w.fail("resume %s: %w", w.nameOf(id), err)
	}
}

// resumeParked lets all runs go on whose code could not: it is fixed now.
func (w *world) resumeParked(eng *engine.Engine) {
	runs, err := allRuns(w.audit.st)
	if err != nil {
		w.fail("list: %w", err)
	}
	for _, run := range runs {
		if run.ParkedAt != 0 && w.plan.Buggy {
			w.resume(eng, run.ID)
		}
	}
}

// awaitEnd waits for the end of a run and looks at its outcome and its journal.
func (w *world) awaitEnd(eng *engine.Engine, id journal.ID, want string) {
	patience := 90 * time.Second
	if w.failed() {
		patience = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	run, err := eng.Wait(ctx, id)
	if err != nil {
		w.fail("%s does not end: %w", w.nameOf(id), err)
		return
	}
	w.audit.look(id, true)
	switch {
	case run.Status == journal.StatusCancelled && w.audit.runs[id].cancelled:
	case run.Error != nil:
		w.fail("%s failed: %w", w.nameOf(id), run.Error.Error)
	case string(run.Output) != want:
		w.fail("%s returned %q, it should be %q", w.nameOf(id), run.Output, want)
	}
}

// auditAll looks closely at all runs that there are, children too. All have ended, or end now: those of runs that were cancelled are told so after that.
func (w *world) auditAll() {
	for tries := 0; ; tries++ {
		runs, err := allRuns(w.audit.st)
		if err != nil {
			w.fail("list: %w", err)
			return
		}
		open := 0
		for _, run := range runs {
			if !run.Status.Terminal() {
				open++
			}
		}
		if open > 0 && tries < 100 {
			time.Sleep(time.Second)
			continue
		}
		for _, run := range runs {
			if !run.Status.Terminal() {
				w.fail("%s is still %s", w.nameOf(run.ID), run.Status)
			}
			w.audit.look(run.ID, true)
		}
		return
	}
}
