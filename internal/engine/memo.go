package engine

import (
	"github.com/cairn-workflow/cairn/internal/journal"
)

// kind says what a memo key stands for.
type kind string

const (
	kindStep kind = "step"
	kindWait kind = "wait"
	kindHook kind = "hook"
)

// memo is what the journal says about one key.
type memo struct {
	kind kind
	name string

	// of a step
	done       bool
	failed     *journal.Error
	result     journal.Payload
	digest     []byte
	attempt    int // attempts that have ended without success, or were begun
	starts     int // recorded starts since the last event that shows progress
	retryAfter journal.Time
	lastError  *journal.Error

	// of a wait
	resumeAt  journal.Time
	completed int64 // the event that ended it, 0 while it waits

	// of a hook
	id       journal.ID
	token    string
	conflict bool
	disposed bool
	received []delivery
	taken    int // deliveries that the code has received
}

// delivery is one payload that came through a hook.
type delivery struct {
	seq     int64
	payload journal.Payload
}

// memos is a run's journal by key.
type memos struct {
	byKey map[string]*memo
	hooks map[journal.ID]*memo
}

func newMemos() *memos { return &memos{byKey: map[string]*memo{}, hooks: map[journal.ID]*memo{}} }

func (m *memos) get(key string, k kind) *memo {
	e := m.byKey[key]
	if e == nil {
		e = &memo{kind: k}
		m.byKey[key] = e
	}
	return e
}

// fold adds an event.
func (m *memos) fold(run journal.ID, e *journal.Event) {
	switch d := e.Data.(type) {
	case *journal.StepStarted:
		s := m.get(e.Key, kindStep)
		s.name = d.Name
		s.attempt++
		s.starts++
		s.retryAfter = 0
	case *journal.StepRetrying:
		s := m.get(e.Key, kindStep)
		s.name, s.retryAfter, s.lastError = d.Name, d.RetryAfter, d.Error
		if s.starts == 0 {
			s.attempt++
		}
		s.starts = 0
	case *journal.StepCompleted:
		s := m.get(e.Key, kindStep)
		s.name, s.done, s.result, s.digest = d.Name, true, d.Result, d.Digest
	case *journal.StepFailed:
		s := m.get(e.Key, kindStep)
		s.name, s.done, s.failed, s.digest = d.Name, true, d.Error, d.Digest
		if s.failed == nil {
			s.failed = &journal.Error{Code: journal.CodeInternal, Message: "the step failed"}
		}
	case *journal.WaitCreated:
		w := m.get(e.Key, kindWait)
		w.resumeAt, w.name = d.ResumeAt, d.Kind
	case *journal.WaitCompleted:
		w := m.get(e.Key, kindWait)
		w.completed, w.result = e.Seq, d.Result
	case *journal.HookCreated:
		h := m.get(e.Key, kindHook)
		h.id, h.token = journal.DeriveID(run, journal.PrefixHook, e.Key), d.Token
		m.hooks[h.id] = h
	case *journal.HookConflict:
		h := m.get(e.Key, kindHook)
		h.conflict, h.token = true, d.Token
	case *journal.HookDisposed:
		m.get(e.Key, kindHook).disposed = true
	case *journal.HookReceived:
		if h := m.hooks[e.Entity]; h != nil {
			h.received = append(h.received, delivery{e.Seq, d.Payload})
		}
	}
}
