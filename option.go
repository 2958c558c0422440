package cairn

import (
	"time"

	"github.com/cairn-workflow/cairn/internal/engine"
)

// Options change one call. Each kind of call has an interface for those that it takes, so an option that a call cannot have does not compile.
//
//	Charge.Do(ctx, order, cairn.Key(order.ID), cairn.Retry(cairn.RetryPolicy{Attempts: 3}))
//	cairn.Sleep(ctx, time.Hour, cairn.Key("before the reminder"))
//	Checkout.Start(ctx, eng, order, cairn.Key(order.ID))
type (
	// StepOption changes a call of [Step.Do] or [Do]: [Key], [Retry], [Timeout], [HeartbeatTimeout].
	StepOption interface{ stepOption(*engine.StepSpec) }
	// TimerOption changes a call of [Sleep], [SleepUntil], [WithTimeout] or [Cleanup]: [Key].
	TimerOption interface{ timerOption(*engine.TimerSpec) }
	// HookOption changes a call of [Hook.Open] or [RequestHook.Open]: [Key].
	HookOption interface {
		WaitOption
		hookOption(*engine.HookSpec)
	}
	// WaitOption changes a call of [Hook.Wait]: [Key], [Timeout].
	WaitOption interface{ waitOption(*hookWait) }
	// ReceiveOption changes a call of [OpenHook.Receive] or [OpenRequestHook.Receive]: [Timeout].
	ReceiveOption interface{ receiveOption(*hookWait) }
	// PollOption changes a call of [Poll.Wait]: [Key], [Retry], [Timeout].
	PollOption interface{ pollOption(*engine.PollSpec) }
	// RunOption changes a call of [Workflow.Run]: [Key], [Timeout], [Detached], [Elsewhere], [Attributes], [WithAttributes].
	RunOption interface{ runOption(*childCall) }
	// ChildOption changes a call of [Workflow.StartChild]: [Key], [Detached], [Elsewhere], [Attributes], [WithAttributes].
	ChildOption interface {
		RunOption
		childOption(*engine.ChildSpec)
	}
	// BranchOption changes a call of [Go]: [Key], [Timeout].
	BranchOption interface{ branchOption(*branchCall) }
	// MapOption changes a call of [Map]: [KeyBy], [FailFast].
	MapOption interface{ mapOption(*mapCall) }
	// IDOption changes a call of [NewID] or [Rand]: [Key].
	IDOption interface{ idOption(*string) }
	// StartOption changes a call of [Workflow.Start] or [Workflow.StartIn]: [Key], [Elsewhere], [Attributes], [WithAttributes], [Annotations],
	// [StartAt], [StartAfter].
	StartOption interface{ startOption(*engine.StartRequest) }
	// SendOption changes a call that sends to a hook: [Key].
	SendOption interface{ sendOption(*sending) }
)

// KeyOption is an option for every durable call; see [Key].
type KeyOption struct{ key string }

// Key identifies a call by a key of its own. It must be unique among the calls of one name on one branch.
//
// Inside a workflow, the record of a call is found by its key when the workflow is executed again, wherever the call
// stands then. Without a key, it is found as the n-th use of its name: if calls are inserted before it, it would get
// the record of another call. In the history, slashes in a key are written as %2F.
//
// The key of a start identifies the run: the same key with the same input gives the run that was started before;
// another input is an error. The key of a value that is sent to a hook makes sure that the value is received once,
// however often it is sent. An empty key is no key.
func Key(key string) KeyOption { return KeyOption{key} }

func (o KeyOption) stepOption(s *engine.StepSpec)      { s.Key = o.key }
func (o KeyOption) timerOption(s *engine.TimerSpec)    { s.Key = o.key }
func (o KeyOption) hookOption(s *engine.HookSpec)      { s.Key = o.key }
func (o KeyOption) waitOption(w *hookWait)             { w.key = o.key }
func (o KeyOption) pollOption(s *engine.PollSpec)      { s.Key = o.key }
func (o KeyOption) runOption(c *childCall)             { c.spec.Key = o.key }
func (o KeyOption) childOption(s *engine.ChildSpec)    { s.Key = o.key }
func (o KeyOption) branchOption(c *branchCall)         { c.spec.Key = o.key }
func (o KeyOption) idOption(key *string)               { *key = o.key }
func (o KeyOption) startOption(r *engine.StartRequest) { r.StartKey = o.key }
func (o KeyOption) sendOption(s *sending)              { s.key = o.key }

// RetryOption is an option for steps and polls; see [Retry].
type RetryOption struct{ policy RetryPolicy }

// Retry gives one call of a step or a poll a retry policy, in place of the policy of its definition. A poll counts how
// many checks in a row have failed; without a policy, the first error of a check ends it.
func Retry(p RetryPolicy) RetryOption { return RetryOption{p} }

func (o RetryOption) stepOption(s *engine.StepSpec) { s.Retry = engine.Retry(o.policy) }
func (o RetryOption) pollOption(s *engine.PollSpec) { s.Retry = engine.Retry(o.policy) }

// TimeoutOption is an option for calls that can take long; see [Timeout].
type TimeoutOption struct{ d time.Duration }

// Timeout limits one call, also across restarts. For a step it limits each attempt, for everything else the whole call.
// The wait for a hook or a poll fails with [ErrTimeout]. A child that [Workflow.Run] waits for is asked to stop, and
// waited for. The Context of a branch ends.
func Timeout(d time.Duration) TimeoutOption { return TimeoutOption{d} }

func (o TimeoutOption) stepOption(s *engine.StepSpec) { s.Timeout = o.d }
func (o TimeoutOption) waitOption(w *hookWait)        { w.limit = o.d }
func (o TimeoutOption) receiveOption(w *hookWait)     { w.limit = o.d }
func (o TimeoutOption) pollOption(s *engine.PollSpec) { s.Until = within(o.d) }
func (o TimeoutOption) runOption(c *childCall)        { c.limit = o.d }
func (o TimeoutOption) branchOption(c *branchCall)    { c.limit = o.d }

// HeartbeatOption is an option for steps; see [HeartbeatTimeout].
type HeartbeatOption struct{ d time.Duration }

// HeartbeatTimeout fails an attempt of a step that does not call [Heartbeat] or [Progress] for the duration d.
func HeartbeatTimeout(d time.Duration) HeartbeatOption { return HeartbeatOption{d} }

func (o HeartbeatOption) stepOption(s *engine.StepSpec) { s.Beat = o.d }

// KeyByOption is an option for maps; see [KeyBy].
type KeyByOption[In any] struct{ key func(In) string }

// KeyBy identifies each item of a [Map] by a key instead of its index. Results of finished items are found by that key,
// even if items are inserted, removed or reordered before the workflow is executed again.
func KeyBy[In any](key func(In) string) KeyByOption[In] { return KeyByOption[In]{key} }

func (o KeyByOption[In]) mapOption(c *mapCall) { c.key = o.key }

// FailFastOption is an option for maps; see [FailFast].
type FailFastOption struct{}

// FailFast ends a [Map] when the first item fails: the others lose, as in a [Race], and no more are begun.
func FailFast() FailFastOption { return FailFastOption{} }

func (FailFastOption) mapOption(c *mapCall) { c.failFast = true }

// startFunc is a start option that has no other use.
type startFunc func(*engine.StartRequest)

func (f startFunc) startOption(r *engine.StartRequest) { f(r) }
