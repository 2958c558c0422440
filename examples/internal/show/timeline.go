package show

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn"
)

// State is how far something has come.
type State int

// The states of what a run does.
const (
	Working  State = iota // it goes on
	Waiting               // for a time, or for somebody
	Retrying              // it failed, and will be tried again
	Done
	Failed
	Stopped // it was given up when the run ended
	Noted   // something that happened to the run
)

// Row is one line of a timeline: a step, a wait, a hook, a child.
type Row struct {
	Key      string
	Name     string
	Kind     string // "step", "child", "hook", "note", or the kind of a wait
	State    State
	Began    time.Time
	Changed  time.Time     // when something last happened to it
	Took     time.Duration // when it is over
	Until    time.Time     // when a wait ends
	Attempts int
	Note     string  // an error, or what a step says about itself
	Fraction float64 // how far a step says it has come
	Child    *Run

	child  string // the id of the child, without its prefix
	open   bool   // an attempt was begun
	hidden bool
	event  *cairn.HistoryEvent
}

// Result decodes the result of a step that is done.
func (r *Row) Result(into any) error { return r.event.Result(into) }

// detail is what is read of an event.
type detail struct {
	Name       string
	Kind       string
	Child      string
	Attempt    int
	Took       int64
	Token      string
	Reason     string
	StartedAt  time.Time
	ResumeAt   time.Time
	RetryAfter time.Time
	Error      *cairn.Error
}

// timeline gathers the events of a run in rows.
type timeline struct {
	rows    []*Row
	byKey   map[string]*Row
	byToken map[string]*Row // hooks
}

func newTimeline() *timeline { return &timeline{byKey: map[string]*Row{}, byToken: map[string]*Row{}} }

// row returns the row of a key, and makes it when it is new.
func (t *timeline) row(key, kind, name string, began time.Time) *Row {
	if r := t.byKey[key]; r != nil {
		return r
	}
	r := &Row{Key: key, Kind: kind, Name: name, Began: began, Changed: began}
	t.rows, t.byKey[key] = append(t.rows, r), r
	return r
}

func (t *timeline) note(e *cairn.HistoryEvent, name, note string) {
	t.rows = append(t.rows, &Row{Key: e.ID, Kind: "note", Name: name, Note: note, State: Noted, Began: e.At, Changed: e.At})
}

func (t *timeline) add(e *cairn.HistoryEvent) error {
	var d detail
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return err
	}
	switch e.Type {
	case "step_created", "step_started", "step_retrying", "step_completed", "step_failed":
		t.addStep(e, &d)
	case "wait_created", "wait_completed":
		t.addWait(e, &d)
	case "hook_created", "hook_received", "hook_disposed", "hook_conflict":
		t.addHook(e, &d)
	case "cancel_requested":
		t.note(e, "asked to stop", d.Reason)
	case "run_parked":
		t.note(e, "parked", textOf(d.Error))
	case "run_resumed":
		t.note(e, "resumed", "")
	}
	if r := t.byKey[e.Key]; r != nil {
		r.Changed = e.At
	}
	return nil
}

func (t *timeline) addStep(e *cairn.HistoryEvent, d *detail) {
	began := e.At
	if !d.StartedAt.IsZero() {
		began = d.StartedAt
	}
	r := t.row(e.Key, "step", d.Name, began)
	switch e.Type {
	case "step_created":
		r.Kind, r.child = "child", d.Child
	case "step_started":
		r.State, r.open = Working, true
		r.Attempts++
	case "step_retrying":
		if !r.open { // short attempts leave no other trace
			r.Attempts++
		}
		r.State, r.open, r.Until, r.Note = Retrying, false, d.RetryAfter, textOf(d.Error)
	default:
		r.State, r.Attempts, r.event = Done, d.Attempt, e
		r.Took, r.Note = began.Add(time.Duration(d.Took)*time.Millisecond).Sub(r.Began), ""
		if e.Type == "step_failed" {
			r.State, r.Note = Failed, textOf(d.Error)
		}
	}
}

const timeoutOf = "timeout of "

func (t *timeline) addWait(e *cairn.HistoryEvent, d *detail) {
	if e.Type == "wait_created" {
		kind, name := d.Kind, d.Kind
		if of, ok := strings.CutPrefix(d.Kind, timeoutOf); ok {
			kind = "timeout"
			if hook := t.lastHook(of); hook != nil { // the hook shows how long it waits
				hook.Until = d.ResumeAt
			}
		}
		r := t.row(e.Key, kind, name, e.At)
		r.State, r.Until, r.hidden = Waiting, d.ResumeAt, kind != "sleep" && kind != "poll"
		return
	}
	r := t.row(e.Key, "sleep", "sleep", e.At)
	r.State, r.Took = Done, e.At.Sub(r.Began)
	r.hidden = r.hidden && d.ResumeAt.IsZero() // one that was not needed
	if r.Kind == "timeout" && !r.hidden {
		if hook := t.lastHook(strings.TrimPrefix(r.Name, timeoutOf)); hook != nil {
			hook.State, hook.Took, hook.Note = Failed, r.Took, "nothing came in time"
		}
		r.hidden = true
	}
	if d.Error != nil {
		r.State, r.Note = Failed, textOf(d.Error)
	}
}

// lastHook returns the hook of a name that was opened last.
func (t *timeline) lastHook(name string) *Row {
	for _, r := range slices.Backward(t.rows) {
		if r.Kind == "hook" && r.Name == name {
			return r
		}
	}
	return nil
}

func (t *timeline) addHook(e *cairn.HistoryEvent, d *detail) {
	if e.Type == "hook_received" { // it comes from outside, and knows the hook by its token
		if r := t.byToken[d.Token]; r != nil {
			r.State, r.Took, r.Changed, r.Note = Done, e.At.Sub(r.Began), e.At, "answered"
		}
		return
	}
	name := e.Key[strings.LastIndexByte(e.Key, '/')+1:]
	name, _, _ = strings.Cut(name, "#")
	r := t.row(e.Key, "hook", name, e.At)
	switch e.Type {
	case "hook_created":
		r.State, t.byToken[d.Token] = Waiting, r
	case "hook_disposed":
		if r.State == Waiting {
			r.State, r.Took = Stopped, e.At.Sub(r.Began)
		}
	case "hook_conflict":
		r.State, r.Note = Failed, "the token is taken"
	}
}

// merge adds what only the description knows: how far steps have come, and that what was open when the run ended will not go on.
func (t *timeline) merge(info *cairn.RunInfo) {
	for _, w := range info.Waits {
		if w.Kind != "step" {
			continue
		}
		r := t.row(w.Key, "step", w.Key[strings.LastIndexByte(w.Key, '/')+1:], time.Time{})
		if r.State == Working {
			r.Fraction, r.Note = w.Progress, w.Note
		}
	}
	if info.EndedAt.IsZero() {
		return
	}
	for _, r := range t.rows {
		if r.State == Working || r.State == Waiting || r.State == Retrying {
			r.State, r.Took = Stopped, info.EndedAt.Sub(r.Began)
		}
	}
}

func (t *timeline) shown() []*Row {
	return slices.DeleteFunc(t.rows, func(r *Row) bool { return r.hidden })
}
