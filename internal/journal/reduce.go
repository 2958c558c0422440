package journal

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// Reduce decides whether a command is legal in this state. An accepted command changes the state, which then differs from
// what is stored until [State.Commit]; a refused one changes nothing and returns an [*Error].
func (s *State) Reduce(cmd *Command, env Env, outside *Outside) (*Result, error) {
	r := reduction{s: s, cmd: cmd, env: env, outside: outside, result: &Result{}}
	mark := s.mark()
	if err := r.run(); err != nil {
		s.rollbackTo(mark)
		return nil, cairnerr.AsError(err)
	}
	if !r.result.Existing {
		r.result.Run, r.result.Seq = s.Run, s.Seq
	}
	return r.result, nil
}

// reduction is one command being reduced.
type reduction struct {
	s       *State
	cmd     *Command
	env     Env
	outside *Outside
	result  *Result
}

// verdict is what a rule makes of a legal event.
type verdict uint8

const (
	appends verdict = iota // it becomes part of the journal
	holds                  // nothing to write: all is as the event asks
)

func (r *reduction) run() error {
	if err := r.cmd.Check(); err != nil {
		return err
	}
	if err := r.checkGuards(); err != nil {
		return err
	}
	r.result.Outcomes = make([]Outcome, 0, len(r.cmd.Events))
	for i := range r.cmd.Events {
		if err := r.keep(i); err != nil {
			return err
		}
		outcome, err := r.event(r.cmd.Events[i])
		if err != nil {
			if !r.cmd.PerEvent {
				return err
			}
			outcome = Outcome{Err: cairnerr.AsError(err), Appended: -1}
		}
		r.result.Outcomes = append(r.result.Outcomes, outcome)
		if r.result.Existing {
			return r.existing()
		}
	}
	if r.s.Run == nil {
		return r.noRun()
	}
	if err := r.keep(len(r.cmd.Events)); err != nil {
		return err
	}
	if err := r.lease(); err != nil {
		return err
	}
	r.result.Effects.Messages = slices.Clone(r.cmd.Messages)
	for i := range r.result.Effects.Messages {
		r.result.Effects.Messages[i].Namespace = r.cmd.Namespace
	}
	if d := r.cmd.Guards.Delivery; !d.Message.IsZero() {
		r.result.Effects.Done = d.Message
		r.s.undo = append(r.s.undo, undo{kind: undoDelivery, outside: &undoOutside{outside: r.outside, delivery: d}})
		delete(r.outside.Deliveries, d.Message)
	}
	return nil
}

// existing answers for the events after one that found its run to be there already: they wrote nothing either.
func (r *reduction) existing() error {
	for len(r.result.Outcomes) < len(r.cmd.Events) {
		r.result.Outcomes = append(r.result.Outcomes, Outcome{Appended: -1})
	}
	return nil
}

// Check refuses what is wrong in every state. [State.Reduce] does it too, unless it was done: then it need not be done
// where commands queue up. A command must not be changed after it was checked.
func (c *Command) Check() error {
	if c.checked {
		return nil
	}
	if c.Run.IsZero() {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "the command names no run")
	}
	if err := CheckNamespace(c.Namespace); err != nil {
		return err
	}
	if len(c.Keeps) > 0 && (c.PerEvent || !c.forks()) {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "only a fork copies events of another run")
	}
	if len(c.Events) > MaxEvents && !c.forks() {
		return cairnerr.Errorf(cairnerr.CodeLimitExceeded, "%d events in one command; at most %d are allowed", len(c.Events), MaxEvents)
	}
	for i := range c.Events {
		if err := checkEvent(&c.Events[i], c.PerEvent); err != nil {
			return err
		}
	}
	for i := range c.Messages {
		if err := checkMessage(c.Namespace, &c.Messages[i]); err != nil {
			return err
		}
	}
	c.checked = true
	return nil
}

func checkMessage(namespace string, m *Message) error {
	if m.ID.IsZero() || m.Queue == "" {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "a message needs an id and a queue")
	}
	if m.Namespace != "" && m.Namespace != namespace {
		return cairnerr.Errorf(cairnerr.CodeUnsupported, "a message goes into the namespace of its command")
	}
	if err := CheckText("a message's queue", m.Queue, MaxName); err != nil {
		return err
	}
	if err := CheckText("a message's key", m.Key, MaxKey); err != nil {
		return err
	}
	return CheckPayload("message", "", m.Payload)
}

func (r *reduction) checkGuards() error {
	g, s := &r.cmd.Guards, r.s
	if r.cmd.Lease == LeaseClaim && g.Owner.Incarnation.IsZero() {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "a claim names the incarnation that wants the run")
	}
	if d := g.Delivery; !d.Message.IsZero() {
		newest, ok := r.outside.Deliveries[d.Message]
		if !ok || newest != d.Number {
			return cairnerr.Errorf(cairnerr.CodeStaleDelivery, "delivery %d of %s is not the newest any more", d.Number, PrefixMessage.Format(d.Message))
		}
	}
	if s.Run == nil {
		if g.Seq != 0 || len(g.Status) > 0 || !g.Hook.IsZero() || g.Owner.Epoch > 1 {
			return r.noRun()
		}
		return nil
	}
	if !g.Owner.Incarnation.IsZero() && r.cmd.Lease != LeaseClaim {
		if s.Run.Owner != g.Owner.Incarnation || s.Run.Epoch != g.Owner.Epoch {
			if r.cmd.born() {
				return nil // the event says better what is wrong: the run exists
			}
			return cairnerr.Errorf(cairnerr.CodeStaleEpoch, "%s belongs to %s in epoch %d, not to %s in epoch %d",
				PrefixRun.Format(r.cmd.Run), ownerText(s.Run.Owner), s.Run.Epoch, ownerText(g.Owner.Incarnation), g.Owner.Epoch)
		}
	}
	if g.Seq != 0 && g.Seq != s.Seq {
		return cairnerr.Errorf(cairnerr.CodePrecondition, "the last event is %d, not %d", s.Seq, g.Seq)
	}
	if len(g.Status) > 0 && !slices.Contains(g.Status, s.Run.Status) {
		return cairnerr.Errorf(cairnerr.CodePrecondition, "the run is %s", s.Run.Status)
	}
	if !g.Hook.IsZero() {
		if h := s.Hooks[g.Hook]; h == nil || h.Status != HookOpen {
			return cairnerr.Errorf(cairnerr.CodeHookNotFound, "%s is not open", PrefixHook.Format(g.Hook))
		}
	}
	return nil
}

func ownerText(owner ID) string {
	if owner.IsZero() {
		return "nobody"
	}
	return PrefixIncarnation.Format(owner)
}

func (r *reduction) noRun() error {
	return cairnerr.Errorf(cairnerr.CodeRunNotFound, "no run %s", PrefixRun.Format(r.cmd.Run))
}

// event applies one event of the command.
func (r *reduction) event(e Event) (Outcome, error) {
	mark, appended, effects := r.s.mark(), len(r.result.Appended), r.result.Effects
	outcome, err := r.tryEvent(e)
	if err != nil {
		r.s.rollbackTo(mark)
		r.result.Appended = r.result.Appended[:appended]
		r.result.Effects = effects
	}
	return outcome, err
}

func (r *reduction) tryEvent(e Event) (Outcome, error) {
	e.Type = e.Data.EventType()
	if err := r.name(&e); err != nil {
		return Outcome{}, err
	}
	rule, err := r.ruleOf(&e)
	if err != nil {
		return Outcome{}, err
	}
	outcome := Outcome{Appended: -1}
	v, err := rule.check(r, &e, &outcome)
	if err != nil {
		return Outcome{}, err
	}
	if v == appends {
		outcome.Appended = len(r.result.Appended)
		outcome.Seq = r.append(e)
	}
	return outcome, nil
}

// name completes the name of the entity that an event is about. A reader of the journal derives it from the key
// again, so the two must agree.
func (r *reduction) name(e *Event) error {
	about := e.Type.About()
	if about == "" {
		if e.Key != "" || !e.Entity.IsZero() {
			return cairnerr.Errorf(cairnerr.CodeMalformed, "%s is about the run itself, and names an entity", e.Type)
		}
		return nil
	}
	given := e.Entity
	if e.Key != "" {
		e.Entity = DeriveID(r.cmd.Run, about, e.Key)
	}
	switch {
	case e.Entity.IsZero() && e.Type != EventAttrSet:
		return cairnerr.Errorf(cairnerr.CodeMalformed, "%s names no entity", e.Type)
	case !given.IsZero() && given != e.Entity:
		return cairnerr.Errorf(cairnerr.CodeMalformed, "%s names %s, which is not that of the key %q", e.Type, about.Format(given), e.Key)
	}
	return nil
}

// ruleOf finds the law for an event, and checks what it says about the run's state and the writer.
func (r *reduction) ruleOf(e *Event) (*rule, error) {
	var dialect Dialect
	run := r.s.Run
	if run != nil {
		dialect = run.Dialect
	} else if c := creation(e); c == nil {
		return nil, r.noRun()
	} else if dialect = c.Dialect; dialect >= dialects {
		return nil, cairnerr.Errorf(cairnerr.CodeUnsupported, "unknown dialect %d", dialect)
	}
	rule := rules[dialect][e.Type]
	if rule == nil {
		return nil, cairnerr.Errorf(cairnerr.CodeUnsupported, "%s cannot be written to a run of dialect %s", e.Type, dialect)
	}
	if run != nil && !rule.in.has(run.Status) {
		if rule.in == nowhere {
			return nil, cairnerr.Errorf(rule.ended, "%s exists", PrefixRun.Format(run.ID))
		}
		if run.Status.Terminal() && rule.ended != "" {
			return nil, cairnerr.Errorf(rule.ended, "%s came after the run was %s", e.Type, run.Status)
		}
		return nil, r.notWhile(e)
	}
	if rule.owner && r.cmd.Guards.Owner.Incarnation.IsZero() {
		return nil, notByOutsider(e)
	}
	return rule, nil
}

func (r *reduction) notWhile(e *Event) error {
	return cairnerr.Errorf(cairnerr.CodeIllegalTransition, "%s is not possible while the run is %s", e.Type, r.s.Run.Status)
}

func notByOutsider(e *Event) error {
	return cairnerr.Errorf(cairnerr.CodeStaleEpoch, "only the run's owner may write %s", e.Type)
}

// append puts an event at the end of the journal and folds it into the views.
func (r *reduction) append(e Event) int64 {
	e.Type = e.Data.EventType()
	e.Seq = r.s.Seq + 1
	e.At = r.env.Now
	r.collectEffects(&e)
	r.s.fold(r.cmd.Run, &e)
	r.result.Appended = append(r.result.Appended, e)
	return e.Seq
}

// collectEffects collects what follows from the birth and the end of a run, before the end takes its hooks away.
func (r *reduction) collectEffects(e *Event) {
	switch d := e.Data.(type) {
	case *StepCompleted:
		for _, h := range r.s.Hooks {
			if slices.ContainsFunc(d.Closes, func(path string) bool { return strings.HasPrefix(h.Key, path) }) {
				r.result.Effects.Disposed = append(r.result.Effects.Disposed, h.ID)
				r.freeToken(h.Token)
			}
		}
		slices.SortFunc(r.result.Effects.Disposed, ID.Compare)
	case *RunCreated:
		r.result.created, r.result.startAt = true, d.StartAt
	case *RunCompleted, *RunFailed, *RunCancelled:
		if r.s.Run.Status.Terminal() {
			return // a cancel repeated in the World's dialect
		}
		for _, h := range r.s.Hooks {
			if h.RetainUntil <= r.env.Now {
				r.result.Effects.Disposed = append(r.result.Effects.Disposed, h.ID)
				r.freeToken(h.Token)
			}
		}
		slices.SortFunc(r.result.Effects.Disposed, ID.Compare)
		if run := r.s.Run; run.Dialect == Engine && !run.Parent.IsZero() {
			r.result.Effects.Wake = append(r.result.Effects.Wake, run.Parent)
		}
	}
}

// lease changes who executes the run and when it wakes. None of that is in the journal.
func (r *reduction) lease() error {
	if r.s.Run.Dialect != Engine {
		if r.cmd.Lease != LeaseKeep {
			return cairnerr.Errorf(cairnerr.CodeUnsupported, "runs of dialect %s have no owner", r.s.Run.Dialect)
		}
		return nil
	}
	if r.result.created {
		r.born()
	}
	switch r.cmd.Lease {
	case LeaseClaim:
		return r.claim()
	case LeaseRelease:
		return r.release()
	case LeasePush:
		r.push()
		return nil
	case LeaseHeed:
		return r.heed()
	default:
		r.wake()
		return nil
	}
}

// born gives a new run its first owner, or the time at which somebody should take it.
func (r *reduction) born() {
	if r.s.Run.Status.Terminal() {
		return
	}
	next := r.s.editRun()
	if owner := r.cmd.Guards.Owner.Incarnation; !owner.IsZero() {
		next.Owner, next.Epoch = owner, 1
		return
	}
	next.WakeAt = max(r.result.startAt, r.env.Now)
	r.result.Effects.Wake = append(r.result.Effects.Wake, next.ID)
}

func (r *reduction) claim() error {
	run, g := r.s.Run, r.cmd.Guards.Owner
	switch {
	case run.Status.Terminal() || run.ParkedAt != 0:
		return cairnerr.Errorf(cairnerr.CodeNotRunnable, "the run is %s", orPhase(run))
	case g.Epoch != 0 && g.Epoch != run.Epoch:
		return cairnerr.Errorf(cairnerr.CodeStaleEpoch, "the run is in epoch %d, not %d", run.Epoch, g.Epoch)
	case !run.Owner.IsZero() && !r.outside.Fenced[run.Owner]:
		return cairnerr.Errorf(cairnerr.CodeNotRunnable, "the run is executed by %s", PrefixIncarnation.Format(run.Owner))
	case run.Owner.IsZero() && (run.WakeAt == 0 || run.WakeAt > r.env.Now) && len(r.result.Appended) == 0:
		return cairnerr.Errorf(cairnerr.CodeNotRunnable, "the run is not due")
	}
	next := r.s.editRun()
	next.Owner, next.Epoch, next.WakeAt = g.Incarnation, next.Epoch+1, 0
	if run.WakeAt == WakePushed {
		r.heardPush()
	}
	return nil
}

// heardPush takes note that the run was pushed. Who claims it because of something else, which the command has, does not wait for the answer to go on: it hears of the push
// like any owner.
func (r *reduction) heardPush() {
	if len(r.result.Appended) > 0 {
		r.s.editRun().WakeAt = WakePushed
		return
	}
	r.result.Pushed = true
}

// heed takes a mark away that was meant for the owner.
func (r *reduction) heed() error {
	if r.cmd.Guards.Owner.Incarnation.IsZero() {
		return cairnerr.Errorf(cairnerr.CodeStaleEpoch, "only the owner acknowledges what came for a run")
	}
	if run := r.s.Run; run.WakeAt != 0 && !run.Owner.IsZero() {
		r.result.Pushed = run.WakeAt == WakePushed
		r.s.editRun().WakeAt = 0
	}
	return nil
}

func orPhase(run *Run) string {
	if p := run.Phase(); p != "" {
		return p
	}
	return run.Status.String()
}

func (r *reduction) release() error {
	if r.cmd.Guards.Owner.Incarnation.IsZero() {
		return cairnerr.Errorf(cairnerr.CodeStaleEpoch, "only the owner releases a run")
	}
	if r.s.Run.Status.Terminal() {
		return nil // with the same command: the owner is gone already
	}
	if r.s.Run.ParkedAt != 0 { // nothing wakes the run
		next := r.s.editRun()
		next.Owner, next.WakeAt = ID{}, 0
		return nil
	}
	first := r.s.Run.WakeAt // something came from outside that the owner may not have seen
	sooner := func(at Time) {
		if at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	sooner(r.cmd.WakeAt)
	for _, w := range r.s.Waits {
		if w.Status == StatusRunning {
			sooner(w.ResumeAt)
		}
	}
	for _, s := range r.s.Steps {
		if s.Status == StatusPending {
			sooner(s.RetryAfter)
		}
	}
	next := r.s.editRun()
	next.Owner, next.WakeAt = ID{}, first
	if first != 0 && first <= r.env.Now { // others may be free to go on with it
		r.result.Effects.Wake = append(r.result.Effects.Wake, next.ID)
	}
	return nil
}

// wake marks the run as due when somebody else than its owner wrote to it.
func (r *reduction) wake() {
	run := r.s.Run
	if len(r.result.Appended) == 0 || run.Status.Terminal() || !r.cmd.Guards.Owner.Incarnation.IsZero() {
		return
	}
	if run.ParkedAt != 0 {
		r.tellOwner()
		return
	}
	matters := func(e Event) bool { return e.Type != EventAnnotated && e.Type != EventAttrSet }
	if r.result.created || !slices.ContainsFunc(r.result.Appended, matters) {
		return // a new run has its time to wake from its creation
	}
	r.mark()
}

// tellOwner marks a run that was paused as due for its owner alone, who then begins nothing new.
func (r *reduction) tellOwner() {
	run := r.s.Run
	paused := slices.ContainsFunc(r.result.Appended, func(e Event) bool { return e.Type == EventRunParked })
	if !paused || run.Owner.IsZero() {
		return
	}
	r.result.Effects.Wake = append(r.result.Effects.Wake, run.ID)
	if run.Owner != r.env.Self {
		r.s.editRun().WakeAt = r.env.Now
	}
}

// mark marks the run as due, if it goes on.
func (r *reduction) mark() {
	run := r.s.Run
	if run.Status.Terminal() || run.ParkedAt != 0 {
		return
	}
	r.result.Effects.Wake = append(r.result.Effects.Wake, run.ID)
	if run.Owner.IsZero() || run.Owner != r.env.Self {
		r.s.MarkDue(r.env.Now)
	}
}

// push marks the run as due for its polls, whoever owns it.
func (r *reduction) push() {
	if run := r.s.Run; !run.Status.Terminal() && run.ParkedAt == 0 {
		r.result.Effects.Wake = append(r.result.Effects.Wake, run.ID)
		r.s.MarkDue(WakePushed)
	}
}

// MarkDue marks the run as due, if it exists and goes on. The row is written also if it is due already: it may have been claimed since it was read,
// which leaves no event, and then the store refuses the batch.
func (s *State) MarkDue(now Time) {
	run := s.Run
	if run == nil || run.Status.Terminal() || run.ParkedAt != 0 {
		return
	}
	if next := s.editRun(); next.WakeAt == 0 || next.WakeAt > now {
		next.WakeAt = now
	}
}

// checkEvent refuses an event that is wrong in every run.
func checkEvent(e *Event, perEvent bool) error {
	if absent(e.Data) {
		return cairnerr.Errorf(cairnerr.CodeUnknownEvent, "an event without data, or of an unknown type")
	}
	t := e.Data.EventType()
	if e.Type != 0 && e.Type != t {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "an event of type %s with the data of %s", e.Type, t)
	}
	if perEvent {
		switch t {
		case EventRunCreated, EventRunStarted, EventRunCancelled, EventHookCreated, EventHookDisposed, EventAttrSet:
			return cairnerr.Errorf(cairnerr.CodeUnsupported, "%s cannot be part of a command that is accepted event by event", t)
		default:
		}
	}
	if CheckText("", e.Key, MaxKey) != nil { // what is wrong is put into words only if something is
		return CheckText("the key of "+t.String(), e.Key, MaxKey)
	}
	in, out := e.Data.payloads()
	for _, p := range []*Payload{in, out} {
		if p != nil {
			if err := CheckPayload(t.String(), "", *p); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckPayload refuses a payload that is too large. What it belongs to is said in two parts, which are put together only then.
func CheckPayload(of, name string, p Payload) error {
	if len(p) > MaxPayload {
		return cairnerr.Errorf(cairnerr.CodePayloadTooLarge, "the payload of %s has %d bytes; at most %d are allowed", of+name, len(p), MaxPayload)
	}
	return nil
}

// CheckText refuses a text that is too long or that not every database takes.
func CheckText(what, text string, limit int) error {
	if len(text) > limit {
		return cairnerr.Errorf(cairnerr.CodeLimitExceeded, "%s has %d bytes; at most %d are allowed", what, len(text), limit)
	}
	if !storable(text) {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "%s is not UTF-8, or has a NUL", what)
	}
	return nil
}

// storable reports whether every database takes the text: PostgreSQL refuses NUL, and with it the whole batch.
func storable(text string) bool { return utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 }
