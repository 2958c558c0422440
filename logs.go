package cairn

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Logger returns a logger whose lines carry the run and the workflow, the step with its attempt or the branch, and the
// epoch: how often a process has claimed the run. It takes the Context of a workflow or the context of a step; with any
// other it returns [slog.Default].
//
// Lines go to the handler of [Config.Logger] and, with [Config.KeepLogs], are kept with the run.
//
// A workflow function is executed again after a crash, and after a wait if it was dropped from memory meanwhile. Its
// lines are not repeated: while the function, or a branch of it, repeats what is recorded, its logger drops them. The
// logger writes again from the first call of the branch whose outcome was not in the journal when this process claimed
// the run: a step that has not ended, a wait that is not over, a new value from a hook, a cancel. Lines are not durable
// like steps. If a process dies, its last lines can be lost. Work that it had not recorded is done again and logged
// again, with another epoch.
//
// Call Logger again after a wait: a logger keeps the epoch in which it was made.
func Logger(ctx context.Context) *slog.Logger {
	if l := engine.InfoOf(ctx).Logger(); l != nil {
		return l
	}
	if b, ok := ctx.Value(branchKey{}).(*engine.Branch); ok {
		return b.Logger()
	}
	return slog.Default()
}

type branchKey struct{}

// KeepLogs says which lines that runs write with [Logger] are kept. Lines are stored in batches, beside the journal; no
// step waits for them. If the database is slow, lines are dropped: a warning says so, and [Engine.Stats] counts them.
type KeepLogs struct {
	// Level is the least important level that is kept. Defaults to [slog.LevelInfo].
	Level slog.Leveler
	// MaxLines is how many lines of a run are kept: the newest. Defaults to 1,000.
	MaxLines int
	// MaxBytes is how many bytes of messages and attributes of a run are kept: of the newest lines. Defaults to 256 KiB.
	MaxBytes int
}

// LogLine is one log line of a run.
type LogLine struct {
	At      time.Time
	Level   slog.Level
	Message string
	// Step is the key of the step that wrote the line, or the branch of the workflow if Attempt is 0; "" is the
	// workflow function itself.
	Step    string
	Attempt int
	// Epoch is how often a process had claimed the run: it grows when the run is resumed, or taken over.
	Epoch int64
	// Attrs are the attributes, as a JSON object; nil if there are none.
	Attrs json.RawMessage
}

// LogFilter selects log lines. Its zero value is the first page of all lines.
type LogFilter struct {
	Level       slog.Leveler // the least important level; nil: all
	Limit       int          // of one page; 0: 100, at most 1000
	Cursor      string       // of the page before
	NewestFirst bool
}

// LogPage is a page of the log lines of a run.
type LogPage struct {
	Lines  []LogLine
	Cursor string // continues after the last line, also with lines that are written later
	More   bool
}

func (e *Engine) logs(ctx context.Context, id journal.ID, f LogFilter) (*LogPage, error) {
	filter := store.LogFilter{MinLevel: store.AllLevels}
	if f.Level != nil {
		filter.MinLevel = int(f.Level.Level())
	}
	list, err := e.inner.Logs(ctx, id, filter, store.Page{Limit: f.Limit, Cursor: f.Cursor, Desc: f.NewestFirst})
	if err != nil {
		return nil, err
	}
	page := &LogPage{Cursor: list.Cursor, More: list.HasMore}
	if page.Cursor == "" {
		page.Cursor = f.Cursor // nothing new: go on from the same place
	}
	for i := range list.Data {
		l := &list.Data[i]
		line := LogLine{At: l.At.Std(), Level: slog.Level(l.Level), Message: l.Message, Step: l.Step, Attempt: l.Attempt, Epoch: l.Epoch}
		if l.Attrs != "" {
			line.Attrs = json.RawMessage(l.Attrs)
		}
		page.Lines = append(page.Lines, line)
	}
	return page, nil
}
