package engine

import (
	"context"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// parkedEvery is after how many intervals of [Config.Poll] the engine looks for runs that another build of the program has parked.
const parkedEvery = 10

// retryParked resumes runs that another build of the program could not go on with: a deploy is what fixes code. Each build tries a run once. The first look comes
// soon after the start, the others seldom: during a rolling deploy an old build may park what a new one can execute.
func (e *Engine) retryParked() {
	looked := map[journal.ID]journal.Time{} // parked runs that are not for this build, and since when they are parked
	for wait := e.cfg.Poll; ; wait = parkedEvery * e.cfg.Poll {
		timer := time.NewTimer(wait)
		select {
		case <-e.life.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		e.turns.Take("parked", 0)
		e.tryParked(looked)
	}
}

// tryParked looks once.
func (e *Engine) tryParked(looked map[journal.ID]journal.Time) {
	for after := (store.RunKey{}); ; {
		parked, err := e.store.Parked(e.life, e.scope, after, store.MaxLimit)
		if err != nil {
			return // the next look comes
		}
		for _, run := range parked {
			if looked[run.Run] == run.ParkedAt {
				continue
			}
			looked[run.Run] = run.ParkedAt
			in := e.In(run.Namespace)
			if seq, err := in.untried(e.life, run.Run); err == nil && seq > 0 {
				in.resumeAt(run.Run, seq)
			}
		}
		if len(parked) < store.MaxLimit {
			return
		}
		last := parked[len(parked)-1]
		after = last.RunKey
	}
}

// resumeAt resumes a run if nothing was written to it since an event. Another process of this build may have been faster, and must not be followed by a second try.
func (e *Engine) resumeAt(run journal.ID, seq int64) {
	_, err := e.do(e.life, &journal.Command{
		Namespace: e.namespace, Run: run, Events: []journal.Event{{Data: &journal.RunResumed{Actor: "build " + e.build()}}},
		Guards: journal.Guards{Seq: seq},
	})
	if err == nil {
		e.tellLater(run)
		e.lookNow()
	}
}

// untried returns the last event of a parked run that this build may try, 0: it may not. It has tried, somebody has paused the run, or the run may kill its processes.
func (e *Engine) untried(ctx context.Context, run journal.ID) (int64, error) {
	j, err := e.store.Journal(ctx, e.namespace, run, 0)
	if err != nil {
		return 0, err
	}
	var last *journal.RunParked
	for i := range j.Events {
		if parked, ok := j.Events[i].Data.(*journal.RunParked); ok {
			last = parked
			if parked.Build == e.build() {
				return 0, nil
			}
		}
	}
	// A pause names no build: only the code that could not go on does.
	if last == nil || last.Build == "" || cairnerr.CodeOf(last.Error) == cairnerr.CodePoison {
		return 0, nil
	}
	return j.Seq, nil
}
