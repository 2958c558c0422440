package commit

import (
	"context"
	"maps"
	"slices"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// load reads what runs need, and locks them.
func (b *batch) load(ctx context.Context, tx store.Tx, runs []*runBatch) error {
	if len(runs) == 0 {
		return nil
	}
	want := &store.LoadSet{}
	for _, r := range runs {
		want.Runs = append(want.Runs, r.wants())
		for _, t := range r.tickets {
			b.wantOutside(want, t.cmd)
		}
	}
	loaded, err := tx.Load(ctx, want)
	if err != nil {
		return err
	}
	if err := b.loadOwners(ctx, tx, loaded, runs); err != nil {
		return err
	}
	b.merge(loaded.Outside)
	for i, r := range runs {
		if err := r.adopt(&loaded.Runs[i]); err != nil {
			r.unreadable = err
		}
	}
	b.c.stats.loaded(len(runs))
	return nil
}

// wants says what is to be read of a run. With a remembered state, that is what came after it. Without, the owner's
// commands need all of the journal, because only it knows which steps are finished; others need what they touch.
func (r *runBatch) wants() store.LoadRun {
	want := store.LoadRun{Namespace: r.key.Namespace, Run: r.key.Run, EventsAfter: -1}
	since := func(seq int64) {
		if want.EventsAfter < 0 || seq < want.EventsAfter {
			want.EventsAfter = seq
		}
	}
	if r.remembered() {
		since(r.state.Seq)
	}
	for _, t := range r.tickets {
		if t.cmd.Read.Kind != journal.ReadNone {
			since(max(t.cmd.Read.Since, 0))
		}
		if !r.remembered() && !t.cmd.Guards.Owner.Incarnation.IsZero() {
			since(0)
		}
		touch := t.cmd.Touches()
		want.Touch.Steps = append(want.Touch.Steps, touch.Steps...)
		want.Touch.Hooks = append(want.Touch.Hooks, touch.Hooks...)
		want.Touch.Waits = append(want.Touch.Waits, touch.Waits...)
		want.Touch.AttrSets = append(want.Touch.AttrSets, touch.AttrSets...)
		want.Touch.Senders = append(want.Touch.Senders, touch.Senders...)
		want.Touch.HooksMade = append(want.Touch.HooksMade, touch.HooksMade...)
	}
	if r.remembered() || want.EventsAfter == 0 {
		want.Touch = journal.Touch{}
	}
	return want
}

// remembered reports whether there is a complete state of a run that is stored.
func (r *runBatch) remembered() bool {
	return r.state != nil && r.state.Complete && r.state.Run != nil && r.state.Seq > 0
}

func (b *batch) wantOutside(want *store.LoadSet, cmd *journal.Command) {
	for _, token := range cmd.Tokens() {
		want.Tokens = append(want.Tokens, store.Token{Namespace: cmd.Namespace, Token: token})
	}
	want.StartKeys = append(want.StartKeys, cmd.StartKeys()...)
	if id := cmd.Guards.Delivery.Message; !id.IsZero() {
		want.Messages = append(want.Messages, id)
	}
}

// loadOwners asks whether the owners of runs that somebody claims are fenced.
func (b *batch) loadOwners(ctx context.Context, tx store.Tx, loaded *store.Loaded, runs []*runBatch) error {
	want := &store.LoadSet{}
	for i, r := range runs {
		run := loaded.Runs[i].State
		claimed := slices.ContainsFunc(r.tickets, func(t *Ticket) bool { return t.cmd.Lease == journal.LeaseClaim })
		if claimed && run != nil && run.Run != nil && !run.Run.Owner.IsZero() {
			want.Owners = append(want.Owners, run.Run.Owner)
		}
	}
	if len(want.Owners) == 0 {
		return nil
	}
	owners, err := tx.Load(ctx, want)
	if err != nil {
		return err
	}
	for id := range owners.Outside.Fenced {
		loaded.Outside.Fenced[id] = true
	}
	return nil
}

// merge adds what was read to what the commands of the batch have changed already, which is newer.
func (b *batch) merge(read *journal.Outside) {
	for k, v := range read.Tokens {
		if _, ok := b.outside.Tokens[k]; !ok {
			b.outside.Tokens[k] = v
		}
	}
	for k, v := range read.StartKeys {
		if _, ok := b.outside.StartKeys[k]; !ok {
			b.outside.StartKeys[k] = v
		}
	}
	maps.Copy(b.outside.Deliveries, read.Deliveries)
	for k := range read.Fenced {
		b.outside.Fenced[k] = true
	}
}

// adopt makes the run's state what was read.
func (r *runBatch) adopt(loaded *store.LoadedRun) error {
	if loaded.Busy {
		r.busy = true
		return nil
	}
	r.verified = true
	r.before = loaded.Events
	read := loaded.State
	switch {
	case read.Run == nil:
		r.state = journal.NewState(r.key.Namespace)
		return nil
	case r.remembered():
		return r.catchUp(read, loaded.Events)
	case len(loaded.Events) > 0 && loaded.Events[0].Seq == 1:
		r.state = read
		state, err := journal.Fold(r.key.Namespace, r.key.Run, loaded.Events)
		if err != nil {
			return err
		}
		state.Adopt(read.Run)
		state.Ref = read.Ref
		r.state = state
		return nil
	default:
		r.state = read
		return nil
	}
}

// catchUp folds in what others have written since the state was remembered.
func (r *runBatch) catchUp(read *journal.State, events []journal.Event) error {
	missed := slices.DeleteFunc(slices.Clone(events), func(e journal.Event) bool { return e.Seq <= r.state.Seq })
	if err := r.state.Follow(r.key.Run, missed); err != nil {
		r.state = read
		return err
	}
	r.state.Adopt(read.Run)
	r.state.Ref = read.Ref
	r.state.Commit() // it is what the database holds
	return nil
}
