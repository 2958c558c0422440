package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// exec returns the execution of a run in this process, nil if there is none.
func (e *Engine) exec(run journal.ID) *exec {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.execs[store.RunKey{Namespace: e.cfg.Namespace, Run: run}]
}

// tell writes a command from outside, and passes what it wrote on to the run if it is in memory.
func (e *Engine) tell(ctx context.Context, run journal.ID, d journal.Data, entity journal.ID) (*journal.Result, error) {
	event := journal.Event{Entity: entity, Data: d}
	x := e.exec(run)
	if x != nil {
		if res, err := x.hand(ctx, event); res != nil || err != nil {
			return res, err
		}
	}
	res, err := e.do(ctx, &journal.Command{Namespace: e.cfg.Namespace, Run: run, Events: []journal.Event{event}})
	if err != nil {
		return nil, err
	}
	x = e.exec(run)
	switch {
	case x != nil && res.Run.Status.Terminal():
		x.leave(ErrCancelled)
	case x != nil:
		x.observe(nil, res.Appended, false)
		x.noteRun(res.Run)
		if x.wake(); x.isGone() { // it was evicted meanwhile
			e.lookNow()
		}
	case len(res.Effects.Wake) > 0:
		e.tellLater(run)
		e.lookNow()
	}
	return res, nil
}

// Receipt is the proof that a payload was taken by a hook.
type Receipt struct {
	Run, Hook journal.ID
	Seq       int64 // the event
}

// Deliver sends a payload through a hook. With a sender's key it is received once, however often it is sent.
func (e *Engine) Deliver(ctx context.Context, token, sender string, payload journal.Payload) (Receipt, error) {
	return e.deliverTold(ctx, &journal.HookReceived{Token: token, Sender: sender, Payload: payload})
}

func (e *Engine) deliver(ctx context.Context, d *journal.HookReceived) (Receipt, error) {
	if ref, known := e.tokenOf(d.Token); known {
		res, err := e.tell(ctx, ref.run, d, ref.hook)
		if err == nil {
			return Receipt{Run: ref.run, Hook: ref.hook, Seq: res.Outcomes[0].Seq}, nil
		}
		if err := ifUnknown(err); err != nil {
			return Receipt{}, err
		} // what else is wrong, the database says better
	}
	h, err := e.store.HookByToken(ctx, e.cfg.Namespace, d.Token, store.ResolveNone)
	if err != nil {
		return Receipt{}, err
	}
	res, err := e.tell(ctx, h.Run, d, h.ID)
	if err != nil {
		return Receipt{}, err
	}
	return Receipt{Run: h.Run, Hook: h.ID, Seq: res.Outcomes[0].Seq}, nil
}

// hookRef is a hook of a run.
type hookRef struct {
	run, hook journal.ID
}

func (e *Engine) tokenOf(token string) (hookRef, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ref, ok := e.tokens[token]
	return ref, ok
}

// knowToken remembers where a token leads while its run is in memory.
func (e *Engine) knowToken(x *exec, h *Hook) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.execs[x.key] == x && x.key.Namespace == e.cfg.Namespace {
		e.tokens[h.memo.token] = hookRef{x.key.Run, h.memo.id}
		x.tokens = append(x.tokens, h.memo.token)
	}
}

func (e *Engine) closeToken(x *exec, h *Hook) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgetToken(h.memo.token, x.key.Run)
	x.tokens = slices.DeleteFunc(x.tokens, func(t string) bool { return t == h.memo.token })
}

// forgetToken drops a token of a run. The lock is held.
func (e *Engine) forgetToken(token string, run journal.ID) {
	if e.tokens[token].run == run {
		delete(e.tokens, token)
	}
}

// Cancel asks a run to stop: its context ends, and its clean-up runs.
func (e *Engine) Cancel(ctx context.Context, run journal.ID, reason, actor string) error {
	ended, err := e.cancelPending(ctx, run, reason, actor)
	if err != nil || ended {
		return err
	}
	if _, err = e.tell(ctx, run, &journal.CancelRequested{Reason: reason, Actor: actor}, journal.ID{}); err != nil {
		return err
	}
	return e.resumeToStop(ctx, run, actor)
}

// resumeToStop lets a parked run go on that was asked to stop, so that its clean-up runs.
func (e *Engine) resumeToStop(ctx context.Context, run journal.ID, actor string) error {
	r, err := e.store.Run(ctx, e.cfg.Namespace, run, store.ResolveNone)
	if err != nil || r.ParkedAt == 0 || r.Status.Terminal() {
		return err
	}
	if err = e.Resume(ctx, run, actor); cairnerr.CodeOf(err) == cairnerr.CodeIllegalTransition {
		return nil // somebody else did
	}
	return err
}

// cancelPending ends a run that nobody has begun: there is nothing to clean up, and perhaps nobody who could. It reports whether it did.
func (e *Engine) cancelPending(ctx context.Context, run journal.ID, reason, actor string) (bool, error) {
	r, err := e.store.Run(ctx, e.cfg.Namespace, run, store.ResolveNone)
	if err != nil || r.Status != journal.StatusPending {
		return false, err
	}
	cmd := &journal.Command{
		Namespace: e.cfg.Namespace, Run: run, Events: []journal.Event{{Data: &journal.RunCancelled{Reason: reason, Actor: actor}}},
		Guards: journal.Guards{Status: []journal.Status{journal.StatusPending}},
	}
	res, err := e.do(ctx, cmd)
	switch {
	case cairnerr.CodeOf(err) == cairnerr.CodePrecondition:
		return false, nil // somebody has begun it
	case err == nil:
		if x := e.exec(run); x != nil {
			x.leave(ErrCancelled)
		}
		key := store.RunKey{Namespace: e.cfg.Namespace, Run: run}
		e.observeEnd(key, res.Run, cmd.Events[0].Data, e.headersOf(ctx, run))
		e.announce(key, res.Run, cmd.Events[0].Data)
	}
	return err == nil, err
}

// Terminate ends a run and its children at once. Repeated after a crash, it ends children that are left.
func (e *Engine) Terminate(ctx context.Context, run journal.ID, reason, actor string) error {
	end := &journal.RunCancelled{Reason: reason, Actor: actor}
	res, err := e.tell(ctx, run, end, journal.ID{})
	if err == nil {
		key := store.RunKey{Namespace: e.cfg.Namespace, Run: run}
		e.observeEnd(key, res.Run, end, e.headersOf(ctx, run))
		e.announce(key, res.Run, end)
	}
	if err != nil && cairnerr.CodeOf(err) != cairnerr.CodeRunEnded {
		return err
	}
	return errors.Join(err, e.terminateChildren(ctx, run, reason, actor))
}

// Push lets the polls of a run look now: it marks the run, and whoever executes it finds that.
func (e *Engine) Push(ctx context.Context, run journal.ID) error {
	_, err := e.do(ctx, &journal.Command{Namespace: e.cfg.Namespace, Run: run, Lease: journal.LeasePush})
	if err == nil {
		e.lookNow()
	}
	return err
}
