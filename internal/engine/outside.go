package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
	"github.com/cairn-workflow/cairn/internal/schema"
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

// Sending is a payload for a hook.
type Sending struct {
	Token   string
	Key     string // of the sender's; "": none
	Payload journal.Payload
	Schema  []byte // of the sender's type; nil: not known
}

// Deliver sends a payload through a hook. With a sender's key it is received once, however often it is sent. What does not fit the hook is refused.
func (e *Engine) Deliver(ctx context.Context, s Sending) (Receipt, error) {
	return e.deliverTold(ctx, &journal.HookReceived{Token: s.Token, Sender: s.Key, Payload: s.Payload}, s.Schema)
}

// fits refuses a payload that is not what the hook takes.
func fits(d *journal.HookReceived, sent, wanted []byte) error {
	if len(wanted) == 0 || schema.Same(sent, wanted) {
		return nil
	}
	view, err := payload.View(d.Payload, payload.MaxSize)
	if err != nil {
		return nil //nolint:nilerr // what cannot be looked at cannot be checked
	}
	return schema.Check(wanted, view)
}

// TokenOf returns the token of the hook with a name that a run has open.
func (e *Engine) TokenOf(ctx context.Context, run journal.ID, name string) (string, error) {
	list, err := e.store.Hooks(ctx, e.cfg.Namespace, run, store.ResolveNone, store.Page{Limit: store.MaxLimit})
	if err != nil {
		return "", err
	}
	var found []string
	for _, h := range list.Data {
		if h.Status == journal.HookOpen && nameOf(h.Key) == name {
			found = append(found, h.Token)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if _, err := e.store.Run(ctx, e.cfg.Namespace, run, store.ResolveNone); err != nil {
			return "", err
		}
		return "", cairnerr.Errorf(cairnerr.CodeHookNotFound, "%s has no open hook %q", journal.PrefixRun.Format(run), name)
	default:
		return "", cairnerr.Errorf(cairnerr.CodeMalformed, "%s has %d open hooks %q: use the token of one", journal.PrefixRun.Format(run), len(found), name)
	}
}

// DeliverTo is [Engine.Deliver] to the hook with a name that a run has open. A send with a key may be repeated when the run has closed the hook.
func (e *Engine) DeliverTo(ctx context.Context, run journal.ID, name string, s Sending) (Receipt, error) {
	var receipt Receipt
	token, err := e.TokenOf(ctx, run, name)
	if err == nil {
		s.Token = token
		receipt, err = e.Deliver(ctx, s)
	}
	if s.Key == "" || cairnerr.CodeOf(err) != cairnerr.CodeHookNotFound {
		return receipt, err
	}
	hook, readErr := e.receivedBy(ctx, run, name, s.Key)
	if readErr != nil || hook.IsZero() {
		return receipt, cmp.Or(readErr, err)
	}
	res, err := e.tell(ctx, run, &journal.HookReceived{Sender: s.Key, Payload: s.Payload}, hook)
	if err != nil {
		return Receipt{}, err
	}
	return Receipt{Run: run, Hook: hook, Seq: res.Outcomes[0].Seq}, nil
}

// receivedBy returns the hook with a name that has received what was sent with a key, the zero id if none has.
func (e *Engine) receivedBy(ctx context.Context, run journal.ID, name, sender string) (hook journal.ID, err error) {
	j, err := e.store.Journal(ctx, e.cfg.Namespace, run, 0)
	if err != nil {
		return hook, err
	}
	named := map[journal.ID]bool{}
	for _, event := range j.Events {
		switch d := event.Data.(type) {
		case *journal.HookCreated:
			named[event.Entity] = nameOf(event.Key) == name
		case *journal.HookReceived:
			if d.Sender == sender && named[event.Entity] {
				return event.Entity, nil
			}
		}
	}
	return hook, nil
}

// nameOf returns the name in a key: without the branch, the number and the explicit key.
func nameOf(key string) string {
	name := key[strings.LastIndexByte(key, '/')+1:]
	if i := strings.IndexAny(name, "#@"); i >= 0 {
		name = name[:i]
	}
	return name
}

// schemaOf reads what a hook takes, nil: anything.
func (e *Engine) schemaOf(ctx context.Context, h *store.RunHook) ([]byte, error) {
	created, err := e.store.Event(ctx, e.cfg.Namespace, h.Run, h.Seq, store.ResolveNone)
	if err != nil {
		return nil, err
	}
	if d, ok := created.Data.(*journal.HookCreated); ok {
		return d.Schema, nil
	}
	return nil, nil
}

func (e *Engine) deliver(ctx context.Context, d *journal.HookReceived, types []byte) (Receipt, error) {
	if ref, known := e.tokenOf(d.Token); known {
		if err := fits(d, types, ref.schema); err != nil {
			return Receipt{}, err
		}
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
	wanted, err := e.schemaOf(ctx, h)
	if err != nil {
		return Receipt{}, err
	}
	if err := fits(d, types, wanted); err != nil {
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
	schema    []byte
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
		e.tokens[h.memo.token] = hookRef{x.key.Run, h.memo.id, h.memo.schema}
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

// replyKey names a delivery that may be answered.
type replyKey struct {
	run journal.ID
	seq int64
}

// AwaitReply waits for the answer to a delivery. An answer that is given in this process is passed on at once; for others the database is asked from
// time to time.
func (e *Engine) AwaitReply(ctx context.Context, r Receipt) (*journal.HookReplied, error) {
	key, ch := replyKey{r.Run, r.Seq}, make(chan *journal.HookReplied, 1)
	e.mu.Lock()
	e.replies[key] = append(e.replies[key], ch)
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.replies[key] = slices.DeleteFunc(e.replies[key], func(c chan *journal.HookReplied) bool { return c == ch })
		if len(e.replies[key]) == 0 {
			delete(e.replies, key)
		}
	}()
	page := store.Page{Cursor: store.NumberCursor(store.CursorEvents, 0, r.Seq)} // it comes later than what it answers
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, e.cfg.Poll) {
		d, err := e.findReply(ctx, r, &page)
		if err != nil || d != nil {
			return d, err
		}
		timer := time.NewTimer(pause)
		select {
		case d := <-ch:
			timer.Stop()
			return d, nil
		case <-timer.C:
		case <-e.ended:
			timer.Stop()
			return nil, errStopped()
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// findReply reads the answer to a delivery, from the page on, which it moves. A run that has ended gives none any more.
func (e *Engine) findReply(ctx context.Context, r Receipt, page *store.Page) (*journal.HookReplied, error) {
	run, err := e.store.Run(ctx, e.cfg.Namespace, r.Run, store.ResolveNone)
	if err != nil {
		return nil, err
	}
	for {
		list, err := e.store.Events(ctx, e.cfg.Namespace, store.EventFilter{Run: r.Run, Entity: r.Hook, Resolve: store.ResolveAll}, *page)
		if err != nil {
			return nil, err
		}
		for i := range list.Data {
			switch d := list.Data[i].Data.(type) {
			case *journal.HookReplied:
				if d.To == r.Seq {
					return d, nil
				}
			case *journal.HookDisposed:
				return nil, cairnerr.Errorf(cairnerr.CodeHookNotFound, "the hook was closed without an answer")
			}
		}
		page.Cursor = cmp.Or(list.Cursor, page.Cursor)
		if !list.HasMore {
			break
		}
	}
	if run.Status.Terminal() {
		return nil, cairnerr.Errorf(cairnerr.CodeRunGone, "the run ended without an answer")
	}
	return nil, nil //nolint:nilnil // no answer yet
}

// replied passes answers that are durable on to those who wait for them.
func (e *Engine) replied(run journal.ID, events []journal.Event) {
	for i := range events {
		d, ok := events[i].Data.(*journal.HookReplied)
		if !ok {
			continue
		}
		e.mu.Lock()
		waiting := e.replies[replyKey{run, d.To}]
		e.mu.Unlock()
		for _, ch := range waiting {
			select {
			case ch <- d:
			default:
			}
		}
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
	now, err := e.Situation(ctx, run)
	if err != nil || now.Parked == nil {
		return err
	}
	// If its code still cannot go on, the run ends: somebody wants that. One that was only paused can.
	resumed := &journal.RunResumed{Actor: actor, Ending: !now.Parked.Asked}
	if _, err = e.tell(ctx, run, resumed, journal.ID{}); cairnerr.CodeOf(err) == cairnerr.CodeIllegalTransition {
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
		e.observeEnd(store.RunKey{Namespace: e.cfg.Namespace, Run: run}, res.Run, end, e.headersOf(ctx, run))
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
