package store

import (
	"context"
	"strings"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// MaxLogLine is how many bytes of a line are kept, its message and its attributes each.
const MaxLogLine = 16 << 10

// Logs keeps lines that the code of runs has said, beside the journal: nothing depends on them, they are not as durable as that (a power cut may
// take the last ones), and writing them does not hold up the writers of the journal longer than a small transaction takes. The lines of a run are in a
// table by its number, like its views, and go with it.
type Logs interface {
	// AppendLogs adds lines behind those that are there, and takes away the oldest of runs that have more than the limit: the newest line stays in
	// any case. Lines of runs that do not exist are left out. Text that the database cannot hold is changed, not refused.
	AppendLogs(ctx context.Context, lines []LogLine, limit LogLimit) error
	// Logs lists the lines of a run in the order in which they were added.
	Logs(ctx context.Context, namespace string, run journal.ID, f LogFilter, p Page) (List[LogLine], error)
}

// LogLine is a line that the code of a run has said.
type LogLine struct {
	Namespace string
	Run       journal.ID
	N         int64 // its place among the lines of all runs; the store gives it
	At        journal.Time
	Level     int   // as in log/slog
	Epoch     int64 // how often the run had been taken when the line was said
	Attempt   int   // of the step; 0: the workflow has said it
	Step      string
	Message   string
	Attrs     string // a JSON object; "": none
}

// LogLimit is the most that is kept of a run.
type LogLimit struct {
	Lines int
	Bytes int // of messages and attributes
}

// LogFilter chooses lines.
type LogFilter struct {
	// MinLevel leaves out what is less important.
	MinLevel int
}

// AllLevels is below the level of every line.
const AllLevels = -1 << 31

// Size is what counts towards [LogLimit.Bytes].
func (l *LogLine) Size() int { return len(l.Message) + len(l.Attrs) }

// LogText returns a text as every database can hold it.
func LogText(s string) string {
	s = strings.ToValidUTF8(s, "�")
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "�")
	}
	return s
}

// LogCursor makes a cursor out of a line's place.
func LogCursor(l LogLine) string { return NumberCursor(CursorLogs, 0, l.N) }
