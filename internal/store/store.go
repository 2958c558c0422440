// Package store is the seam between Cairn and its databases.
//
// A [Store] keeps journals and their views. It decides nothing: legality lives in package journal, batching in
// internal/commit. What a database must bring is small: read by key and by cursor, and apply one batch of
// rows in one transaction with unique keys that hold. Implementations live in its folders sqlite and postgres; each must
// pass the suite in storetest. Users hold a [Handle].
package store

import (
	"context"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// Store is a database that holds journals. All methods are safe for use by several goroutines.
type Store interface {
	Reader
	Logs
	Joiner

	// OpenWriter registers a writer for an incarnation of a process. The number tells several writers of
	// one incarnation apart. Opening the same one again continues its batch numbers.
	OpenWriter(ctx context.Context, incarnation journal.ID, number int) (Writer, error)
	// Fence declares an incarnation dead. It waits for a batch of it that is being committed; when Fence has returned, no
	// batch of the incarnation is ever applied again, and the runs that it owned are due and free to be claimed.
	Fence(ctx context.Context, incarnation journal.ID) error
	// Beat moves the heart of an incarnation that owns runs: peers that see it stand still declare it dead. [ErrBusy]: ctx has ended
	// while somebody kept all others from writing, also those who would declare anybody dead.
	Beat(ctx context.Context, incarnation journal.ID) error
	// Delete removes a run that has ended, with all that belongs to it. Children and forks are runs of their own.
	Delete(ctx context.Context, namespace string, run journal.ID) error
	// Notifier tells processes of each other's commits, as a hint.
	Notifier() Notifier
	// Info describes the database.
	Info(ctx context.Context) (Info, error)
	// Close ends all use of the database.
	Close() error
}

// Writer applies batches, one after the other. It is not safe for use by several goroutines.
type Writer interface {
	// Begin starts the next batch. now is the committer's clock.
	Begin(ctx context.Context, now journal.Time) (Tx, error)
	// Settle finds out whether the last batch, whose commit returned [ErrUnknownOutcome], was applied. It waits for the
	// old transaction where that still runs. When it answers no, the batch never will be applied.
	Settle(ctx context.Context) (applied bool, err error)
	// Close gives the connection back. Batches that were committed stay.
	Close() error
}

// Tx is one batch being put together. It ends with Commit or Rollback.
type Tx interface {
	// Load reads, and locks until the end of the batch, what commands touch. It may be called more than once. A batch that is
	// committed without Load is optimistic: its rows carry the states they were computed from, and the unique
	// keys refuse them if somebody else was faster.
	Load(ctx context.Context, want *LoadSet) (*Loaded, error)
	// Commit writes the rows of the batch and makes them durable. [ErrConflict]: nothing was written because
	// somebody else was faster. [ErrUnknownOutcome]: see [Writer.Settle]. An error with [cairnerr.CodeFenced]: this
	// incarnation was declared dead. After any other error nothing was written.
	Commit(ctx context.Context, changes *Changes) error
	// Rollback gives the batch up. It does nothing after Commit.
	Rollback()
}

// LoadSet is what a batch needs to know before it can be reduced.
type LoadSet struct {
	// Runs to read and lock, in the order of (namespace, id), none twice.
	Runs      []LoadRun
	Tokens    []Token
	StartKeys []journal.StartKey
	Messages  []journal.ID // whose newest delivery is asked for
	Owners    []journal.ID // incarnations of which it is asked whether they are fenced
	Streams   []LoadStream
}

// LoadRun is one run to be read.
type LoadRun struct {
	Namespace string
	Run       journal.ID
	// EventsAfter asks for the events after this position; a negative one asks for none.
	EventsAfter int64
	// Touch names the entities to read. It is not needed when all events are read.
	Touch journal.Touch
}

// Token is a hook token in its namespace.
type Token struct {
	Namespace, Token string
}

// Loaded is the answer to a LoadSet.
type Loaded struct {
	// Runs has an entry for each run that was asked for, in the same order.
	Runs []LoadedRun
	// Outside has what was found of tokens, start keys, messages and owners.
	Outside *journal.Outside
	// Streams has an entry for each stream that was asked for, in the same order.
	Streams []LoadedStream
}

// LoadedRun is what was found of one run.
type LoadedRun struct {
	// Busy says that another transaction holds the run: it is left for a later batch.
	Busy bool
	// State is the run with the entities that were asked for; State.Run is nil if there is no such run.
	State *journal.State
	// Events are those after LoadRun.EventsAfter.
	Events []journal.Event
}

// Changes are the rows of one batch.
type Changes struct {
	// Runs in the order of (namespace, id), none twice. Each is written completely or, with an error, not at all.
	Runs []RunChange
	// Messages to add. One whose id, or whose queue and key, are those of a message that is not done is left out.
	Messages []journal.Message
	// Done are messages to remove.
	Done []journal.ID
	// Wake marks other runs as due, where they exist and go on.
	Wake []RunKey
	// Notify asks for a hint to the listeners of these namespaces after the commit.
	Notify []string
	// Streams in the order of (namespace, run, name), none twice. They are written before the runs: the owner that a stream asks for is the one
	// before the batch.
	Streams []StreamChange
	// StreamHints asks for a hint to those who listen for streams of these runs, besides those of Streams.
	StreamHints []journal.ID
	// RunHints asks for a hint to those who listen for news of these runs.
	RunHints []journal.ID
}

// RunKey names a run.
type RunKey struct {
	Namespace string
	Run       journal.ID
}

// RunChange is what a batch writes of one run. The store sets State.Ref once a new run is stored.
type RunChange struct {
	State  *journal.State
	New    bool // the run does not exist yet
	Events []journal.Event
	// Kept are events of another run that are copied; [ErrSourceGone] if they are not there.
	Kept []journal.Kept
	Rows journal.Changed
	// Was is what the run's row was computed from; the row is only changed if its owner and epoch are still these.
	Was *journal.Run
}

// Info describes a database.
type Info struct {
	Kind          string // "sqlite" or "postgres"
	Version       string // of the database software
	Location      string // without credentials
	SchemaVersion int
	SizeBytes     int64
	// Durability has the settings that decide what a power cut may take, for people to read.
	Durability string
	// Durable says that with these settings it takes nothing that was acknowledged.
	Durable bool
}

// Notifier carries hints between processes: "something was committed". A hint may be lost or come for nothing; whoever
// depends on it also looks from time to time.
type Notifier interface {
	// Listen returns a channel that receives the namespaces in which something was committed by any process, until ctx
	// ends, and "" where the namespace is not known. It never blocks the sender: hints are merged while nobody reads.
	Listen(ctx context.Context) (<-chan string, error)
	// ListenStreams does the same for streams: the channel receives the runs to whose streams something was written, and the zero id where that
	// is not known. It costs something while it lasts, also if nothing happens. Of what own says is the listener's own writer it is not told, as far as
	// that is known; nil: of nobody's.
	ListenStreams(ctx context.Context, own func(writer journal.ID) bool) (<-chan journal.ID, error)
	// ListenRuns does the same for news of runs that callers wait for: that they have ended, were parked, or have
	// answered a request.
	ListenRuns(ctx context.Context, own func(writer journal.ID) bool) (<-chan journal.ID, error)
}
