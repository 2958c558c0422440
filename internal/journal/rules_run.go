package journal

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"unicode/utf8"

	"github.com/cairn-workflow/cairn/cairnerr"
)

func (r *reduction) runCreated(e *Event, _ *Outcome) (verdict, error) {
	d := *e.Data.(*RunCreated)
	e.Data = &d
	return r.create(&d)
}

// create checks the birth of a run and completes what its caller left to the journal.
func (r *reduction) create(d *RunCreated) (verdict, error) {
	if d.Workflow == "" {
		return 0, cairnerr.Errorf(cairnerr.CodeMalformed, "a run needs the name of its workflow")
	}
	for _, c := range []struct {
		what, text string
		limit      int
	}{
		{"the workflow's name", d.Workflow, MaxName},
		{"the deployment", d.Deployment, MaxName},
		{"the start key", d.StartKey, MaxKey},
	} {
		if err := CheckText(c.what, c.text, c.limit); err != nil {
			return 0, err
		}
	}
	if err := r.checkSpec(d); err != nil {
		return 0, err
	}
	if len(d.Context) > MaxContext {
		return 0, cairnerr.Errorf(cairnerr.CodePayloadTooLarge, "the execution context has %d bytes; at most %d are allowed", len(d.Context), MaxContext)
	}
	if err := checkHeaders(d.Headers); err != nil {
		return 0, err
	}
	changes := make([]AttrChange, 0, len(d.Attributes))
	for k, v := range d.Attributes {
		changes = append(changes, AttrChange{Key: k, Value: v})
	}
	if err := checkAttributes(nil, changes, d.AllowReserved); err != nil {
		return 0, err
	}
	d.AllowReserved = false // as a reader of the journal will find it
	if d.StartKey != "" {
		return r.startKey(d)
	}
	return appends, nil
}

func (r *reduction) checkSpec(d *RunCreated) error {
	if d.Spec > MaxSpec {
		return cairnerr.Errorf(cairnerr.CodeSpecNotSupported, "World spec version %d is newer than %d, the newest that this program reads", d.Spec, MaxSpec)
	}
	if DialectOfSpec(d.Spec) != d.Dialect {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "World spec version %d does not go with dialect %s", d.Spec, d.Dialect)
	}
	// Callers choose the id: its time must be about now, because lists sort by it, and searches by time rely on it.
	made := r.cmd.Run.Time()
	if made < r.env.Now-maxRunIDPast || made > r.env.Now+maxRunIDFuture {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "the id %s was made at %s, too far from now (%s)", PrefixRun.Format(r.cmd.Run), made, r.env.Now)
	}
	return nil
}

// startKey finds the run that was started with the same key before.
func (r *reduction) startKey(d *RunCreated) (verdict, error) {
	if len(d.StartDigest) == 0 {
		sum := sha256.Sum256(d.Input)
		d.StartDigest = sum[:16]
	}
	key := StartKey{Namespace: r.cmd.Namespace, Workflow: d.Workflow, Key: d.StartKey}
	before, taken := r.outside.StartKeys[key]
	if !taken {
		r.s.undo = append(r.s.undo, undo{kind: undoStartKey, outside: &undoOutside{outside: r.outside, startKey: key}})
		r.outside.StartKeys[key] = Started{Run: r.cmd.Run, Digest: d.StartDigest}
		return appends, nil
	}
	if !bytes.Equal(before.Digest, d.StartDigest) {
		return 0, cairnerr.Errorf(cairnerr.CodeStartKeyConflict, "the start key %q was used for %s with another input", d.StartKey, PrefixRun.Format(before.Run))
	}
	r.result.Existing = true
	r.result.Run = &Run{ID: before.Run}
	return holds, nil
}

func (r *reduction) runStarted(e *Event, _ *Outcome) (verdict, error) {
	d := e.Data.(*RunStarted)
	if r.s.Run == nil {
		c := *d.Create
		v, err := r.create(&c)
		if err != nil || v == holds {
			return v, err
		}
		r.append(Event{Data: &c})
	}
	if r.s.Run.Status == StatusRunning {
		return holds, nil
	}
	e.Data = &RunStarted{}
	return appends, nil
}

func (r *reduction) runCancelled(e *Event, _ *Outcome) (verdict, error) {
	return appends, checkReason(e.Data.(*RunCancelled).Reason)
}

func (r *reduction) cancelRequested(e *Event, _ *Outcome) (verdict, error) {
	if err := checkReason(e.Data.(*CancelRequested).Reason); err != nil {
		return 0, err
	}
	if r.s.Run.CancelledAt != 0 {
		return holds, nil
	}
	return appends, nil
}

// HeaderBytes returns how much of [MaxHeaders] headers take.
func HeaderBytes(headers map[string]string) int {
	size := 0
	for k, v := range headers {
		size += len(k) + len(v)
	}
	return size
}

func checkHeaders(headers map[string]string) error {
	if size := HeaderBytes(headers); size > MaxHeaders {
		return cairnerr.Errorf(cairnerr.CodeLimitExceeded, "the headers have %d bytes; at most %d are allowed", size, MaxHeaders)
	}
	return nil
}

func checkReason(reason string) error {
	if utf8.RuneCountInString(reason) > MaxReason {
		return cairnerr.Errorf(cairnerr.CodeLimitExceeded, "the reason is longer than %d characters", MaxReason)
	}
	return nil
}

func (r *reduction) runParked(e *Event, _ *Outcome) (verdict, error) {
	d := e.Data.(*RunParked)
	if err := CheckText("the actor", d.Actor, MaxName); err != nil {
		return 0, err
	}
	if err := CheckText("the build", d.Build, MaxName); err != nil {
		return 0, err
	}
	if d.Asked && d.Error != nil {
		if err := checkReason(d.Error.Message); err != nil {
			return 0, err
		}
	}
	if r.s.Run.ParkedAt != 0 {
		return holds, nil
	}
	return appends, nil
}

func (r *reduction) runResumed(*Event, *Outcome) (verdict, error) {
	if r.s.Run.ParkedAt == 0 {
		return 0, cairnerr.Errorf(cairnerr.CodeIllegalTransition, "the run is not parked")
	}
	return appends, nil
}

func (r *reduction) annotated(e *Event, _ *Outcome) (verdict, error) {
	d := e.Data.(*Annotated)
	if d.Name == "" {
		return 0, cairnerr.Errorf(cairnerr.CodeMalformed, "an annotation needs a name")
	}
	if err := CheckText("the annotation's name", d.Name, MaxName); err != nil {
		return 0, err
	}
	if err := CheckText("the annotation's step", d.Step, MaxKey); err != nil {
		return 0, err
	}
	return appends, CheckText("the annotation's actor", d.Actor, MaxName)
}

// CheckAnnotation refuses an annotation that would be refused in a command.
func CheckAnnotation(d *Annotated) error {
	if _, err := (*reduction).annotated(nil, &Event{Data: d}, nil); err != nil {
		return err
	}
	return CheckPayload("annotation ", d.Name, d.Value)
}

func (r *reduction) attrSet(e *Event, _ *Outcome) (verdict, error) {
	d := *e.Data.(*AttrSet)
	e.Data = &d
	if len(d.Changes) == 0 {
		return 0, cairnerr.Errorf(cairnerr.CodeMalformed, "attr_set without changes")
	}
	if err := checkAttributes(r.s.Run.Attributes, d.Changes, d.AllowReserved); err != nil {
		return 0, err
	}
	d.AllowReserved = false
	if err := checkAttributesSize(d.Changes); err != nil {
		return 0, err
	}
	if d.Step.IsZero() && !e.Entity.IsZero() {
		if _, done := r.s.AttrSets[e.Entity]; done {
			return 0, cairnerr.Errorf(cairnerr.CodeAttributeExists, "%s was recorded before", PrefixAttribute.Format(e.Entity))
		}
	}
	return appends, nil
}

// CheckAttributes refuses changes of the attributes that a run has which would be refused in a command.
func CheckAttributes(have map[string]string, changes []AttrChange) error {
	if err := checkAttributes(have, changes, false); err != nil {
		return err
	}
	return checkAttributesSize(changes)
}

func checkAttributesSize(changes []AttrChange) error {
	size := 0
	for _, c := range changes {
		size += len(c.Key) + len(c.Value)
	}
	if size > maxAttributeChanges {
		return cairnerr.Errorf(cairnerr.CodeLimitExceeded, "the attribute changes have %d bytes; at most %d are allowed", size, maxAttributeChanges)
	}
	return nil
}

// IsReservedAttribute reports whether the key of an attribute may be used by the engine only.
func IsReservedAttribute(key string) bool { return strings.HasPrefix(key, reservedAttribute) }

func checkAttributes(have map[string]string, changes []AttrChange, allowReserved bool) error {
	count := len(have)
	if _, forked := have[ForkedFrom]; forked {
		count--
	}
	seen := make(map[string]struct{}, len(changes))
	for _, c := range changes {
		if c.Key == "" || utf8.RuneCountInString(c.Key) > MaxAttributeKey {
			return cairnerr.Errorf(cairnerr.CodeLimitExceeded, "an attribute's key has 1 to %d characters", MaxAttributeKey)
		}
		if len(c.Value) > MaxAttributeValue {
			return cairnerr.Errorf(cairnerr.CodeLimitExceeded, "the value of attribute %q has more than %d bytes", c.Key, MaxAttributeValue)
		}
		if !storable(c.Key) || !storable(c.Value) {
			return cairnerr.Errorf(cairnerr.CodeMalformed, "attribute %q is not UTF-8, or has a NUL", c.Key)
		}
		if IsReservedAttribute(c.Key) && !allowReserved {
			return cairnerr.Errorf(cairnerr.CodeUnsupported, "attribute %q: keys that begin with %s are reserved", c.Key, reservedAttribute)
		}
		if _, twice := seen[c.Key]; twice {
			return cairnerr.Errorf(cairnerr.CodeMalformed, "attribute %q is changed twice", c.Key)
		}
		seen[c.Key] = struct{}{}
		if c.Key == ForkedFrom {
			continue // it takes no place of the user's
		}
		_, had := have[c.Key]
		switch {
		case c.Remove && had:
			count--
		case !c.Remove && !had:
			count++
		}
	}
	if count > MaxAttributes {
		return cairnerr.Errorf(cairnerr.CodeLimitExceeded, "the run would have %d attributes; at most %d are allowed", count, MaxAttributes)
	}
	return nil
}
