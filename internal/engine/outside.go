package engine

import (
	"context"
	"slices"
	"time"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/store"
)

// tell writes a command from outside, and passes what it wrote on to the run if it is in memory.
func (e *Engine) tell(ctx context.Context, cmd *journal.Command) error {
	res, err := e.committer.Do(ctx, cmd)
	if err != nil {
		return err
	}
	key := store.RunKey{Namespace: cmd.Namespace, Run: cmd.Run}
	e.mu.Lock()
	x := e.execs[key]
	e.mu.Unlock()
	switch {
	case x != nil && res.Run.Status.Terminal():
		x.leave(ErrCancelled)
	case x != nil:
		x.observe(nil, res.Appended)
		x.noteRun(res.Run)
		x.wake()
	case len(res.Effects.Wake) > 0:
		e.lookNow()
	}
	return nil
}

// noteRun takes over what somebody else changed about the run itself: a cancel.
func (x *exec) noteRun(run *journal.Run) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if run.CancelledAt != 0 && x.run.CancelledAt == 0 {
		next := *x.run
		next.CancelledAt = run.CancelledAt
		x.run = &next
	}
	if x.phase == phaseRunning {
		x.noticeCancel()
		x.resolve()
	}
}

// Deliver sends a payload through a hook. With a sender's key it is received once, however often it is sent.
func (e *Engine) Deliver(ctx context.Context, token, sender string, payload journal.Payload) error {
	h, err := e.store.HookByToken(ctx, e.cfg.Namespace, token, store.ResolveNone)
	if err != nil {
		return err
	}
	return e.tell(ctx, &journal.Command{Namespace: e.cfg.Namespace, Run: h.Run, Events: []journal.Event{{
		Entity: h.ID, Data: &journal.HookReceived{Token: token, Sender: sender, Payload: payload},
	}}})
}

// Cancel asks a run to stop: its context ends, and its clean-up runs.
func (e *Engine) Cancel(ctx context.Context, run journal.ID, reason, actor string) error {
	return e.tell(ctx, &journal.Command{Namespace: e.cfg.Namespace, Run: run, Events: []journal.Event{{
		Data: &journal.CancelRequested{Reason: reason, Actor: actor},
	}}})
}

// Terminate ends a run at once.
func (e *Engine) Terminate(ctx context.Context, run journal.ID, reason, actor string) error {
	return e.tell(ctx, &journal.Command{Namespace: e.cfg.Namespace, Run: run, Events: []journal.Event{{
		Data: &journal.RunCancelled{Reason: reason, Actor: actor},
	}}})
}

// Resume lets a parked run go on.
func (e *Engine) Resume(ctx context.Context, run journal.ID, actor string) error {
	return e.tell(ctx, &journal.Command{Namespace: e.cfg.Namespace, Run: run, Events: []journal.Event{{
		Data: &journal.RunResumed{Actor: actor},
	}}})
}

// Wait waits until a run has ended, and returns it with its output or error. A run that ends in this process is told at once; for
// others the database is asked from time to time.
func (e *Engine) Wait(ctx context.Context, id journal.ID) (*journal.Run, error) {
	key := store.RunKey{Namespace: e.cfg.Namespace, Run: id}
	over := e.over(key)
	defer func() { e.notOver(key, over) }()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if over == nil {
			run, err := e.store.Run(ctx, key.Namespace, id, store.ResolveAll)
			if err != nil || run.Status.Terminal() {
				return run, err
			}
		}
		timer := time.NewTimer(pause)
		select {
		case run := <-over:
			if run != nil {
				timer.Stop()
				return run, nil
			}
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
		timer.Stop()
		e.notOver(key, over)
		if over = nil; pause >= time.Second/2 {
			continue // ask the database: another process may have ended the run
		}
		over = e.over(key)
	}
}

// over returns a channel that gets the run when it ends in this process, or is closed when its execution here is over. It is nil if the
// run is not executed here.
func (e *Engine) over(key store.RunKey) chan *journal.Run {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.execs[key] == nil {
		return nil
	}
	ch := make(chan *journal.Run, 1)
	e.results[key] = append(e.results[key], ch)
	return ch
}

// notOver takes back what over has arranged.
func (e *Engine) notOver(key store.RunKey, ch chan *journal.Run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting := slices.DeleteFunc(e.results[key], func(c chan *journal.Run) bool { return c == ch })
	if len(waiting) == 0 {
		delete(e.results, key)
	} else {
		e.results[key] = waiting
	}
}
