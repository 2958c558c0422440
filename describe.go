package cairn

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Status is the state of a run: pending, running, completed, failed or cancelled.
type Status string

// The states of a run. The last three are final.
const (
	StatusPending   Status = "pending"
	StatusRunning   Status = "running"
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
	StatusCancelled Status = "cancelled"
)

// RunInfo is what is known about a run.
type RunInfo struct {
	ID       string
	Workflow string
	Status   Status
	// Phase says more about a run that is running: "cancelling", "parked" (also by [Engine.Pause]: then the code of Error is "paused"), or "".
	Phase      string
	CreatedAt  time.Time
	StartedAt  time.Time // zero: it has not begun
	EndedAt    time.Time // zero: it has not ended
	ParentID   string
	RootID     string
	ForkOfID   string // the run whose results it kept, "": it is no fork
	StartKey   string
	Attributes map[string]string
	Error      *Error // why it failed, or is parked
	// Waits are the things that the run waits for, and the long steps that are under way. [Engine.Describe] fills them.
	Waits []Wait

	id journal.ID
}

// Wait is one thing that a run waits for, or a long step that is under way.
type Wait struct {
	Kind     string    // "sleep", "timeout", "deadline", "poll", "hook", "child", "retry", "step", or "start" for a run that begins later
	Key      string    // which one: the branch, the name, and the how-manieth
	Until    time.Time // zero: not by time
	Token    string    // of a hook
	ChildID  string
	Error    *Error  // of the attempt before a retry
	Progress float64 // of a step that is under way in this process
	Note     string
}

func parseRun(id string) (journal.ID, error) { return journal.PrefixRun.Parse(id) }

// Describe returns what is known about a run, and what it waits for.
func (e *Engine) Describe(ctx context.Context, runID string) (*RunInfo, error) {
	id, err := parseRun(runID)
	if err != nil {
		return nil, err
	}
	return e.describe(ctx, id)
}

func (e *Engine) describe(ctx context.Context, id journal.ID) (*RunInfo, error) {
	run, err := e.inner.Store().Run(ctx, e.inner.Namespace(), id, store.ResolveNone)
	if err != nil {
		return nil, err
	}
	info := newRunInfo(run)
	waits, parked, err := e.inner.Waits(ctx, id)
	if err != nil {
		return nil, err
	}
	if parked != nil {
		info.Error = parked
	}
	for i := range waits {
		info.Waits = append(info.Waits, newWait(&waits[i]))
	}
	return info, nil
}

func newRunInfo(run *journal.Run) *RunInfo {
	return &RunInfo{
		ID: formatRun(run.ID), Workflow: run.Workflow, Status: Status(run.Status.String()), Phase: run.Phase(), CreatedAt: run.CreatedAt.Std(),
		StartedAt: timeOrZero(run.StartedAt), EndedAt: timeOrZero(run.CompletedAt), ParentID: formatRun(run.Parent), RootID: formatRun(run.Root),
		ForkOfID: formatRun(run.ForkedFrom), StartKey: run.StartKey, Attributes: engine.UserAttributes(run.Attributes), Error: engine.FailureOf(run), id: run.ID,
	}
}

func newWait(w *engine.WaitingFor) Wait {
	out := Wait{Kind: w.Kind, Key: w.Key, Until: timeOrZero(w.Until), Token: w.Token, ChildID: formatRun(w.Child), Error: w.Error}
	if w.Progress != nil {
		out.Progress, out.Note = w.Progress.Fraction, w.Progress.Note
	}
	return out
}

func timeOrZero(t journal.Time) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return t.Std()
}

// HistoryEvent is one thing that happened to a run.
type HistoryEvent struct {
	Seq  int64 // from 1, without gaps
	ID   string
	Type string // "run_created", "step_completed", …
	At   time.Time
	Key  string // of the step, wait or hook that it is about: its branch, name and number
	// Detail is what the event says, as JSON, without the values of the program.
	Detail json.RawMessage

	data journal.Data
}

// Result decodes the result of a step, or the output of the run.
func (h *HistoryEvent) Result(into any) error {
	var p journal.Payload
	switch d := h.data.(type) {
	case *journal.StepCompleted:
		p = d.Result
	case *journal.RunCompleted:
		p = d.Output
	default:
		return cairnerr.Errorf(cairnerr.CodeUnsupported, "%s has no result", h.Type)
	}
	return payload.Decode(p, into)
}

// History iterates over what happened to a run, from the beginning.
func (e *Engine) History(ctx context.Context, runID string) iter.Seq2[*HistoryEvent, error] {
	return func(yield func(*HistoryEvent, error) bool) {
		id, err := parseRun(runID)
		if err != nil {
			yield(nil, err)
			return
		}
		if _, err := e.inner.Store().Run(ctx, e.inner.Namespace(), id, store.ResolveNone); err != nil {
			yield(nil, err)
			return
		}
		page, hooks := store.Page{Limit: store.MaxLimit}, map[journal.ID]string{}
		for {
			list, err := e.inner.Store().Events(ctx, e.inner.Namespace(), store.EventFilter{Run: id, Resolve: store.ResolveAll}, page)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range list.Data {
				e := &list.Data[i]
				if e.Key != "" && e.Type == journal.EventHookCreated {
					hooks[e.Entity] = e.Key
				} else if e.Key == "" {
					e.Key = hooks[e.Entity] // who sends to a hook knows its token, not its key
				}
				if !yield(newHistoryEvent(e), nil) {
					return
				}
			}
			if !list.HasMore {
				return
			}
			page.Cursor = list.Cursor
		}
	}
}

func newHistoryEvent(e *store.RunEvent) *HistoryEvent {
	h := &HistoryEvent{Seq: e.Seq, ID: e.IDText(e.Run, e.Dialect), Type: e.Type.String(), At: e.At.Std(), Key: e.Key, data: e.Data}
	if detail, err := json.Marshal(journal.Fields(e.Data)); err == nil {
		h.Detail = detail
	}
	return h
}

// Filter chooses runs. Fields that are not set do not restrict.
type Filter struct {
	Workflow    string
	Status      []Status
	ParentID    string
	ForkOfID    string
	Attributes  map[string]string // texts that the run has
	Where       []Condition       // on attributes of any type; all must hold
	From, To    time.Time         // of the creation; To is exclusive
	Limit       int               // of one page; 0: 100, at most 1000
	Cursor      string            // of the page before
	NewestFirst bool
}

// Page is a part of a list of runs.
type Page struct {
	Runs   []*RunInfo
	Cursor string // continues after the last run
	More   bool   // whether there are more
}

// List lists runs in the order of their creation. With a range of an attribute as condition, and no exact value, they come in the order of that attribute.
func (e *Engine) List(ctx context.Context, f Filter) (*Page, error) {
	filter := store.RunFilter{Workflow: f.Workflow, Attributes: maps.Clone(f.Attributes)}
	for _, s := range f.Status {
		status, err := journal.ParseStatus(string(s))
		if err != nil {
			return nil, err
		}
		filter.Statuses = append(filter.Statuses, status)
	}
	if f.ParentID != "" {
		var err error
		if filter.Parent, err = parseRun(f.ParentID); err != nil {
			return nil, err
		}
	}
	if err := addConditions(&filter, f.Where); err != nil {
		return nil, err
	}
	if f.ForkOfID != "" {
		source, err := parseRun(f.ForkOfID)
		if err != nil {
			return nil, err
		}
		engine.ForksOf(&filter, source)
	}
	if !f.From.IsZero() {
		filter.CreatedFrom = journal.TimeOf(f.From)
	}
	if !f.To.IsZero() {
		if filter.CreatedBefore = journal.TimeOf(f.To); filter.CreatedBefore == 0 { // which would not restrict; nothing is as old as that
			findNothing(&filter)
		}
	}
	list, err := e.inner.Runs(ctx, filter, store.Page{Limit: f.Limit, Cursor: f.Cursor, Desc: f.NewestFirst})
	if err != nil {
		return nil, err
	}
	page := &Page{Cursor: list.Cursor, More: list.HasMore}
	for _, run := range list.Data {
		page.Runs = append(page.Runs, newRunInfo(run))
	}
	return page, nil
}
