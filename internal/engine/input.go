package engine

import (
	"bytes"
	"encoding/hex"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// given is what the code gives to a call: a step, a child or a poll.
type given struct {
	kind   kind
	name   string
	key    string // explicit; "": the n-th use of the name
	input  journal.Payload
	digest []byte
	same   func(recorded, now journal.Payload) bool // nil: it cannot be said
}

// compareInput notices that a recorded call is made with another input. Where the name is used once, its record is good,
// and that is said. Where it repeats and the calls have no keys of their own, the code may have changed their order: then
// the record could be that of another call.
func (b *Branch) compareInput(key string, m *memo, now given) {
	if m.copied || len(m.digest) == 0 || len(now.digest) == 0 || bytes.Equal(m.digest, now.digest) || b.refits(key, now) {
		return
	}
	b.replayInput(key, m, now)
	mismatch := cairnerr.Errorf(cairnerr.CodeMismatch, "%s %q is recorded with another input than the code now gives it: "+
		"give the calls of %q keys of their own, fix the code and resume the run, or fork it", now.kind, key, now.name).
		With(detailPlace, key).With(detailRecorded, hex.EncodeToString(m.digest)).With("now", hex.EncodeToString(now.digest))
	b.drifts(now, mismatch)
	if b.x.eng.cfg.Strict || b.byPosition(now) {
		b.halt(mismatch)
	}
	b.x.eng.logDrift(b.x, now.kind, key, "input")
}

// refits reports whether the recorded input is the present one but for how today's type is written: decoded into it and
// encoded again, it is the same. So a field that was added to the type disturbs nothing.
func (b *Branch) refits(key string, now given) bool {
	if now.same == nil {
		return false
	}
	recorded := b.x.recordedInput(key)
	return recorded != nil && now.same(recorded, now.input)
}

// recordedInput reads the input of a call from the journal, nil: it was not recorded. Memory does not keep inputs.
func (x *exec) recordedInput(key string) journal.Payload {
	if x.replay != nil {
		return x.replay.inputOf(key)
	}
	x.mu.Lock()
	m := *x.memos.byKey[key]
	x.mu.Unlock()
	for _, seq := range []int64{m.completed, m.seq} {
		if seq == 0 {
			continue
		}
		e, err := x.eng.store.Event(x.eng.hard, x.key.Namespace, x.key.Run, seq, store.ResolveAll)
		if err != nil {
			return nil
		}
		if in := journal.InputOf(e.Data); in != nil {
			return in
		}
	}
	return nil
}

// repeats is called when a name is used again without a key, on a branch or for one. If the record of its first use was
// made for something else, a call was inserted before it: then the records would go to the wrong calls from here on.
func (b *Branch) repeats(first string) {
	x := b.x
	x.mu.Lock()
	if x.repeated == nil {
		x.repeated = map[string]bool{}
	}
	x.repeated[first] = true
	drifted := x.drifted[first]
	x.mu.Unlock()
	if drifted != nil {
		b.halt(drifted)
	}
}

// drifts notes that the record of a call was made for another input, and is used, because it is the only one with its
// name.
func (b *Branch) drifts(now given, mismatch *cairnerr.Error) {
	x := b.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.drifted == nil {
		x.drifted = map[string]*cairnerr.Error{}
	}
	if now.key == "" {
		x.drifted[b.path+now.name] = mismatch
	}
	for l := b.line; l != nil && l.path != ""; l = l.parent {
		if first := l.firstUse(); first != "" {
			x.drifted[first] = mismatch
		}
	}
}

// byPosition reports whether a call is told apart from others only by its position: its name, or that of a branch that it
// is on, repeats without keys. Then a record may be that of another call.
func (b *Branch) byPosition(now given) bool {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	if first := b.path + now.name; now.key == "" && (b.x.memos.byKey[first+"#2"] != nil || b.x.repeated[first]) {
		return true
	}
	for l := b.line; l != nil && l.path != ""; l = l.parent {
		if first := l.firstUse(); first != "" && (b.x.memos.branches[first+"#2/"] || b.x.repeated[first]) {
			return true
		}
	}
	return false
}

// replayInput is called where a recorded call is made with another input.
func (b *Branch) replayInput(key string, m *memo, now given) {
	r := b.x.replay
	if r == nil {
		return
	}
	was, is := clip(view(r.inputOf(key)), view(now.input))
	b.differ(&Difference{
		Seq: m.seq, Key: key, What: "another input", Recorded: r.describe(m.seq) + ", input " + was,
		Now: "asks for " + string(now.kind) + " " + quote(key) + ", input " + is,
	})
}
