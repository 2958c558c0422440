package journal

import (
	"strings"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// Run is the view of a run. Of its fields, Owner, Epoch and WakeAt do not follow from the journal: they say
// who executes the run now, and change without an event.
type Run struct {
	ID          ID
	Workflow    string
	Dialect     Dialect
	Spec        int
	Status      Status
	Deployment  string
	Context     []byte
	StartKey    string
	StartDigest []byte
	Parent      ID
	Root        ID
	ForkedFrom  ID
	CreatedAt   Time
	StartedAt   Time  // first start, never moves
	CompletedAt Time  // set exactly when the status is final
	UpdatedAt   Time  // when the last event was committed; filled by readers
	EndSeq      int64 // the terminal event, which carries output or error; 0 while the run goes on
	CancelledAt Time  // when a cancel was requested; the status stays until clean-up is done
	ParkedAt    Time  // when the run was parked; zero while it is not
	Attributes  map[string]string

	Owner  ID    // the incarnation that executes the run; zero: nobody
	Epoch  int64 // how often the run was claimed
	WakeAt Time  // when somebody should look at the run; zero: it waits for something from outside

	// What follows is read from the events that carry it, unless the caller asked to leave it out.
	Input  Payload
	Output Payload
	Error  *RunFailed
	// Cancelled is the end of a run that was cancelled; nil: it was not, or was not read.
	Cancelled *RunCancelled
}

// Phase says in a word what a run that has not ended is doing beyond its status: "parked", "cancelling" or "".
func (r *Run) Phase() string {
	switch {
	case r.Status.Terminal():
		return ""
	case r.ParkedAt != 0:
		return "parked"
	case r.CancelledAt != 0:
		return "cancelling"
	default:
		return ""
	}
}

// Step is the view of a step. A step of dialect Engine that has no other event than its outcome is Inline: it
// has no row of its own, and is read from that event.
type Step struct {
	ID           ID
	Key          string
	Name         string
	Status       Status
	Inline       bool
	Attempt      int
	CreatedAt    Time
	StartedAt    Time // first start, never moves
	CompletedAt  Time
	UpdatedAt    Time
	RetryAfter   Time
	FirstSeq     int64 // its first event: the order of steps in a list
	InputSeq     int64 // the event that carries the input, 0: none
	LastSeq      int64 // its last event, which carries the result or the latest error
	OwnerMessage string

	Input  Payload
	Output Payload
	Error  *cairnerr.Error
}

// Hook is the view of a hook.
type Hook struct {
	ID          ID
	Key         string
	Token       string
	Status      HookStatus
	SingleUse   bool
	Webhook     bool
	System      bool
	CreatedAt   Time
	ExpiresAt   Time
	RetainUntil Time
	Seq         int64 // the hook_created event, which carries the metadata

	Metadata Payload
}

// Wait is the view of a timer, or of anything else that a run waits for.
type Wait struct {
	ID          ID
	Key         string
	Kind        string
	Status      Status // running while it waits, then completed
	ResumeAt    Time
	CreatedAt   Time
	CompletedAt Time
	Seq         int64 // the wait_created event
}

// Receipt remembers a delivery that came with a sender's key, so that it is received once.
type Receipt struct {
	Sender string
	Hook   ID
	Digest []byte
	Seq    int64
}

// Limits on what a command may carry. docs/limits.md publishes them.
const (
	MaxPayload          = 16 << 20 // bytes of one payload in its envelope
	MaxName             = 512      // bytes of a workflow, step or annotation name
	MaxKey              = 1024     // bytes of a memo key, start key or sender's key
	MaxToken            = 1024     // bytes of a hook token
	MaxNamespace        = 128      // bytes of a namespace
	MaxReason           = 512      // characters of a cancel reason
	MaxEvents           = 1000     // events of one command; a fork copies any number
	MaxStreams          = 100      // streams that one attempt of a step writes to
	MaxContext          = 64 << 10 // bytes of a World execution context
	MaxHeaders          = 8 << 10  // bytes of the headers of a start or a delivery
	MaxAttributes       = 64       // attributes of one run
	MaxAttributeKey     = 256      // characters of an attribute's key
	MaxAttributeValue   = 256      // bytes of an attribute's value
	reservedAttribute   = "$"
	maxRunIDPast        = Time(24 * 60 * 60 * 1000)
	maxRunIDFuture      = Time(5 * 60 * 1000)
	maxHookRetention    = Time(30 * 24 * 60 * 60 * 1000)
	maxAttributeChanges = 8192 // bytes of all changes of one attr_set
)

// CheckNamespace refuses a namespace that cannot be stored, and the sign for all of them.
func CheckNamespace(ns string) error {
	if ns == "*" {
		return cairnerr.Errorf(cairnerr.CodeMalformed, `"*" stands for all namespaces, and cannot be the name of one`)
	}
	if ns == "" || len(ns) > MaxNamespace || strings.ContainsAny(ns, "\n") || !storable(ns) {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "bad namespace %.64q: want 1 to %d bytes of UTF-8 without NUL or line break", ns, MaxNamespace)
	}
	return nil
}
