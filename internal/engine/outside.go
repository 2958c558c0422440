package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

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
	return e.execs[store.RunKey{Namespace: e.namespace, Run: run}]
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
	res, err := e.do(ctx, &journal.Command{Namespace: e.namespace, Run: run, Events: []journal.Event{event}})
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

	// Same reports whether a recorded value, read as the sender's type, is the present one; nil: it cannot be said.
	Same func(recorded, now journal.Payload) bool

	run journal.ID // to which it is sent; zero: to the one that has the token
}

// same reports whether the value is the one that was sent before, written in another way.
func (s *Sending) same(before journal.Payload) bool {
	if s.Same != nil && s.Same(before, s.Payload) {
		return true
	}
	was, err := payload.ToJSON(before)
	if err != nil {
		return false
	}
	is, err := payload.ToJSON(s.Payload)
	return err == nil && payload.EqualJSON(was, is)
}

// Deliver sends a payload through a hook. With a sender's key it is received once, however often it is sent. What does not fit the hook is refused.
func (e *Engine) Deliver(ctx context.Context, s Sending) (Receipt, error) {
	return e.deliverTold(ctx, &journal.HookReceived{Token: s.Token, Sender: s.Key, Payload: s.Payload}, &s)
}

// fitted refuses a payload that is not what the hook takes. Where the sender has another type, the payload that it returns is JSON, if that can be read for
// sure: an encoded Go value may look right, and still not be readable as another type.
func fitted(d *journal.HookReceived, sent, wanted []byte) (*journal.HookReceived, error) {
	if len(wanted) == 0 || schema.Same(sent, wanted) {
		return d, nil
	}
	text, err := payload.ToJSON(d.Payload)
	if err != nil {
		return nil, cairnerr.Errorf(cairnerr.CodeValueRefused, "the value does not fit: %w", err)
	}
	if err := schema.Check(wanted, text); err != nil {
		return d, err
	}
	if err := checkByType(d.Payload, wanted); err != nil || !schema.Complete(wanted) {
		return d, err
	}
	next := *d
	next.Payload, err = payload.FromJSON(text)
	return &next, err
}

// checkByType refuses a payload that the Go type of the hook cannot read, where a schema does not tell. What nobody here can check is refused, too: if it did
// not fit, it would park the run.
func checkByType(p journal.Payload, wanted []byte) error {
	name, t := schema.TypeOf(wanted)
	switch {
	case name == "":
		return nil
	case t == nil:
		return cairnerr.Errorf(cairnerr.CodeValueRefused, "the hook takes a %s, which decodes itself: only a program that has this type can check the value. "+
			"Send it from there", name)
	}
	return readable(p, reflect.New(t).Interface())
}

// readable refuses a payload that cannot be decoded. A type that decodes itself may also panic.
func readable(p journal.Payload, into any) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = cairnerr.Errorf(cairnerr.CodeValueRefused, "the value does not fit: its type panics: %v", panicked)
		}
	}()
	if err := payload.Decode(p, into); err != nil {
		return cairnerr.Errorf(cairnerr.CodeValueRefused, "the value does not fit: %w", err)
	}
	return nil
}

// TokenOf returns the token of the hook with a name that a run has open.
func (e *Engine) TokenOf(ctx context.Context, run journal.ID, name string) (string, error) {
	list, err := e.store.Hooks(ctx, e.namespace, run, store.ResolveNone, store.Page{Limit: store.MaxLimit})
	if err != nil {
		return "", err
	}
	var found []string
	for _, h := range list.Data {
		if h.Status == journal.HookOpen && NameOf(h.Key) == name {
			found = append(found, h.Token)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if _, err := e.store.Run(ctx, e.namespace, run, store.ResolveNone); err != nil {
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
		s.Token, s.run = token, run
		receipt, err = e.Deliver(ctx, s)
	}
	// A hook of that name may have received it before this one was opened.
	code := cairnerr.CodeOf(err)
	if s.Key == "" || code != cairnerr.CodeHookNotFound && code != cairnerr.CodeReceiptConflict {
		return receipt, err
	}
	before, readErr := e.receivedBy(ctx, run, name, &s)
	if readErr != nil || before == nil {
		return receipt, cmp.Or(readErr, err)
	}
	return *before, nil
}

// receivedBy finds what a hook with a name has received with the key of a sender, nil: nothing. Another value is a
// conflict.
func (e *Engine) receivedBy(ctx context.Context, run journal.ID, name string, s *Sending) (*Receipt, error) {
	j, err := e.store.Journal(ctx, e.namespace, run, 0)
	if err != nil {
		return nil, err
	}
	named := map[journal.ID]bool{}
	for _, event := range j.Events {
		switch d := event.Data.(type) {
		case *journal.HookCreated:
			named[event.Entity] = NameOf(event.Key) == name
		case *journal.HookReceived:
			if d.Sender != s.Key || !named[event.Entity] {
				continue
			}
			if !bytes.Equal(d.Payload, s.Payload) && !s.same(d.Payload) {
				return nil, receiptConflict(s.Key)
			}
			return &Receipt{Run: run, Hook: event.Entity, Seq: event.Seq}, nil
		}
	}
	return nil, nil //nolint:nilnil // nothing
}

func receiptConflict(key string) error {
	return cairnerr.Errorf(cairnerr.CodeReceiptConflict, "the key %q was used before to send another value", key)
}

// NameOf returns the name in a key: without the branch, the number and the explicit key.
func NameOf(key string) string {
	name := key[strings.LastIndexByte(key, '/')+1:]
	if i := strings.IndexAny(name, "#@"); i >= 0 {
		name = name[:i]
	}
	return name
}

// schemaOf reads what a hook takes, nil: anything.
func (e *Engine) schemaOf(ctx context.Context, h *store.RunHook) ([]byte, error) {
	created, err := e.store.Event(ctx, e.namespace, h.Run, h.Seq, store.ResolveNone)
	if err != nil {
		return nil, err
	}
	if d, ok := created.Data.(*journal.HookCreated); ok {
		return d.Schema, nil
	}
	return nil, nil
}

// sentBefore finds a delivery with the same token and sender's key, also if its hook is closed or its run has ended: who repeats a send gets the same answer, and
// never reaches a later hook that has the token. It returns nil if there is none.
func (e *Engine) sentBefore(ctx context.Context, d *journal.HookReceived, s *Sending) (*Receipt, error) {
	found, err := e.store.Receipts(ctx, e.namespace, d.Sender)
	if err != nil {
		return nil, err
	}
	for i := range found {
		r := &found[i]
		if !s.run.IsZero() && r.Run != s.run {
			continue // it was sent to another run
		}
		event, err := e.store.Event(ctx, e.namespace, r.Run, r.Seq, store.ResolveAll)
		if cairnerr.CodeOf(err) == cairnerr.CodeEventNotFound || cairnerr.CodeOf(err) == cairnerr.CodeRunNotFound {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		before, ok := event.Data.(*journal.HookReceived)
		switch {
		case !ok || before.Token != d.Token:
		case !bytes.Equal(r.Digest, journal.ReceiptDigest(d.Payload)) && !s.same(before.Payload):
			return nil, receiptConflict(d.Sender)
		default:
			return &Receipt{Run: r.Run, Hook: r.Hook, Seq: r.Seq}, nil
		}
	}
	return nil, nil //nolint:nilnil // it is the first
}

func (e *Engine) deliver(ctx context.Context, d *journal.HookReceived, s *Sending) (Receipt, error) {
	types := s.Schema
	if err := d.Check(); err != nil {
		return Receipt{}, err
	}
	if d.Sender != "" {
		if before, err := e.sentBefore(ctx, d, s); err != nil || before != nil {
			if before == nil {
				before = &Receipt{}
			}
			return *before, err
		}
	}
	if ref, known := e.tokenOf(d.Token); known {
		fit, err := fitted(d, types, ref.schema)
		if err != nil {
			return Receipt{}, err
		}
		res, err := e.tell(ctx, ref.run, fit, ref.hook)
		if err == nil {
			return Receipt{Run: ref.run, Hook: ref.hook, Seq: res.Outcomes[0].Seq}, nil
		}
		if err := ifUnknown(err); err != nil {
			return Receipt{}, err
		} // what else is wrong, the database says better
	}
	h, err := e.store.HookByToken(ctx, e.namespace, d.Token, store.ResolveNone)
	if err != nil {
		return Receipt{}, err
	}
	wanted, err := e.schemaOf(ctx, h)
	if err != nil {
		return Receipt{}, err
	}
	if d, err = fitted(d, types, wanted); err != nil {
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
	ref, ok := e.tokens[store.Token{Namespace: e.namespace, Token: token}]
	return ref, ok
}

// knowToken remembers where a token leads while its run is in memory.
func (e *Engine) knowToken(x *exec, h *Hook) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.execs[x.key] == x {
		e.tokens[store.Token{Namespace: x.key.Namespace, Token: h.memo.token}] = hookRef{x.key.Run, h.memo.id, h.memo.schema}
		x.tokens = append(x.tokens, h.memo.token)
	}
}

func (e *Engine) closeToken(x *exec, h *Hook) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgetToken(x.key, h.memo.token)
	x.tokens = slices.DeleteFunc(x.tokens, func(t string) bool { return t == h.memo.token })
}

// forgetToken drops a token of a run. The lock is held.
func (e *Engine) forgetToken(key store.RunKey, token string) {
	t := store.Token{Namespace: key.Namespace, Token: token}
	if e.tokens[t].run == key.Run {
		delete(e.tokens, t)
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
	r, err := e.store.Run(ctx, e.namespace, run, store.ResolveNone)
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
	r, err := e.store.Run(ctx, e.namespace, run, store.ResolveNone)
	if err != nil || r.Status != journal.StatusPending {
		return false, err
	}
	cmd := &journal.Command{
		Namespace: e.namespace, Run: run, Events: []journal.Event{{Data: &journal.RunCancelled{Reason: reason, Actor: actor}}},
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
		key := store.RunKey{Namespace: e.namespace, Run: run}
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
		key := store.RunKey{Namespace: e.namespace, Run: run}
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
	_, err := e.do(ctx, &journal.Command{Namespace: e.namespace, Run: run, Lease: journal.LeasePush})
	if err == nil {
		e.lookNow()
	}
	return err
}
