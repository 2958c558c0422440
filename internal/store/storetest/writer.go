package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var writerTests = []test{
	{"BigBatch", writerBigBatch},
	{"CancelledContext", writerCancelled},
	{"Closed", writerClosed},
	{"Conflicts", writerConflicts},
	{"Ended", writerEnded},
	{"Fence", writerFence},
	{"FenceOfUnknown", writerFenceUnknown},
	{"LoadTwice", writerLoadTwice},
	{"LoadsNothing", writerLoadsNothing},
	{"NothingToDo", writerNothing},
	{"OpenedAgain", writerOpenedAgain},
	{"Ref", writerRef},
	{"Rollback", writerRollback},
	{"SameSeq", writerSameSeq},
	{"SeveralNumbers", writerNumbers},
}

// newRun returns the change that makes a run, without Load.
func (b *bench) newRun(run journal.ID, edit ...func(*journal.RunCreated)) store.RunChange {
	b.Helper()
	return b.optimistic(journal.NewState(b.ns), b.starting(run, journal.Engine, edit...)).Runs[0]
}

// sorted brings the runs of a batch into their order.
func sorted(changes ...store.RunChange) []store.RunChange {
	slices.SortFunc(changes, func(x, y store.RunChange) int { return x.State.Run.ID.Compare(y.State.Run.ID) })
	return changes
}

func requireNoRun(b *bench, run journal.ID) {
	b.Helper()
	_, err := b.store.Run(b.ctx(), b.ns, run, store.ResolveNone)
	requireCode(b, cairnerr.CodeRunNotFound, err)
	require.Empty(b, b.eventsOf(store.EventFilter{Run: run}))
}

func writerBigBatch(b *bench) {
	size := 2000
	if testing.Short() {
		size = 500
	}
	var c store.Changes
	var ids []journal.ID
	for i := range size {
		id := b.mint()
		ids = append(ids, id)
		c.Runs = append(c.Runs, b.optimistic(journal.NewState(b.ns), &journal.Command{Run: id, Events: []journal.Event{
			plain(&journal.RunCreated{Workflow: fmt.Sprint("w", i%3), Attributes: map[string]string{"i": fmt.Sprint(i % 10)}}),
		}}).Runs[0])
	}
	require.NoError(b, b.commit(&c))
	got := all(b, func(p store.Page) (store.List[*journal.Run], error) {
		return b.store.Runs(b.ctx(), b.ns, store.RunFilter{}, p)
	}, store.Page{Limit: 1000})
	require.Len(b, got, size)
	for i, r := range got {
		require.Equal(b, ids[i], r.ID)
	}
	for _, i := range []int{0, 1, size / 2, size - 1} {
		j, err := b.store.Journal(b.ctx(), b.ns, ids[i], 0)
		require.NoError(b, err)
		require.Equal(b, j.Ref, c.Runs[i].State.Ref)
	}
	b.check(ids[0], ids[size-1])
}

// A batch whose context has ended is written completely, or not at all and with an error.
func writerCancelled(b *bench) {
	for i := range 4 {
		ctx, cancel := context.WithCancel(b.ctx())
		run := b.mint()
		tx := b.begin()
		if i%2 == 0 {
			_, err := tx.Load(ctx, &store.LoadSet{Runs: []store.LoadRun{{Namespace: b.ns, Run: run, EventsAfter: 0}}})
			require.NoError(b, err)
		}
		cancel()
		err := tx.Commit(ctx, &store.Changes{Runs: []store.RunChange{b.newRun(run)}})
		tx.Rollback()
		applied := err == nil
		if errors.Is(err, store.ErrUnknownOutcome) {
			applied, err = b.writer.Settle(b.ctx())
			require.NoError(b, err)
		}
		if applied {
			b.check(run)
		} else {
			requireNoRun(b, run)
		}
		b.start(journal.Engine) // the writer goes on
	}
}

func writerClosed(b *bench) {
	run := b.start(journal.Engine)
	w := b.openWriter(b.mint(), 0)
	require.NoError(b, w.Close())
	require.NoError(b, w.Close())
	_, err := w.Begin(b.ctx(), b.now)
	requireCode(b, cairnerr.CodeClosed, err)
	b.check(run) // what was committed stays, and others go on
}

// Each unique key refuses what collides, and with it the whole batch.
func writerConflicts(b *bench) {
	taken := b.start(journal.Engine, func(c *journal.RunCreated) { c.StartKey = "key" })
	hook := journal.DeriveID(taken, journal.PrefixHook, "h")
	b.write(taken, keyed("h", &journal.HookCreated{Token: "token"}))
	b.outsider(taken, keyed("h", &journal.HookReceived{Sender: "sender", Payload: payload("1")}))
	other := b.start(journal.Engine)
	own := func(run journal.ID, events ...journal.Event) *journal.Command {
		return &journal.Command{Run: run, Events: events, Guards: journal.Guards{Owner: journal.Ownership{Incarnation: b.self, Epoch: 1}}}
	}
	note := plain(&journal.Annotated{Name: "note"})
	for name, collide := range map[string]func() store.RunChange{
		"id of the run": func() store.RunChange { return b.newRun(taken) },
		"position": func() store.RunChange {
			s := b.cached(taken)
			c := b.optimistic(s, own(taken, note)).Runs[0]
			b.write(taken, note)
			return c
		},
		"receipt": func() store.RunChange {
			full := b.cached(taken)
			s := journal.LoadedState(b.ns, full.Run, full.Seq, full.Ref) // read without receipts
			s.Hooks = full.Hooks
			return b.optimistic(s, &journal.Command{Run: taken, Events: []journal.Event{
				about(hook, &journal.HookReceived{Sender: "sender", Payload: payload("2")}),
			}}).Runs[0]
		},
		"start key": func() store.RunChange {
			return b.newRun(b.mint(), func(c *journal.RunCreated) { c.StartKey = "key" })
		},
		"token": func() store.RunChange {
			return b.optimistic(b.cached(other), own(other, keyed("x", &journal.HookCreated{Token: "token"}))).Runs[0]
		},
	} {
		before := b.mint()
		bad := collide()
		after := b.mint()
		message := b.message("q", "", "x")
		journals := b.journals(taken, other)
		err := b.commit(&store.Changes{
			Runs:     sorted(b.newRun(before), bad, b.newRun(after)),
			Messages: []journal.Message{message},
			Wake:     []store.RunKey{{Namespace: b.ns, Run: other}},
		})
		require.ErrorIs(b, err, store.ErrConflict, name)
		requireNoRun(b, before)
		requireNoRun(b, after)
		if id := bad.State.Run.ID; id != taken && id != other {
			requireNoRun(b, id)
		}
		_, err = b.store.Message(b.ctx(), b.ns, message.ID)
		requireCode(b, cairnerr.CodeMessageNotFound, err)
		require.Equal(b, journals, b.journals(taken, other), name)
		b.check(taken, other)
	}
}

func (b *bench) journals(runs ...journal.ID) []*store.Journal {
	b.Helper()
	var journals []*store.Journal
	for _, run := range runs {
		j, err := b.store.Journal(b.ctx(), b.ns, run, 0)
		require.NoError(b, err)
		journals = append(journals, j)
	}
	return journals
}

// A batch ends once.
func writerEnded(b *bench) {
	for _, loads := range []bool{false, true} {
		for _, commits := range []bool{false, true} {
			tx := b.begin()
			if loads {
				_, err := tx.Load(b.ctx(), &store.LoadSet{})
				require.NoError(b, err)
			}
			if commits {
				require.NoError(b, tx.Commit(b.ctx(), &store.Changes{}))
			}
			tx.Rollback()
			tx.Rollback()
			late := b.mint()
			require.Error(b, tx.Commit(b.ctx(), &store.Changes{Runs: []store.RunChange{b.newRun(late)}}))
			requireNoRun(b, late)
			_, err := tx.Load(b.ctx(), &store.LoadSet{})
			require.Error(b, err)
			b.start(journal.Engine)
		}
	}
}

func writerFence(b *bench) {
	dead, other := b.peer(), b.peer()
	run := dead.start(journal.Engine)
	second := dead.openWriter(dead.self, 1)
	state := dead.cached(run)
	changes := dead.optimistic(state, &journal.Command{
		Run: run, Events: []journal.Event{keyed("a", &journal.StepCompleted{})},
		Guards: journal.Guards{Owner: journal.Ownership{Incarnation: dead.self, Epoch: 1}},
	})
	begun := dead.begin()
	require.NoError(b, b.store.Fence(b.ctx(), dead.self))
	require.NoError(b, b.store.Fence(b.ctx(), dead.self), "twice is the same")
	requireCode(b, cairnerr.CodeFenced, begun.Commit(b.ctx(), changes))
	for _, w := range []store.Writer{dead.writer, second} {
		tx, err := w.Begin(b.ctx(), b.now)
		if err == nil {
			_, err = tx.Load(b.ctx(), &store.LoadSet{Runs: []store.LoadRun{{Namespace: b.ns, Run: run, EventsAfter: -1}}})
			tx.Rollback()
		}
		requireCode(b, cairnerr.CodeFenced, err)
		tx, err = w.Begin(b.ctx(), b.now)
		if err == nil {
			err = tx.Commit(b.ctx(), changes)
			tx.Rollback()
		}
		requireCode(b, cairnerr.CodeFenced, err)
	}
	for number := range 3 {
		_, err := other.store.OpenWriter(b.ctx(), dead.self, number)
		requireCode(b, cairnerr.CodeFenced, err)
	}
	require.Equal(b, int64(2), b.cached(run).Seq)
	b.check(run)
	b.start(journal.Engine)
	other.start(journal.Engine)
}

// An incarnation that has no writer yet can be declared dead as well.
func writerFenceUnknown(b *bench) {
	unborn := b.mint()
	require.NoError(b, b.store.Fence(b.ctx(), unborn))
	_, err := b.store.OpenWriter(b.ctx(), unborn, 0)
	requireCode(b, cairnerr.CodeFenced, err)
	b.start(journal.Engine)
}

func writerLoadTwice(b *bench) {
	first, second := b.start(journal.Engine), b.start(journal.World3)
	b.write(first, keyed("a", &journal.StepCompleted{}))
	tx := b.begin()
	for _, after := range []int64{-1, 0, 2, 3, 9} {
		loaded, err := tx.Load(b.ctx(), &store.LoadSet{Runs: []store.LoadRun{
			{Namespace: b.ns, Run: first, EventsAfter: after}, {Namespace: b.ns, Run: second, EventsAfter: -1},
		}})
		require.NoError(b, err)
		require.Len(b, loaded.Runs, 2)
		for i, run := range []journal.ID{first, second} {
			require.False(b, loaded.Runs[i].Busy, "held by nobody else")
			require.Equal(b, run, loaded.Runs[i].State.Run.ID)
		}
		require.Equal(b, int64(3), loaded.Runs[0].State.Seq)
		want := 0
		if after >= 0 {
			want = max(0, int(3-after))
		}
		require.Len(b, loaded.Runs[0].Events, want)
		require.Empty(b, loaded.Runs[1].Events)
	}
	third := b.mint()
	require.NoError(b, tx.Commit(b.ctx(), &store.Changes{Runs: []store.RunChange{b.newRun(third)}}))
	b.check(first, second, third)
}

func writerLoadsNothing(b *bench) {
	run := b.start(journal.Engine)
	missing := b.mint()
	tx := b.begin()
	loaded, err := tx.Load(b.ctx(), &store.LoadSet{
		Runs: []store.LoadRun{
			{Namespace: b.ns, Run: run, EventsAfter: -1, Touch: journal.Touch{
				Steps: []journal.ID{missing}, Hooks: []journal.ID{missing}, Waits: []journal.ID{missing}, AttrSets: []journal.ID{missing},
				Senders: []string{"nobody"}, HooksMade: []journal.ID{missing},
			}},
			{Namespace: b.ns, Run: missing, EventsAfter: 0},
			{Namespace: b.ns + "x", Run: run, EventsAfter: 0}, // never seen
		},
		Tokens:    []store.Token{{Namespace: b.ns, Token: "none"}, {Namespace: "never seen", Token: "none"}},
		StartKeys: []journal.StartKey{{Namespace: b.ns, Workflow: "none", Key: "k"}, {Namespace: b.ns, Workflow: "checkout", Key: "k"}, {Namespace: "never seen", Workflow: "w", Key: "k"}},
		Messages:  []journal.ID{missing},
		Owners:    []journal.ID{missing, b.self},
	})
	require.NoError(b, err)
	require.Len(b, loaded.Runs, 3)
	found := loaded.Runs[0].State
	require.Equal(b, int64(2), found.Seq)
	require.Empty(b, found.Steps)
	require.Empty(b, found.Hooks)
	require.Empty(b, found.Waits)
	require.Empty(b, found.AttrSets)
	require.Empty(b, found.HooksMade)
	require.Empty(b, found.Receipts)
	for _, r := range loaded.Runs[1:] {
		require.False(b, r.Busy)
		require.Nil(b, r.State.Run)
		require.Empty(b, r.Events)
	}
	require.Empty(b, loaded.Outside.Tokens)
	require.Empty(b, loaded.Outside.StartKeys)
	require.Empty(b, loaded.Outside.Deliveries)
	require.Empty(b, loaded.Outside.Fenced)
}

func writerNothing(b *bench) {
	for range 3 {
		require.NoError(b, b.commit(&store.Changes{}))
		tx := b.begin()
		loaded, err := tx.Load(b.ctx(), &store.LoadSet{})
		require.NoError(b, err)
		require.Empty(b, loaded.Runs)
		require.NotNil(b, loaded.Outside)
		require.NoError(b, tx.Commit(b.ctx(), &store.Changes{}))
		b.begin().Rollback()
	}
	l, err := b.store.Runs(b.ctx(), b.ns, store.RunFilter{}, store.Page{})
	require.NoError(b, err)
	require.Empty(b, l.Data)
}

func writerOpenedAgain(b *bench) {
	for i := range 3 {
		for range 3 {
			b.check(b.start(journal.Engine))
		}
		require.ErrorIs(b, b.commit(&store.Changes{Runs: []store.RunChange{{State: stateOf(b), New: true}}}), store.ErrConflict)
		if i > 0 {
			require.NoError(b, b.writer.Close())
		}
		b.writer = b.openWriter(b.self, 0)
	}
}

// stateOf returns a run that exists, to be stored as a new one.
func stateOf(b *bench) *journal.State {
	b.Helper()
	return b.cached(b.start(journal.Engine))
}

func writerRef(b *bench) {
	run := b.mint()
	c := b.newRun(run)
	require.Zero(b, c.State.Ref)
	require.NoError(b, b.commit(&store.Changes{Runs: []store.RunChange{c}}))
	require.NotZero(b, c.State.Ref)
	j, err := b.store.Journal(b.ctx(), b.ns, run, 0)
	require.NoError(b, err)
	require.Equal(b, j.Ref, c.State.Ref)
	again, other := b.newRun(run), b.newRun(b.mint())
	require.ErrorIs(b, b.commit(&store.Changes{Runs: sorted(again, other)}), store.ErrConflict)
	require.Zero(b, again.State.Ref)
	require.Zero(b, other.State.Ref)
	// The owner goes on with the state that it has.
	c.State.Commit()
	for i := range 3 {
		next := b.optimistic(c.State, &journal.Command{
			Run: run, Events: []journal.Event{keyed(fmt.Sprint(i), &journal.StepCompleted{Result: payload("x")})},
			Guards: journal.Guards{Owner: journal.Ownership{Incarnation: b.self, Epoch: 1}},
		})
		require.NoError(b, b.commit(next))
		c.State.Commit()
	}
	b.check(run)
}

func writerRollback(b *bench) {
	fresh := b.in(b.ns + "-fresh") // a namespace and a workflow that the batch is the first to name
	run := b.mint()
	tx := b.begin()
	state, _, err := fresh.load(tx, &journal.Command{Namespace: fresh.ns, Run: run})
	require.NoError(b, err)
	require.Nil(b, state.Run)
	tx.Rollback()
	requireNoRun(fresh, run)
	named := func(c *journal.RunCreated) { c.Workflow, c.StartKey = "new", "twice" }
	require.ErrorIs(b, b.commit(&store.Changes{Runs: sorted(fresh.newRun(run, named), fresh.newRun(b.mint(), named))}), store.ErrConflict)
	requireNoRun(fresh, run)
	// The names are not spoilt by the batch that was not committed.
	p := b.peer()
	elsewhere := p.in(b.ns + "-elsewhere")
	one := elsewhere.start(journal.Engine, func(c *journal.RunCreated) { c.Workflow = "newer" })
	two := fresh.start(journal.Engine, func(c *journal.RunCreated) { c.Workflow = "new" })
	elsewhere.check(one)
	fresh.check(two)
	requireNoRun(fresh, one)
	requireNoRun(elsewhere, two)
}

// Two writers compute the same position: one wins, the other's whole batch is refused.
func writerSameSeq(b *bench) {
	p := b.peer()
	run := b.start(journal.Engine)
	append1 := func(b *bench, owner journal.ID, name string) *store.Changes {
		return b.optimistic(b.cached(run), &journal.Command{
			Run: run, Events: []journal.Event{keyed(name, &journal.StepCompleted{Result: payload(name)})},
			Guards: journal.Guards{Owner: journal.Ownership{Incarnation: owner, Epoch: 1}},
		})
	}
	winner, loser := append1(b, b.self, "winner"), append1(p, b.self, "loser")
	extra := p.mint()
	loser.Runs = sorted(append(loser.Runs, p.newRun(extra))...)
	message := p.message("q", "", "x")
	loser.Messages = []journal.Message{message}
	one, two := b.begin(), p.begin()
	require.NoError(b, one.Commit(b.ctx(), winner))
	require.ErrorIs(b, two.Commit(b.ctx(), loser), store.ErrConflict)
	steps := b.steps(run, store.Page{})
	require.Len(b, steps.Data, 1)
	require.Equal(b, "winner", steps.Data[0].Key)
	requireNoRun(b, extra)
	_, err := b.store.Message(b.ctx(), b.ns, message.ID)
	requireCode(b, cairnerr.CodeMessageNotFound, err)
	b.check(run)
	require.NoError(b, p.commit(append1(p, b.self, "loser")), "reduced again on what is there now")
	p.check(run)
}

func writerNumbers(b *bench) {
	one, two := *b, *b
	one.writer, two.writer = b.openWriter(b.self, 1), b.openWriter(b.self, 2)
	for range 3 {
		b.check(one.start(journal.Engine), two.start(journal.Engine), b.start(journal.Engine))
	}
}
