package engine

import (
	"github.com/cairn-workflow/cairn/internal/journal"
)

// HookSpec is a hook as the code asks for it.
type HookSpec struct {
	Name     string
	Key      string
	Token    string // "": made by the engine
	Metadata journal.Payload
	Once     bool // takes one payload
	Webhook  bool
}

// Hook is an open hook of a run.
type Hook struct {
	b    *Branch
	key  string
	name string
	memo *memo
}

// OpenHook opens a hook. When it returns, the token can be used.
func (b *Branch) OpenHook(s HookSpec) (*Hook, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	defer b.leave()
	key, err := b.keyOf(s.Name, s.Key)
	if err != nil {
		return nil, err
	}
	h := &Hook{b: b, key: key, name: s.Name, memo: b.recall(key, kindHook)}
	if h.memo == nil {
		token := s.Token
		if token == "" {
			if token, err = b.x.eng.newToken(); err != nil {
				return nil, err
			}
		}
		b.add(journal.Event{Key: key, Data: &journal.HookCreated{Token: token, SingleUse: s.Once, Webhook: s.Webhook, Metadata: s.Metadata}})
		b.x.barrier()
		if h.memo = b.recall(key, kindHook); h.memo == nil {
			b.x.check()
			return nil, journal.Errorf(journal.CodeInternal, "hook %q was written and is not known", key)
		}
	}
	if h.memo.conflict {
		return nil, journal.Errorf(CodeHookConflict, "the token %q is taken by another run", h.memo.token)
	}
	return h, nil
}

// Token returns what the outside needs to send to the hook.
func (h *Hook) Token() string { return h.memo.token }

// ID returns the hook's id.
func (h *Hook) ID() journal.ID { return h.memo.id }

// Receive waits for the next payload, at most until the given time (0: for ever). When both come, the journal's order decides.
func (h *Hook) Receive(until func(now journal.Time) journal.Time) (journal.Payload, error) {
	b := h.b
	if err := b.enter(); err != nil {
		return nil, err
	}
	defer b.leave()
	w := &waiter{ready: func() bool { return len(h.memo.received) > h.memo.taken }}
	timeout := ""
	if until != nil {
		key, err := b.keyOf(h.name+" timeout", "")
		if err != nil {
			return nil, err
		}
		at, _ := b.timer(key, "timeout of "+h.name, until)
		timeout, w.at, w.wait = key, at, key
	}
	for {
		p, over, ok := h.decide(timeout)
		switch {
		case ok:
			h.closeTimer(timeout)
			return p, nil
		case over:
			return nil, journal.Errorf(CodeTimeout, "nothing came through hook %q in time", h.key)
		}
		if err := b.cancelled(); err != nil {
			return nil, err
		}
		b.x.block(w)
		if w.fired {
			b.x.barrier() // the end of the timer gets its place in the journal, and what came before it is known
			w.fired, w.at = false, 0
		}
	}
}

// decide looks at the journal: a payload, or the end of the timer, whichever came first.
func (h *Hook) decide(timeout string) (p journal.Payload, over, ok bool) {
	x := h.b.x
	x.mu.Lock()
	defer x.mu.Unlock()
	var ended int64
	if m := x.memos.byKey[timeout]; timeout != "" && m != nil {
		ended = m.completed
	}
	if len(h.memo.received) > h.memo.taken {
		d := h.memo.received[h.memo.taken]
		if ended == 0 || d.seq < ended {
			h.memo.taken++
			return d.payload, false, true
		}
	}
	return nil, ended != 0, false
}

// closeTimer ends a timer that is not needed any more, so that it does not wake the run.
func (h *Hook) closeTimer(key string) {
	if key == "" {
		return
	}
	x := h.b.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if m := x.memos.byKey[key]; m == nil || m.completed == 0 {
		x.pending = append(x.pending, journal.Event{Key: key, Data: &journal.WaitCompleted{}})
	}
}

// Close closes the hook and frees its token.
func (h *Hook) Close() error {
	if err := h.b.enter(); err != nil {
		return err
	}
	defer h.b.leave()
	if !h.memo.disposed {
		h.memo.disposed = true
		h.b.add(journal.Event{Key: h.key, Data: &journal.HookDisposed{Token: h.memo.token}})
	}
	return nil
}
