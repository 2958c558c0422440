package engine

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/observe"
)

// line is one line of a run's code: the function itself, or one that it started beside.
type line struct {
	x      *exec
	parent *line
	path   string          // prefix of its keys
	uses   uses            // how often each name was used
	pens   map[string]*pen // for the streams that it writes to
	busy   atomic.Bool
	used   atomic.Bool // its function has returned
	live   atomic.Bool // what it does is new, see live.go
	ctx    context.Context
	cancel context.CancelCauseFunc // nil for the function itself

	now journal.Time // of the last thing that it has seen happen, the same in every execution

	// Guarded by the execution.
	counted bool  // it is in exec.active while it does something
	mark    int64 // of all events ever put into the outbox, those up to here it has made or seen
	closed  bool  // it lost a race: nothing that it does is recorded

	item []byte // the digest of the item that the branch is for, if it is for one
}

// uses counts how often names were used. Most branches use one: it needs no map.
type uses struct {
	name   string
	n      int
	others map[string]int
}

// next returns which use of the name this is, from 1.
func (u *uses) next(name string) int {
	if u.n == 0 || u.name == name {
		u.name = name
		u.n++
		return u.n
	}
	if u.others == nil {
		u.others = map[string]int{}
	}
	u.others[name]++
	return u.others[name]
}

func newLine(x *exec, parent *line, path string, now journal.Time) *line {
	l := &line{x: x, parent: parent, path: path, now: now}
	if l.live.Store(x.why == observe.BeginStarted); parent != nil {
		l.live.Store(parent.isLive())
		l.item = parent.item
	}
	return l
}

// isClosed reports whether the line, or one that it belongs to, lost a race. The lock is held.
func (l *line) isClosed() bool {
	for ; l != nil; l = l.parent {
		if l.closed || (l.path != "" && l.x.memos.closed[l.path]) {
			return true
		}
	}
	return false
}

// Branch is what the code of one line works with. It belongs to one goroutine. Several share a line when contexts are derived.
type Branch struct {
	*line
	ctx       context.Context
	sheltered bool      // a cancel of the run does not concern it: clean-up
	deadline  *deadline // the innermost, nil: none
}

// Run returns the run that the branch belongs to, as last seen.
func (b *Branch) Run() *journal.Run {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	return b.x.run
}

// Namespace returns the one of the run.
func (b *Branch) Namespace() string { return b.x.key.Namespace }

// Context ends when the run is cancelled, the branch loses a race, its deadline is over, or its execution here is over.
func (b *Branch) Context() context.Context { return b.ctx }

// Now returns the time of the last thing that the branch has seen happen: it is the same when the code is executed again.
func (b *Branch) Now() journal.Time { return b.now }

// firstUse returns the path of the first branch with the name of this one, without its slash; "" if this one has a key of its own.
func (l *line) firstUse() string {
	path := strings.TrimSuffix(l.path, "/")
	name := path[strings.LastIndexByte(path, '/')+1:]
	if strings.ContainsRune(name, '@') {
		return ""
	}
	if i := strings.LastIndexByte(name, '#'); i >= 0 {
		path = path[:len(path)-len(name)+i]
	}
	return path
}

func (l *line) saw(at journal.Time) { l.now = max(l.now, at) }

// enter begins a durable call. Two at the same time on one branch would get their keys in an order that nobody repeats.
func (b *Branch) enter() error {
	if b.used.Load() {
		return b.misused(cairnerr.Errorf(cairnerr.CodeContextOver, "the Context was used after its workflow or branch had returned"))
	}
	b.x.check()
	if !b.busy.CompareAndSwap(false, true) {
		return b.misused(cairnerr.Errorf(cairnerr.CodeConcurrentContext, "two durable calls at the same time on one Context: start a branch for each goroutine, and use only the step's own context inside a step"))
	}
	return nil
}

// enterWith is enter for a call on something that an execution has made: a future, a hook, a child. In another run there is no such thing to go on from.
func (b *Branch) enterWith(what string, made *exec) error {
	if made != b.x {
		return b.misused(cairnerr.Errorf(cairnerr.CodeConcurrentContext,
			"%s belongs to another run, or to an earlier execution of this one: use it with the Context that it was made with", what))
	}
	return b.enter()
}

func (b *Branch) leave() { b.busy.Store(false) }

// CheckName refuses names that would make keys ambiguous.
func CheckName(name string) error {
	if name == "" || strings.ContainsAny(name, "/#@\n") {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "bad name %q: it must not be empty or contain / # @", name)
	}
	return journal.CheckText("the name", name, journal.MaxName)
}

// escapeKey keeps a key that somebody chose from looking like the path of a branch.
func escapeKey(key string) string {
	if !strings.ContainsAny(key, "%/") {
		return key
	}
	return strings.NewReplacer("%", "%25", "/", "%2F").Replace(key)
}

// keyOf returns the memo key of the next use of a name on this branch, or of an explicit key.
func (b *Branch) keyOf(name, explicit string) (string, error) {
	if err := CheckName(name); err != nil {
		return "", b.misused(err)
	}
	key := b.path + name
	if explicit != "" {
		key += "@" + escapeKey(explicit)
		if b.uses.next(key) > 1 {
			return "", b.misused(cairnerr.Errorf(cairnerr.CodeDuplicateKey, "%s is used twice in one execution: an explicit key stands for one call", key).
				With(detailPlace, key))
		}
	} else if n := b.uses.next(name); n > 1 {
		if n == 2 {
			b.repeats(key)
		}
		key += "#" + strconv.Itoa(n)
	}
	if err := journal.CheckText("the key", key, journal.MaxKey); err != nil {
		return "", b.misused(err)
	}
	return key, nil
}

// Derive returns bytes that follow from the run, the branch and the n-th use of a name: randomness that replays.
func (b *Branch) Derive(name, explicit string) (journal.ID, error) {
	if err := b.enter(); err != nil {
		return journal.ID{}, err
	}
	defer b.leave()
	key, err := b.keyOf(name, explicit)
	if err != nil {
		return journal.ID{}, err
	}
	return journal.DeriveID(b.x.seed, "derived", key).At(b.now), nil
}

// recall returns what the journal says about a key, nil if nothing. Another kind of thing under the key means that the code has
// changed: the run is parked for somebody to look at, and the goroutine ends.
func (b *Branch) recall(key string, k kind) *memo {
	m := b.look(key, k)
	if m == nil {
		return nil
	}
	b.x.mu.Lock()
	seq := m.completed
	if seq != 0 && !m.asked {
		m.asked = true
		b.x.asks++
	}
	held := len(b.x.held) > 0
	b.x.mu.Unlock()
	if held && seq != 0 {
		b.reach(seq)
	}
	return m
}

// look is recall for who does not want what became of it yet.
func (b *Branch) look(key string, k kind) *memo {
	b.x.mu.Lock()
	m := b.x.memos.byKey[key]
	b.x.mu.Unlock()
	b.replayAsk(key, k, m)
	if m != nil && m.kind != k {
		b.halt(cairnerr.Errorf(cairnerr.CodeMismatch, "%q is recorded as a %s, and the code now wants a %s: fix the code and resume the run, or fork it", key, m.kind, k).
			With(detailPlace, key).With(detailRecorded, string(m.kind)).With(detailWanted, string(k)))
	}
	return m
}

// add puts events behind those that are not written yet. What a branch does that has lost a race is not recorded.
func (b *Branch) add(events ...journal.Event) (recorded bool) {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	if b.isClosed() {
		return false
	}
	for i := range events {
		b.x.put(b.line, events[i])
	}
	return true
}

// stopped returns why the branch may begin nothing new: the run was cancelled, it lost a race, or its time is over.
func (b *Branch) stopped() error {
	b.x.mu.Lock()
	closed, held := b.isClosed(), len(b.x.held) > 0
	b.x.mu.Unlock()
	if closed {
		return ErrLost
	}
	if held {
		b.reach(frontier)
	}
	if b.ctx.Err() == nil {
		return nil
	}
	b.x.check()
	// Why is decided by the order of the journal, so that it is the same in every execution.
	b.x.barrierAll()
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	if first, why := b.cut(); why != nil {
		if b.isNews(first) {
			b.goLive()
		}
		return why
	}
	return context.Cause(b.ctx)
}

// cut returns the event from which on the branch was told to stop, 0 if it was not, and why. What came later it has not seen. The lock is held.
func (b *Branch) cut() (first int64, why error) {
	earlier := func(seq int64, cause error) {
		if seq != 0 && (first == 0 || seq < first) {
			first, why = seq, cause
		}
	}
	if !b.sheltered {
		earlier(b.x.memos.cancelled, ErrCancelled)
	}
	for d := b.deadline; d != nil; d = d.outer {
		if m := b.x.memos.byKey[d.key]; m != nil && m.fired {
			earlier(m.completed, timedOut(d.key))
		}
	}
	return first, why
}

// Shelter returns the branch with a context that a cancel of the run does not end, for cleaning up, until a time.
func (b *Branch) Shelter(s TimerSpec) (*Branch, func(), error) {
	sheltered := &Branch{line: b.line, ctx: b.x.bare, sheltered: true}
	return sheltered.Deadline(s)
}
