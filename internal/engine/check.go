package engine

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// PollSpec is a check that is repeated until it succeeds.
type PollSpec struct {
	Name   string
	Key    string
	Input  journal.Payload
	Digest []byte                                   // of the input
	Same   func(recorded, now journal.Payload) bool // see [StepSpec]
	Every  time.Duration                            // between two looks; 0: only when somebody pushes
	Until  Until                                    // nil: for ever
	Retry  Retry                                    // for checks that fail; the number of failures in a row is counted in memory
	Into   any                                      // a pointer to what the result is decoded into; nil: it is not
}

// kindPoll is the kind of wait that a poll is.
const kindPoll = "poll"

// Check looks once: ready says whether the matter is settled.
type Check func(ctx context.Context, info StepInfo) (out journal.Payload, ready bool, err error)

// Poll repeats a check until it is ready or fails. Looks that find nothing leave no trace in the journal; the outcome is one event. Between two
// looks the run waits like any other.
func (b *Branch) Poll(s PollSpec, check Check) (journal.Payload, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	defer b.leave()
	key, err := b.keyOf(s.Name, s.Key)
	if err != nil {
		return nil, err
	}
	if err := journal.CheckPayload("the input of poll ", key, s.Input); err != nil {
		return nil, err
	}
	m := b.recall(key, kindWait)
	if m != nil {
		b.compareInput(key, m, given{kindPoll, s.Name, s.Key, s.Input, s.Digest, s.Same})
	}
	if m != nil && m.completed != 0 {
		b.saw(m.at)
		if m.failed != nil {
			return nil, m.failed
		}
		return m.result, b.decode("the recorded result of poll "+quote(key), key, m.result, s.Into)
	}
	if err := b.stopped(); err != nil {
		if m != nil {
			b.giveUp(key, err)
		}
		return nil, err
	}
	b.goLive()
	p := &poll{b: b, spec: s, key: key, end: b.pollEnd(key, s)}
	return p.run(check)
}

// pollEnd returns when a poll is given up, 0: never. Its wait is created if it does not exist.
func (b *Branch) pollEnd(key string, s PollSpec) journal.Time {
	if s.Until != nil {
		return b.timer(key, TimerSpec{Name: kindPoll, Until: s.Until, input: s.Input})
	}
	if b.recall(key, kindWait) == nil {
		b.add(journal.Event{Key: key, Data: &journal.WaitCreated{Kind: kindPoll, Input: s.Input}})
	}
	return 0
}

// poll is a check being repeated.
type poll struct {
	b    *Branch
	spec PollSpec
	key  string
	end  journal.Time // when it is given up, 0: never
}

func (p *poll) run(check Check) (journal.Payload, error) {
	x := p.b.x
	failures := 0
	for n := 1; ; n++ {
		if err := p.b.stopped(); err != nil {
			p.b.giveUp(p.key, err)
			return nil, err
		}
		p.b.frontier(p.key, kindWait)
		if p.end != 0 && p.end <= x.eng.now() {
			return p.outcome(nil, cairnerr.Errorf(cairnerr.CodeTimeout, "%q was not ready in time", p.key))
		}
		x.mu.Lock()
		pushed := x.pushed
		x.mu.Unlock()
		x.barrier(p.b.line)
		if p.b.whilePaused() {
			n--
			continue
		}
		out, ready, err := p.look(check, n)
		x.check()
		if err == nil {
			err = journal.CheckPayload("the result of poll ", p.key, out)
		}
		if bug, ok := errors.AsType[*unstorableError](err); ok {
			return nil, p.b.misused(bug.reason.With(detailPlace, p.key))
		}
		again := time.Duration(0)
		if failures++; err == nil {
			failures = 0
		} else if pause, retried := p.spec.Retry.next(x.key.Run, p.key, failures, err); retried && p.b.ctx.Err() == nil {
			again, err = max(pause, 1), nil
		}
		if err != nil || ready {
			if out, err = p.outcome(out, err); err != nil {
				return nil, err
			}
			return out, p.b.decode("the result of poll "+quote(p.key), p.key, out, p.spec.Into)
		}
		w := &waiter{line: p.b.line, ctx: p.b.ctx, soft: true, ready: func() bool { return x.pushed != pushed }}
		if p.spec.Every > 0 {
			w.at = x.eng.now().Add(p.spec.Every)
		}
		if again > 0 {
			w.at = x.eng.now().Add(max(again, time.Millisecond))
		}
		if p.end != 0 && (w.at == 0 || p.end < w.at) {
			w.at = p.end
		}
		x.block(w)
	}
}

// look checks once; a panic becomes an error.
func (p *poll) look(check Check, n int) (out journal.Payload, ready bool, err error) {
	ctx, looked := p.observe(p.b.ctx)
	defer func() {
		if v := recover(); v != nil {
			err = panicError(v)
		}
		looked(ready, err)
	}()
	out, ready, err = check(ctx, StepInfo{
		Run: p.b.x.key.Run, Key: p.key, Attempt: n, b: p.b,
	})
	return out, ready, usable(err)
}

// outcome records how a poll ended.
func (p *poll) outcome(out journal.Payload, err error) (journal.Payload, error) {
	now := p.b.x.eng.now()
	d := &journal.WaitCompleted{ResumeAt: now, Result: out}
	if err != nil {
		if cause := p.b.stopped(); cause != nil {
			p.b.giveUp(p.key, cause)
			return nil, cause
		}
		d.Error = asFailure(err)
	}
	p.b.saw(now)
	p.b.add(journal.Event{Key: p.key, Data: d})
	return out, errorOrNil(d.Error)
}
