package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var leaseTests = []test{
	{"ClaimAndRelease", leaseClaim},
	{"DelayedStart", leaseDelayed},
	{"FencedOwner", leaseFenced},
	{"OutsiderWakes", leaseOutsider},
	{"OwnerOrEpochMoved", leaseMoved},
	{"Wake", leaseWake},
	{"WakeIsNotLost", leaseWakeNotLost},
	{"WakeOfEndedRuns", leaseWakeEnded},
	{"Push", leasePush},
}

// claim returns the command with which the bench takes a run.
func (b *bench) claim(run journal.ID) *journal.Command {
	return &journal.Command{Namespace: b.ns, Run: run, Lease: journal.LeaseClaim, Guards: journal.Guards{Owner: journal.Ownership{Incarnation: b.self}}}
}

func (b *bench) release(run journal.ID) *journal.Command {
	return &journal.Command{Namespace: b.ns, Run: run, Lease: journal.LeaseRelease, Guards: journal.Guards{Owner: b.owner(run)}}
}

func leaseClaim(b *bench) {
	p := b.peer()
	run := b.start(journal.Engine)
	_, err := p.try(p.claim(run))
	requireCode(b, cairnerr.CodeNotRunnable, err)
	b.write(run, keyed("w", &journal.WaitCreated{ResumeAt: b.now + 1000}), keyed("v", &journal.WaitCreated{ResumeAt: b.now + 500}))
	b.must(b.release(run))
	got := b.run(run)
	require.True(b, got.Owner.IsZero())
	require.Equal(b, int64(1), got.Epoch)
	require.Equal(b, b.now+500, got.WakeAt, "the first of its timers")
	b.check(run)
	_, err = p.try(p.claim(run))
	requireCode(b, cairnerr.CodeNotRunnable, err)
	p.now = b.now + 500
	p.must(p.claim(run))
	got = b.run(run)
	require.Equal(b, p.self, got.Owner)
	require.Equal(b, int64(2), got.Epoch)
	require.Zero(b, got.WakeAt)
	require.Equal(b, int64(4), b.cached(run).Seq, "a claim is no event")
	p.check(run)
}

func leaseDelayed(b *bench) {
	run := b.mint()
	created := birth(journal.Engine)
	created.StartAt = b.now + 60_000
	b.must(&journal.Command{Run: run, Events: []journal.Event{plain(created)}})
	require.Equal(b, b.now+60_000, b.run(run).WakeAt)
	_, err := b.try(b.claim(run))
	requireCode(b, cairnerr.CodeNotRunnable, err)
	b.later(time.Minute)
	b.must(b.claim(run))
	require.Equal(b, b.self, b.run(run).Owner)
	b.check(run)
}

func leaseFenced(b *bench) {
	dead := b.peer()
	run := dead.start(journal.Engine)
	_, err := b.try(b.claim(run))
	requireCode(b, cairnerr.CodeNotRunnable, err)
	require.NoError(b, b.store.Fence(b.ctx(), dead.self))
	b.must(b.claim(run))
	got := b.run(run)
	require.Equal(b, b.self, got.Owner)
	require.Equal(b, int64(2), got.Epoch)
	tx := b.begin()
	defer tx.Rollback()
	loaded, err := tx.Load(b.ctx(), &store.LoadSet{Owners: []journal.ID{dead.self, b.self, b.mint()}})
	require.NoError(b, err)
	require.Equal(b, map[journal.ID]bool{dead.self: true}, loaded.Outside.Fenced)
}

func leaseOutsider(b *bench) {
	run := b.start(journal.Engine)
	b.write(run, keyed("h", &journal.HookCreated{Token: "t"}))
	b.must(b.release(run))
	require.Zero(b, b.run(run).WakeAt)
	b.later(time.Second)
	b.outsider(run, keyed("h", &journal.HookReceived{Payload: payload("x")}))
	require.Equal(b, b.now, b.run(run).WakeAt)
	b.check(run)
}

// A row whose owner or epoch is not what the change was computed from is not changed.
func leaseMoved(b *bench) {
	p := b.peer()
	for _, moved := range []func(run journal.ID){
		func(run journal.ID) { b.must(b.release(run)) },
		func(run journal.ID) {
			b.must(b.release(run))
			require.NoError(b, b.commit(&store.Changes{Wake: []store.RunKey{{Namespace: b.ns, Run: run}}}))
			b.must(b.claim(run)) // the same owner in another epoch
		},
	} {
		run := b.start(journal.Engine)
		stale := b.cached(run)
		changes := b.optimistic(stale, &journal.Command{
			Run: run, Lease: journal.LeaseRelease, Guards: journal.Guards{Owner: journal.Ownership{Incarnation: b.self, Epoch: 1}},
		})
		message := b.message("q", "", "x")
		changes.Messages = []journal.Message{message}
		moved(run)
		before := b.run(run)
		require.ErrorIs(b, p.commit(changes), store.ErrConflict)
		require.Equal(b, before, b.run(run))
		_, err := b.store.Message(b.ctx(), b.ns, message.ID)
		requireCode(b, cairnerr.CodeMessageNotFound, err)
		b.check(run)
	}
}

func leaseWake(b *bench) {
	parent := b.start(journal.Engine)
	child := b.start(journal.Engine, func(c *journal.RunCreated) { c.Parent = parent })
	b.must(b.release(parent))
	require.Zero(b, b.run(parent).WakeAt)
	b.later(time.Second)
	b.write(child, plain(&journal.RunCompleted{}))
	require.Equal(b, b.now, b.run(parent).WakeAt)
	due := b.now
	b.later(time.Second)
	keys := []store.RunKey{{Namespace: b.ns, Run: parent}, {Namespace: b.ns, Run: b.mint()}, {Namespace: "never seen", Run: parent}}
	require.NoError(b, b.commit(&store.Changes{Wake: keys}))
	require.Equal(b, due, b.run(parent).WakeAt, "it was due earlier")
	b.must(b.claim(parent))
	b.write(parent, keyed("w", &journal.WaitCreated{ResumeAt: b.now + 60_000}))
	b.must(b.release(parent))
	require.Equal(b, b.now+60_000, b.run(parent).WakeAt)
	require.NoError(b, b.commit(&store.Changes{Wake: keys}))
	require.Equal(b, b.now, b.run(parent).WakeAt, "earlier than its timer")
	b.check(parent, child)
}

// An owner that gives a run back, without having seen that somebody woke it, does not put it to sleep.
func leaseWakeNotLost(b *bench) {
	p := b.peer()
	parent := b.start(journal.Engine)
	cached := b.cached(parent)
	p.later(time.Second)
	require.NoError(b, p.commit(&store.Changes{Wake: []store.RunKey{{Namespace: b.ns, Run: parent}}}))
	b.later(time.Minute)
	owner := journal.Ownership{Incarnation: b.self, Epoch: 1}
	changes := b.optimistic(cached, &journal.Command{
		Run: parent, Events: []journal.Event{keyed("w", &journal.WaitCreated{ResumeAt: b.now + 60_000})}, Lease: journal.LeaseRelease,
		Guards: journal.Guards{Owner: owner},
	})
	require.NoError(b, b.commit(changes))
	cached.Commit()
	got := b.run(parent)
	require.True(b, got.Owner.IsZero())
	require.Equal(b, p.now, got.WakeAt)
	b.check(parent)
}

// A push stays with its run until its owner heeds it, whatever the owner writes that has not seen it.
func leasePush(b *bench) {
	p := b.peer()
	run := b.start(journal.Engine)
	cached := b.cached(run)
	p.must(&journal.Command{Run: run, Lease: journal.LeasePush})
	require.Len(b, b.due(b.now, 10), 1, "the owner is told")
	require.Empty(b, p.due(b.now, 10))
	write := func(cmd *journal.Command) {
		cmd.Run = run
		require.NoError(b, b.commit(b.optimistic(cached, cmd)))
		cached.Commit()
		require.Equal(b, journal.WakePushed, b.run(run).WakeAt)
		b.check(run)
	}
	owner := journal.Ownership{Incarnation: b.self, Epoch: 1}
	write(&journal.Command{Events: []journal.Event{keyed("w", &journal.WaitCreated{ResumeAt: b.now + 1000})}, Guards: journal.Guards{Owner: owner}})
	write(&journal.Command{Events: []journal.Event{keyed("v", &journal.WaitCreated{ResumeAt: b.now + 1000})}, Lease: journal.LeaseRelease, Guards: journal.Guards{Owner: owner}})
	require.Len(b, p.due(b.now, 10), 1, "nobody has it")
	b.later(time.Second)
	write(&journal.Command{Events: []journal.Event{keyed("w", &journal.WaitCompleted{})}, Lease: journal.LeaseClaim, Guards: journal.Guards{Owner: owner}})
	require.Empty(b, p.due(b.now, 10))

	owner.Epoch = 2
	heed := &journal.Command{Run: run, Lease: journal.LeaseHeed, Guards: journal.Guards{Owner: owner}}
	require.True(b, b.must(heed).Pushed)
	require.Zero(b, b.run(run).WakeAt)
	require.Empty(b, b.due(b.now, 10))
	b.check(run)
}

func leaseWakeEnded(b *bench) {
	ended, parked, world := b.start(journal.Engine), b.start(journal.Engine), b.start(journal.Engine)
	b.write(ended, plain(&journal.RunCompleted{}))
	b.write(parked, plain(&journal.RunParked{Error: &cairnerr.Error{Code: "x"}}))
	b.write(world, plain(&journal.RunCancelled{}))
	var c store.Changes
	for _, run := range []journal.ID{ended, parked, world} {
		c.Wake = append(c.Wake, store.RunKey{Namespace: b.ns, Run: run})
	}
	require.NoError(b, b.commit(&c))
	for _, run := range []journal.ID{ended, parked, world} {
		require.Zero(b, b.run(run).WakeAt)
		b.check(run)
	}
}
