package storetest

import (
	"maps"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var runTests = []test{
	{"Attributes", runAttributes},
	{"BirthIsKept", runBirth},
	{"EveryKindOfEnd", runEnds},
	{"Fork", runFork},
	{"ForkOfNothing", runForkOfNothing},
	{"JournalAfter", runJournalAfter},
	{"Lifecycle", runLifecycle},
	{"NotFound", runNotFound},
	{"ParkedAndCancelling", runParked},
	{"StartKey", runStartKey},
}

func (b *bench) run(id journal.ID) *journal.Run {
	b.Helper()
	run, err := b.store.Run(b.ctx(), b.ns, id, store.ResolveAll)
	require.NoError(b, err)
	return run
}

func runAttributes(b *bench) {
	id := b.start(journal.Engine, func(c *journal.RunCreated) { c.Attributes = map[string]string{"a": "1", "b": "2"} })
	require.Equal(b, map[string]string{"a": "1", "b": "2"}, b.run(id).Attributes)
	b.check(id)
	set := func(changes ...journal.AttrChange) journal.Event { return plain(&journal.AttrSet{Changes: changes}) }
	// The last change of a key holds, also within one batch.
	b.write(id,
		set(journal.AttrChange{Key: "a", Remove: true}, journal.AttrChange{Key: "c", Value: "3"}),
		set(journal.AttrChange{Key: "a", Value: "4"}),
		set(journal.AttrChange{Key: "c", Remove: true}, journal.AttrChange{Key: "b", Value: ""}))
	require.Equal(b, map[string]string{"a": "4", "b": ""}, b.run(id).Attributes)
	b.check(id)
	b.outsider(id, set(journal.AttrChange{Key: "a", Remove: true}, journal.AttrChange{Key: "b", Remove: true}))
	require.Empty(b, b.run(id).Attributes)
	b.check(id)
	b.write(id, keyed("once", &journal.AttrSet{Changes: []journal.AttrChange{{Key: "d", Value: "5"}}}))
	_, err := b.try(&journal.Command{Run: id, Events: []journal.Event{keyed("once", &journal.AttrSet{Changes: []journal.AttrChange{{Key: "d", Value: "6"}}})}})
	requireCode(b, cairnerr.CodeAttributeExists, err)
	b.check(id)

	// A change that a step wrote may come again, and is not taken for one of the workflow.
	world := b.start(journal.World3)
	step, change := b.mint(), b.mint()
	b.write(world, about(step, &journal.StepCreated{Name: "s"}))
	for range 2 {
		b.write(world, about(change, &journal.AttrSet{Step: step, Attempt: 1, Changes: []journal.AttrChange{{Key: "k", Value: "v"}}}))
	}
	b.check(world)
	b.write(world, about(change, &journal.AttrSet{Changes: []journal.AttrChange{{Key: "k", Value: "w"}}}))
	b.check(world)
	require.Equal(b, map[string]string{"k": "w"}, b.run(world).Attributes)
}

func runBirth(b *bench) {
	parent := b.start(journal.Engine)
	root := b.mint()
	id := b.start(journal.Engine, func(c *journal.RunCreated) {
		c.Workflow, c.Deployment, c.Context, c.Parent, c.Root = "billing", "dpl_1", []byte{0, 1, 0xff}, parent, root
		c.StartKey, c.StartDigest, c.Input = "key", []byte("digest"), payload("the input")
	})
	run := b.run(id)
	require.Equal(b, "billing", run.Workflow)
	require.Equal(b, "dpl_1", run.Deployment)
	require.Equal(b, []byte{0, 1, 0xff}, run.Context)
	require.Equal(b, parent, run.Parent)
	require.Equal(b, root, run.Root)
	require.Equal(b, "key", run.StartKey)
	require.Equal(b, []byte("digest"), run.StartDigest)
	require.Equal(b, payload("the input"), run.Input)
	require.Equal(b, b.self, run.Owner)
	require.Equal(b, int64(1), run.Epoch)
	b.check(parent, id)
	for _, d := range []journal.Dialect{journal.World3, journal.World6} {
		id := b.start(d)
		run := b.run(id)
		require.Equal(b, d, run.Dialect)
		require.Equal(b, birth(d).Spec, run.Spec)
		require.True(b, run.Owner.IsZero())
		b.check(id)
	}
}

func runEnds(b *bench) {
	failure := &journal.RunFailed{
		Error:     &cairnerr.Error{Code: "card_declined", Message: "no\x00money\xff", Stack: "at x", Retryable: true, Details: map[string]string{"a": "b"}},
		ErrorCode: "CARD", Value: payload("opaque"),
	}
	for _, d := range []journal.Dialect{journal.Engine, journal.World3, journal.World6} {
		for status, end := range map[journal.Status]journal.Data{
			journal.StatusCompleted: &journal.RunCompleted{Output: payload("out")},
			journal.StatusFailed:    failure,
			journal.StatusCancelled: &journal.RunCancelled{Reason: "enough", Actor: "me"},
		} {
			id := b.start(d)
			b.later(time.Second)
			b.write(id, plain(end))
			run := b.run(id)
			require.Equal(b, status, run.Status)
			require.Equal(b, b.now, run.CompletedAt)
			require.Equal(b, int64(3), run.EndSeq)
			require.True(b, run.Owner.IsZero())
			if status == journal.StatusFailed {
				require.Equal(b, failure, run.Error)
			}
			b.check(id)
			b.later(time.Second)
			b.write(id, plain(&journal.Annotated{Name: "note", Actor: "me", Value: payload("why")}))
			after := b.run(id)
			require.Equal(b, b.now, after.UpdatedAt)
			require.Equal(b, run.CompletedAt, after.CompletedAt)
			b.check(id)
		}
	}
	id := b.start(journal.World3)
	b.write(id, plain(&journal.RunCancelled{}))
	b.later(time.Second)
	b.write(id, plain(&journal.RunCancelled{}))
	require.Equal(b, int64(3), b.run(id).EndSeq, "a repeated cancel changes nothing")
	b.check(id)
}

// runFork makes a fork out of an outline: what says nothing but the outcome of a step is copied by the store, and has never been read.
func runFork(b *bench) {
	source := b.start(journal.Engine)
	b.write(source, keyed("a", &journal.StepCompleted{Name: "a", Digest: []byte{7}, Result: payload("1"), Attempt: 1}))
	b.write(source, keyed("nap", &journal.WaitCreated{ResumeAt: b.now}))
	b.write(source, keyed("b", &journal.StepStarted{Name: "b", Input: payload("in b")}))
	b.write(source, keyed("b", &journal.StepFailed{Error: &cairnerr.Error{Code: "x"}}), keyed("d", &journal.StepFailed{Error: &cairnerr.Error{Code: "y"}}))
	b.write(source, keyed("race", &journal.StepCompleted{Result: payload("won"), Closes: []string{"lost/"}}))
	b.write(source, keyed("c", &journal.StepCompleted{Result: payload("3")}), keyed("e", &journal.StepCompleted{Result: payload("4")}))
	j, err := b.store.Outline(b.ctx(), b.ns, source)
	require.NoError(b, err)
	whole, err := b.store.Journal(b.ctx(), b.ns, source, 0)
	require.NoError(b, err)
	require.Equal(b, whole.Run, j.Run)
	for i := range j.Events {
		if e := &j.Events[i]; e.IsOutline() {
			require.Contains(b, []string{"a", "c", "d", "e"}, e.Key)
			e.Data, e.Entity = whole.Events[i].Data, whole.Events[i].Entity
		}
	}
	requireRows(b, whole.Events, j.Events)

	for _, kept := range []struct {
		spec  journal.ForkSpec
		steps []string
	}{
		{journal.ForkSpec{From: "c"}, []string{"a", "b", "d", "race"}},
		{journal.ForkSpec{Drop: []string{"b", "c"}}, []string{"a", "d", "race", "e"}},
		{journal.ForkSpec{From: "a", StartKey: "key"}, nil},
	} {
		fork := b.mint()
		j, err := b.store.Outline(b.ctx(), b.ns, source)
		require.NoError(b, err)
		cmd, err := journal.Fork(b.ns, j.Run, j.Ref, j.Events, fork, &kept.spec)
		require.NoError(b, err)
		cmd.Guards.Owner = journal.Ownership{Incarnation: b.self, Epoch: 1}
		cmd.WakeAt = b.now
		b.must(cmd)
		got := b.run(fork)
		require.Equal(b, source, got.ForkedFrom)
		require.True(b, got.Owner.IsZero())
		require.Equal(b, b.now, got.WakeAt)
		steps, err := b.store.Steps(b.ctx(), b.ns, fork, store.ResolveAll, store.Page{})
		require.NoError(b, err)
		var keys []string
		for _, s := range steps.Data {
			keys = append(keys, s.Key)
		}
		require.Equal(b, kept.steps, keys)
		b.check(source, fork)
	}
}

// runForkOfNothing forks a run that is deleted before the fork is written.
func runForkOfNothing(b *bench) {
	source := b.start(journal.Engine)
	b.write(source, keyed("a", &journal.StepCompleted{Name: "a"}), keyed("b", &journal.StepCompleted{Name: "b"}), plain(&journal.RunCompleted{}))
	j, err := b.store.Outline(b.ctx(), b.ns, source)
	require.NoError(b, err)
	cmd, err := journal.Fork(b.ns, j.Run, j.Ref, j.Events, b.mint(), &journal.ForkSpec{From: "b"})
	require.NoError(b, err)
	cmd.Guards.Owner = journal.Ownership{Incarnation: b.self, Epoch: 1}
	require.NoError(b, b.store.Delete(b.ctx(), b.ns, source))
	_, err = b.try(cmd)
	require.ErrorIs(b, err, store.ErrSourceGone)
	_, err = b.store.Outline(b.ctx(), b.ns, source)
	requireCode(b, cairnerr.CodeRunNotFound, err)
}

func runJournalAfter(b *bench) {
	id := b.start(journal.Engine)
	b.write(id, keyed("a", &journal.StepCompleted{Result: payload("1")}), keyed("b", &journal.StepCompleted{Result: payload("2")}))
	whole, err := b.store.Journal(b.ctx(), b.ns, id, 0)
	require.NoError(b, err)
	require.Len(b, whole.Events, 4)
	for after := range int64(7) {
		j, err := b.store.Journal(b.ctx(), b.ns, id, after)
		require.NoError(b, err)
		require.Equal(b, int64(4), j.Seq)
		require.Equal(b, whole.Ref, j.Ref)
		require.Equal(b, whole.Run, j.Run)
		requireRows(b, whole.Events[min(after, 4):], j.Events)
	}
}

func runLifecycle(b *bench) {
	for _, d := range []journal.Dialect{journal.Engine, journal.World3, journal.World6} {
		id := b.mint()
		cmd := &journal.Command{Run: id, Events: []journal.Event{plain(birth(d))}}
		if d == journal.Engine {
			cmd.Guards.Owner.Incarnation = b.self
		}
		b.must(cmd)
		created := b.now
		run := b.run(id)
		require.Equal(b, journal.StatusPending, run.Status)
		require.Equal(b, created, run.CreatedAt)
		require.Equal(b, created, run.UpdatedAt)
		require.Zero(b, run.StartedAt)
		require.Zero(b, run.CompletedAt)
		b.check(id)

		b.later(time.Second)
		b.write(id, plain(&journal.RunStarted{}))
		started := b.now
		run = b.run(id)
		require.Equal(b, journal.StatusRunning, run.Status)
		require.Equal(b, started, run.StartedAt)
		require.Equal(b, started, run.UpdatedAt)
		b.check(id)

		b.later(time.Second)
		b.write(id, plain(&journal.Annotated{Name: "note"}))
		b.later(time.Second)
		b.write(id, plain(&journal.RunCompleted{Output: payload("done")}))
		run = b.run(id)
		require.Equal(b, journal.StatusCompleted, run.Status)
		require.Equal(b, created, run.CreatedAt)
		require.Equal(b, started, run.StartedAt, "started once")
		require.Equal(b, b.now, run.CompletedAt)
		require.Equal(b, b.now, run.UpdatedAt)
		require.Equal(b, payload("done"), run.Output)
		b.check(id)
	}
}

func runNotFound(b *bench) {
	id := b.start(journal.Engine)
	for _, foreign := range []*bench{b.foreign(), b.in("never seen")} {
		_, err := foreign.store.Run(b.ctx(), foreign.ns, id, store.ResolveAll)
		requireCode(b, cairnerr.CodeRunNotFound, err)
		_, err = foreign.store.Journal(b.ctx(), foreign.ns, id, 0)
		requireCode(b, cairnerr.CodeRunNotFound, err)
	}
	_, err := b.store.Run(b.ctx(), b.ns, b.mint(), store.ResolveNone)
	requireCode(b, cairnerr.CodeRunNotFound, err)
	_, err = b.store.Journal(b.ctx(), b.ns, b.mint(), 0)
	requireCode(b, cairnerr.CodeRunNotFound, err)
	_, err = b.store.Run(b.ctx(), b.ns, journal.ID{}, store.ResolveAll)
	requireCode(b, cairnerr.CodeRunNotFound, err)
}

func runParked(b *bench) {
	id := b.start(journal.Engine)
	b.later(time.Second)
	b.outsider(id, plain(&journal.CancelRequested{Reason: "stop", Actor: "me"}))
	require.Equal(b, b.now, b.run(id).CancelledAt)
	require.Equal(b, "cancelling", b.run(id).Phase())
	b.check(id)
	b.later(time.Second)
	b.write(id, plain(&journal.RunParked{Error: &cairnerr.Error{Code: "poison", Message: "thrice"}}))
	run := b.run(id)
	require.Equal(b, b.now, run.ParkedAt)
	require.Equal(b, "parked", run.Phase())
	require.True(b, run.Owner.IsZero())
	b.check(id)
	b.later(time.Second)
	b.outsider(id, plain(&journal.RunResumed{Actor: "me"}))
	run = b.run(id)
	require.Zero(b, run.ParkedAt)
	require.Equal(b, b.now, run.WakeAt)
	b.check(id)
}

func runStartKey(b *bench) {
	keyedStart := func(b *bench, run journal.ID, workflow, input string) (*journal.Result, error) {
		return b.try(b.starting(run, journal.Engine, func(c *journal.RunCreated) {
			c.Workflow, c.StartKey, c.Input = workflow, "order-ü-1", payload(input)
		}))
	}
	first := b.mint()
	_, err := keyedStart(b, first, "checkout", "x")
	require.NoError(b, err)
	res, err := keyedStart(b, b.mint(), "checkout", "x")
	require.NoError(b, err)
	require.True(b, res.Existing)
	require.Equal(b, first, res.Run.ID)
	_, err = keyedStart(b, b.mint(), "checkout", "y")
	requireCode(b, cairnerr.CodeStartKeyConflict, err)
	// A key belongs to its workflow and its namespace.
	for _, other := range []struct {
		b        *bench
		workflow string
	}{{b, "refund"}, {b.foreign(), "checkout"}} {
		id := b.mint()
		res, err := keyedStart(other.b, id, other.workflow, "y")
		require.NoError(b, err)
		require.False(b, res.Existing)
		other.b.check(id)
	}
	// It is kept after the run's end.
	b.write(first, plain(&journal.RunCompleted{}))
	res, err = keyedStart(b, b.mint(), "checkout", "x")
	require.NoError(b, err)
	require.True(b, res.Existing)
	b.check(first)
	list := all(b, func(p store.Page) (store.List[*journal.Run], error) {
		return b.store.Runs(b.ctx(), b.ns, store.RunFilter{}, p)
	}, store.Page{})
	found := map[journal.ID]bool{}
	for _, r := range list {
		found[r.ID] = true
	}
	require.Len(b, found, 2, "refused and repeated starts leave nothing: %v", maps.Keys(found))
}
