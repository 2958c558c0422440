package storetest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var joinTests = []test{
	{"Committed", inEachWay(joinCommitted)},
	{"EndedContext", inEachWay(joinEndedContext)},
	{"Foreign", inEachWay(joinForeign)},
	{"HandleOfAnother", joinHandle},
	{"Hint", inEachWay(joinHint)},
	{"Many", inEachWay(joinMany)},
	{"Over", inEachWay(joinOver)},
	{"Race", inEachWay(joinRace)},
	{"Refused", inEachWay(joinRefused)},
	{"RolledBack", inEachWay(joinRolledBack)},
	{"StartKey", inEachWay(joinStartKey)},
}

// inEachWay runs a test with transactions of each kind. Where there is none, a test of what is refused remains.
func inEachWay(run func(b *bench, begin func() UserTransaction)) func(*bench) {
	return func(b *bench) {
		for _, name := range slices.Sorted(maps.Keys(b.factory.Ways)) {
			b.Run(name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t, b.factory, b.store)
				run(b, func() UserTransaction { return b.factory.Ways[name](t, b.store) })
			})
		}
	}
}

// joining is a command that makes a run which nobody owns.
func (b *bench) joining(edit ...func(*journal.RunCreated)) *journal.Command {
	b.Helper()
	created := birth(journal.Engine)
	for _, e := range edit {
		e(created)
	}
	return &journal.Command{Namespace: b.ns, Run: b.mint(), Events: []journal.Event{{Data: created}}}
}

func (b *bench) join(tx store.UserTx, cmd *journal.Command) (*journal.Result, error) {
	return commit.Join(b.ctx(), b.store, tx, cmd, b.env())
}

func (b *bench) mustJoin(tx store.UserTx, edit ...func(*journal.RunCreated)) journal.ID {
	b.Helper()
	res, err := b.join(tx, b.joining(edit...))
	require.NoError(b, err)
	return res.Run.ID
}

func withKey(key, input string) func(*journal.RunCreated) {
	return func(c *journal.RunCreated) { c.StartKey, c.Input = key, payload(input) }
}

func (b *bench) requireNoRun(id journal.ID) {
	b.Helper()
	_, err := b.store.Run(b.ctx(), b.ns, id, store.ResolveAll)
	requireCode(b, cairnerr.CodeRunNotFound, err)
}

func joinCommitted(b *bench, begin func() UserTransaction) {
	user := begin()
	parent, root := b.mint(), b.mint()
	id := b.mustJoin(user.Tx, func(c *journal.RunCreated) {
		c.Workflow, c.Deployment, c.Context, c.Parent, c.Root = "billing", "dpl_1", []byte{0, 1, 0xff}, parent, root
		c.Input, c.StartKey, c.StartDigest = payload("in\x00put"), "kéy", []byte{0, 0xff}
		c.Attributes = map[string]string{"a": "1", "b": "", "<&>\u2028\"'": "ü\\n<\U0001f600>"}
	})
	plain := b.mustJoin(user.Tx)
	later := b.mustJoin(user.Tx, func(c *journal.RunCreated) { c.StartAt = b.now.Add(time.Hour) })
	b.requireNoRun(id)
	require.NoError(b, user.Commit())
	b.check(id, plain, later)
	run := b.run(id)
	require.Equal(b, journal.StatusPending, run.Status)
	require.Equal(b, "billing", run.Workflow)
	require.Equal(b, "dpl_1", run.Deployment)
	require.Equal(b, parent, run.Parent)
	require.Equal(b, root, run.Root)
	require.Equal(b, "kéy", run.StartKey)
	require.Equal(b, []byte{0, 0xff}, run.StartDigest)
	require.Equal(b, payload("in\x00put"), run.Input)
	require.Equal(b, map[string]string{"a": "1", "b": "", "<&>\u2028\"'": "ü\\n<\U0001f600>"}, run.Attributes)
	require.Equal(b, b.now, run.CreatedAt)
	require.Equal(b, b.now, run.WakeAt)
	require.Equal(b, b.now.Add(time.Hour), b.run(later).WakeAt)
	require.True(b, run.Owner.IsZero())

	// It goes on as any other.
	due, err := b.store.Due(b.ctx(), store.DueFilter{Scope: b.scope("checkout", "billing"), Owner: b.self, Now: b.now, Limit: 10})
	require.NoError(b, err)
	require.Len(b, due, 2)
	b.must(&journal.Command{Run: id, Lease: journal.LeaseClaim, Guards: journal.Guards{Owner: journal.Ownership{Incarnation: b.self}}})
	b.write(id, journal.Event{Data: &journal.RunStarted{}}, journal.Event{Data: &journal.RunCompleted{Output: payload("out")}})
	require.Equal(b, payload("out"), b.run(id).Output)
	b.check(id)
}

// What was made in a transaction that is rolled back is not there, and nothing of it is remembered: not its numbers either, which others may get.
func joinRolledBack(b *bench, begin func() UserTransaction) {
	user := begin()
	other := b.in(b.ns + "-other")
	id := b.mustJoin(user.Tx, withKey("k", "in"))
	gone := other.mustJoin(user.Tx, func(c *journal.RunCreated) { c.Workflow = "gone" })
	require.NoError(b, user.Rollback())
	b.requireNoRun(id)
	other.requireNoRun(gone)

	third := b.in(b.ns + "-third")
	first := third.start(journal.Engine, func(c *journal.RunCreated) { c.Workflow = "another" })
	user = begin()
	again := b.mustJoin(user.Tx, withKey("k", "other input"))
	theirs := other.mustJoin(user.Tx, func(c *journal.RunCreated) { c.Workflow = "gone" })
	require.NoError(b, user.Commit())
	for ns, id := range map[*bench]journal.ID{b: again, other: theirs, third: first} {
		list, err := b.store.Runs(b.ctx(), ns.ns, store.RunFilter{}, store.Page{})
		require.NoError(b, err)
		require.Len(b, list.Data, 1)
		require.Equal(b, id, list.Data[0].ID)
		ns.check(id)
	}
	require.Equal(b, "gone", other.run(theirs).Workflow)
}

func joinStartKey(b *bench, begin func() UserTransaction) {
	before := b.start(journal.Engine, withKey("old", "in"))
	user := begin()
	require.Equal(b, before, b.mustJoin(user.Tx, withKey("old", "in")))
	_, err := b.join(user.Tx, b.joining(withKey("old", "other")))
	requireCode(b, cairnerr.CodeStartKeyConflict, err)
	id := b.mustJoin(user.Tx, withKey("new", "in"))
	require.Equal(b, id, b.mustJoin(user.Tx, withKey("new", "in")), "the transaction sees its own")
	_, err = b.join(user.Tx, b.joining(withKey("new", "other")))
	requireCode(b, cairnerr.CodeStartKeyConflict, err)
	require.NoError(b, user.Commit(), "what was refused does not matter")
	b.check(before, id)
	res, err := b.try(b.starting(b.mint(), journal.Engine, withKey("new", "in")))
	require.NoError(b, err)
	require.True(b, res.Existing)
	require.Equal(b, id, res.Run.ID)
}

// Many transactions use one key at the same time: all of them are committed, with one run.
func joinRace(b *bench, begin func() UserTransaction) {
	const starts = 6
	var all sync.WaitGroup
	got := make([]journal.ID, starts)
	errs := make([]error, starts)
	cmds := make([]*journal.Command, starts)
	for i := range cmds {
		cmds[i] = b.joining(withKey("k", "in"))
	}
	for i := range starts {
		all.Go(func() {
			user := begin()
			res, err := b.join(user.Tx, cmds[i])
			if err == nil {
				got[i] = res.Run.ID
				err = user.Commit()
			}
			errs[i] = err
		})
	}
	all.Wait()
	for i := range starts {
		require.NoError(b, errs[i])
		require.Equal(b, got[0], got[i])
	}
	b.check(got[0])
	list, err := b.store.Runs(b.ctx(), b.ns, store.RunFilter{}, store.Page{})
	require.NoError(b, err)
	require.Len(b, list.Data, 1)
}

func joinMany(b *bench, begin func() UserTransaction) {
	user := begin()
	var ids []journal.ID
	for range 8 {
		ids = append(ids, b.mustJoin(user.Tx))
	}
	require.NoError(b, user.Commit())
	b.check(ids...)
}

// A command that is refused leaves the transaction as it was.
func joinRefused(b *bench, begin func() UserTransaction) {
	user := begin()
	_, err := b.join(user.Tx, b.joining(func(c *journal.RunCreated) { c.Input = make(journal.Payload, journal.MaxPayload+1) }))
	requireCode(b, cairnerr.CodePayloadTooLarge, err)
	_, err = b.join(user.Tx, b.joining(func(c *journal.RunCreated) { c.Attributes = map[string]string{"": "x"} }))
	require.Error(b, err)
	id := b.mustJoin(user.Tx)
	require.NoError(b, user.Commit())
	b.check(id)
}

func joinOver(b *bench, begin func() UserTransaction) {
	user := begin()
	id := b.mustJoin(user.Tx)
	require.NoError(b, user.Commit())
	_, err := b.join(user.Tx, b.joining())
	requireCode(b, cairnerr.CodeTxOver, err)
	user = begin()
	require.NoError(b, user.Rollback())
	_, err = b.join(user.Tx, b.joining())
	requireCode(b, cairnerr.CodeTxOver, err)
	b.check(id)
}

// A transaction of another database is not written to, also if that has the same tables.
func joinForeign(b *bench, begin func() UserTransaction) {
	other := b.in(b.ns)
	other.open(b.factory.Open(b.T))
	user := begin()
	_, err := other.join(user.Tx, other.joining())
	requireCode(b, cairnerr.CodeForeignTx, err)
	require.NoError(b, user.Commit())
	list, err := b.store.Runs(b.ctx(), other.ns, store.RunFilter{}, store.Page{})
	require.NoError(b, err)
	require.Empty(b, list.Data)
}

func joinEndedContext(b *bench, begin func() UserTransaction) {
	user := begin()
	ctx, cancel := context.WithCancel(b.ctx())
	cancel()
	cmd := b.joining()
	_, err := commit.Join(ctx, b.store, user.Tx, cmd, b.env())
	require.ErrorIs(b, err, context.Canceled)
	_ = user.Rollback()
	b.requireNoRun(cmd.Run)
}

// The commit of the user's is told to listeners, and nothing before.
func joinHint(b *bench, begin func() UserTransaction) {
	hints, err := b.store.Notifier().Listen(b.ctx())
	require.NoError(b, err)
	user := begin()
	id := b.mustJoin(user.Tx)
	require.NoError(b, user.Commit())
	for heard := ""; heard != b.ns; {
		heard = hint(b, hints)
	}
	b.check(id)
}

type foreignHandle struct{}

// Kind implements [store.UserTx].
func (foreignHandle) Kind() string { return "paper" }

func joinHandle(b *bench) {
	for _, tx := range []store.UserTx{nil, foreignHandle{}} {
		_, err := b.join(tx, b.joining())
		requireCode(b, cairnerr.CodeForeignTx, err)
	}
}
