package journal

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// ForkedFrom is the attribute by which the forks of a run are found.
const ForkedFrom = reservedAttribute + "forked_from"

// ForkSpec says what a fork keeps of its source, and how it begins.
type ForkSpec struct {
	From string   // the key from which on all is done again
	Drop []string // or the keys that are done again, and no others
	// Input replaces that of the source, unless its digest is nil.
	Input    Payload
	Digest   []byte
	StartKey string
	// Actor and Reason are noted, if one of them is there.
	Actor    string
	Reason   Payload
	NewToken func() (string, error) // for hooks: the old tokens lead to the source
}

// Keep stands for events of another run that become part of a new one as they are: outcomes of steps whose keys are all that is known of them.
type Keep struct {
	Before      int   // the event of the command that they come before
	Ref         int64 // the other run, as the store knows it
	First, Last int64
}

// Kept are events of another run that were taken over.
type Kept struct {
	To          int64 // the position of the first one
	Ref         int64
	First, Last int64
}

// forkBirth is how many events of a fork come before those that it keeps: its birth and its start.
const forkBirth = 2

// LastKept returns the last event of a fork that it has from its source.
func (d *RunCreated) LastKept() int64 { return forkBirth + d.Kept }

// MayClose reports whether the data of a step's outcome could be a decision that closes branches. If not, the outcome says nothing about anything but
// its step, and need not be read to be kept.
func MayClose(data []byte) bool { return bytes.IndexByte(data, closesField) >= 0 }

// closesField is how the field Closes of StepCompleted is marked in its data. The byte may also stand for something else.
const closesField = 7

// IsOutline reports whether an event was read without its data because it is an outcome that can be kept as it is.
func (e *Event) IsOutline() bool {
	return e.Data == nil && e.Entity.IsZero() && (e.Type == EventStepCompleted || e.Type == EventStepFailed)
}

// Fork returns the command that makes a new run out of another one, which is not touched and may go on. The new run belongs to nobody, and is due at once; the
// command must say in whose name it is written. The log of the source may be an outline: see [Event.IsOutline].
func Fork(namespace string, source *Run, ref int64, log []Event, run ID, spec *ForkSpec) (*Command, error) {
	if len(log) == 0 {
		return nil, cairnerr.Errorf(cairnerr.CodeCorrupt, "%s has no events", PrefixRun.Format(source.ID))
	}
	created, ok := log[0].Data.(*RunCreated)
	switch {
	case !ok || created.Dialect != Engine:
		return nil, cairnerr.Errorf(cairnerr.CodeUnsupported, "only runs of dialect engine can be forked")
	case (spec.From == "") == (len(spec.Drop) == 0):
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "a fork needs either From, the key of the first call that is done again, or Drop, a set of keys")
	}
	p := &forkPlan{
		log: log, spec: spec, from: math.MaxInt64, asked: math.MaxInt64, drop: map[string]bool{}, first: map[string]int64{}, over: map[string]bool{},
		hooks: map[ID]string{}, starts: map[string]*forkStart{}, moved: map[int64]int64{},
		cmd: &Command{Namespace: namespace, Run: run, Events: make([]Event, forkBirth), Lease: LeaseRelease}, ref: ref,
	}
	if err := p.find(); err != nil {
		return nil, err
	}
	again := slices.Clone(spec.Drop)
	if spec.From != "" {
		again = append(again, spec.From)
	}
	for _, key := range again {
		if p.first[key] == 0 {
			return nil, cairnerr.Errorf(cairnerr.CodeStepNotFound, "nothing in %s has the key %q: its history shows the keys", PrefixRun.Format(source.ID), key)
		}
		p.drop[key] = true
	}
	if spec.From != "" {
		p.from = p.first[spec.From]
	}
	p.judge()
	if err := p.copy(); err != nil {
		return nil, err
	}
	p.cmd.Events[0].Data, p.cmd.Events[1].Data = p.birth(source, created), &RunStarted{}
	if spec.Actor != "" || len(spec.Reason) > 0 {
		p.cmd.Events = append(p.cmd.Events, Event{Data: &Annotated{Name: "cairn.fork", Actor: spec.Actor, Value: spec.Reason}})
	}
	return p.cmd, nil
}

// forkPlan decides what a fork keeps.
type forkPlan struct {
	log    []Event
	spec   *ForkSpec
	ref    int64
	from   int64                 // the first event of what is done again, with all that was first seen later
	asked  int64                 // where the run was asked to stop: what it did then is not worth keeping
	drop   map[string]bool       // keys that are done again, wherever they stand
	first  map[string]int64      // the first event of each key
	over   map[string]bool       // steps and waits with an outcome that counts
	hooks  map[ID]string         // keys by hook
	starts map[string]*forkStart // of steps that have other events than their outcome
	moved  map[int64]int64       // where deliveries are now
	kept   int64                 // events so far
	cmd    *Command
}

// forkStart is what earlier events of a step say, which its outcome need not repeat.
type forkStart struct {
	name     string
	attempts Attempts
	at       Time
	input    Payload
}

// birth returns the first event of the fork.
func (p *forkPlan) birth(source *Run, was *RunCreated) *RunCreated {
	d := &RunCreated{
		Workflow: was.Workflow, Input: was.Input, StartKey: p.spec.StartKey, Root: p.cmd.Run, ForkedFrom: source.ID, ForkedAt: p.log[len(p.log)-1].Seq,
		Kept: p.kept, Seed: was.Seed, SeedAt: was.SeedAt, Attributes: maps.Clone(was.Attributes), AllowReserved: true,
	}
	if d.Seed.IsZero() {
		d.Seed, d.SeedAt = source.ID, source.CreatedAt
	}
	if p.spec.Digest != nil {
		d.Input, d.StartDigest = p.spec.Input, p.spec.Digest
	}
	if d.StartKey != "" {
		d.StartDigest = p.startDigest(source.ID, d)
	}
	if d.Attributes == nil {
		d.Attributes = map[string]string{}
	}
	d.Attributes[ForkedFrom] = PrefixRun.Format(source.ID)
	return d
}

// startDigest stands for all that a fork is made of: with the same start key, only the same fork is asked for again.
func (p *forkPlan) startDigest(source ID, d *RunCreated) []byte {
	sum := sha256.New()
	input := d.StartDigest
	if input == nil {
		input = d.Input
	}
	for _, part := range append([]string{string(source[:]), string(input), p.spec.From}, slices.Sorted(slices.Values(p.spec.Drop))...) {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return sum.Sum(nil)[:16]
}

// find notes where the keys of the journal are first seen, and where the run was asked to stop.
func (p *forkPlan) find() error {
	for i := range p.log {
		e := &p.log[i]
		switch d := e.Data.(type) {
		case nil:
			if !e.IsOutline() {
				return cairnerr.Errorf(cairnerr.CodeUnknownEvent, "event %d was written by a newer program: fork the run with that program", e.Seq)
			}
		case *CancelRequested:
			p.asked = min(p.asked, e.Seq)
		case *HookCreated:
			p.hooks[e.Entity] = e.Key
		case *StepStarted:
			s := p.start(e.Key, d.Name)
			s.at = cmp.Or(s.at, d.StartedAt, e.At)
			if len(d.Input) > 0 {
				s.input = d.Input
			}
		case *StepRetrying:
			p.start(e.Key, d.Name)
		}
		if s := p.starts[e.Key]; s != nil {
			s.attempts.Count(Engine, e.Data)
		}
		if e.Key != "" && p.first[e.Key] == 0 {
			p.first[e.Key] = e.Seq
		}
	}
	return nil
}

// start returns what is known of a step whose outcome has earlier events.
func (p *forkPlan) start(key, name string) *forkStart {
	s := p.starts[key]
	if s == nil {
		s = &forkStart{}
		p.starts[key] = s
	}
	s.name = cmp.Or(s.name, name)
	return s
}

// judge notes which steps and waits have an outcome that counts, and through which hooks something came. A wait that ended later than the fork begins may be
// the deadline of what is done again; a hook through which nothing came, the fork opens itself, with the token that its code wants.
func (p *forkPlan) judge() {
	for i := range p.log {
		e := &p.log[i]
		switch e.Type {
		case EventStepCompleted, EventStepFailed:
			p.over[e.Key] = e.Seq < p.asked
		case EventWaitCompleted:
			p.over[e.Key] = e.Seq < min(p.asked, p.from)
		case EventHookReceived, EventHookDisposed:
			key := cmp.Or(e.Key, p.hooks[e.Entity])
			p.over[key] = p.over[key] || e.Seq < min(p.asked, p.from)
		default:
		}
	}
}

// keeps reports whether what stands under a key is kept.
func (p *forkPlan) keeps(key string) bool {
	return !p.drop[key] && p.first[key] < min(p.from, p.asked)
}

// copy puts what is kept into the command.
func (p *forkPlan) copy() error {
	for i := range p.log {
		e := &p.log[i]
		key := cmp.Or(e.Key, p.hooks[e.Entity]) // who sends to a hook does not know its key
		if key != "" && !p.keeps(key) {
			continue
		}
		if e.IsOutline() {
			if p.over[key] {
				p.keep(e.Seq)
			}
			continue
		}
		d, err := p.copyOf(e, key)
		if err != nil {
			return err
		}
		if d != nil {
			p.cmd.Events = append(p.cmd.Events, Event{Key: key, Data: d})
			p.kept++
		}
	}
	return nil
}

// keep takes an event over as it is.
func (p *forkPlan) keep(seq int64) {
	p.kept++
	before := len(p.cmd.Events)
	if n := len(p.cmd.Keeps); n > 0 {
		if last := &p.cmd.Keeps[n-1]; last.Before == before && last.Last == seq-1 {
			last.Last = seq
			return
		}
	}
	p.cmd.Keeps = append(p.cmd.Keeps, Keep{Before: before, Ref: p.ref, First: seq, Last: seq})
}

// copyOf returns what an event says in the fork, nil if it is not kept.
func (p *forkPlan) copyOf(e *Event, key string) (Data, error) {
	early := e.Seq < min(p.from, p.asked)
	switch d := e.Data.(type) {
	case *StepCompleted:
		if p.over[key] {
			own := *d
			own.Streams, own.StreamsClosed = nil, nil // those of a fork begin empty
			p.complete(key, &own.Name, &own.Attempt, &own.StartedAt, &own.Input)
			return &own, nil
		}
	case *StepFailed:
		if p.over[key] {
			own := *d
			own.Streams = nil // those of a fork begin empty
			p.complete(key, &own.Name, &own.Attempt, &own.StartedAt, &own.Input)
			return &own, nil
		}
	case *WaitCreated, *WaitCompleted:
		if p.over[key] {
			return d, nil
		}
	case *HookCreated:
		if !p.over[key] {
			return nil, nil //nolint:nilnil // it is not kept
		}
		token, err := p.spec.NewToken()
		return &HookCreated{
			Token: token, SingleUse: d.SingleUse, ExpiresAt: d.ExpiresAt, Webhook: d.Webhook, System: d.System, Schema: d.Schema, Metadata: d.Metadata,
		}, err
	case *HookReceived:
		if early && key != "" {
			p.moved[e.Seq] = p.kept + forkBirth + 1
			return &HookReceived{Sender: d.Sender, Digest: d.Digest, At: cmp.Or(d.At, e.At), Payload: d.Payload}, nil
		}
	case *HookReplied:
		if to, kept := p.moved[d.To]; early && kept {
			return &HookReplied{To: to, Error: d.Error, Value: d.Value}, nil
		}
	case *HookDisposed:
		if early {
			return &HookDisposed{}, nil
		}
	case *AttrSet:
		if early {
			return &AttrSet{Changes: d.Changes, Step: d.Step, Attempt: d.Attempt, AllowReserved: true}, nil
		}
	}
	return nil, nil //nolint:nilnil // it is not kept
}

// complete adds to the outcome of a step what only earlier events say.
func (p *forkPlan) complete(key string, name *string, attempt *int, at *Time, input *Payload) {
	s := p.starts[key]
	if s == nil {
		return
	}
	*name, *attempt, *at = cmp.Or(*name, s.name), s.attempts.N, cmp.Or(*at, s.at)
	if len(*input) == 0 {
		*input = s.input
	}
}

// keep takes over what comes before an event of the command.
func (r *reduction) keep(before int) error {
	for _, k := range r.cmd.Keeps {
		if k.Before != before {
			continue
		}
		if !r.result.created || r.s.Run == nil || r.s.Run.ForkedFrom.IsZero() {
			return cairnerr.Errorf(cairnerr.CodeIllegalTransition, "events of another run can be copied only when a fork is created")
		}
		if k.Ref == 0 || k.First < 1 || k.Last < k.First {
			return cairnerr.Errorf(cairnerr.CodeMalformed, "events %d to %d of another run cannot be copied", k.First, k.Last)
		}
		r.result.Kept = append(r.result.Kept, Kept{To: r.s.Seq + 1, Ref: k.Ref, First: k.First, Last: k.Last})
		r.s.setSeq(r.s.Seq + k.Last - k.First + 1)
		r.s.setIncomplete()
	}
	return nil
}
