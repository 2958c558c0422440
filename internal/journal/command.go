package journal

import "github.com/cairn-workflow/cairn/cairnerr"

// Command is what somebody wants to happen to one run.
//
// A command is atomic, unless PerEvent is set: then each event is accepted or refused alone, and the accepted
// ones are consecutive.
type Command struct {
	Namespace string
	Run       ID
	Events    []Event
	PerEvent  bool
	Guards    Guards
	Lease     Lease
	// WakeAt is when the owner wants to go on, beyond the timers of the run; for [LeaseRelease].
	WakeAt Time
	Read   Read
	// Messages are put into their queues together with the events.
	Messages []Message
	// Keeps are what a fork takes over of its source without looking at it, in the order of the events that they come before.
	Keeps []Keep

	checked bool // by Check, and found good
}

// Guards are conditions under which a command is accepted. Those that are not set always hold.
type Guards struct {
	// Owner is the epoch in which the caller owns the run. A command without it comes from outside; in dialect Engine
	// most events are the owner's alone.
	Owner Ownership
	// Seq is the last event that the caller has seen; 0: not checked. Another last event gives [cairnerr.CodePrecondition].
	Seq int64
	// Status lists the run's states in which the command is accepted; empty: not checked.
	Status []Status
	// Hook must be open.
	Hook ID
	// Delivery of a message that must still be the newest; the message is done with this command.
	Delivery Delivery
}

// Ownership is the right to execute a run: an incarnation of a process, in one epoch of the run.
type Ownership struct {
	Incarnation ID
	Epoch       int64
}

// Delivery is one handing-out of a message. Each further one has a higher number.
type Delivery struct {
	Message ID
	Number  int
}

// Lease says what a command does to the ownership of its run.
type Lease uint8

// What a command can do to the ownership of a run of dialect Engine.
const (
	LeaseKeep Lease = 0 // nothing
	// LeaseClaim takes a run that nobody owns and that is due, or has something to do with the events of the command; the caller is
	// Guards.Owner.Incarnation.
	LeaseClaim Lease = 1
	// LeaseRelease gives the run back: it waits, and wakes at the first of its timers, or at the command's WakeAt. If somebody else
	// has marked it as due meanwhile, it stays due.
	LeaseRelease Lease = 2
	// LeasePush marks the run as due, if it goes on, also one that the caller owns: its polls are to look.
	LeasePush Lease = 3
	// LeaseHeed takes the mark away with which others have told the owner that something came. What that is, the answer has.
	LeaseHeed Lease = 4
)

// Times to wake that say why a run is due. They are long ago: no timer is earlier, and no other mark takes their place.
const (
	WakeAfterDeath Time = 1 // its owner was declared dead
	WakePushed     Time = 2 // its polls are to look
)

// Read asks for events in the answer, as they are in the same transaction.
type Read struct {
	Kind ReadKind
	// Since is the last event that the caller has: the answer begins after it.
	Since int64
}

// ReadKind says what a command's answer includes.
type ReadKind uint8

// What the answer to a command can include.
const (
	ReadNone   ReadKind = 0
	ReadSince  ReadKind = 1 // all events after Since, with those of the command itself
	ReadMissed ReadKind = 2 // the events after Since that others wrote before those of the command ("bump and report")
)

// Message is work for a queue.
type Message struct {
	ID        ID
	Namespace string // that of the command, also if it is left out
	Queue     string
	Run       ID // zero: about no run
	// Key collapses messages: while one with the same queue and key is queued, a second one is not added.
	Key       string
	VisibleAt Time // not delivered before; zero: now
	Payload   Payload
}

// Env is what a reduction needs from the world.
type Env struct {
	Now Time
	// Self is the incarnation that commits. A run that it owns is woken directly; one that another owns is marked.
	Self ID
}

// Outside is what a command depends on beyond its run. An absent entry means "nobody": if that proves wrong, the
// database's unique keys refuse the batch, and it is reduced again with the entry filled in.
// The reducer keeps it up to date, so that the commands of one batch see each other.
type Outside struct {
	Tokens     map[string]Holder // by namespace and token, see TokenKey
	StartKeys  map[StartKey]Started
	Deliveries map[ID]int  // the newest delivery of messages that guards name
	Fenced     map[ID]bool // incarnations that are known to be fenced
}

// NewOutside returns an Outside without entries.
func NewOutside() *Outside {
	return &Outside{Tokens: map[string]Holder{}, StartKeys: map[StartKey]Started{}, Deliveries: map[ID]int{}, Fenced: map[ID]bool{}}
}

// TokenKey returns the key of a hook token in [Outside].
func TokenKey(namespace, token string) string { return namespace + "\x00" + token }

// Holder is who holds a hook token.
type Holder struct {
	Run, Hook   ID
	Status      HookStatus
	RetainUntil Time
}

// StartKey identifies a start: a key that a caller chose, in a workflow.
type StartKey struct {
	Namespace, Workflow, Key string
}

// Started is the run that was started with a start key.
type Started struct {
	Run    ID
	Digest []byte
}

// Result is the answer to a command that was accepted.
type Result struct {
	// Run is the run after the command. With a start key it can be an older run than the one asked for.
	Run *Run
	Seq int64
	// Existing says that nothing was written because the start key is that of an older run.
	Existing bool
	// Appended are the events as they stand in the journal now. The reducer may have added, replaced or left out some.
	Appended []Event
	// Outcomes has an entry for each event of the command.
	Outcomes []Outcome
	// Pushed says that somebody has pushed the run, and that this command, a claim or [LeaseHeed], took the mark away: its polls have to look.
	Pushed bool
	// Read is what the command asked to read.
	Read []Event
	// Kept are events of another run that come to stand in the journal, too.
	Kept []Kept
	// Effects are what must happen once the command is durable.
	Effects Effects

	created bool // the run's first event is among Appended
	startAt Time // of a delayed start
}

// Outcome is what became of one event of a command.
type Outcome struct {
	Err *cairnerr.Error // nil: accepted
	// Appended is the event's place in Result.Appended, -1 if it wrote nothing because all was as it asked.
	Appended int
	// Seq is the event in the journal: the one appended, or the older one that a repeated delivery stands for.
	Seq int64
}

// Effects are what must follow once a command is durable.
type Effects struct {
	Wake     []ID // runs that have something to do now
	Disposed []ID // hooks that are no more
	Messages []Message
	Done     ID // the message that is done with the command
}

// Touch is what a store must read before a command can be reduced without the run's complete state.
type Touch struct {
	Steps    []ID
	Hooks    []ID
	Waits    []ID
	AttrSets []ID
	// HooksMade are hooks of which is asked whether they were ever created, or refused.
	HooksMade []ID
	Senders   []string
}

// Touches returns what the command touches in its run.
func (c *Command) Touches() Touch {
	t := Touch{}
	if !c.Guards.Hook.IsZero() {
		t.Hooks = append(t.Hooks, c.Guards.Hook)
	}
	for i := range c.Events {
		e := &c.Events[i]
		if e.Data == nil {
			continue
		}
		id := entityOf(c.Run, e)
		switch d := e.Data.(type) {
		case *StepCreated, *StepStarted, *StepRetrying, *StepCompleted, *StepFailed:
			t.Steps = append(t.Steps, id)
		case *HookCreated:
			t.Hooks, t.HooksMade = append(t.Hooks, id), append(t.HooksMade, id)
		case *HookDisposed:
			t.Hooks = append(t.Hooks, id)
		case *HookReceived:
			t.Hooks = append(t.Hooks, id)
			if d.Sender != "" {
				t.Senders = append(t.Senders, d.Sender)
			}
		case *WaitCreated, *WaitCompleted:
			t.Waits = append(t.Waits, id)
		case *AttrSet:
			if !id.IsZero() {
				t.AttrSets = append(t.AttrSets, id)
			}
		}
	}
	return t
}

// Tokens returns the hook tokens that the command wants to hold.
func (c *Command) Tokens() []string {
	var tokens []string
	for i := range c.Events {
		if d, ok := c.Events[i].Data.(*HookCreated); ok {
			tokens = append(tokens, d.Token)
		}
	}
	return tokens
}

// StartKeys returns the start keys that the command wants to use.
func (c *Command) StartKeys() []StartKey {
	var keys []StartKey
	for i := range c.Events {
		if d := creation(&c.Events[i]); d != nil && d.StartKey != "" {
			keys = append(keys, StartKey{Namespace: c.Namespace, Workflow: d.Workflow, Key: d.StartKey})
		}
	}
	return keys
}

// Creates reports whether the command can make its run.
func (c *Command) Creates() bool {
	for i := range c.Events {
		if creation(&c.Events[i]) != nil {
			return true
		}
	}
	return false
}

// born reports whether the command makes its run, and can do nothing if the run exists.
func (c *Command) born() bool {
	if len(c.Events) == 0 {
		return false
	}
	_, ok := c.Events[0].Data.(*RunCreated)
	return ok
}

// forks reports whether the command makes a run out of another one's results.
func (c *Command) forks() bool {
	if len(c.Events) == 0 {
		return false
	}
	d, ok := c.Events[0].Data.(*RunCreated)
	return ok && !d.ForkedFrom.IsZero()
}

func creation(e *Event) *RunCreated {
	switch d := e.Data.(type) {
	case *RunCreated:
		return d
	case *RunStarted:
		return d.Create
	default:
		return nil
	}
}

// entityOf returns the entity that an event of a command is about.
func entityOf(run ID, e *Event) ID {
	if !e.Entity.IsZero() || e.Key == "" {
		return e.Entity
	}
	return DeriveID(run, e.Data.EventType().About(), e.Key)
}
