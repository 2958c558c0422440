package journal

import "github.com/cairn-workflow/cairn/cairnerr"

// rule is the law for one event type in one dialect.
type rule struct {
	in    statusSet     // the states of the run in which the event is possible
	ended cairnerr.Code // the refusal if it comes when the run has ended; "": illegal_transition
	owner bool          // only the run's owner may write it
	// check decides on what the table cannot say, and may put other events before this one, or change it.
	check func(r *reduction, e *Event, o *Outcome) (verdict, error)
}

// statusSet is a set of run states.
type statusSet uint8

const (
	pending   statusSet = 1 << StatusPending
	running   statusSet = 1 << StatusRunning
	completed statusSet = 1 << StatusCompleted
	failed    statusSet = 1 << StatusFailed
	cancelled statusSet = 1 << StatusCancelled
	live                = pending | running
	always              = live | completed | failed | cancelled
	nowhere   statusSet = 0 // only as the first event of a run
)

func (s statusSet) has(status Status) bool { return s>>status&1 == 1 }

const (
	byOwner  = true
	byAnyone = false
)

// rules is all legality: one table for each dialect. What is not in it is refused as unsupported.
//
// In the engine's dialect the end of a run is final: late results are refused (the ghost guard) and only annotations
// follow. In the World's, a step may report after its run has ended, and a cancel may be repeated.
var rules = [dialects][eventTypes]*rule{
	Engine: {
		EventRunCreated:      {nowhere, cairnerr.CodeRunExists, byAnyone, (*reduction).runCreated},
		EventRunStarted:      {pending, cairnerr.CodeRunEnded, byOwner, (*reduction).runStarted},
		EventRunCompleted:    {running, cairnerr.CodeRunEnded, byOwner, accept},
		EventRunFailed:       {running, cairnerr.CodeRunEnded, byOwner, accept},
		EventRunCancelled:    {live, cairnerr.CodeRunEnded, byAnyone, (*reduction).runCancelled},
		EventStepCreated:     {running, cairnerr.CodeRunEnded, byOwner, (*reduction).stepCreated},
		EventStepStarted:     {running, cairnerr.CodeRunEnded, byOwner, (*reduction).engineStepStarted},
		EventStepRetrying:    {running, cairnerr.CodeRunEnded, byAnyone, (*reduction).engineStepOutcome},
		EventStepCompleted:   {running, cairnerr.CodeRunEnded, byAnyone, (*reduction).engineStepOutcome},
		EventStepFailed:      {running, cairnerr.CodeRunEnded, byAnyone, (*reduction).engineStepOutcome},
		EventHookCreated:     {live, cairnerr.CodeRunEnded, byAnyone, (*reduction).engineHookCreated},
		EventHookReceived:    {always, "", byAnyone, (*reduction).hookReceived},
		EventHookDisposed:    {running, cairnerr.CodeRunEnded, byOwner, (*reduction).hookDisposed},
		EventHookReplied:     {running, cairnerr.CodeRunEnded, byOwner, (*reduction).hookReplied},
		EventWaitCreated:     {running, cairnerr.CodeRunEnded, byOwner, (*reduction).waitCreated},
		EventWaitCompleted:   {running, cairnerr.CodeRunEnded, byOwner, (*reduction).waitCompleted},
		EventAttrSet:         {live, cairnerr.CodeRunEnded, byAnyone, (*reduction).attrSet},
		EventCancelRequested: {live, cairnerr.CodeRunEnded, byAnyone, (*reduction).cancelRequested},
		EventRunParked:       {live, cairnerr.CodeRunEnded, byAnyone, (*reduction).runParked},
		EventRunResumed:      {live, cairnerr.CodeRunEnded, byAnyone, (*reduction).runResumed},
		EventAnnotated:       {always, "", byAnyone, (*reduction).annotated},
	},
	World3: {
		EventRunCreated:    {nowhere, cairnerr.CodeRunExists, byAnyone, (*reduction).runCreated},
		EventRunStarted:    {live, cairnerr.CodeRunGone, byAnyone, (*reduction).runStarted},
		EventRunCompleted:  {live, cairnerr.CodeRunEnded, byAnyone, accept},
		EventRunFailed:     {live, cairnerr.CodeRunEnded, byAnyone, accept},
		EventRunCancelled:  {live | cancelled, cairnerr.CodeRunEnded, byAnyone, (*reduction).runCancelled},
		EventStepCreated:   {live, cairnerr.CodeRunEnded, byAnyone, (*reduction).stepCreated},
		EventStepStarted:   {always, "", byAnyone, (*reduction).worldStepStarted},
		EventStepRetrying:  {always, "", byAnyone, (*reduction).worldStepOutcome},
		EventStepCompleted: {always, "", byAnyone, (*reduction).worldStepOutcome},
		EventStepFailed:    {always, "", byAnyone, (*reduction).worldStepOutcome},
		EventHookCreated:   {live, cairnerr.CodeRunEnded, byAnyone, (*reduction).hookCreated},
		EventHookReceived:  {always, "", byAnyone, (*reduction).hookReceived},
		EventHookDisposed:  {always, "", byAnyone, (*reduction).hookDisposed},
		EventWaitCreated:   {live, cairnerr.CodeRunEnded, byAnyone, (*reduction).waitCreated},
		EventWaitCompleted: {always, "", byAnyone, (*reduction).waitCompleted},
		EventAttrSet:       {live, cairnerr.CodeRunEnded, byAnyone, (*reduction).attrSet},
		EventAnnotated:     {always, "", byAnyone, (*reduction).annotated},
	},
	World6: {
		EventRunCreated:    {nowhere, cairnerr.CodeRunExists, byAnyone, (*reduction).runCreated},
		EventRunStarted:    {live, cairnerr.CodeRunGone, byAnyone, (*reduction).runStarted},
		EventRunCompleted:  {live, cairnerr.CodeRunEnded, byAnyone, accept},
		EventRunFailed:     {live, cairnerr.CodeRunEnded, byAnyone, accept},
		EventRunCancelled:  {live | cancelled, cairnerr.CodeRunEnded, byAnyone, (*reduction).runCancelled},
		EventStepCreated:   {live, cairnerr.CodeRunEnded, byAnyone, (*reduction).stepCreated},
		EventStepStarted:   {always, "", byAnyone, (*reduction).worldStepStarted},
		EventStepRetrying:  {always, "", byAnyone, (*reduction).worldStepOutcome},
		EventStepCompleted: {always, "", byAnyone, (*reduction).worldStepOutcome},
		EventStepFailed:    {always, "", byAnyone, (*reduction).worldStepOutcome},
		EventHookCreated:   {live, cairnerr.CodeRunEnded, byAnyone, (*reduction).hookCreated},
		EventHookReceived:  {always, "", byAnyone, (*reduction).hookReceived},
		EventHookDisposed:  {always, "", byAnyone, (*reduction).hookDisposed},
		EventWaitCreated:   {live, cairnerr.CodeRunEnded, byAnyone, (*reduction).waitCreated},
		EventWaitCompleted: {always, "", byAnyone, (*reduction).waitCompleted},
		EventAttrSet:       {live, cairnerr.CodeRunEnded, byAnyone, (*reduction).attrSet},
		EventAnnotated:     {always, "", byAnyone, (*reduction).annotated},
	},
}

// accept is the check of events about which the table says all.
func accept(*reduction, *Event, *Outcome) (verdict, error) { return appends, nil }
