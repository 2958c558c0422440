package journal

import "github.com/cairn-workflow/cairn/cairnerr"

// Payload is a value of the user's in its envelope (package payload). The journal never looks inside.
type Payload []byte

// Data is what an event says beyond its type. Each event type has one struct below.
type Data interface {
	// EventType returns the type of event that this data belongs to.
	EventType() EventType
	// payloads returns where the user's values are. They are stored beside the other fields, so
	// that a query can leave them out.
	payloads() (input, output *Payload)
}

// RunCreated is the birth of a run.
type RunCreated struct {
	Workflow    string            `cbor:"1,keyasint"`
	Dialect     Dialect           `cbor:"2,keyasint,omitempty"`
	Spec        int               `cbor:"3,keyasint,omitempty"` // World spec version
	Deployment  string            `cbor:"4,keyasint,omitempty"`
	Context     []byte            `cbor:"5,keyasint,omitempty"` // World execution context, opaque
	Attributes  map[string]string `cbor:"6,keyasint,omitempty"`
	StartKey    string            `cbor:"7,keyasint,omitempty"`
	StartDigest []byte            `cbor:"8,keyasint,omitempty"` // of the input; empty: computed from its bytes
	Parent      ID                `cbor:"9,keyasint,omitzero"`
	Root        ID                `cbor:"10,keyasint,omitzero"`
	ForkedFrom  ID                `cbor:"11,keyasint,omitzero"`
	ForkedAt    int64             `cbor:"12,keyasint,omitempty"` // the source's last sequence when it was forked
	Kept        int64             `cbor:"16,keyasint,omitempty"` // how many events behind its birth and start a fork has from its source
	StartAt     Time              `cbor:"13,keyasint,omitempty"` // delayed start
	Seed        ID                `cbor:"14,keyasint,omitzero"`  // the run whose derived ids and randomness this one repeats: what a fork keeps goes with them
	SeedAt      Time              `cbor:"15,keyasint,omitempty"` // and when that one was created
	Headers     map[string]string `cbor:"17,keyasint,omitempty"` // what belongs to the starter's trace
	Input       Payload           `cbor:"-"`

	// AllowReserved lets Attributes use the reserved prefix. It is not stored.
	AllowReserved bool `cbor:"-"`
}

// RunStarted is the first execution of a run.
type RunStarted struct {
	// Create makes the run if it does not exist yet (resilient start): it becomes an event of its own, before this one.
	Create *RunCreated `cbor:"-"`
}

// RunCompleted is the good end of a run.
type RunCompleted struct {
	Output Payload `cbor:"-"`
}

// RunFailed is the bad end of a run.
type RunFailed struct {
	Error     *cairnerr.Error `cbor:"1,keyasint,omitempty"`
	ErrorCode string          `cbor:"2,keyasint,omitempty"` // in clear, where Value is opaque
	Value     Payload         `cbor:"-"`                    // World spec 4 and later: the error as the app serialised it
}

// RunCancelled is the end of a run that was asked to stop.
type RunCancelled struct {
	Reason string `cbor:"1,keyasint,omitempty"`
	Actor  string `cbor:"2,keyasint,omitempty"`
	// Error is what the clean-up returned beyond that the run was cancelled; nil: nothing.
	Error *cairnerr.Error `cbor:"3,keyasint,omitempty"`
}

// StepCreated records that a step is to be done.
type StepCreated struct {
	Name     string  `cbor:"1,keyasint,omitempty"`
	Child    ID      `cbor:"2,keyasint,omitzero"`  // the run that does it, if the step is a child
	Detached bool    `cbor:"3,keyasint,omitempty"` // the child is not cancelled with its parent
	Input    Payload `cbor:"-"`
}

// StepStarted records that an attempt of a step begins.
type StepStarted struct {
	Name         string `cbor:"1,keyasint,omitempty"`
	OwnerMessage string `cbor:"2,keyasint,omitempty"` // the delivery that executes the step, opaque
	StartedAt    Time   `cbor:"3,keyasint,omitempty"` // when the body began, if it was before the event was written
	// Lazy creates the step as well (World spec 4 and later): it must not exist. Input then goes with the
	// step_created event that is placed before this one.
	Lazy  bool    `cbor:"-"`
	Input Payload `cbor:"-"`
}

// StepRetrying records a failed attempt that will be repeated.
type StepRetrying struct {
	Name       string          `cbor:"1,keyasint,omitempty"`
	Error      *cairnerr.Error `cbor:"2,keyasint,omitempty"`
	RetryAfter Time            `cbor:"3,keyasint,omitempty"`
	// Streams are those that the attempt has written to: what it wrote does not hold.
	Streams []string `cbor:"4,keyasint,omitempty"`
	Value   Payload  `cbor:"-"`
}

// StepCompleted records the result of a step. In dialect Engine it may be the only event of its step.
type StepCompleted struct {
	Name      string `cbor:"1,keyasint,omitempty"`
	Attempt   int    `cbor:"2,keyasint,omitempty"` // the attempt that succeeded
	StartedAt Time   `cbor:"3,keyasint,omitempty"`
	Digest    []byte `cbor:"4,keyasint,omitempty"` // of the input, to notice code that changed
	Took      int64  `cbor:"6,keyasint,omitempty"` // milliseconds from StartedAt to the end
	// Closes are the branches that lose with this decision.
	Closes []string `cbor:"7,keyasint,omitempty"`
	// Streams are those that the attempt has written to: what it wrote holds.
	Streams []string `cbor:"8,keyasint,omitempty"`
	// StreamsClosed are those of them that it has closed.
	StreamsClosed []string `cbor:"9,keyasint,omitempty"`
	Input         Payload  `cbor:"-"`
	Result        Payload  `cbor:"-"`
}

// StepFailed records that a step has failed for good.
type StepFailed struct {
	Name      string          `cbor:"1,keyasint,omitempty"`
	Attempt   int             `cbor:"2,keyasint,omitempty"`
	StartedAt Time            `cbor:"3,keyasint,omitempty"`
	Digest    []byte          `cbor:"4,keyasint,omitempty"`
	Error     *cairnerr.Error `cbor:"6,keyasint,omitempty"`
	Took      int64           `cbor:"7,keyasint,omitempty"`
	// Streams are those that the last attempt has written to: what it wrote does not hold.
	Streams []string `cbor:"8,keyasint,omitempty"`
	Input   Payload  `cbor:"-"`
	Value   Payload  `cbor:"-"`
}

// HookCreated opens a hook.
type HookCreated struct {
	Token       string `cbor:"1,keyasint"`
	SingleUse   bool   `cbor:"2,keyasint,omitempty"`
	ExpiresAt   Time   `cbor:"3,keyasint,omitempty"`
	RetainUntil Time   `cbor:"4,keyasint,omitempty"` // the token stays reserved this long after the run's end
	Webhook     bool   `cbor:"5,keyasint,omitempty"`
	System      bool   `cbor:"6,keyasint,omitempty"`
	// Schema is the JSON Schema of the values that the hook takes; nil: any.
	Schema   []byte  `cbor:"7,keyasint,omitempty"`
	Metadata Payload `cbor:"-"`
}

// HookReceived is one delivery to a hook.
type HookReceived struct {
	Token   string            `cbor:"1,keyasint,omitempty"`
	Sender  string            `cbor:"2,keyasint,omitempty"` // the sender's key: the same key is received once
	Digest  []byte            `cbor:"3,keyasint,omitempty"` // of the payload; empty: computed from its bytes
	Headers map[string]string `cbor:"5,keyasint,omitempty"` // what belongs to the sender's trace
	At      Time              `cbor:"4,keyasint,omitempty"` // when it came, as the code sees it; zero: when it was written
	Payload Payload           `cbor:"-"`
}

// HookReplied answers a delivery.
type HookReplied struct {
	To    int64           `cbor:"1,keyasint"` // the event of the delivery
	Error *cairnerr.Error `cbor:"2,keyasint,omitempty"`
	Value Payload         `cbor:"-"`
}

// HookDisposed closes a hook and frees its token.
type HookDisposed struct {
	Token string `cbor:"1,keyasint,omitempty"`
}

// HookConflict records that a hook could not be opened because another one holds its token.
type HookConflict struct {
	Token string `cbor:"1,keyasint"`
	Run   ID     `cbor:"2,keyasint,omitzero"` // the run that holds it
}

// WaitCreated begins a wait.
type WaitCreated struct {
	ResumeAt Time   `cbor:"1,keyasint,omitempty"` // zero: not by time
	Kind     string `cbor:"2,keyasint,omitempty"` // what the run waits for; "": only for a time
	// For is how long the code wanted to wait, in milliseconds; zero: until a fixed time, or not recorded.
	For int64 `cbor:"3,keyasint,omitempty"`
	// Input is what a poll looks for.
	Input Payload `cbor:"-"`
}

// WaitCompleted ends a wait.
type WaitCompleted struct {
	ResumeAt Time            `cbor:"1,keyasint,omitempty"` // when the time had come, or a poll was ready; zero: it was not needed any more
	Error    *cairnerr.Error `cbor:"2,keyasint,omitempty"` // why a poll failed
	Result   Payload         `cbor:"-"`
}

// AttrSet changes attributes of the run.
type AttrSet struct {
	Changes []AttrChange `cbor:"1,keyasint"`
	// Step is the step that wrote the attributes; zero: the workflow, whose change is recorded at most once.
	Step    ID  `cbor:"2,keyasint,omitzero"`
	Attempt int `cbor:"3,keyasint,omitempty"`
	// AllowReserved lets the keys use the reserved prefix. It is not stored.
	AllowReserved bool `cbor:"-"`
}

// AttrChange sets one attribute, or removes it.
type AttrChange struct {
	Key    string `cbor:"1,keyasint"`
	Value  string `cbor:"2,keyasint,omitempty"`
	Remove bool   `cbor:"3,keyasint,omitempty"`
}

// CancelRequested asks a run to stop; its clean-up may still run.
type CancelRequested struct {
	Reason string `cbor:"1,keyasint,omitempty"`
	Actor  string `cbor:"2,keyasint,omitempty"`
}

// RunParked stops a run until somebody has looked at it.
type RunParked struct {
	Error *cairnerr.Error `cbor:"1,keyasint"`
	Actor string          `cbor:"2,keyasint,omitempty"`
	// Asked says that somebody paused the run: its owner keeps it until what is under way has ended, and begins nothing new.
	Asked bool `cbor:"3,keyasint,omitempty"`
	// Build is the build of the program that could not go on with the run. Another one may try.
	Build string `cbor:"4,keyasint,omitempty"`
}

// RunResumed lets a parked run go on.
type RunResumed struct {
	Actor string `cbor:"1,keyasint,omitempty"`
	// Ending says that the run was resumed because somebody cancelled it: if its code cannot go on, it ends.
	Ending bool `cbor:"2,keyasint,omitempty"`
}

// Annotated notes who did what and why. It is the one event that a run takes in every state.
type Annotated struct {
	Name    string  `cbor:"1,keyasint"`
	Actor   string  `cbor:"2,keyasint,omitempty"`
	Step    string  `cbor:"3,keyasint,omitempty"` // the key of the step that noted it
	Attempt int     `cbor:"4,keyasint,omitempty"` // and in which attempt
	Value   Payload `cbor:"-"`
}

// InputOf returns the input that an event carries, nil: none.
func InputOf(d Data) Payload {
	if input, _ := d.payloads(); input != nil {
		return *input
	}
	return nil
}

// EndedAt is when the attempt ended. It was written down later: in a fork that keeps it, much later.
func (d *StepCompleted) EndedAt() Time { return d.StartedAt + Time(d.Took) }

// EndedAt is when the last attempt ended, see [StepCompleted.EndedAt].
func (d *StepFailed) EndedAt() Time { return d.StartedAt + Time(d.Took) }

// EventType implements [Data].
func (*RunCreated) EventType() EventType { return EventRunCreated }

// EventType implements [Data].
func (*RunStarted) EventType() EventType { return EventRunStarted }

// EventType implements [Data].
func (*RunCompleted) EventType() EventType { return EventRunCompleted }

// EventType implements [Data].
func (*RunFailed) EventType() EventType { return EventRunFailed }

// EventType implements [Data].
func (*RunCancelled) EventType() EventType { return EventRunCancelled }

// EventType implements [Data].
func (*StepCreated) EventType() EventType { return EventStepCreated }

// EventType implements [Data].
func (*StepStarted) EventType() EventType { return EventStepStarted }

// EventType implements [Data].
func (*StepRetrying) EventType() EventType { return EventStepRetrying }

// EventType implements [Data].
func (*StepCompleted) EventType() EventType { return EventStepCompleted }

// EventType implements [Data].
func (*StepFailed) EventType() EventType { return EventStepFailed }

// EventType implements [Data].
func (*HookCreated) EventType() EventType { return EventHookCreated }

// EventType implements [Data].
func (*HookReceived) EventType() EventType { return EventHookReceived }

// EventType implements [Data].
func (*HookReplied) EventType() EventType { return EventHookReplied }

// EventType implements [Data].
func (*HookDisposed) EventType() EventType { return EventHookDisposed }

// EventType implements [Data].
func (*HookConflict) EventType() EventType { return EventHookConflict }

// EventType implements [Data].
func (*WaitCreated) EventType() EventType { return EventWaitCreated }

// EventType implements [Data].
func (*WaitCompleted) EventType() EventType { return EventWaitCompleted }

// EventType implements [Data].
func (*AttrSet) EventType() EventType { return EventAttrSet }

// EventType implements [Data].
func (*CancelRequested) EventType() EventType { return EventCancelRequested }

// EventType implements [Data].
func (*RunParked) EventType() EventType { return EventRunParked }

// EventType implements [Data].
func (*RunResumed) EventType() EventType { return EventRunResumed }

// EventType implements [Data].
func (*Annotated) EventType() EventType { return EventAnnotated }

func (d *RunCreated) payloads() (input, output *Payload)    { return &d.Input, nil }
func (d *RunStarted) payloads() (input, output *Payload)    { return nil, nil }
func (d *RunCompleted) payloads() (input, output *Payload)  { return nil, &d.Output }
func (d *RunFailed) payloads() (input, output *Payload)     { return nil, &d.Value }
func (d *RunCancelled) payloads() (input, output *Payload)  { return nil, nil }
func (d *StepCreated) payloads() (input, output *Payload)   { return &d.Input, nil }
func (d *StepStarted) payloads() (input, output *Payload)   { return &d.Input, nil }
func (d *StepRetrying) payloads() (input, output *Payload)  { return nil, &d.Value }
func (d *StepCompleted) payloads() (input, output *Payload) { return &d.Input, &d.Result }
func (d *StepFailed) payloads() (input, output *Payload)    { return &d.Input, &d.Value }
func (d *HookCreated) payloads() (input, output *Payload)   { return &d.Metadata, nil }
func (d *HookReceived) payloads() (input, output *Payload)  { return &d.Payload, nil }
func (d *HookReplied) payloads() (input, output *Payload)   { return nil, &d.Value }
func (d *HookDisposed) payloads() (input, output *Payload)  { return nil, nil }
func (d *HookConflict) payloads() (input, output *Payload)  { return nil, nil }
func (d *WaitCreated) payloads() (input, output *Payload)   { return &d.Input, nil }
func (d *WaitCompleted) payloads() (input, output *Payload) { return nil, &d.Result }
func (d *AttrSet) payloads() (input, output *Payload)       { return nil, nil }
func (d *CancelRequested) payloads() (input, output *Payload) {
	return nil, nil
}
func (d *RunParked) payloads() (input, output *Payload)  { return nil, nil }
func (d *RunResumed) payloads() (input, output *Payload) { return nil, nil }
func (d *Annotated) payloads() (input, output *Payload)  { return &d.Value, nil }

// newData returns an empty data struct for each event type.
var newData = [eventTypes]func() Data{
	EventRunCreated:      func() Data { return new(RunCreated) },
	EventRunStarted:      func() Data { return new(RunStarted) },
	EventRunCompleted:    func() Data { return new(RunCompleted) },
	EventRunFailed:       func() Data { return new(RunFailed) },
	EventRunCancelled:    func() Data { return new(RunCancelled) },
	EventStepCreated:     func() Data { return new(StepCreated) },
	EventStepStarted:     func() Data { return new(StepStarted) },
	EventStepRetrying:    func() Data { return new(StepRetrying) },
	EventStepCompleted:   func() Data { return new(StepCompleted) },
	EventStepFailed:      func() Data { return new(StepFailed) },
	EventHookCreated:     func() Data { return new(HookCreated) },
	EventHookReceived:    func() Data { return new(HookReceived) },
	EventHookDisposed:    func() Data { return new(HookDisposed) },
	EventHookConflict:    func() Data { return new(HookConflict) },
	EventWaitCreated:     func() Data { return new(WaitCreated) },
	EventWaitCompleted:   func() Data { return new(WaitCompleted) },
	EventAttrSet:         func() Data { return new(AttrSet) },
	EventCancelRequested: func() Data { return new(CancelRequested) },
	EventRunParked:       func() Data { return new(RunParked) },
	EventRunResumed:      func() Data { return new(RunResumed) },
	EventAnnotated:       func() Data { return new(Annotated) },
	EventHookReplied:     func() Data { return new(HookReplied) },
}
