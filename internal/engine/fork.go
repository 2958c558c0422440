package engine

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/store"
)

// forkedFrom is the attribute by which the forks of a run are found.
const forkedFrom = "$forked_from"

// ForkRequest asks for a new run that keeps results of another one.
type ForkRequest struct {
	Source   journal.ID
	Workflow string   // that the source must be a run of; "": any
	From     string   // the key from which on all is done again
	Drop     []string // or the keys that are done again, and no others
	Input    journal.Payload
	Digest   []byte // of the input; nil: that of the source
	StartKey string
	Reason   journal.Payload // noted with the actor, if there is one of the two
	Actor    string
}

// ForksOf restricts a filter to the forks of a run.
func ForksOf(f *store.RunFilter, source journal.ID) {
	if f.Attributes == nil {
		f.Attributes = map[string]string{}
	}
	f.Attributes[forkedFrom] = journal.PrefixRun.Format(source)
}

// UserAttributes returns the attributes of a run without those of the engine.
func UserAttributes(all map[string]string) map[string]string {
	if _, forked := all[forkedFrom]; !forked {
		return all
	}
	own := maps.Clone(all)
	delete(own, forkedFrom)
	return own
}

// Fork starts a run that keeps what another one has done up to a point. The other is not touched, and may go on meanwhile.
func (e *Engine) Fork(ctx context.Context, r ForkRequest) (journal.ID, error) {
	j, err := e.store.Journal(ctx, e.cfg.Namespace, r.Source, 0)
	if err != nil {
		return journal.ID{}, err
	}
	plan, err := newForkPlan(j, &r)
	if err != nil {
		return journal.ID{}, err
	}
	events, err := plan.copies(e.newToken)
	if err != nil {
		return journal.ID{}, err
	}
	for {
		me := e.self()
		id, err := e.tryFork(ctx, me, &r, j, events)
		if !e.died(me, err) {
			return id, err
		}
		if err := e.awaitLife(ctx, me); err != nil {
			return id, err
		}
	}
}

// tryFork makes a fork durable, and begins to execute it if this process has its workflow and room for it.
func (e *Engine) tryFork(ctx context.Context, me *incarnation, r *ForkRequest, source *store.Journal, kept []journal.Event) (journal.ID, error) {
	id, err := e.mint()
	if err != nil {
		return id, err
	}
	created := forkOf(source, r)
	created.Root = id
	events := make([]journal.Event, 0, len(kept)+3)
	events = append(events, journal.Event{Data: created}, journal.Event{Data: &journal.RunStarted{}})
	events = append(events, kept...)
	if r.Actor != "" || len(r.Reason) > 0 {
		events = append(events, journal.Event{Data: &journal.Annotated{Name: "cairn.fork", Actor: r.Actor, Value: r.Reason}})
	}
	cmd := &journal.Command{Namespace: e.cfg.Namespace, Run: id, Events: events}
	cmd.Guards.Owner = journal.Ownership{Incarnation: me.id, Epoch: 1}
	wf := e.workflows[created.Workflow]
	mine := wf != nil && e.admit()
	if !mine { // somebody else goes on with it
		cmd.Lease, cmd.WakeAt = journal.LeaseRelease, e.now()
	}
	res, err := me.committer.Do(ctx, cmd)
	if err != nil || res.Existing || !mine {
		if mine {
			e.release()
		}
		if err != nil {
			return id, err
		}
		e.lookNow()
		return res.Run.ID, nil
	}
	x := newExec(e, me, store.RunKey{Namespace: e.cfg.Namespace, Run: id}, wf, res.Run)
	x.bornAs(created)
	x.observe(res.Run, res.Appended, false)
	e.mu.Lock()
	taken := e.keep(x)
	e.mu.Unlock()
	if taken {
		x.start()
	}
	return id, nil
}

// forkOf returns the birth of a fork.
func forkOf(source *store.Journal, r *ForkRequest) *journal.RunCreated {
	was, _ := source.Events[0].Data.(*journal.RunCreated) // checked with the plan
	created := &journal.RunCreated{
		Workflow: was.Workflow, Input: was.Input, StartKey: r.StartKey, ForkedFrom: source.Run.ID, ForkedAt: source.Seq,
		Seed: was.Seed, SeedAt: was.SeedAt, Attributes: maps.Clone(was.Attributes), AllowReserved: true,
	}
	if created.Seed.IsZero() {
		created.Seed, created.SeedAt = source.Run.ID, source.Run.CreatedAt
	}
	if r.Digest != nil {
		created.Input, created.StartDigest = r.Input, r.Digest
	}
	if created.Attributes == nil {
		created.Attributes = map[string]string{}
	}
	created.Attributes[forkedFrom] = journal.PrefixRun.Format(source.Run.ID)
	return created
}

// forkPlan decides what a fork keeps.
type forkPlan struct {
	source *store.Journal
	from   int64                      // the first event of what is done again, with all that was first seen later
	asked  int64                      // where the run was asked to stop: what it did then is not worth keeping
	drop   map[string]bool            // keys that are done again, wherever they stand
	first  map[string]int64           // the first event of each key
	over   map[string]bool            // steps and waits with an outcome that counts
	hooks  map[journal.ID]string      // keys by hook
	inputs map[string]journal.Payload // of steps whose starts are recorded
}

func newForkPlan(j *store.Journal, r *ForkRequest) (*forkPlan, error) {
	created, ok := j.Events[0].Data.(*journal.RunCreated)
	switch {
	case !ok || j.Run.Dialect != journal.Engine:
		return nil, journal.Errorf(journal.CodeUnsupported, "only runs of Go workflows can be forked")
	case r.Workflow != "" && created.Workflow != r.Workflow:
		return nil, journal.Errorf(journal.CodeRunNotFound, "%s is a run of %q, not of %q", journal.PrefixRun.Format(j.Run.ID), created.Workflow, r.Workflow)
	case (r.From == "") == (len(r.Drop) == 0):
		return nil, journal.Errorf(journal.CodeMalformed, "say what the fork does again: either the key from which on, or a set of keys")
	}
	p := &forkPlan{
		source: j, from: math.MaxInt64, asked: math.MaxInt64, drop: map[string]bool{}, first: map[string]int64{}, over: map[string]bool{},
		hooks: map[journal.ID]string{}, inputs: map[string]journal.Payload{},
	}
	if err := p.find(); err != nil {
		return nil, err
	}
	for _, key := range append(slices.Clone(r.Drop), r.From) {
		if key != "" && p.first[key] == 0 {
			return nil, journal.Errorf(journal.CodeStepNotFound, "nothing in %s has the key %q: its history shows the keys", journal.PrefixRun.Format(j.Run.ID), key)
		}
		p.drop[key] = true
	}
	if r.From != "" {
		p.from = p.first[r.From]
	}
	p.judge()
	return p, nil
}

// find notes where the keys of the journal are first seen, and where the run was asked to stop.
func (p *forkPlan) find() error {
	for i := range p.source.Events {
		e := &p.source.Events[i]
		switch d := e.Data.(type) {
		case nil:
			return journal.Errorf(journal.CodeUnknownEvent, "event %d was written by a newer program: let that fork the run", e.Seq)
		case *journal.CancelRequested:
			p.asked = min(p.asked, e.Seq)
		case *journal.HookCreated:
			p.hooks[e.Entity] = e.Key
		case *journal.StepStarted:
			p.inputs[e.Key] = d.Input
		}
		if e.Key != "" && p.first[e.Key] == 0 {
			p.first[e.Key] = e.Seq
		}
	}
	return nil
}

// judge notes which steps and waits have an outcome that counts. A wait that ended later than the fork begins may be the deadline of what is done again.
func (p *forkPlan) judge() {
	for i := range p.source.Events {
		e := &p.source.Events[i]
		switch e.Type {
		case journal.EventStepCompleted, journal.EventStepFailed:
			p.over[e.Key] = e.Seq < p.asked
		case journal.EventWaitCompleted:
			p.over[e.Key] = e.Seq < min(p.asked, p.from)
		default:
		}
	}
}

// keeps reports whether what stands under a key is kept.
func (p *forkPlan) keeps(key string) bool {
	return !p.drop[key] && p.first[key] < min(p.from, p.asked)
}

// copies returns the events that the fork begins with, behind its birth and its start. Hooks get new tokens: the old ones lead to the source.
func (p *forkPlan) copies(newToken func() (string, error)) ([]journal.Event, error) {
	var events []journal.Event
	moved := map[int64]int64{} // where deliveries are now
	for i := range p.source.Events {
		e := &p.source.Events[i]
		key := e.Key
		if key == "" {
			key = p.hooks[e.Entity] // who sends to a hook does not know its key
		}
		if key != "" && !p.keeps(key) {
			continue
		}
		next := journal.Event{Key: key}
		early := e.Seq < min(p.from, p.asked)
		switch d := e.Data.(type) {
		case *journal.StepCompleted:
			if p.over[key] {
				own := *d
				own.Copied, own.Input = true, p.inputOf(key, d.Input)
				next.Data = &own
			}
		case *journal.StepFailed:
			if p.over[key] {
				own := *d
				own.Copied, own.Input = true, p.inputOf(key, d.Input)
				next.Data = &own
			}
		case *journal.WaitCreated, *journal.WaitCompleted:
			if p.over[key] {
				next.Data = d
			}
		case *journal.HookCreated:
			token, err := newToken()
			if err != nil {
				return nil, err
			}
			next.Data = &journal.HookCreated{Token: token, SingleUse: d.SingleUse, Webhook: d.Webhook, System: d.System, Metadata: d.Metadata}
		case *journal.HookReceived:
			if early && key != "" {
				moved[e.Seq] = int64(len(events)) + forkBirth + 1
				next.Data = &journal.HookReceived{Sender: d.Sender, Digest: d.Digest, At: cmp.Or(d.At, e.At), Payload: d.Payload}
			}
		case *journal.HookReplied:
			if to, kept := moved[d.To]; early && kept {
				next.Data = &journal.HookReplied{To: to, Error: d.Error, Value: d.Value}
			}
		case *journal.HookDisposed:
			if early {
				next.Data = &journal.HookDisposed{}
			}
		case *journal.AttrSet:
			if early {
				next.Data = &journal.AttrSet{Changes: d.Changes, Step: d.Step, Attempt: d.Attempt, AllowReserved: true}
			}
		}
		if next.Data != nil {
			events = append(events, next)
		}
	}
	return events, nil
}

// forkBirth is how many events of a fork come before those that it keeps: its birth and its start.
const forkBirth = 2

// inputOf returns the input of a step, which stands with its start if that is recorded.
func (p *forkPlan) inputOf(key string, in journal.Payload) journal.Payload {
	if len(in) == 0 {
		return p.inputs[key]
	}
	return in
}
