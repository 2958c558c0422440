package store

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// Reader answers questions. What it returns is the caller's own: nothing is shared with what is stored.
//
// Every question names its namespace; what belongs to another one does not exist. A missing thing gives an error with the
// code that fits (run_not_found, step_not_found, …); a list of a run that does not exist is empty.
type Reader interface {
	// Namespaces lists, in the order of their bytes, the namespaces that have ever had a run.
	Namespaces(ctx context.Context) ([]string, error)

	// Run returns a run.
	Run(ctx context.Context, namespace string, id journal.ID, r Resolve) (*journal.Run, error)
	// Heads returns how far runs have come, in any order, with one statement for all. A missing run is left out.
	Heads(ctx context.Context, namespace string, ids []journal.ID) ([]RunHead, error)
	// Runs lists runs by id, which is by time of creation.
	Runs(ctx context.Context, namespace string, f RunFilter, p Page) (List[*journal.Run], error)
	// Journal returns the run and all events after a position, unpaged, from one moment: what replay needs.
	Journal(ctx context.Context, namespace string, id journal.ID, after int64) (*Journal, error)

	// Outline is Journal without the data of outcomes that say nothing about anything but their step, see [journal.Event.IsOutline]: what a
	// fork needs.
	Outline(ctx context.Context, namespace string, id journal.ID) (*Journal, error)

	// Due lists runs that somebody should look at, those that wait longest first: nobody owns them and their time has come, or
	// something came from outside to a run of the given owner.
	Due(ctx context.Context, f DueFilter) ([]DueRun, error)
	// Parked lists runs that go on only when somebody resumes them, one namespace after the other and by id, after the run of the last page.
	Parked(ctx context.Context, s Scope, after RunKey, limit int) ([]ParkedRun, error)
	// NextDue returns the first time after the given one at which a run of any namespace is due, 0 if there is none.
	NextDue(ctx context.Context, after journal.Time) (journal.Time, error)
	// Peers returns the incarnations that have opened a writer and were not declared dead.
	Peers(ctx context.Context) ([]Peer, error)
	// Owns reports whether an incarnation owns a run that has not ended. It looks through all of those.
	Owns(ctx context.Context, incarnation journal.ID) (bool, error)

	// Event returns one event by its position.
	Event(ctx context.Context, namespace string, run journal.ID, seq int64, r Resolve) (*journal.Event, error)
	// Events lists events in the order of the journal; those of an entity in several runs come run by run.
	Events(ctx context.Context, namespace string, f EventFilter, p Page) (List[RunEvent], error)

	// Step returns a step.
	Step(ctx context.Context, namespace string, run, id journal.ID, r Resolve) (*journal.Step, error)
	// Steps lists the steps of a run in the order of their first events.
	Steps(ctx context.Context, namespace string, run journal.ID, r Resolve, p Page) (List[*journal.Step], error)

	// Hook returns a hook of a run.
	Hook(ctx context.Context, namespace string, run, id journal.ID, r Resolve) (*RunHook, error)
	// HookByToken returns the hook that holds a token.
	HookByToken(ctx context.Context, namespace, token string, r Resolve) (*RunHook, error)
	// Hooks lists the hooks of a run in the order of their creation, or those of the whole namespace if run is zero: run by run.
	Hooks(ctx context.Context, namespace string, run journal.ID, r Resolve, p Page) (List[*RunHook], error)

	// Receipts returns what was sent with a sender's key, the oldest run first: at most [ReceiptLimit].
	Receipts(ctx context.Context, namespace, sender string) ([]RunReceipt, error)

	// Wait returns a wait of a run.
	Wait(ctx context.Context, namespace string, run, id journal.ID) (*journal.Wait, error)
	// Waits lists the waits of a run in the order of their first events.
	Waits(ctx context.Context, namespace string, run journal.ID, p Page) (List[*journal.Wait], error)

	// Message returns a message that is not done.
	Message(ctx context.Context, namespace string, id journal.ID) (*QueuedMessage, error)
	// Messages lists the messages of a queue that are not done, by id.
	Messages(ctx context.Context, namespace, queue string, r Resolve, p Page) (List[*QueuedMessage], error)

	// Stream returns a part of a stream. Neither the stream nor its run need exist: the answer says so.
	Stream(ctx context.Context, key StreamKey, q StreamQuery) (*StreamPage, error)
	// Streams lists the streams of a run by name.
	Streams(ctx context.Context, namespace string, run journal.ID) ([]StreamInfo, error)
}

// Resolve says whether a reader fetches the user's payloads.
type Resolve bool

// The two ways to read.
const (
	ResolveAll  Resolve = true
	ResolveNone Resolve = false // payloads stay in the database, errors come along
)

// RunFilter chooses runs. Fields that are not set do not restrict.
type RunFilter struct {
	Workflow string
	Statuses []journal.Status
	Parent   journal.ID
	// StartKey is the key that the run was started with. Start keys belong to workflows: Workflow must be set, too.
	StartKey string
	// Phase is what a run that has not ended is doing.
	Phase RunPhase
	// Attributes that the run must have, with these values.
	Attributes map[string]string
	// Ranges of values that attributes of the run must lie in. Without Attributes, the runs come in the order of the first one's values.
	Ranges []AttributeRange
	// CreatedFrom and CreatedBefore restrict the time of creation to [from, before).
	CreatedFrom, CreatedBefore journal.Time
}

// RunPhase is what a run that has not ended is doing, as a filter.
type RunPhase uint8

// The phases that runs are searched by.
const (
	AnyPhase     RunPhase = iota
	PhaseParked           // somebody has to look at it, or has paused it
	PhaseWaiting          // nobody executes it: it waits for time, or for something from outside
)

// AttributeRange is a part of the values that an attribute can have, in the order of their bytes.
type AttributeRange struct {
	Key         string
	From, Below string // [From, Below); "" does not restrict
}

// ByValue returns the attribute by whose values the runs of a filter are sorted, "" if they come in the order of their ids.
func (f *RunFilter) ByValue() string {
	if len(f.Attributes) > 0 || len(f.Ranges) == 0 {
		return ""
	}
	return f.Ranges[0].Key
}

// RunCursor returns the cursor behind a run in a list with this filter.
func (f *RunFilter) RunCursor(r *journal.Run) string {
	if key := f.ByValue(); key != "" {
		return textCursor(CursorValues, r.Attributes[key], r.ID)
	}
	return IDCursor(CursorRuns, r.ID)
}

// ParseRunCursor reads a cursor of a list with this filter: the run, and its value if the list is sorted by one.
func (f *RunFilter) ParseRunCursor(cursor string) (value string, id journal.ID, err error) {
	if f.ByValue() != "" {
		return parseTextCursor(CursorValues, cursor)
	}
	id, err = ParseIDCursor(CursorRuns, cursor)
	return "", id, err
}

// SortRuns puts runs that are sorted by their ids into the order of the filter.
func (f *RunFilter) SortRuns(runs []*journal.Run, desc bool) {
	key := f.ByValue()
	if key == "" {
		return
	}
	slices.SortFunc(runs, func(x, y *journal.Run) int {
		c := cmp.Or(strings.Compare(x.Attributes[key], y.Attributes[key]), x.ID.Compare(y.ID))
		if desc {
			return -c
		}
		return c
	})
}

// RunHead is how far a run has come: what somebody who waits for it has to know.
type RunHead struct {
	Run      journal.ID
	Status   journal.Status
	ParkedAt journal.Time
	Seq      int64 // the last event
}

// DueFilter chooses runs that are due.
type DueFilter struct {
	Scope

	Owner     journal.ID
	From, Now journal.Time // the time to wake is between the two
	Limit     int
}

// Scope is what a process executes: the runs of some workflows in some namespaces.
type Scope struct {
	Namespaces []string
	All        bool // in all namespaces
	Workflows  []string
}

// IsEmpty reports whether there is nothing in the scope.
func (s Scope) IsEmpty() bool { return len(s.Workflows) == 0 || len(s.Namespaces) == 0 && !s.All }

// ParkedRun is a run that goes on only when somebody resumes it.
type ParkedRun struct {
	RunKey

	ParkedAt journal.Time
}

// DueRun is a run that somebody should look at.
type DueRun struct {
	Namespace string
	Run       journal.ID
	Owner     journal.ID
	WakeAt    journal.Time
}

// Peer is a process as the others see it. One that does something moves one of its numbers.
type Peer struct {
	Incarnation journal.ID
	Beat        int64 // of its heart, while it owns runs
	Batch       int64 // that it wrote last
}

// EventFilter chooses events: of a run, of one entity (correlation id), or both. One of the two must be set.
type EventFilter struct {
	Run     journal.ID
	Entity  journal.ID
	Resolve Resolve
	// Annotations restricts the events of a run to those.
	Annotations bool
}

// RunEvent is an event with the run that it happened to.
type RunEvent struct {
	Run     journal.ID
	Dialect journal.Dialect
	journal.Event
}

// RunHook is a hook with the run that it belongs to.
type RunHook struct {
	Run journal.ID
	journal.Hook
}

// ReceiptLimit is how many receipts of one sender's key are read.
const ReceiptLimit = 100

// RunReceipt is a receipt with the run that it belongs to.
type RunReceipt struct {
	Run journal.ID
	journal.Receipt
}

// QueuedMessage is a message with what the queue knows about it.
type QueuedMessage struct {
	journal.Message
	CreatedAt  journal.Time
	Deliveries int
}

// Journal is a run with its events.
type Journal struct {
	Run    *journal.Run // without payloads: those are in the events
	Ref    int64
	Seq    int64 // the last event, also if it is not after the position that was asked for
	Events []journal.Event
}

// State folds a journal that was read from its beginning.
func (j *Journal) State(namespace string) (*journal.State, error) {
	s, err := journal.Fold(namespace, j.Run.ID, j.Events)
	if err != nil {
		return nil, err
	}
	s.Adopt(j.Run)
	s.Ref = j.Ref
	return s, nil
}
