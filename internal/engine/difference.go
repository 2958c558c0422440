package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// Difference is where code does not do what a record says.
type Difference struct {
	Seq      int64    // the event of the record
	Key      string   // what it is about, "" for the run itself
	What     string   // differs, in a few words
	Before   []string // what came before it on the same branch, and is the same
	Recorded string   // what the record says
	Now      string   // what the code does
}

// String shows the difference as lines: what is the same, - what was recorded, + what the code does.
func (d *Difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "event %d", d.Seq)
	if d.Key != "" {
		fmt.Fprintf(&b, ", %s", quote(d.Key))
	}
	fmt.Fprintf(&b, ": %s\n", d.What)
	for _, line := range d.Before {
		fmt.Fprintf(&b, "    %s\n", line)
	}
	fmt.Fprintf(&b, "  - event %d: %s\n", d.Seq, d.Recorded)
	fmt.Fprintf(&b, "  + the code %s", d.Now)
	return b.String()
}

// Err returns the difference as an error with [cairnerr.CodeMismatch].
func (d *Difference) Err() *cairnerr.Error {
	return cairnerr.Errorf(cairnerr.CodeMismatch, "the code does not do what was recorded\n%s", d).
		With("event", strconv.FormatInt(d.Seq, 10)).With("key", d.Key).With("recorded", d.Recorded).With("now", d.Now)
}

// sameBefore is how many events are shown that come before a difference.
const sameBefore = 2

// first returns the first difference in the order of the journal, nil if there is none. The lock of the execution is held.
func (r *replay) first(x *exec) *Difference {
	all := slices.Clone(r.found)
	left := func(key string, seq int64) bool { return !x.memos.lost(key) && seq > x.memos.kept } // what a fork keeps, it need not come to
	for key, m := range x.memos.byKey {
		if !r.asked[key] && left(key, m.seq) {
			all = append(all, &Difference{Seq: m.seq, Key: key, What: r.missing(x, key, "the code does not ask for it any more"), Recorded: r.describe(m.seq), Now: r.doing(x, key)})
		}
	}
	for to, e := range r.replies {
		if !r.answered[to] && left(e.Key, e.Seq) {
			all = append(all, &Difference{Seq: e.Seq, Key: e.Key, What: r.missing(x, e.Key, "the code does not answer any more"), Recorded: r.describe(e.Seq), Now: r.doing(x, e.Key)})
		}
	}
	for key, e := range r.closes {
		if !r.closed[key] && left(key, e.Seq) {
			all = append(all, &Difference{Seq: e.Seq, Key: key, What: r.missing(x, key, "the code does not close the hook any more"), Recorded: r.describe(e.Seq), Now: r.doing(x, key)})
		}
	}
	if d := r.otherEnd(x); d != nil {
		all = append(all, d)
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b *Difference) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Key, b.Key)) })
	all[0].Before = r.before(all[0])
	return all[0]
}

// missing says in which way the code does not come to something that is recorded: its branch has something else in mind, or it is left out.
func (r *replay) missing(x *exec, key, leftOut string) string {
	if w := r.stuck(x, key); r.outcome == nil && w != nil && w.line.path == branchOf(key) && w.isNew(x) {
		return "the code does something else"
	}
	return leftOut
}

// isNew reports whether nothing is recorded of what a branch asks for.
func (w *waiter) isNew(x *exec) bool {
	return w.kind == kindAnswer || w.kind == kindClose || x.memos.byKey[w.key] == nil
}

// otherEnd compares the ends. A run that goes on in the record has none: then the code may go on, too.
func (r *replay) otherEnd(x *exec) *Difference {
	switch {
	case r.end == nil:
		return nil
	case r.outcome == nil && r.terminated(x):
		return nil
	case r.outcome == nil:
		return &Difference{Seq: r.end.Seq, What: "the record has come to its end, and the code goes on", Recorded: describeEnd(r.end.Data), Now: r.doing(x, "")}
	}
	switch was := r.end.Data.(type) {
	case *journal.RunCompleted:
		if is, ok := r.outcome.(*journal.RunCompleted); ok && samePayload(was.Output, is.Output) {
			return nil
		}
	case *journal.RunFailed:
		if is, ok := r.outcome.(*journal.RunFailed); ok && sameError(was.Error, is.Error) {
			return nil
		}
	case *journal.RunCancelled:
		if _, ok := r.outcome.(*journal.RunCancelled); ok {
			return nil
		}
	}
	was, is := clip(describeEnd(r.end.Data), describeEnd(r.outcome))
	return &Difference{Seq: r.end.Seq, What: "the code comes to another end", Recorded: was, Now: "ends with " + is}
}

// terminated reports whether a run that was asked to stop may have been ended from outside, with the same words: its code waits for something that the record
// has begun, and wants nothing new.
func (r *replay) terminated(x *exec) bool {
	if _, cancelled := r.end.Data.(*journal.RunCancelled); !cancelled {
		return false
	}
	waits := false
	for w := range x.blocked {
		if w.key != "" && w.isNew(x) {
			return false
		}
		waits = waits || w.key != ""
	}
	return waits && len(r.found) == 0
}

// sameError compares what is told of an error. Its stack is another one with each build.
func sameError(a, b *cairnerr.Error) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Code == b.Code && a.Message == b.Message && maps.Equal(a.Details, b.Details)
}

func describeEnd(d journal.Data) string {
	switch d := d.(type) {
	case *journal.RunCompleted:
		return "run_completed " + view(d.Output)
	case *journal.RunFailed:
		if d.Error != nil {
			return "run_failed " + quote(d.Error.Error())
		}
	}
	return d.EventType().String()
}

// doing says what the code does instead of something under a key.
func (r *replay) doing(x *exec, key string) string {
	if r.outcome != nil {
		return "ends with " + describeEnd(r.outcome)
	}
	w := r.stuck(x, key)
	switch {
	case w == nil && len(r.found) > 0: // another difference keeps it from that
		return r.found[0].Now
	case w == nil:
		return "does not come to anything durable: it waits for something else, or computes"
	}
	name := string(w.kind) + " " + quote(w.key)
	switch m := x.memos.byKey[w.key]; {
	case w.kind == kindAnswer:
		return "answers what came through hook " + quote(w.key) + ", which is not recorded"
	case w.kind == kindClose:
		return "closes hook " + quote(w.key) + ", which is not recorded"
	case m == nil:
		return "asks for " + name + ", which is not recorded"
	case w.kind == kindHook:
		return "waits for something to come through " + name + ", and nothing more is recorded"
	default:
		return "waits for the end of " + name + ", which is not recorded"
	}
}

// stuck returns the branch that keeps the code from coming to a key: the key's own, if it rests, else the first one that does.
func (r *replay) stuck(x *exec, key string) *waiter {
	var resting []*waiter
	for w := range x.blocked {
		if w.key != "" {
			resting = append(resting, w)
		}
	}
	if len(resting) == 0 {
		return nil
	}
	own := branchOf(key)
	slices.SortFunc(resting, func(a, b *waiter) int { return cmp.Compare(a.line.path+a.key, b.line.path+b.key) })
	for path := own; ; path = branchOf(strings.TrimSuffix(path, "/")) { // its own, or that of who should start it
		if i := slices.IndexFunc(resting, func(w *waiter) bool { return w.line.path == path }); i >= 0 {
			return resting[i]
		}
		if path == "" {
			break
		}
	}
	if i := slices.IndexFunc(resting, func(w *waiter) bool { return w.isNew(x) }); i >= 0 {
		return resting[i]
	}
	return resting[0]
}

// branchOf returns the path of the branch that a key belongs to.
func branchOf(key string) string { return key[:strings.LastIndexByte(key, '/')+1] }

// before returns what came last on the branch of a difference before it.
func (r *replay) before(d *Difference) []string {
	var lines []string
	for i := range r.record[:max(min(d.Seq-1, int64(len(r.record))), 0)] {
		if e := &r.record[i]; e.Key != "" && branchOf(e.Key) == branchOf(d.Key) && e.Key != d.Key {
			lines = append(lines, fmt.Sprintf("event %d: %s", e.Seq, r.describe(e.Seq)))
		}
	}
	return lines[max(len(lines)-sameBefore, 0):]
}

// describe says what an event of the record is.
func (r *replay) describe(seq int64) string {
	if seq < 1 || seq > int64(len(r.record)) {
		return "nothing"
	}
	e := &r.record[seq-1]
	text := e.Type.String()
	if e.Key != "" {
		text += " " + quote(e.Key)
	}
	if d, ok := e.Data.(*journal.StepCreated); ok && !d.Child.IsZero() {
		text += " (a child)"
	}
	return text
}

// inputOf returns the recorded input of a step.
func (r *replay) inputOf(key string) journal.Payload {
	for i := range r.record {
		if e := &r.record[i]; e.Key == key {
			if enc, err := journal.EncodeData(e.Data); err == nil && len(enc.Input) > 0 {
				return enc.Input
			}
		}
	}
	return nil
}

func quote(s string) string { return strconv.Quote(s) }

const (
	maxShown  = 300     // characters of a value in a difference
	shownSame = 40      // of those that two values have in common before they differ
	maxViewed = 1 << 20 // bytes of a value that is shown at all
)

// view shows a value.
func view(p journal.Payload) string {
	if v, err := payload.View(p, maxViewed); err == nil {
		return string(v)
	}
	return fmt.Sprintf("(%d bytes that cannot be shown)", len(p))
}

// clip cuts two texts such that the place where they differ can be seen.
func clip(a, b string) (first, second string) {
	x, y := []rune(a), []rune(b)
	same := 0
	for same < len(x) && same < len(y) && x[same] == y[same] {
		same++
	}
	from := 0
	if same > maxShown/2 {
		from = same - shownSame
	}
	return cut(x, from), cut(y, from)
}

func cut(text []rune, from int) string {
	to := min(from+maxShown, len(text))
	shown := string(text[min(from, to):to])
	if from > 0 {
		shown = "…" + shown
	}
	if to < len(text) {
		shown += "…"
	}
	return shown
}
