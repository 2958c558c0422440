package journal

import (
	"bytes"
	"crypto/sha256"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// engineHookCreated lets the command that makes a run open hooks of it, for the first request. Later only the owner does.
func (r *reduction) engineHookCreated(e *Event, o *Outcome) (verdict, error) {
	switch {
	case r.cmd.born():
	case r.s.Run.Status != StatusRunning:
		return 0, r.notWhile(e)
	case r.cmd.Guards.Owner.Incarnation.IsZero():
		return 0, notByOutsider(e)
	}
	return r.hookCreated(e, o)
}

func (r *reduction) hookCreated(e *Event, _ *Outcome) (verdict, error) {
	d := e.Data.(*HookCreated)
	if d.Token == "" {
		return 0, cairnerr.Errorf(cairnerr.CodeMalformed, "a hook needs a token")
	}
	if err := CheckText("the token", d.Token, MaxToken); err != nil {
		return 0, err
	}
	if d.RetainUntil > r.env.Now+maxHookRetention {
		return 0, cairnerr.Errorf(cairnerr.CodeLimitExceeded, "a token can be retained for 30 days at most")
	}
	if _, made := r.s.HooksMade[e.Entity]; made {
		return 0, cairnerr.Errorf(cairnerr.CodeHookExists, "%s was created before", PrefixHook.Format(e.Entity))
	}
	if holder, held := r.holder(d.Token); held {
		e.Data = &HookConflict{Token: d.Token, Run: holder}
		return appends, nil
	}
	r.setToken(d.Token, Holder{Run: r.cmd.Run, Hook: e.Entity, RetainUntil: d.RetainUntil})
	return appends, nil
}

// holder returns the run that holds a token.
func (r *reduction) holder(token string) (ID, bool) {
	if h, held := r.outside.Tokens[TokenKey(r.cmd.Namespace, token)]; held {
		return h.Run, true
	}
	for _, h := range r.s.Hooks {
		if h.Token == token {
			return r.cmd.Run, true
		}
	}
	return ID{}, false
}

func (r *reduction) setToken(token string, h Holder) {
	key := TokenKey(r.cmd.Namespace, token)
	before, existed := r.outside.Tokens[key]
	r.s.undo = append(r.s.undo, undo{kind: undoToken, outside: &undoOutside{outside: r.outside, token: key, holder: before, existed: existed}})
	r.outside.Tokens[key] = h
}

func (r *reduction) freeToken(token string) {
	key := TokenKey(r.cmd.Namespace, token)
	before, existed := r.outside.Tokens[key]
	if !existed {
		return
	}
	r.s.undo = append(r.s.undo, undo{kind: undoToken, outside: &undoOutside{outside: r.outside, token: key, holder: before, existed: true}})
	delete(r.outside.Tokens, key)
}

// ReceiptDigest is how two deliveries with the same sender's key are compared.
func ReceiptDigest(p Payload) []byte {
	sum := sha256.Sum256(p)
	return sum[:16]
}

// Check refuses what no hook takes.
func (d *HookReceived) Check() error {
	if err := CheckText("the sender's key", d.Sender, MaxKey); err != nil {
		return err
	}
	return checkHeaders(d.Headers)
}

func (r *reduction) hookReceived(e *Event, o *Outcome) (verdict, error) {
	d := *e.Data.(*HookReceived)
	e.Data = &d
	if err := d.Check(); err != nil {
		return 0, err
	}
	if d.Sender != "" {
		if len(d.Digest) == 0 {
			d.Digest = ReceiptDigest(d.Payload)
		}
		if before := r.s.Receipts[d.Sender]; before != nil {
			if before.Hook != e.Entity || !bytes.Equal(before.Digest, d.Digest) {
				return 0, cairnerr.Errorf(cairnerr.CodeReceiptConflict, "the sender's key %q was received before with another payload or hook", d.Sender)
			}
			o.Seq = before.Seq
			return holds, nil
		}
	}
	run, hook := r.s.Run, r.s.Hooks[e.Entity]
	switch {
	case run.Status.Terminal() && run.Dialect != World3:
		return 0, cairnerr.Errorf(cairnerr.CodeRunGone, "hook_received came after the run was %s", run.Status)
	case hook == nil || (d.Token != "" && d.Token != hook.Token):
		return 0, cairnerr.Errorf(cairnerr.CodeHookNotFound, "no hook %s", PrefixHook.Format(e.Entity))
	case hook.Status == HookConsumed:
		return 0, cairnerr.Errorf(cairnerr.CodeHookConsumed, "%s can be used only once, and was used", PrefixHook.Format(e.Entity))
	case hook.Status != HookOpen:
		return 0, cairnerr.Errorf(cairnerr.CodeRunGone, "the run of %s has ended", PrefixHook.Format(e.Entity))
	case hook.ExpiresAt != 0 && hook.ExpiresAt <= r.env.Now:
		return 0, cairnerr.Errorf(cairnerr.CodeHookExpired, "%s expired at %s", PrefixHook.Format(e.Entity), hook.ExpiresAt)
	}
	return appends, nil
}

func (r *reduction) hookReplied(e *Event, _ *Outcome) (verdict, error) {
	if d := e.Data.(*HookReplied); d.To <= 0 || d.To > r.s.Seq {
		return 0, cairnerr.Errorf(cairnerr.CodeMalformed, "a reply to event %d, which is not there", d.To)
	}
	return appends, nil
}

func (r *reduction) hookDisposed(e *Event, _ *Outcome) (verdict, error) {
	hook := r.s.Hooks[e.Entity]
	if hook == nil || hook.Status == HookRetained {
		return 0, cairnerr.Errorf(cairnerr.CodeHookNotFound, "no hook %s", PrefixHook.Format(e.Entity))
	}
	r.freeToken(hook.Token)
	r.result.Effects.Disposed = append(r.result.Effects.Disposed, hook.ID)
	return appends, nil
}

func (r *reduction) waitCreated(e *Event, _ *Outcome) (verdict, error) {
	if err := CheckText("the wait's kind", e.Data.(*WaitCreated).Kind, MaxName); err != nil {
		return 0, err
	}
	if r.s.Waits[e.Entity] != nil {
		return 0, cairnerr.Errorf(cairnerr.CodeWaitExists, "%s exists", PrefixWait.Format(e.Entity))
	}
	return appends, nil
}

func (r *reduction) waitCompleted(e *Event, _ *Outcome) (verdict, error) {
	switch wait := r.s.Waits[e.Entity]; {
	case wait == nil:
		return 0, cairnerr.Errorf(cairnerr.CodeWaitNotFound, "no wait %s", PrefixWait.Format(e.Entity))
	case wait.Status == StatusCompleted:
		return 0, cairnerr.Errorf(cairnerr.CodeWaitCompleted, "%s is over", PrefixWait.Format(e.Entity))
	}
	return appends, nil
}
