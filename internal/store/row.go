package store

import (
	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// runExtra is what both databases keep of a run in one blob: rarely set, never searched by.
type runExtra struct {
	Deployment string     `cbor:"1,keyasint,omitempty"`
	Context    []byte     `cbor:"2,keyasint,omitempty"`
	Root       journal.ID `cbor:"3,keyasint,omitzero"`
	ForkedFrom journal.ID `cbor:"4,keyasint,omitzero"`
}

// EncodeRunExtra returns the fields of a run that have no column, nil if none is set.
func EncodeRunExtra(r *journal.Run) ([]byte, error) {
	x := runExtra{Deployment: r.Deployment, Context: r.Context, Root: r.Root, ForkedFrom: r.ForkedFrom}
	if x.Deployment == "" && len(x.Context) == 0 && x.Root.IsZero() && x.ForkedFrom.IsZero() {
		return nil, nil
	}
	return cbor.Marshal(x)
}

// DecodeRunExtra fills in the fields of a run that have no column.
func DecodeRunExtra(blob []byte, r *journal.Run) error {
	if len(blob) == 0 {
		return nil
	}
	var x runExtra
	if err := cbor.Unmarshal(blob, &x); err != nil {
		return cairnerr.Errorf(cairnerr.CodeCorrupt, "read run %s: %w", journal.PrefixRun.Format(r.ID), err)
	}
	r.Deployment, r.Context, r.Root, r.ForkedFrom = x.Deployment, x.Context, x.Root, x.ForkedFrom
	return nil
}

const (
	hookSingleUse = 1 << iota
	hookWebhook
	hookSystem
)

// HookFlags returns the yes-or-no fields of a hook as one number.
func HookFlags(h *journal.Hook) int64 {
	var f int64
	if h.SingleUse {
		f |= hookSingleUse
	}
	if h.Webhook {
		f |= hookWebhook
	}
	if h.System {
		f |= hookSystem
	}
	return f
}

// SetHookFlags fills in the yes-or-no fields of a hook.
func SetHookFlags(h *journal.Hook, f int64) {
	h.SingleUse, h.Webhook, h.System = f&hookSingleUse != 0, f&hookWebhook != 0, f&hookSystem != 0
}

// StoredEntity returns the entity that is stored with an event: none where it follows from the key of an inline
// step, which keeps the index on entities free of them. steps are those of the run that have rows.
func StoredEntity(e *journal.Event, steps map[journal.ID]*journal.Step) journal.ID {
	outcome := e.Type == journal.EventStepCompleted || e.Type == journal.EventStepFailed
	if outcome && e.Key != "" && steps[e.Entity] == nil {
		return journal.ID{}
	}
	return e.Entity
}

// StepPayloads fills in a step's input, output and error from the events that carry them.
func StepPayloads(s *journal.Step, input, last journal.Data) {
	switch d := input.(type) {
	case *journal.StepCreated:
		s.Input = d.Input
	case *journal.StepStarted:
		s.Input = d.Input
	case *journal.StepCompleted:
		s.Input = d.Input
	case *journal.StepFailed:
		s.Input = d.Input
	}
	switch d := last.(type) {
	case *journal.StepCompleted:
		s.Output = d.Result
	case *journal.StepFailed:
		s.Output, s.Error = d.Value, d.Error
	case *journal.StepRetrying:
		s.Output, s.Error = d.Value, d.Error
	}
}

// RunOutcome fills in a run's output or error from its terminal event.
func RunOutcome(r *journal.Run, end journal.Data) {
	switch d := end.(type) {
	case *journal.RunCompleted:
		r.Output = d.Output
	case *journal.RunFailed:
		r.Error = d
	case *journal.RunCancelled:
		r.Cancelled = d
	}
}

// InOutline reports whether an event stands in an outline without its data. All but that of it is known.
func InOutline(e *journal.Event, data []byte) (bool, error) {
	if !e.IsOutline() {
		return false, nil
	}
	if !journal.MayClose(data) {
		return true, nil
	}
	d, err := journal.DecodeData(e.Type, journal.Encoded{Data: data})
	decision, ok := d.(*journal.StepCompleted)
	return !ok || len(decision.Closes) == 0, err
}
