package engine

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// WaitingFor is one thing that a run waits for, or does.
type WaitingFor struct {
	Kind     string       // "sleep", "timeout", "deadline", "poll", "hook", "child", "retry", "step", "start"
	Key      string       // the memo key
	Until    journal.Time // zero: not by time
	Token    string       // of a hook
	Child    journal.ID
	Error    *cairnerr.Error // of the last attempt, for a retry
	Progress *Progress       // of a step that is under way in this process
}

// The kinds of things that a run can wait for beyond those of its timers.
const (
	kindOfHook  = "hook"
	kindOfChild = "child"
	kindOfRetry = "retry"
	kindOfStep  = "step"
	kindOfStart = "start"
	timeoutOf   = "timeout of "
)

// Situation is what a run that has not ended is doing. For one that has, it only says whether it was asked to stop.
type Situation struct {
	Waits   []WaitingFor
	Parked  *journal.RunParked       // nil: it is not parked
	Request *journal.CancelRequested // nil: it was not asked to stop
}

// Situation returns what a run is doing. It is read from the journal, and from memory where this process executes the run.
func (e *Engine) Situation(ctx context.Context, run journal.ID) (Situation, error) {
	j, err := e.store.Journal(ctx, e.namespace, run, 0)
	if err != nil {
		return Situation{}, err
	}
	if j.Run.Status.Terminal() { // also if an execution here has not noticed yet
		return Situation{Request: requestIn(j)}, nil
	}
	s := SituationIn(j, e.now())
	s.Waits = e.withProgress(run, s.Waits)
	e.explainChildren(ctx, s.Waits)
	return s, nil
}

// requestIn returns how a run was asked to stop, nil: it was not.
func requestIn(j *store.Journal) *journal.CancelRequested {
	for i := range j.Events {
		if d, ok := j.Events[i].Data.(*journal.CancelRequested); ok {
			return d
		}
	}
	return nil
}

// explainChildren says of children that are waited for, and are parked, why.
func (e *Engine) explainChildren(ctx context.Context, waits []WaitingFor) {
	for i := range waits {
		w := &waits[i]
		if w.Child.IsZero() {
			continue
		}
		child, err := e.store.Journal(ctx, e.namespace, w.Child, 0)
		if err != nil || child.Run.ParkedAt == 0 {
			continue
		}
		if parked := SituationIn(child, e.now()).Parked; parked != nil {
			w.Error = cairnerr.Errorf(cairnerr.CodeParked, "the child %s is parked: %s", journal.PrefixRun.Format(w.Child), parked.Error)
		}
	}
}

// SituationIn is [Engine.Situation] for who has the whole journal of a run, and no engine.
func SituationIn(j *store.Journal, now journal.Time) (s Situation) {
	if j.Run.Status.Terminal() || len(j.Events) == 0 {
		return s
	}
	m := newMemos()
	for i := range j.Events {
		if j.Events[i].Data != nil {
			m.fold(j.Run.ID, &j.Events[i])
		}
		if parked, ok := j.Events[i].Data.(*journal.RunParked); ok {
			s.Parked = parked
		}
	}
	if m.parked == nil {
		s.Parked = nil
	}
	s.Request = m.request
	if c, ok := j.Events[0].Data.(*journal.RunCreated); ok && j.Run.Status == journal.StatusPending && c.StartAt > now {
		s.Waits = append(s.Waits, WaitingFor{Kind: kindOfStart, Until: c.StartAt})
	}
	for _, key := range slices.Sorted(maps.Keys(m.byKey)) {
		memo := m.byKey[key]
		interrupted := memo.kind == kindWait && m.cancelled != 0 && memo.seq < m.cancelled
		if w, open := memo.waitsFor(key, now); open && !interrupted && !m.isClosed(key) {
			s.Waits = append(s.Waits, w)
		}
	}
	return s
}

// isClosed reports whether a key belongs to a branch that lost a race.
func (m *memos) isClosed(key string) bool {
	for path := range m.closed {
		if strings.HasPrefix(key, path) {
			return true
		}
	}
	return false
}

// waitsFor says what a memo that is not over stands for.
func (m *memo) waitsFor(key string, now journal.Time) (WaitingFor, bool) {
	w := WaitingFor{Key: key}
	switch m.kind {
	case kindWait:
		w.Kind, w.Until = m.name, m.resumeAt
		if strings.HasPrefix(m.name, timeoutOf) {
			w.Kind = "timeout"
		}
		return w, m.completed == 0
	case kindHook:
		w.Kind, w.Token, w.Until = kindOfHook, m.token, m.expires
		return w, !m.conflict && !m.disposed
	case kindChild:
		w.Kind, w.Child = kindOfChild, m.child
		return w, !m.done
	case kindStep:
		w.Kind = kindOfStep
		if m.retryAfter > now || m.lastError != nil && m.starts == 0 {
			w.Kind, w.Until, w.Error = kindOfRetry, m.retryAfter, m.lastError
		}
		return w, !m.done
	default:
		return w, false
	}
}

// withProgress adds the steps that this process does now, with how far they have come.
func (e *Engine) withProgress(run journal.ID, waits []WaitingFor) []WaitingFor {
	x := e.exec(run)
	if x == nil {
		return waits
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(x.progress)) {
		p := x.progress[key]
		i := slices.IndexFunc(waits, func(w WaitingFor) bool { return w.Key == key })
		if i < 0 {
			i = len(waits)
			waits = append(waits, WaitingFor{Kind: kindOfStep, Key: key})
		}
		waits[i].Progress = &p
	}
	return waits
}

// StepResult returns the newest result of a step: of one with that key, or with that key and a number.
func (e *Engine) StepResult(ctx context.Context, run journal.ID, key string) (journal.Payload, error) {
	if _, err := e.store.Run(ctx, e.namespace, run, store.ResolveNone); err != nil {
		return nil, err
	}
	page := store.Page{Desc: true}
	for {
		list, err := e.store.Steps(ctx, e.namespace, run, store.ResolveAll, page)
		if err != nil {
			return nil, err
		}
		for _, s := range list.Data {
			if s.Status == journal.StatusCompleted && isUseOf(s.Key, key) {
				return s.Output, nil
			}
		}
		if !list.HasMore {
			return nil, cairnerr.Errorf(cairnerr.CodeStepNotFound, "%s has no result of a step %q", journal.PrefixRun.Format(run), key)
		}
		page.Cursor = list.Cursor
	}
}

// isUseOf reports whether a memo key is the given one, or that of another use of the same name.
func isUseOf(key, first string) bool {
	number, again := strings.CutPrefix(key, first+"#")
	_, err := strconv.ParseUint(number, 10, 64)
	return key == first || again && err == nil
}

// Runs lists runs.
func (e *Engine) Runs(ctx context.Context, f store.RunFilter, p store.Page) (store.List[*journal.Run], error) {
	return e.store.Runs(ctx, e.namespace, f, p)
}
