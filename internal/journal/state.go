package journal

import (
	"slices"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// State is what the journal of one run amounts to: the fold of its events, or the part of it that
// a command touches.
//
// Entities are replaced, never changed in place, so a pointer taken from a State stays as it was.
// A State belongs to one goroutine at a time.
type State struct {
	Namespace string
	Run       *Run // nil: the run does not exist
	Seq       int64
	// Complete says that the whole journal is folded in: what is not in the maps does not exist. Otherwise only what
	// the store was asked for is known.
	Complete bool
	// Ref is the store's own number of the run, 0 while it is not stored.
	Ref int64

	Steps    map[ID]*Step
	Hooks    map[ID]*Hook
	Waits    map[ID]*Wait
	Receipts map[string]*Receipt
	// AttrSets are the attribute changes of the workflow that are recorded.
	AttrSets map[ID]struct{}
	// HooksMade are the hooks that were asked for: created, disposed of since, or refused for their token. Each is asked for once.
	HooksMade map[ID]struct{}

	// finished holds the outcome of inline steps, which have no row.
	finished map[ID]Status

	undo  []undo
	dirty dirty
}

// NewState returns the state of a run that has no events.
func NewState(namespace string) *State { return &State{Namespace: namespace, Complete: true} }

// LoadedState returns the part of a run's state that a store has read: the run itself, and what was asked for.
func LoadedState(namespace string, run *Run, seq, ref int64) *State {
	return &State{Namespace: namespace, Run: run, Seq: seq, Ref: ref}
}

// Fold returns the state that events amount to. They must be a journal from its first event on.
func Fold(namespace string, run ID, events []Event) (*State, error) {
	s := NewState(namespace)
	if err := s.Follow(run, events); err != nil {
		return nil, err
	}
	s.Commit()
	return s, nil
}

// Follow folds events that were committed by somebody, and come right after what the state has seen.
func (s *State) Follow(run ID, events []Event) error {
	for i := range events {
		e := &events[i]
		if e.Seq != s.Seq+1 {
			return cairnerr.Errorf(cairnerr.CodeCorrupt, "journal of %s: event %d follows %d", PrefixRun.Format(run), e.Seq, s.Seq)
		}
		if e.Data == nil {
			return cairnerr.Errorf(cairnerr.CodeUnknownEvent, "journal of %s: event %d was read without its data", PrefixRun.Format(run), e.Seq)
		}
		if s.Run == nil && e.Type != EventRunCreated {
			return cairnerr.Errorf(cairnerr.CodeCorrupt, "journal of %s begins with %s", PrefixRun.Format(run), e.Type)
		}
		s.fold(run, e)
	}
	return nil
}

// Changed is what a state holds that its store does not have yet.
type Changed struct {
	Run        bool    // the run's row is new or differs
	Steps      []*Step // to insert or replace
	Hooks      []*Hook // to insert or replace
	HooksGone  []ID    // to delete
	Waits      []*Wait // to insert or replace
	WaitsGone  []ID    // to delete
	Receipts   []*Receipt
	Attributes []AttrChange // the last change of a key holds
	// Sweep says that the run has ended and that not all of its hooks and waits were known: the store deletes all
	// waits and all hooks of the run, except that hooks to be retained after the run's end become HookRetained.
	Sweep bool
}

// Changed returns what changed since the last [State.Commit]. Rows come in the order of their ids.
func (s *State) Changed() Changed {
	d := &s.dirty
	c := Changed{Run: d.run, Attributes: d.attributes, Sweep: d.ended && !s.Complete && s.Run != nil && s.Run.Status.Terminal()}
	for _, id := range sorted(d.steps) {
		if step := s.Steps[id]; step != nil {
			c.Steps = append(c.Steps, step)
		}
	}
	for _, id := range sorted(d.hooks) {
		if hook := s.Hooks[id]; hook != nil {
			c.Hooks = append(c.Hooks, hook)
		} else {
			c.HooksGone = append(c.HooksGone, id)
		}
	}
	for _, id := range sorted(d.waits) {
		if wait := s.Waits[id]; wait != nil {
			c.Waits = append(c.Waits, wait)
		} else {
			c.WaitsGone = append(c.WaitsGone, id)
		}
	}
	for _, sender := range d.receipts {
		if r := s.Receipts[sender]; r != nil {
			c.Receipts = append(c.Receipts, r)
		}
	}
	return c
}

// Commit accepts all changes: the store has them.
func (s *State) Commit() {
	clear(s.undo) // keep no old rows alive
	s.undo = s.undo[:0]
	s.dirty = dirty{}
}

// Rollback takes back all changes since the last [State.Commit].
func (s *State) Rollback() {
	s.rollbackTo(mark{})
}

// Weight is a rough size of the state in bytes, for whoever keeps it in memory.
func (s *State) Weight() int {
	return 600 + 300*(len(s.Steps)+len(s.Hooks)+len(s.Waits)) + 120*len(s.Receipts) + 40*(len(s.finished)+len(s.AttrSets)+len(s.HooksMade))
}

// StepOutcome reports whether the step has finished, and how.
func (s *State) StepOutcome(id ID) (Status, bool) {
	if st, ok := s.finished[id]; ok {
		return st, true
	}
	if step := s.Steps[id]; step != nil && step.Status.Terminal() {
		return step.Status, true
	}
	return 0, false
}

// dirty remembers which rows differ from the store's. An id may stand in it twice.
type dirty struct {
	run        bool
	ended      bool
	steps      []ID
	hooks      []ID
	waits      []ID
	receipts   []string
	attributes []AttrChange
}

func sorted(ids []ID) []ID {
	if len(ids) < 2 {
		return ids
	}
	ids = slices.Clone(ids) // the original is still appended to and cut back
	slices.SortFunc(ids, ID.Compare)
	return slices.Compact(ids)
}

// undo is one change taken back: what kind, of which entity, and what was there before.
type undo struct {
	kind undoKind
	id   ID
	seq  int64
	// Of the next three, the one that the kind needs is set. They are pointers because most records are undoSeq.
	run     *Run
	entity  any // *Step, *Hook or *Wait, nil if there was none
	outside *undoOutside
}

// undoOutside is a change beyond the run taken back.
type undoOutside struct {
	outside  *Outside
	sender   string
	token    string
	holder   Holder
	existed  bool
	startKey StartKey
	delivery Delivery
}

type undoKind uint8

const (
	undoSeq undoKind = iota
	undoRun
	undoStep
	undoHook
	undoWait
	undoReceipt
	undoFinished
	undoAttrSet
	undoHookMade
	undoToken
	undoStartKey
	undoDelivery
	undoComplete
)

// mark is a point to which a state can be rolled back.
type mark struct {
	undo  int
	dirty dirty
}

func (s *State) mark() mark { return mark{undo: len(s.undo), dirty: s.dirty} }

func (s *State) rollbackTo(m mark) {
	for i := len(s.undo) - 1; i >= m.undo; i-- {
		s.takeBack(&s.undo[i])
	}
	clear(s.undo[m.undo:])
	s.undo, s.dirty = s.undo[:m.undo], m.dirty
}

func (s *State) takeBack(u *undo) {
	switch u.kind {
	case undoSeq:
		s.Seq = u.seq
	case undoRun:
		s.Run = u.run
	case undoStep:
		putBack(s.Steps, u.id, u.entity)
	case undoHook:
		putBack(s.Hooks, u.id, u.entity)
	case undoWait:
		putBack(s.Waits, u.id, u.entity)
	case undoReceipt:
		delete(s.Receipts, u.outside.sender)
	case undoFinished:
		delete(s.finished, u.id)
	case undoAttrSet:
		delete(s.AttrSets, u.id)
	case undoHookMade:
		delete(s.HooksMade, u.id)
	case undoToken:
		if o := u.outside; o.existed {
			o.outside.Tokens[o.token] = o.holder
		} else {
			delete(o.outside.Tokens, o.token)
		}
	case undoStartKey:
		delete(u.outside.outside.StartKeys, u.outside.startKey)
	case undoDelivery:
		u.outside.outside.Deliveries[u.outside.delivery.Message] = u.outside.delivery.Number
	case undoComplete:
		s.Complete = true
	}
}

func putBack[T any](m map[ID]*T, id ID, old any) {
	if before, ok := old.(*T); ok && before != nil {
		m[id] = before
	} else {
		delete(m, id)
	}
}

// editRun returns a copy of the run that replaces it and may be changed.
func (s *State) editRun() *Run {
	s.undo = append(s.undo, undo{kind: undoRun, run: s.Run})
	next := &Run{}
	if s.Run != nil {
		*next = *s.Run
	}
	s.Run = next
	s.dirty.run = true
	return next
}

func (s *State) setSeq(seq int64) {
	s.undo = append(s.undo, undo{kind: undoSeq, seq: s.Seq})
	s.Seq = seq
}

// setIncomplete says that the journal holds what the state does not.
func (s *State) setIncomplete() {
	if s.Complete {
		s.undo = append(s.undo, undo{kind: undoComplete})
		s.Complete = false
	}
}

func (s *State) setStep(step *Step) {
	if s.Steps == nil {
		s.Steps = map[ID]*Step{}
	}
	s.undo = append(s.undo, undo{kind: undoStep, id: step.ID, entity: s.Steps[step.ID]})
	s.Steps[step.ID] = step
	s.dirty.steps = append(s.dirty.steps, step.ID)
}

func (s *State) setFinished(id ID, status Status) {
	if s.finished == nil {
		s.finished = map[ID]Status{}
	}
	s.undo = append(s.undo, undo{kind: undoFinished, id: id})
	s.finished[id] = status
}

func (s *State) setHook(hook *Hook) {
	if s.Hooks == nil {
		s.Hooks = map[ID]*Hook{}
	}
	s.undo = append(s.undo, undo{kind: undoHook, id: hook.ID, entity: s.Hooks[hook.ID]})
	s.Hooks[hook.ID] = hook
	s.dirty.hooks = append(s.dirty.hooks, hook.ID)
}

func (s *State) dropHook(id ID) {
	s.undo = append(s.undo, undo{kind: undoHook, id: id, entity: s.Hooks[id]})
	delete(s.Hooks, id)
	s.dirty.hooks = append(s.dirty.hooks, id)
}

func (s *State) setWait(wait *Wait) {
	if s.Waits == nil {
		s.Waits = map[ID]*Wait{}
	}
	s.undo = append(s.undo, undo{kind: undoWait, id: wait.ID, entity: s.Waits[wait.ID]})
	s.Waits[wait.ID] = wait
	s.dirty.waits = append(s.dirty.waits, wait.ID)
}

func (s *State) dropWait(id ID) {
	s.undo = append(s.undo, undo{kind: undoWait, id: id, entity: s.Waits[id]})
	delete(s.Waits, id)
	s.dirty.waits = append(s.dirty.waits, id)
}

func (s *State) setReceipt(r *Receipt) {
	if s.Receipts == nil {
		s.Receipts = map[string]*Receipt{}
	}
	s.undo = append(s.undo, undo{kind: undoReceipt, outside: &undoOutside{sender: r.Sender}})
	s.Receipts[r.Sender] = r
	s.dirty.receipts = append(s.dirty.receipts, r.Sender)
}

func (s *State) setAttrSet(id ID) {
	if s.AttrSets == nil {
		s.AttrSets = map[ID]struct{}{}
	}
	s.undo = append(s.undo, undo{kind: undoAttrSet, id: id})
	s.AttrSets[id] = struct{}{}
}

func (s *State) setHookMade(id ID) {
	if _, made := s.HooksMade[id]; made {
		return
	}
	if s.HooksMade == nil {
		s.HooksMade = map[ID]struct{}{}
	}
	s.undo = append(s.undo, undo{kind: undoHookMade, id: id})
	s.HooksMade[id] = struct{}{}
}

func (s *State) addAttributes(changes []AttrChange) {
	s.dirty.attributes = append(s.dirty.attributes, changes...)
}
