package engine

import (
	"github.com/cairn-workflow/cairn/cairnerr"
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
	Schema   []byte // of its values; nil: any
	Expires  Until  // from when on nothing comes through it any more; nil: never
}

// created returns the event that opens the hook at a time.
func (s *HookSpec) created(token string, now journal.Time) *journal.HookCreated {
	d := &journal.HookCreated{Token: token, SingleUse: s.Once, Webhook: s.Webhook, Metadata: s.Metadata, Schema: s.Schema}
	if s.Expires != nil {
		d.ExpiresAt = max(s.Expires(now), 1)
	}
	return d
}

// Hook is an open hook of a run.
type Hook struct {
	line *line
	key  string
	name string
	once bool // it takes one value
	memo *memo

	receiver *line // guarded by the execution
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
	h := &Hook{line: b.line, key: key, name: s.Name, once: s.Once, memo: b.recall(key, kindHook)}
	if h.memo == nil {
		if err := b.stopped(); err != nil {
			return nil, err
		}
		b.goLive()
		if err := journal.CheckPayload("the metadata of hook ", key, s.Metadata); err != nil {
			return nil, err
		}
		if err := journal.CheckText("the token", s.Token, journal.MaxToken); err != nil {
			return nil, err
		}
		b.frontier(key, kindHook)
		token := s.Token
		if token == "" {
			if token, err = b.x.eng.newToken(); err != nil {
				return nil, err
			}
		}
		b.add(journal.Event{Key: key, Data: s.created(token, b.Now())})
		b.x.barrier(b.line)
		if h.memo = b.recall(key, kindHook); h.memo == nil {
			if err := b.stopped(); err != nil {
				return nil, err
			}
			return nil, cairnerr.Errorf(cairnerr.CodeInternal, "hook %q was written and is not known", key)
		}
	}
	if h.memo.conflict {
		return nil, cairnerr.Errorf(cairnerr.CodeHookConflict, "the token %q is taken by another hook", h.memo.token)
	}
	b.x.eng.knowToken(b.x, h)
	return h, nil
}

// Token returns what the outside needs to send to the hook.
func (h *Hook) Token() string { return h.memo.token }

// bind makes a branch the one that receives from the hook: with two, who gets what would differ between executions.
func (h *Hook) bind(b *Branch) error {
	b.x.mu.Lock()
	other := h.receiver != nil && h.receiver != b.line
	if !other {
		h.receiver = b.line
	}
	b.x.mu.Unlock()
	if other {
		return b.misused(cairnerr.Errorf(cairnerr.CodeConcurrentContext, "two branches receive from hook %q: let one branch receive, and pass the values on", h.key))
	}
	return nil
}

// Delivery is a payload that came through a hook.
type Delivery struct {
	Payload journal.Payload
	seq     int64
	hook    *Hook
}

// Receive waits for the next payload, at most until the given time (nil: for ever). When both come, the journal's order decides. Through a hook that was closed, or
// has had its only payload, nothing can come any more: that is an error. The payload is decoded into a pointer; nil: it is not.
func (h *Hook) Receive(b *Branch, until Until, into any) (Delivery, error) {
	if err := b.enterWith("the hook", h.line.x); err != nil {
		return Delivery{}, err
	}
	defer b.leave()
	d, err := h.receive(b, until)
	if err != nil {
		return Delivery{}, err
	}
	return d, b.decode("what came through hook "+quote(h.key), h.key, d.Payload, into)
}

func (h *Hook) receive(b *Branch, until Until) (Delivery, error) {
	if err := h.bind(b); err != nil {
		return Delivery{}, err
	}
	w := &waiter{line: b.line, ctx: b.ctx, ready: func() bool { return len(h.memo.received) > h.memo.taken || h.memo.disposed }, key: h.key, kind: kindHook}
	timeout, end, asked := "", journal.Time(0), false
	if until = h.until(until); until != nil {
		key, err := b.keyOf(h.name+" timeout", "")
		if err != nil {
			return Delivery{}, err
		}
		timeout, w.wait = key, key
		end = b.timer(key, TimerSpec{Name: timeoutOf + h.name, Until: until})
		w.at = end
	}
	for {
		d, over, ok := h.decide(b, timeout)
		switch {
		case ok:
			return h.got(b, &d), nil
		case over:
			b.saw(end)
			return Delivery{}, cairnerr.Errorf(cairnerr.CodeTimeout, "nothing came through hook %q in time", h.key)
		}
		if err := b.stopped(); err != nil {
			if d, _, ok := h.decide(b, timeout); ok { // what came before that, it has
				return h.got(b, &d), nil
			}
			h.endTimer(b, timeout)
			return Delivery{}, err
		}
		if err := h.over(); err != nil {
			if !asked && b.x.replay == nil { // what came before it was closed is taken
				b.x.barrierAll()
				asked = true
				continue
			}
			h.endTimer(b, timeout)
			return Delivery{}, err
		}
		b.goLive()
		b.x.block(w)
		if w.fired {
			b.x.barrier(b.line) // the end of the timer gets its place in the journal, and what came before it is known
			w.fired, w.at = false, 0
		}
	}
}

// until returns until when a value is waited for: not longer than the hook takes one.
func (h *Hook) until(limit Until) Until {
	expires := h.memo.expires
	switch {
	case expires == 0:
		return limit
	case limit == nil:
		return func(journal.Time) journal.Time { return expires }
	default:
		return func(now journal.Time) journal.Time { return min(limit(now), expires) }
	}
}

// endTimer ends the timer of a Receive that does not need it any more, if it has one.
func (h *Hook) endTimer(b *Branch, timeout string) {
	if timeout == "" {
		return
	}
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	b.x.closeTimer(b.line, timeout)
}

// over says why nothing comes through the hook any more, nil: something may.
func (h *Hook) over() error {
	h.line.x.mu.Lock()
	defer h.line.x.mu.Unlock()
	switch {
	case h.once && h.memo.taken > 0:
		return cairnerr.Errorf(cairnerr.CodeHookConsumed, "hook %q takes only one value, which was received already", h.key)
	case h.memo.disposed:
		return cairnerr.Errorf(cairnerr.CodeHookNotFound, "hook %q was closed: nothing comes through it any more", h.key)
	default:
		return nil
	}
}

// got gives a delivery to the code. What it had before this process took the run is not news.
func (h *Hook) got(b *Branch, d *delivery) Delivery {
	b.saw(d.at)
	if b.isNews(d.seq) {
		b.goLive()
		b.x.observeReceived(h.name, d)
	}
	return Delivery{Payload: d.payload, seq: d.seq, hook: h}
}

// decide looks at the journal: a payload, or the end of the timer, whichever came first. What came after the branch was told to stop
// it has not seen.
func (h *Hook) decide(b *Branch, timeout string) (d delivery, over, ok bool) {
	x := b.x
	x.mu.Lock()
	defer x.mu.Unlock()
	var ended int64
	fired := false
	if m := x.memos.byKey[timeout]; timeout != "" && m != nil {
		ended, fired = m.completed, m.fired
	}
	cut, _ := b.cut()
	if len(h.memo.received) > h.memo.taken {
		d := h.memo.received[h.memo.taken]
		if x.memos.paused && d.seq > x.memos.parkedAt { // it is kept until the run is resumed
			return delivery{}, false, false
		}
		if (ended == 0 || d.seq < ended || !fired) && (cut == 0 || d.seq < cut) {
			h.memo.taken++
			if timeout != "" {
				x.closeTimer(b.line, timeout)
			}
			return d, false, true
		}
	}
	return delivery{}, fired && (cut == 0 || ended < cut), false
}

// Refusal returns the error with which a request is refused, nil if there is none.
func Refusal(err error) *cairnerr.Error {
	if e := cairnerr.AsError(usable(err)); e != nil {
		return shortened(e)
	}
	return nil
}

// Reply answers a delivery. Its sender, if it waits, gets the value once it is durable. A second answer is ignored.
func (d Delivery) Reply(b *Branch, value journal.Payload, failure *cairnerr.Error) error {
	if d.hook == nil {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "this request did not come through a hook: answer a request that Receive returned")
	}
	if err := b.enterWith("what was delivered", d.hook.line.x); err != nil {
		return err
	}
	defer b.leave()
	if err := journal.CheckPayload("the answer", "", value); err != nil {
		return err
	}
	x := b.x
	if x.replay != nil {
		b.replayReply(d, value, failure)
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.memos.replied[d.seq] || x.memos.replying[d.seq] || b.isClosed() {
		return nil
	}
	if x.memos.replying == nil {
		x.memos.replying = map[int64]bool{}
	}
	x.memos.replying[d.seq] = true
	x.put(b.line, journal.Event{Key: d.hook.key, Data: &journal.HookReplied{To: d.seq, Value: value, Error: failure}})
	return nil
}

// Close closes the hook and frees its token.
func (h *Hook) Close(b *Branch) error {
	if err := b.enterWith("the hook", h.line.x); err != nil {
		return err
	}
	defer b.leave()
	if b.x.replay != nil {
		b.replayClose(h)
		return nil
	}
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	if !h.memo.disposed && !b.isClosed() {
		h.memo.disposed = true
		b.x.eng.closeToken(b.x, h)
		b.x.put(b.line, journal.Event{Key: h.key, Data: &journal.HookDisposed{Token: h.memo.token}})
		if b.x.phase == phaseRunning {
			b.x.resolve() // a branch that waits for something is told
		}
	}
	return nil
}
