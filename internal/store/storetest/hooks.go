package storetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var hookTests = []test{
	{"AfterDisposal", hookAfterDisposal},
	{"AgainInOneBatch", hookAgainInOneBatch},
	{"MadeOnce", hookMadeOnce},
	{"Lifecycle", hookLifecycle},
	{"ListOfNamespace", hookList},
	{"MovesInOneBatch", hookMoves},
	{"NotFound", hookNotFound},
	{"Receipts", hookReceipts},
	{"Retained", hookRetained},
	{"SingleUse", hookSingleUse},
	{"SweepOfPartialState", hookSweep},
	{"TokenOfNamespace", hookTokenOfNamespace},
}

func (b *bench) byToken(token string) *store.RunHook {
	b.Helper()
	h, err := b.store.HookByToken(b.ctx(), b.ns, token, store.ResolveAll)
	require.NoError(b, err)
	return h
}

func requireNoToken(b *bench, token string) {
	b.Helper()
	_, err := b.store.HookByToken(b.ctx(), b.ns, token, store.ResolveAll)
	requireCode(b, cairnerr.CodeHookNotFound, err)
}

func hookAfterDisposal(b *bench) {
	first, second := b.start(journal.Engine), b.start(journal.World3)
	b.write(first, keyed("h", &journal.HookCreated{Token: "t"}))
	hook := b.mint()
	res := b.write(second, about(hook, &journal.HookCreated{Token: "t"}))
	require.Equal(b, journal.EventHookConflict, res.Appended[0].Type)
	require.Equal(b, first, b.byToken("t").Run)
	b.check(first, second)
	b.write(first, keyed("h", &journal.HookDisposed{}))
	requireNoToken(b, "t")
	res = b.write(second, about(b.mint(), &journal.HookCreated{Token: "t"}))
	require.Equal(b, journal.EventHookCreated, res.Appended[0].Type)
	require.Equal(b, second, b.byToken("t").Run)
	b.check(first, second)
	// The end of a run disposes of its hooks.
	b.write(second, plain(&journal.RunCompleted{}))
	requireNoToken(b, "t")
	b.write(first, keyed("i", &journal.HookCreated{Token: "t"}))
	require.Equal(b, first, b.byToken("t").Run)
	b.check(first, second)
}

// A hook is made once: also after its disposal, and also if its token was taken, when no row of it is left.
func hookMadeOnce(b *bench) {
	for _, d := range []journal.Dialect{journal.World3, journal.World6} {
		run := b.start(d)
		token := d.String()
		create := func(hook journal.ID, token string) error {
			_, err := b.try(&journal.Command{Run: run, Events: []journal.Event{about(hook, &journal.HookCreated{Token: token})}})
			return err
		}
		first, refused, same := b.mint(), b.mint(), b.mint()
		require.NoError(b, create(first, token))
		require.NoError(b, create(refused, token))
		b.write(run, about(first, &journal.HookDisposed{}))
		for _, hook := range []journal.ID{first, refused} {
			requireCode(b, cairnerr.CodeHookExists, create(hook, token))
			requireCode(b, cairnerr.CodeHookExists, create(hook, "another "+token))
		}
		requireNoToken(b, token)
		// Ids of other kinds, and of other runs, are not in the way.
		b.write(run, about(same, &journal.WaitCreated{}))
		require.NoError(b, create(same, token))
		b.write(b.start(d), about(first, &journal.HookCreated{Token: "third " + token}))
		b.check(run)
	}
}

// A token that is freed and taken again within a batch belongs to the new hook.
func hookAgainInOneBatch(b *bench) {
	run := b.start(journal.Engine)
	b.write(run, keyed("h", &journal.HookCreated{Token: "t", SingleUse: true, Metadata: payload("old"), ExpiresAt: b.now + 5}))
	b.later(time.Second)
	b.write(run, keyed("h", &journal.HookDisposed{}), keyed("h#2", &journal.HookCreated{Token: "t", Webhook: true, Metadata: payload("new")}))
	h := b.byToken("t")
	require.Equal(b, "h#2", h.Key)
	require.Equal(b, payload("new"), h.Metadata)
	require.Equal(b, b.now, h.CreatedAt)
	require.Zero(b, h.ExpiresAt)
	require.True(b, h.Webhook)
	require.False(b, h.SingleUse)
	b.check(run)
	b.write(run, keyed("h#2", &journal.HookDisposed{}), keyed("h#3", &journal.HookCreated{Token: "t"}), keyed("h#3", &journal.HookDisposed{}))
	requireNoToken(b, "t")
	b.check(run)
	// Two hooks hand their tokens on crosswise.
	b.write(run, keyed("f", &journal.HookCreated{Token: "1"}), keyed("g", &journal.HookCreated{Token: "2"}))
	b.write(run, keyed("f", &journal.HookDisposed{}), keyed("g", &journal.HookDisposed{}),
		keyed("f#2", &journal.HookCreated{Token: "2"}), keyed("g#2", &journal.HookCreated{Token: "1"}))
	require.Equal(b, "f#2", b.byToken("2").Key)
	require.Equal(b, "g#2", b.byToken("1").Key)
	b.check(run)
}

func hookLifecycle(b *bench) {
	for _, d := range []journal.Dialect{journal.Engine, journal.World3, journal.World6} {
		run := b.start(d)
		id := b.mint()
		event := func(data journal.Data) journal.Event {
			if d == journal.Engine {
				id = journal.DeriveID(run, journal.PrefixHook, "approve")
				return keyed("approve", data)
			}
			return about(id, data)
		}
		token := fmt.Sprintf("approve/%s ü", d)
		b.write(run, event(&journal.HookCreated{Token: token, Webhook: true, System: true, ExpiresAt: b.now + 60_000, Metadata: payload("meta")}))
		h := b.byToken(token)
		require.Equal(b, run, h.Run)
		require.Equal(b, id, h.ID)
		require.Equal(b, journal.HookOpen, h.Status)
		require.Equal(b, payload("meta"), h.Metadata)
		require.Equal(b, b.now+60_000, h.ExpiresAt)
		require.True(b, h.Webhook)
		require.True(b, h.System)
		b.check(run)
		b.later(time.Second)
		for i := range 2 {
			b.outsider(run, event(&journal.HookReceived{Token: token, Payload: payload(fmt.Sprint(i))}))
		}
		require.Equal(b, journal.HookOpen, b.byToken(token).Status)
		b.check(run)
		b.write(run, event(&journal.HookDisposed{}))
		requireNoToken(b, token)
		_, err := b.store.Hook(b.ctx(), b.ns, run, id, store.ResolveAll)
		requireCode(b, cairnerr.CodeHookNotFound, err)
		b.check(run)
	}
}

func hookList(b *bench) {
	var runs []journal.ID
	for range 3 {
		runs = append(runs, b.start(journal.Engine))
	}
	foreign := b.foreign()
	foreign.write(foreign.start(journal.Engine), keyed("h", &journal.HookCreated{Token: "run0/0"}))
	for i, run := range runs {
		for n := range 3 {
			b.later(time.Second)
			b.write(run, keyed(fmt.Sprint("h", 9-n), &journal.HookCreated{Token: fmt.Sprintf("run%d/%d", i, n)}))
		}
	}
	list := func(p store.Page) []string {
		var tokens []string
		for _, h := range all(b, func(p store.Page) (store.List[*store.RunHook], error) {
			return b.store.Hooks(b.ctx(), b.ns, journal.ID{}, store.ResolveNone, p)
		}, p) {
			tokens = append(tokens, h.Token)
		}
		return tokens
	}
	forwards := []string{"run0/0", "run0/1", "run0/2", "run1/0", "run1/1", "run1/2", "run2/0", "run2/1", "run2/2"}
	for _, limit := range []int{0, 1, 2, 4, 9} {
		require.Equal(b, forwards, list(store.Page{Limit: limit}))
		backwards := list(store.Page{Limit: limit, Desc: true})
		for i := range forwards {
			require.Equal(b, forwards[i], backwards[8-i])
		}
	}
	b.check(runs...)
}

// A token that one run gives up can be taken by another in the same batch, whatever their order.
func hookMoves(b *bench) {
	low, high := b.start(journal.Engine), b.start(journal.Engine)
	b.write(high, keyed("h", &journal.HookCreated{Token: "down"}))
	b.write(low, keyed("h", &journal.HookCreated{Token: "up"}))
	commands := []*journal.Command{
		{Run: high, Events: []journal.Event{keyed("h", &journal.HookDisposed{})}},
		{Run: low, Events: []journal.Event{keyed("h", &journal.HookDisposed{}), keyed("i", &journal.HookCreated{Token: "down"})}},
		{Run: high, Events: []journal.Event{keyed("i", &journal.HookCreated{Token: "up"})}},
	}
	states := map[journal.ID]*journal.State{low: b.cached(low), high: b.cached(high)}
	was := map[journal.ID]*journal.Run{low: states[low].Run, high: states[high].Run}
	events := map[journal.ID][]journal.Event{}
	outside := journal.NewOutside()
	outside.Tokens[journal.TokenKey(b.ns, "down")] = journal.Holder{Run: high}
	outside.Tokens[journal.TokenKey(b.ns, "up")] = journal.Holder{Run: low}
	for _, cmd := range commands {
		cmd.Namespace, cmd.Guards.Owner = b.ns, journal.Ownership{Incarnation: b.self, Epoch: 1}
		res, err := states[cmd.Run].Reduce(cmd, b.env(), outside)
		require.NoError(b, err)
		events[cmd.Run] = append(events[cmd.Run], res.Appended...)
	}
	var changes store.Changes
	for _, run := range []journal.ID{low, high} {
		s := states[run]
		changes.Runs = append(changes.Runs, store.RunChange{State: s, Events: events[run], Rows: s.Changed(), Was: was[run]})
	}
	require.NoError(b, b.commit(&changes))
	require.Equal(b, low, b.byToken("down").Run)
	require.Equal(b, high, b.byToken("up").Run)
	b.check(low, high)
}

func hookNotFound(b *bench) {
	run := b.start(journal.World3)
	id := b.mint()
	b.write(run, about(id, &journal.HookCreated{Token: "t"}))
	_, err := b.store.Hook(b.ctx(), b.ns, run, b.mint(), store.ResolveAll)
	requireCode(b, cairnerr.CodeHookNotFound, err)
	_, err = b.store.Hook(b.ctx(), b.ns, b.mint(), id, store.ResolveAll)
	requireCode(b, cairnerr.CodeRunNotFound, err)
	requireNoToken(b, "T")
	requireNoToken(b, "")
	for _, ns := range []string{b.foreign().ns, "never seen"} {
		_, err := b.store.Hook(b.ctx(), ns, run, id, store.ResolveAll)
		requireCode(b, cairnerr.CodeRunNotFound, err)
		requireNoToken(b.in(ns), "t")
		for _, of := range []journal.ID{run, {}} {
			l, err := b.store.Hooks(b.ctx(), ns, of, store.ResolveAll, store.Page{})
			require.NoError(b, err)
			require.Empty(b, l.Data)
			require.Empty(b, l.Cursor)
		}
	}
	l, err := b.store.Hooks(b.ctx(), b.ns, b.mint(), store.ResolveAll, store.Page{})
	require.NoError(b, err)
	require.Empty(b, l.Data)
}

func hookReceipts(b *bench) {
	run := b.start(journal.World3)
	hook, other := b.mint(), b.mint()
	b.write(run, about(hook, &journal.HookCreated{Token: "t"}), about(other, &journal.HookCreated{Token: "u"}))
	receive := func(hook journal.ID, sender, text string) (*journal.Result, error) {
		return b.try(&journal.Command{Run: run, Events: []journal.Event{about(hook, &journal.HookReceived{Sender: sender, Payload: payload(text)})}})
	}
	res, err := receive(hook, "é\t1", "x")
	require.NoError(b, err)
	seq := res.Seq
	res, err = receive(hook, "é\t1", "x")
	require.NoError(b, err)
	require.Empty(b, res.Appended, "received once")
	require.Equal(b, seq, res.Outcomes[0].Seq)
	_, err = receive(hook, "é\t1", "y")
	requireCode(b, cairnerr.CodeReceiptConflict, err)
	_, err = receive(other, "é\t1", "x")
	requireCode(b, cairnerr.CodeReceiptConflict, err)
	_, err = receive(other, "2", "x")
	require.NoError(b, err)
	// Receipts belong to the run.
	second := b.start(journal.World3)
	b.write(second, about(hook, &journal.HookCreated{Token: "v"}))
	b.write(second, about(hook, &journal.HookReceived{Sender: "2", Payload: payload("z")}))
	b.check(run, second)
	// They are found by the sender's key, the oldest run first, in their namespace, also when the hook is closed.
	b.write(run, about(other, &journal.HookDisposed{}))
	found, err := b.store.Receipts(b.ctx(), b.ns, "2")
	require.NoError(b, err)
	require.Len(b, found, 2)
	require.Equal(b, []journal.ID{run, second}, []journal.ID{found[0].Run, found[1].Run})
	require.Equal(b, other, found[0].Hook)
	require.NotEmpty(b, found[0].Digest)
	require.Positive(b, found[0].Seq)
	found, err = b.store.Receipts(b.ctx(), b.ns, "é\t1")
	require.NoError(b, err)
	require.Len(b, found, 1)
	require.Equal(b, seq, found[0].Seq)
	for ns, sender := range map[string]string{b.ns: "none", "nowhere": "2"} {
		found, err := b.store.Receipts(b.ctx(), ns, sender)
		require.NoError(b, err)
		require.Empty(b, found)
	}
}

// The token of a hook that is retained stays taken after the run's end, until its time.
func hookRetained(b *bench) {
	for _, partial := range []bool{false, true} {
		run, next := b.start(journal.Engine), b.start(journal.Engine)
		until := b.now + 60_000
		token := fmt.Sprint("kept ", partial)
		b.write(run, keyed("kept", &journal.HookCreated{Token: token, RetainUntil: until, Metadata: payload("m")}),
			keyed("gone", &journal.HookCreated{Token: token + "!", RetainUntil: b.now + 500}),
			keyed("short", &journal.HookCreated{Token: token + "?"}))
		b.later(time.Second)
		if partial {
			b.outsider(run, plain(&journal.RunCancelled{}))
		} else {
			b.write(run, plain(&journal.RunCompleted{}))
		}
		h := b.byToken(token)
		require.Equal(b, journal.HookRetained, h.Status)
		require.Equal(b, payload("m"), h.Metadata)
		requireNoToken(b, token+"!")
		requireNoToken(b, token+"?")
		b.check(run)
		res := b.write(next, keyed("h", &journal.HookCreated{Token: token}))
		require.Equal(b, journal.EventHookConflict, res.Appended[0].Type)
		b.now = until - 1
		res = b.write(next, keyed("h#2", &journal.HookCreated{Token: token}))
		require.Equal(b, journal.EventHookConflict, res.Appended[0].Type)
		b.now = until
		res = b.write(next, keyed("h#3", &journal.HookCreated{Token: token}))
		require.Equal(b, journal.EventHookCreated, res.Appended[0].Type)
		require.Equal(b, next, b.byToken(token).Run)
		b.check(run, next)
	}
}

func hookSingleUse(b *bench) {
	run := b.start(journal.World3)
	id := b.mint()
	b.write(run, about(id, &journal.HookCreated{Token: "once", SingleUse: true}))
	b.outsider(run, about(id, &journal.HookReceived{Payload: payload("1")}))
	require.Equal(b, journal.HookConsumed, b.byToken("once").Status)
	_, err := b.try(&journal.Command{Run: run, Events: []journal.Event{about(id, &journal.HookReceived{Payload: payload("2")})}})
	requireCode(b, cairnerr.CodeHookConsumed, err)
	b.check(run)
	// The token is not free before the hook is disposed of.
	res := b.write(b.start(journal.World3), about(b.mint(), &journal.HookCreated{Token: "once"}))
	require.Equal(b, journal.EventHookConflict, res.Appended[0].Type)
	b.write(run, about(id, &journal.HookDisposed{}))
	b.check(run)
}

// Who ends a run without knowing its hooks and waits leaves none behind.
func hookSweep(b *bench) {
	for _, d := range []journal.Dialect{journal.Engine, journal.World3, journal.World6} {
		run, bystander := b.start(d), b.start(d)
		for i, r := range []journal.ID{run, bystander} {
			hook, kept, wait := b.mint(), b.mint(), b.mint()
			events := []journal.Event{
				about(hook, &journal.HookCreated{Token: fmt.Sprint(d, "t", i)}),
				about(kept, &journal.HookCreated{Token: fmt.Sprint(d, "kept", i), RetainUntil: b.now + 60_000}),
				about(wait, &journal.WaitCreated{ResumeAt: b.now + 1000}),
			}
			if d == journal.Engine {
				for n := range events {
					events[n].Key, events[n].Entity = fmt.Sprint(n), journal.ID{}
				}
			}
			b.write(r, events...)
		}
		b.outsider(run, plain(&journal.RunCancelled{}))
		requireNoToken(b, fmt.Sprint(d, "t0"))
		require.Equal(b, journal.HookRetained, b.byToken(fmt.Sprint(d, "kept0")).Status)
		waits, err := b.store.Waits(b.ctx(), b.ns, run, store.Page{})
		require.NoError(b, err)
		require.Empty(b, waits.Data)
		require.Equal(b, journal.HookOpen, b.byToken(fmt.Sprint(d, "t1")).Status, "another run's")
		b.check(run, bystander)
	}
}

func hookTokenOfNamespace(b *bench) {
	foreign := b.foreign()
	here, there := b.start(journal.World3), foreign.start(journal.World3)
	id := b.mint()
	b.write(here, about(id, &journal.HookCreated{Token: "t", Metadata: payload("here")}))
	res := foreign.write(there, about(id, &journal.HookCreated{Token: "t", Metadata: payload("there")}))
	require.Equal(b, journal.EventHookCreated, res.Appended[0].Type)
	require.Equal(b, payload("here"), b.byToken("t").Metadata)
	require.Equal(b, payload("there"), foreign.byToken("t").Metadata)
	b.write(here, about(id, &journal.HookDisposed{}))
	require.Equal(b, there, foreign.byToken("t").Run)
	b.check(here)
	foreign.check(there)
}
