package engine

import (
	"cmp"
	"strings"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// kind says what a memo key stands for.
type kind string

const (
	kindStep  kind = "step"
	kindWait  kind = "wait"
	kindHook  kind = "hook"
	kindChild kind = "child"

	kindAttributes kind = "change of attributes"
)

// memo is what the journal says about one key.
type memo struct {
	kind kind
	name string
	seq  int64 // its first event
	// completed is the event that ended it, 0 while it goes on
	completed int64
	asked     bool         // the code has got what it became
	at        journal.Time // when the code saw it end, the same in every execution

	// of a step
	copied     bool // it was kept from the run that this one was forked from
	done       bool
	failed     *cairnerr.Error
	result     journal.Payload
	digest     []byte
	attempts   journal.Attempts
	starts     int // recorded starts since the last event that shows progress
	retryAfter journal.Time
	lastError  *cairnerr.Error
	// streamsClosed are the streams that the step has closed
	streamsClosed []string

	// of a wait
	resumeAt journal.Time
	lasts    int64 // how long the code wanted to wait, in milliseconds; 0: not recorded
	fired    bool  // its time had come

	// of a child
	child    journal.ID
	detached bool

	// of a hook
	id       journal.ID
	token    string
	once     bool   // it takes one payload
	schema   []byte // of its values; nil: any
	expires  journal.Time
	conflict bool
	disposed bool
	received []delivery
	taken    int // deliveries that the code has received
}

// setDigest notes the digest of the input. That of a child was recorded when it was started.
func (m *memo) setDigest(digest []byte) {
	if digest != nil {
		m.digest = digest
	}
}

// digestOf returns the digest of an input, nil if it was not recorded.
func digestOf(input journal.Payload) []byte {
	if len(input) == 0 {
		return nil
	}
	digest, _ := payload.Digest(input) // without one, inputs are not compared
	return digest
}

// delivery is one payload that came through a hook.
type delivery struct {
	seq     int64
	at      journal.Time
	payload journal.Payload
	headers map[string]string // what belongs to the sender's trace
}

// memos is a run's journal by key.
type memos struct {
	byKey     map[string]*memo
	hooks     map[journal.ID]*memo
	closed    map[string]bool          // branches that lost a race, by path
	branches  map[string]bool          // paths of branches that have done something
	last      int64                    // the last event
	kept      int64                    // events up to here are those of the run that this one was forked from
	replied   map[int64]bool           // deliveries that were answered, by their events
	replying  map[int64]bool           // those whose answers are not in the journal yet, as far as is known
	senders   map[string]bool          // whose deliveries were received
	cancelled int64                    // the event that asked the run to stop, 0: none
	request   *journal.CancelRequested // what it said
	parked    *cairnerr.Error          // why the run was parked, nil: it is not
	paused    bool                     // it was parked by hand
	parkedAt  int64                    // the event that parked it last
	ending    bool                     // it was resumed in order to be cancelled
}

func newMemos() *memos {
	return &memos{byKey: map[string]*memo{}, hooks: map[journal.ID]*memo{}, closed: map[string]bool{}, replied: map[int64]bool{}}
}

func (m *memos) get(key string, k kind) *memo {
	e := m.byKey[key]
	if e == nil {
		e = &memo{kind: k, seq: m.last}
		m.byKey[key] = e
		m.addBranches(key)
	}
	return e
}

// addBranches notes the branches that a key is on.
func (m *memos) addBranches(key string) {
	for path := branchOf(key); path != "" && !m.branches[path]; path = branchOf(strings.TrimSuffix(path, "/")) {
		if m.branches == nil {
			m.branches = map[string]bool{}
		}
		m.branches[path] = true
	}
}

// resume forgets what parked the run: somebody has looked at it, and a step that was suspected gets its attempts again.
func (m *memos) resume() {
	m.parked = nil
	for _, s := range m.byKey {
		s.starts = 0
	}
}

// isOutcome reports whether an event is all that there is about a step.
func (m *memos) isOutcome(e *journal.Event) bool {
	switch d := e.Data.(type) {
	case *journal.StepCompleted:
		return len(d.Closes) == 0 && m.byKey[e.Key] == nil
	case *journal.StepFailed:
		return m.byKey[e.Key] == nil
	default:
		return false
	}
}

// fold adds an event.
func (m *memos) fold(run journal.ID, e *journal.Event) {
	m.last = e.Seq
	switch d := e.Data.(type) {
	case *journal.RunCreated:
		if !d.ForkedFrom.IsZero() {
			m.kept = d.LastKept()
		}
	case *journal.CancelRequested:
		if m.cancelled == 0 {
			m.cancelled, m.request = e.Seq, d
		}
	case *journal.RunParked:
		m.parked, m.paused, m.parkedAt = d.Error, d.Asked, e.Seq
	case *journal.RunResumed:
		m.ending = d.Ending
		if m.paused { // nobody is suspected, and what was under way may go on
			m.parked, m.paused = nil, false
		} else {
			m.resume()
		}
	case *journal.StepCreated:
		s := m.get(e.Key, kindChild)
		s.name, s.child, s.detached = d.Name, d.Child, d.Detached
		s.copied, s.digest = e.Seq <= m.kept, digestOf(d.Input)
	case *journal.StepStarted:
		s := m.get(e.Key, kindStep)
		s.name = d.Name
		s.attempts.Count(journal.Engine, d)
		s.starts++
		s.retryAfter = 0
	case *journal.StepRetrying:
		s := m.get(e.Key, kindStep)
		s.name, s.retryAfter, s.lastError = d.Name, d.RetryAfter, d.Error
		s.attempts.Count(journal.Engine, d)
		s.starts = 0
	case *journal.StepCompleted:
		s := m.get(e.Key, kindStep)
		s.name, s.done, s.result, s.at = d.Name, true, d.Result, d.EndedAt()
		s.setDigest(d.Digest)
		s.copied, s.completed = e.Seq <= m.kept, e.Seq
		s.streamsClosed = d.StreamsClosed
		for _, path := range d.Closes {
			m.closed[path] = true
		}
	case *journal.StepFailed:
		s := m.get(e.Key, kindStep)
		s.copied, s.completed = e.Seq <= m.kept, e.Seq
		s.name, s.done, s.failed, s.at = d.Name, true, d.Error, d.EndedAt()
		s.setDigest(d.Digest)
		if s.failed == nil {
			s.failed = &cairnerr.Error{Code: cairnerr.CodeInternal, Message: "the step failed"}
		}
	case *journal.WaitCreated:
		w := m.get(e.Key, kindWait)
		w.resumeAt, w.name, w.lasts = d.ResumeAt, d.Kind, d.For
		w.copied, w.digest = e.Seq <= m.kept, digestOf(d.Input)
	case *journal.WaitCompleted:
		w := m.get(e.Key, kindWait)
		w.completed, w.result, w.failed, w.fired, w.at = e.Seq, d.Result, d.Error, d.ResumeAt != 0, d.ResumeAt
	case *journal.HookCreated:
		h := m.get(e.Key, kindHook)
		h.id, h.token, h.once, h.schema = journal.DeriveID(run, journal.PrefixHook, e.Key), d.Token, d.SingleUse, d.Schema
		h.expires = d.ExpiresAt
		m.hooks[h.id] = h
	case *journal.HookConflict:
		h := m.get(e.Key, kindHook)
		h.conflict, h.token = true, d.Token
	case *journal.AttrSet:
		if e.Key != "" {
			m.get(e.Key, kindAttributes).completed = e.Seq
		}
	case *journal.HookReplied:
		m.replied[d.To] = true
		delete(m.replying, d.To)
	case *journal.HookDisposed:
		m.get(e.Key, kindHook).disposed = true
	case *journal.HookReceived:
		if h := m.hooks[e.Entity]; h != nil {
			h.received = append(h.received, delivery{e.Seq, cmp.Or(d.At, e.At), d.Payload, d.Headers})
		}
		if d.Sender != "" {
			if m.senders == nil {
				m.senders = map[string]bool{}
			}
			m.senders[d.Sender] = true
		}
	}
}
