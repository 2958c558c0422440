package journal

import (
	"maps"
	"slices"
	"strings"
)

// fold changes the views by an event that is part of the journal. It decides nothing: whether the event is
// legal was decided when it was written.
func (s *State) fold(run ID, e *Event) {
	s.setSeq(e.Seq)
	if e.Type.About() == PrefixStep {
		s.foldStep(run, e)
		if d, ok := e.Data.(*StepCompleted); ok && len(d.Closes) > 0 {
			s.closeBranches(e, d.Closes)
		}
		return
	}
	switch d := e.Data.(type) {
	case *RunCreated:
		s.foldCreated(run, e, d)
	case *RunStarted:
		r := s.editRun()
		r.Status = StatusRunning
		if r.StartedAt == 0 {
			r.StartedAt = e.At
		}
	case *RunCompleted:
		s.foldEnd(e, StatusCompleted)
	case *RunFailed:
		s.foldEnd(e, StatusFailed)
	case *RunCancelled:
		s.foldEnd(e, StatusCancelled)
	case *HookConflict:
		s.setHookMade(e.entity(run))
	case *HookCreated:
		s.setHookMade(e.entity(run))
		s.setHook(&Hook{
			ID: e.entity(run), Key: e.Key, Token: d.Token, SingleUse: d.SingleUse, Webhook: d.Webhook, System: d.System,
			CreatedAt: e.At, ExpiresAt: d.ExpiresAt, RetainUntil: d.RetainUntil, Seq: e.Seq,
		})
	case *HookReceived:
		s.foldReceived(run, e, d)
	case *HookDisposed:
		s.dropHook(e.entity(run))
	case *WaitCreated:
		s.setWait(&Wait{ID: e.entity(run), Key: e.Key, Kind: d.Kind, Status: StatusRunning, ResumeAt: d.ResumeAt, CreatedAt: e.At, Seq: e.Seq})
	case *WaitCompleted:
		if w := s.Waits[e.entity(run)]; w != nil {
			next := *w
			next.Status, next.CompletedAt = StatusCompleted, e.At
			s.setWait(&next)
		}
	case *AttrSet:
		s.foldAttributes(run, e, d)
	case *CancelRequested:
		s.editRun().CancelledAt = e.At
	case *RunParked:
		r := s.editRun()
		r.ParkedAt, r.WakeAt = e.At, 0
		if !d.Asked {
			r.Owner = ID{}
		}
	case *RunResumed:
		s.editRun().ParkedAt = 0
	}
}

// closeBranches ends what branches that lost a race have left open: timers must not wake the run, nobody reads from their hooks, and their steps
// are not tried again.
func (s *State) closeBranches(e *Event, paths []string) {
	within := func(key string) bool {
		return slices.ContainsFunc(paths, func(path string) bool { return strings.HasPrefix(key, path) })
	}
	for _, w := range s.Waits {
		if w.Status == StatusRunning && within(w.Key) {
			next := *w
			next.Status, next.CompletedAt = StatusCompleted, e.At
			s.setWait(&next)
		}
	}
	for id, h := range s.Hooks {
		if within(h.Key) {
			s.dropHook(id)
		}
	}
	for _, step := range s.Steps {
		if step.RetryAfter != 0 && !step.Status.Terminal() && within(step.Key) {
			next := *step
			next.RetryAfter = 0
			s.setStep(&next)
		}
	}
}

// entity returns the entity that an event of a journal is about. It is not stored where it follows from the key.
func (e *Event) entity(run ID) ID {
	if e.Entity.IsZero() && e.Key != "" {
		e.Entity = DeriveID(run, e.Type.About(), e.Key)
	}
	return e.Entity
}

func (s *State) foldCreated(run ID, e *Event, d *RunCreated) {
	r := s.editRun()
	*r = Run{
		ID: run, Workflow: d.Workflow, Dialect: d.Dialect, Spec: d.Spec, Deployment: d.Deployment, Context: d.Context,
		StartKey: d.StartKey, StartDigest: d.StartDigest, Parent: d.Parent, Root: d.Root, ForkedFrom: d.ForkedFrom,
		CreatedAt: e.At,
	}
	if len(d.Attributes) > 0 {
		r.Attributes = maps.Clone(d.Attributes) // the caller's map stays the caller's
		changes := make([]AttrChange, 0, len(d.Attributes))
		for _, k := range slices.Sorted(maps.Keys(d.Attributes)) {
			changes = append(changes, AttrChange{Key: k, Value: d.Attributes[k]})
		}
		s.addAttributes(changes)
	}
}

func (s *State) foldEnd(e *Event, status Status) {
	if s.Run.Status.Terminal() {
		return // a cancel repeated in the World's dialect changes nothing
	}
	r := s.editRun()
	r.Status, r.CompletedAt, r.EndSeq = status, e.At, e.Seq
	r.Owner, r.WakeAt, r.ParkedAt = ID{}, 0, 0
	s.dirty.ended = true
	for id, h := range s.Hooks {
		if h.RetainUntil > e.At {
			next := *h
			next.Status = HookRetained
			s.setHook(&next)
		} else {
			s.dropHook(id)
		}
	}
	for id := range s.Waits {
		s.dropWait(id)
	}
}

func (s *State) foldReceived(run ID, e *Event, d *HookReceived) {
	id := e.entity(run)
	if d.Sender != "" {
		s.setReceipt(&Receipt{Sender: d.Sender, Hook: id, Digest: d.Digest, Seq: e.Seq})
	}
	if h := s.Hooks[id]; h != nil && h.SingleUse {
		next := *h
		next.Status = HookConsumed
		s.setHook(&next)
	}
}

func (s *State) foldAttributes(run ID, e *Event, d *AttrSet) {
	r := s.editRun()
	r.Attributes = maps.Clone(r.Attributes)
	if r.Attributes == nil {
		r.Attributes = make(map[string]string, len(d.Changes))
	}
	for _, c := range d.Changes {
		if c.Remove {
			delete(r.Attributes, c.Key)
		} else {
			r.Attributes[c.Key] = c.Value
		}
	}
	s.addAttributes(d.Changes)
	if id := e.entity(run); d.Step.IsZero() && !id.IsZero() {
		s.setAttrSet(id)
	}
}

func (s *State) foldStep(run ID, e *Event) {
	id := e.entity(run)
	old := s.Steps[id]
	if old == nil && inline(s.Run, e.Data) {
		status := StatusCompleted
		if e.Type == EventStepFailed {
			status = StatusFailed
		}
		s.setFinished(id, status)
		return
	}
	next := Step{ID: id, Key: e.Key, CreatedAt: e.At, FirstSeq: e.Seq}
	if old != nil {
		next = *old
	}
	next.UpdatedAt, next.LastSeq = e.At, e.Seq
	foldStepData(&next, s.Run.Dialect, e)
	s.setStep(&next)
}

// inline reports whether an outcome that no other event of its step precedes needs no row.
func inline(run *Run, d Data) bool {
	if run.Dialect != Engine {
		return false
	}
	switch d.(type) {
	case *StepCompleted, *StepFailed:
		return true
	default:
		return false
	}
}

func foldStepData(next *Step, dialect Dialect, e *Event) {
	attempts := Attempts{N: next.Attempt, Open: next.Status == StatusRunning}
	attempts.Count(dialect, e.Data)
	next.Attempt = attempts.N
	var started Time
	switch d := e.Data.(type) {
	case *StepCreated:
		next.Name, next.Status = d.Name, StatusPending
		next.setInput(d.Input, e.Seq)
	case *StepStarted:
		next.Status, next.RetryAfter, next.OwnerMessage = StatusRunning, 0, d.OwnerMessage
		next.setName(d.Name)
		started = e.At
		if d.StartedAt != 0 {
			started = d.StartedAt
		}
		next.setInput(d.Input, e.Seq)
	case *StepRetrying:
		next.Status, next.RetryAfter = StatusPending, d.RetryAfter
		next.setName(d.Name)
	case *StepCompleted:
		next.Status, next.CompletedAt, started = StatusCompleted, e.At, d.StartedAt
		next.setName(d.Name)
		next.setInput(d.Input, e.Seq)
	case *StepFailed:
		next.Status, next.CompletedAt, started = StatusFailed, e.At, d.StartedAt
		next.setName(d.Name)
		next.setInput(d.Input, e.Seq)
	}
	if next.StartedAt == 0 {
		next.StartedAt = started
	}
}

func (s *Step) setName(name string) {
	if s.Name == "" {
		s.Name = name
	}
}

func (s *Step) setInput(input Payload, seq int64) {
	if len(input) > 0 && s.InputSeq == 0 {
		s.InputSeq = seq
	}
}

// InlineStep returns the view of a step whose outcome e is its only event.
func InlineStep(run ID, e *Event) *Step {
	step := &Step{ID: e.entity(run), Key: e.Key, Inline: true, CreatedAt: e.At, UpdatedAt: e.At, FirstSeq: e.Seq, LastSeq: e.Seq}
	foldStepData(step, Engine, e)
	switch d := e.Data.(type) {
	case *StepCompleted:
		step.Input, step.Output = d.Input, d.Result
	case *StepFailed:
		step.Input, step.Output, step.Error = d.Input, d.Value, d.Error
	}
	if step.StartedAt != 0 {
		step.CreatedAt = step.StartedAt
	}
	return step
}

// Adopt takes over from a freshly read run what is not in the journal: who executes it, and when it wakes.
func (s *State) Adopt(run *Run) {
	next := *s.Run
	next.Owner, next.Epoch, next.WakeAt = run.Owner, run.Epoch, run.WakeAt
	s.Run = &next
}
