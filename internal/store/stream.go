package store

import (
	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// MaxChunk is the most bytes that one chunk of a stream has as it is stored.
const MaxChunk = 1 << 20

// StreamKey names a stream of a run.
type StreamKey struct {
	Namespace string
	Run       journal.ID
	Name      string
}

// RunKey returns the run that the stream belongs to.
func (k StreamKey) RunKey() RunKey { return RunKey{Namespace: k.Namespace, Run: k.Run} }

// SourceState is what became of those who write to a stream.
type SourceState uint8

// The states of a source. A branch of a workflow stays open: what it writes holds.
const (
	SourceOpen    SourceState = 0
	SourceClosing SourceState = 1 // open; the stream closes when its attempt ends well
	SourceSettled SourceState = 2 // its attempt ended well
	SourceVoid    SourceState = 3 // its attempt failed
)

// Source is who writes to a stream: one attempt of a step, or a branch of the workflow. An attempt belongs to the epoch in which it
// began: nobody goes on with it in another one.
type Source struct {
	No      int64  // within its stream, from 0
	Key     string // of the step, or the path of the branch
	Epoch   int64
	Attempt int // 0: a branch
	// N counts what a branch has written, so that what it writes when it is executed again is known.
	N     int64
	State SourceState
	First int64 // the index of its first chunk
}

// IsBranch reports whether the source is a branch of the workflow, and not an attempt of a step.
func (s *Source) IsBranch() bool { return s.Attempt == 0 }

// StreamHead is how far a stream has come.
type StreamHead struct {
	No      int64 // of the stream in the store, 0: it does not exist yet
	Next    int64 // index of the next chunk
	Sources int64 // number of sources so far
	Closed  bool  // there will be no more chunks
}

// StreamRun is what the streams of a run depend on.
type StreamRun struct {
	Exists bool
	Status journal.Status
	Owner  journal.ID
	Epoch  int64
}

// Void reports whether an attempt of this epoch, if it has not ended yet, never will: nobody executes it any more.
func (r *StreamRun) Void(epoch int64) bool {
	return r.Status.Terminal() || epoch < r.Epoch || (epoch == r.Epoch && r.Owner.IsZero())
}

// LoadStream asks for a stream in a batch, and locks its run against changes of others.
type LoadStream struct {
	StreamKey
	Keys []string // of the sources whose newest is asked for
}

// LoadedStream is the answer to a LoadStream.
type LoadedStream struct {
	// Busy says that another transaction holds the run: the stream is left for a later batch.
	Busy    bool
	Run     StreamRun
	Head    StreamHead
	Sources []Source // the newest of each key that was asked for and found
}

// StreamChange is what a batch writes to one stream. It is written completely or, with an error, not at all: the batch is refused with
// [ErrConflict] if the chunks do not continue the stream, if its row is not as in Was and must change, or if the run is not owned as in Owner and running.
type StreamChange struct {
	StreamKey
	Owner journal.Ownership // who must own the run; zero: that does not matter
	Was   StreamHead        // Was.No is 0 for a new stream
	Head  StreamHead        // the store sets Head.No of a new stream
	// Begun are new sources, Changed those whose N or State is another.
	Begun, Changed []Source
	// Chunks to append, with indices from Was.Next.
	Chunks []NewChunk
}

// NewChunk is a chunk to append.
type NewChunk struct {
	Source int64 // its number
	At     journal.Time
	Data   journal.Payload
}

// StreamQuery asks for a page of a stream.
type StreamQuery struct {
	// From is the first index. With FromEnd it counts back from the end: 0 is what comes next.
	From    int64
	FromEnd bool
	// Limit is the most chunks to return: 0 is [DefaultLimit], more than [MaxLimit] is MaxLimit.
	Limit int
	// Bytes ends the page after the chunk with which it has so many; 0: no limit.
	Bytes int
}

// StreamPage is a part of a stream. Run and Head were read before the chunks, or together with them: where they say that nothing more
// can come, the chunks are complete.
type StreamPage struct {
	Run    StreamRun
	Head   StreamHead
	From   int64 // the first index that was looked for
	Chunks []Chunk
	More   bool // there are more chunks than the page may have
}

// Chunk is one value in a stream.
type Chunk struct {
	Index    int64
	At       journal.Time
	Key      string // of the step that wrote it, or the path of the branch
	Attempt  int    // of the step; 0: a branch
	Epoch    int64
	State    SourceState
	Boundary bool // the first of an attempt whose step has written to the stream in another attempt before
	Data     journal.Payload
}

// StreamInfo is a stream in a list.
type StreamInfo struct {
	Name string
	Head StreamHead
	// Branches has what each branch of the workflow has written, by path.
	Branches map[string]int64
}

// Size returns the number of chunks that the page may have.
func (q StreamQuery) Size() (int, error) {
	if q.From < 0 {
		return 0, cairnerr.Errorf(cairnerr.CodeMalformed, "bad index %d of a chunk: the first one is 0", q.From)
	}
	return Page{Limit: q.Limit}.Size()
}

// Start returns the index at which the page begins in a stream whose next chunk has the given one.
func (q StreamQuery) Start(next int64) int64 {
	if q.FromEnd {
		return max(next-q.From, 0)
	}
	return q.From
}

// AddStreamInfo adds a row to a list that is sorted by name: a stream with one of its branches, if it has any.
func AddStreamInfo(list []StreamInfo, name string, head StreamHead, branch bool, path string, n int64) []StreamInfo {
	if i := len(list) - 1; i < 0 || list[i].Name != name {
		list = append(list, StreamInfo{Name: name, Head: head})
	}
	last := &list[len(list)-1]
	if branch {
		if last.Branches == nil {
			last.Branches = map[string]int64{}
		}
		last.Branches[path] = n
	}
	return list
}

// AddChangedRuns adds the runs whose row a batch changes.
func AddChangedRuns(runs []journal.ID, changes *Changes) []journal.ID {
	for i := range changes.Runs {
		if c := &changes.Runs[i]; c.Rows.Run {
			runs = append(runs, c.State.Run.ID)
		}
	}
	return runs
}
