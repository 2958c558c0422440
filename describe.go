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

// Phase says more about a run that has not ended.
type Phase string

// The phases of a run.
const (
	PhaseWaiting    Phase = "waiting"    // for time, or for something from outside; nobody executes it
	PhaseCancelling Phase = "cancelling" // it was asked to stop, and cleans up
	PhasePaused     Phase = "paused"     // by somebody, until it is resumed
	PhaseParked     Phase = "parked"     // its code cannot go on: somebody must look at it, and resume it
)

// RunInfo is what is known about a run.
type RunInfo struct {
	ID       string `json:"id"`
	Workflow string `json:"workflow"`
	Status   Status `json:"status"`
	// Phase says more about a run that has not ended; "": it is pending, or a process executes it.
	Phase Phase `json:"phase,omitempty"`
	// Reason and Actor say why, and by whom, a run is parked or paused, was asked to stop, or was cancelled.
	Reason     string            `json:"reason,omitempty"`
	Actor      string            `json:"actor,omitempty"`
	CreatedAt  time.Time         `json:"createdAt"`
	StartedAt  time.Time         `json:"startedAt,omitzero"` // zero: it has not begun
	EndedAt    time.Time         `json:"endedAt,omitzero"`   // zero: it has not ended
	ParentID   string            `json:"parentId,omitempty"`
	RootID     string            `json:"rootId,omitempty"`
	ForkOfID   string            `json:"forkOfId,omitempty"` // the run whose results it kept, "": it is no fork
	StartKey   string            `json:"startKey,omitempty"` // the key that it was started with
	Attributes map[string]string `json:"attributes,omitempty"`
	// Error is why the run failed, or is parked or paused; for a cancelled run, the error that its clean-up returned,
	// if any.
	Error *Error `json:"error,omitempty"`
	// Waits are what the run waits for, and the long steps that are under way. [RunHandle.Describe] fills them.
	Waits []Wait `json:"waits,omitempty"`

	id            journal.ID
	described     bool // its values were read
	input, output journal.Payload
}

// Input decodes what the run was started with. It needs a RunInfo from [RunHandle.Describe]: lists do not read
// payloads.
func (r *RunInfo) Input(into any) error { return r.value(r.input, into, "input") }

// Output decodes what the run returned. It needs a RunInfo from [RunHandle.Describe], and a run that has completed.
func (r *RunInfo) Output(into any) error {
	if r.described && r.Status != StatusCompleted {
		return cairnerr.Errorf(cairnerr.CodeUnsupported, "%s is %s: it has no output", r.ID, r.Status)
	}
	return r.value(r.output, into, "output")
}

func (r *RunInfo) value(p journal.Payload, into any, what string) error {
	if !r.described {
		return cairnerr.Errorf(cairnerr.CodeUnsupported, "the %s of a run is not read by List: use eng.Run(id).Describe", what)
	}
	return payload.Decode(p, into)
}

// Wait is something that a run waits for, or a long step that is under way.
type Wait struct {
	Kind    string    `json:"kind"`            // "sleep", "timeout", "deadline", "cleanup", "poll", "hook", "child", "retry", "step", or "start" for a run that begins later
	Key     string    `json:"key,omitempty"`   // which one: the branch, the name, and which use of it
	Until   time.Time `json:"until,omitzero"`  // zero: not by time
	Token   string    `json:"token,omitempty"` // of a hook
	ChildID string    `json:"childId,omitempty"`
	// Error is the error of the attempt before a retry, or why a child is parked.
	Error    *Error  `json:"error,omitempty"`
	Progress float64 `json:"progress,omitempty"` // of a step that is under way in this process
	Note     string  `json:"note,omitempty"`
}

func parseRun(id string) (journal.ID, error) { return journal.PrefixRun.Parse(id) }

func (e *Engine) describe(ctx context.Context, id journal.ID) (*RunInfo, error) {
	run, err := e.inner.Store().Run(ctx, e.inner.Namespace(), id, store.ResolveAll)
	if err != nil {
		return nil, err
	}
	info := newRunInfo(run)
	info.described, info.input, info.output = true, run.Input, run.Output
	now, err := e.inner.Situation(ctx, id)
	if err != nil {
		return nil, err
	}
	info.explain(now)
	for i := range now.Waits {
		info.Waits = append(info.Waits, newWait(&now.Waits[i]))
	}
	return info, nil
}

func newRunInfo(run *journal.Run) *RunInfo {
	info := &RunInfo{
		ID: formatRun(run.ID), Workflow: run.Workflow, Status: Status(run.Status.String()), Phase: Phase(run.Phase()), CreatedAt: run.CreatedAt.Std(),
		StartedAt: timeOrZero(run.StartedAt), EndedAt: timeOrZero(run.CompletedAt), ParentID: formatRun(run.Parent), RootID: formatRun(run.Root),
		ForkOfID: formatRun(run.ForkedFrom), StartKey: run.StartKey, Attributes: engine.UserAttributes(run.Attributes), Error: engine.FailureOf(run), id: run.ID,
	}
	if info.Phase == "" && run.Status == journal.StatusRunning && run.Owner.IsZero() {
		info.Phase = PhaseWaiting
	}
	if c := run.Cancelled; c != nil {
		info.Reason, info.Actor, info.Error = c.Reason, c.Actor, c.Error
	}
	return info
}

// explain adds why a run is in its phase, and who asked one to stop that has come to another end since.
func (r *RunInfo) explain(now engine.Situation) {
	switch {
	case r.Status == StatusCancelled: // it knows why
	case now.Parked != nil:
		r.Error, r.Actor = now.Parked.Error, now.Parked.Actor
		if r.Error != nil {
			r.Reason = r.Error.Message
		}
		if now.Parked.Asked {
			r.Phase = PhasePaused
		}
	case now.Request != nil:
		r.Reason, r.Actor = now.Request.Reason, now.Request.Actor
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

// HistoryEvent is one event in the history of a run.
type HistoryEvent struct {
	Seq  int64     `json:"seq"` // from 1, without gaps
	ID   string    `json:"id"`
	Type string    `json:"type"` // "run_created", "step_completed", …
	At   time.Time `json:"at"`
	Key  string    `json:"key,omitempty"` // of the step, wait or hook that the event is about: its branch, name and number
	// Detail is the content of the event as JSON, without payloads.
	Detail json.RawMessage `json:"detail,omitempty"`

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

func (e *Engine) history(ctx context.Context, h *RunHandle) iter.Seq2[*HistoryEvent, error] {
	return func(yield func(*HistoryEvent, error) bool) {
		id := h.id
		if h.err != nil {
			yield(nil, h.err)
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

// Filter selects runs. An empty field matches all.
type Filter struct {
	Workflow    string
	StartKey    string // that the run was started with; needs Workflow
	Status      []Status
	Phase       Phase // parked, paused or waiting
	ParentID    string
	ForkOfID    string
	Attributes  map[string]string // string attributes that the run has
	Where       []Condition       // on attributes of any type; all must hold
	From, To    time.Time         // of the creation; To is exclusive
	Limit       int               // of one page; 0: 100, at most 1000
	Cursor      string            // of the page before
	NewestFirst bool
}

// Page is a part of a list of runs. With a filter by phase a page may have fewer runs than its limit, and there may still be more.
type Page struct {
	Runs   []*RunInfo `json:"runs"`
	Cursor string     `json:"cursor,omitempty"` // continues after the last run
	More   bool       `json:"more,omitempty"`   // whether there are more
}

// List lists runs in the order of their creation. If the filter has a range of an attribute, and no exact value, they
// come in the order of that attribute.
func (e *Engine) List(ctx context.Context, f Filter) (*Page, error) {
	filter, err := f.store()
	if err != nil {
		return nil, err
	}
	list, err := e.inner.Runs(ctx, filter, store.Page{Limit: f.Limit, Cursor: f.Cursor, Desc: f.NewestFirst})
	if err != nil {
		return nil, err
	}
	page := &Page{Cursor: list.Cursor, More: list.HasMore}
	for _, run := range list.Data {
		info := newRunInfo(run)
		if info.Phase == PhaseParked || info.Phase == PhaseCancelling { // few are
			now, err := e.inner.Situation(ctx, run.ID)
			if err != nil && cairnerr.CodeOf(err) != cairnerr.CodeRunNotFound {
				return nil, err
			}
			info.explain(now)
		}
		if f.Phase == "" || info.Phase == f.Phase {
			page.Runs = append(page.Runs, info)
		}
	}
	return page, nil
}

// storePhases are the phases that runs can be searched by. The database does not tell paused runs from parked ones.
var storePhases = map[Phase]store.RunPhase{"": store.AnyPhase, PhaseParked: store.PhaseParked, PhasePaused: store.PhaseParked, PhaseWaiting: store.PhaseWaiting}

// store returns the filter as the store has it.
func (f *Filter) store() (store.RunFilter, error) {
	filter := store.RunFilter{Workflow: f.Workflow, StartKey: f.StartKey, Attributes: maps.Clone(f.Attributes)}
	phase, ok := storePhases[f.Phase]
	if !ok {
		return filter, cairnerr.Errorf(cairnerr.CodeMalformed, "runs cannot be searched by the phase %q: use parked, paused or waiting", f.Phase)
	}
	filter.Phase = phase
	for _, s := range f.Status {
		status, err := journal.ParseStatus(string(s))
		if err != nil {
			return filter, err
		}
		filter.Statuses = append(filter.Statuses, status)
	}
	if f.ParentID != "" {
		var err error
		if filter.Parent, err = parseRun(f.ParentID); err != nil {
			return filter, err
		}
	}
	if err := addConditions(&filter, f.Where); err != nil {
		return filter, err
	}
	if f.ForkOfID != "" {
		source, err := parseRun(f.ForkOfID)
		if err != nil {
			return filter, err
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
	return filter, nil
}
