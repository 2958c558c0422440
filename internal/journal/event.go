package journal

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// EventType says what happened. Its number is stored and never changes; its name is on the wire.
type EventType uint8

// The events of a run. Up to attr_set they are those of the World contract; the others are Cairn's own.
const (
	EventRunCreated      EventType = 1
	EventRunStarted      EventType = 2
	EventRunCompleted    EventType = 3
	EventRunFailed       EventType = 4
	EventRunCancelled    EventType = 5
	EventStepCreated     EventType = 6
	EventStepStarted     EventType = 7
	EventStepRetrying    EventType = 8
	EventStepCompleted   EventType = 9
	EventStepFailed      EventType = 10
	EventHookCreated     EventType = 11
	EventHookReceived    EventType = 12
	EventHookDisposed    EventType = 13
	EventHookConflict    EventType = 14
	EventWaitCreated     EventType = 15
	EventWaitCompleted   EventType = 16
	EventAttrSet         EventType = 17
	EventCancelRequested EventType = 18
	EventRunParked       EventType = 19
	EventRunResumed      EventType = 20
	EventAnnotated       EventType = 21
	EventHookReplied     EventType = 22

	eventTypes = 23 // one more than the greatest number above
)

var eventNames = [eventTypes]string{
	EventRunCreated:      "run_created",
	EventRunStarted:      "run_started",
	EventRunCompleted:    "run_completed",
	EventRunFailed:       "run_failed",
	EventRunCancelled:    "run_cancelled",
	EventStepCreated:     "step_created",
	EventStepStarted:     "step_started",
	EventStepRetrying:    "step_retrying",
	EventStepCompleted:   "step_completed",
	EventStepFailed:      "step_failed",
	EventHookCreated:     "hook_created",
	EventHookReceived:    "hook_received",
	EventHookDisposed:    "hook_disposed",
	EventHookConflict:    "hook_conflict",
	EventWaitCreated:     "wait_created",
	EventWaitCompleted:   "wait_completed",
	EventAttrSet:         "attr_set",
	EventCancelRequested: "cancel_requested",
	EventRunParked:       "run_parked",
	EventRunResumed:      "run_resumed",
	EventAnnotated:       "annotated",
	EventHookReplied:     "hook_replied",
}

// Known reports whether this program knows the event type.
func (t EventType) Known() bool { return t > 0 && t < eventTypes }

// String returns the name of the event type.
func (t EventType) String() string {
	if !t.Known() {
		return "event_" + strconv.Itoa(int(t))
	}
	return eventNames[t]
}

// ParseEventType reads the name of an event type.
func ParseEventType(name string) (EventType, error) {
	for t := EventType(1); t < eventTypes; t++ {
		if eventNames[t] == name {
			return t, nil
		}
	}
	return 0, cairnerr.Errorf(cairnerr.CodeUnknownEvent, "unknown event type %q; known are %s", name, strings.Join(eventNames[1:], ", "))
}

// About returns the kind of entity that events of this type are about, "" for the run itself.
func (t EventType) About() Prefix {
	switch t {
	case EventStepCreated, EventStepStarted, EventStepRetrying, EventStepCompleted, EventStepFailed:
		return PrefixStep
	case EventHookCreated, EventHookReceived, EventHookDisposed, EventHookConflict, EventHookReplied:
		return PrefixHook
	case EventWaitCreated, EventWaitCompleted:
		return PrefixWait
	case EventAttrSet:
		return PrefixAttribute
	default:
		return ""
	}
}

// Event is one thing that happened to a run.
//
// A caller fills Data, and Entity or Key; the reducer fixes Seq and At.
type Event struct {
	Seq  int64     // position in the run's journal, from 1
	Type EventType // follows from Data; kept beside it because a reader may have left the data out
	At   Time      // when it was committed
	// Entity is the step, hook, wait or attribute change that the event is about, zero for the run itself.
	// In dialect Engine it follows from Key.
	Entity ID
	// Key is the memo key of the entity in dialect Engine, "" elsewhere.
	Key string
	// Data is what is known about the event beyond its type.
	Data Data
}

// IDText returns the event's id as on the wire. It is not stored, because it follows from the rest: in dialect World6 it is the
// position, elsewhere a ULID of the event's time, its position and its run.
func (e *Event) IDText(run ID, d Dialect) string {
	if d == World6 {
		return fmt.Sprintf("%s%026d", PrefixEvent, e.Seq)
	}
	id := ID{6: byte(e.Seq >> 16), 7: byte(e.Seq >> 8), 8: byte(e.Seq)}
	id.setTime(e.At)
	copy(id[9:], run[9:]) // the part in which runs of one millisecond differ, too
	return PrefixEvent.Format(id)
}

// CorrelationID returns the entity's id as on the wire, "" for events about the run itself.
func (e *Event) CorrelationID() string {
	if e.Entity.IsZero() {
		return ""
	}
	return e.Type.About().Format(e.Entity)
}

// ParseEventID returns the position for which an event's id stands. That event of the run has the id, or none has.
func ParseEventID(s string, d Dialect) (int64, error) {
	if d != World6 {
		id, err := PrefixEvent.Parse(s)
		return int64(id[6])<<16 | int64(id[7])<<8 | int64(id[8]), err
	}
	digits, ok := strings.CutPrefix(s, string(PrefixEvent))
	if ok && len(digits) == 26 && strings.Trim(digits, "0123456789") == "" {
		if seq, err := strconv.ParseInt(digits, 10, 64); err == nil && seq > 0 {
			return seq, nil
		}
	}
	return 0, cairnerr.Errorf(cairnerr.CodeMalformed, "bad event id: want %s and 26 digits", PrefixEvent)
}
