package storetest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var eventTests = []test{
	{"Annotations", eventAnnotations},
	{"EntityInSeveralRuns", eventEntityInRuns},
	{"Ids", eventIDs},
	{"InlineEntity", eventInlineEntity},
	{"LargePayload", eventLargePayload},
	{"NeedsRunOrEntity", eventNeedsFilter},
	{"NotFound", eventNotFound},
	{"PayloadsOfAnyBytes", eventBytes},
}

func (b *bench) eventsOf(f store.EventFilter) []store.RunEvent {
	b.Helper()
	return all(b, func(p store.Page) (store.List[store.RunEvent], error) { return b.store.Events(b.ctx(), b.ns, f, p) }, store.Page{Limit: 2})
}

// The annotations of a run can be listed alone.
func eventAnnotations(b *bench) {
	run, other := b.start(journal.Engine), b.start(journal.Engine)
	for i := range 5 {
		b.write(run, keyed(fmt.Sprint("s", i), &journal.StepCompleted{Name: "s"}), plain(&journal.Annotated{Name: fmt.Sprint("n", i), Actor: "a", Step: "s", Attempt: 2, Value: payload("v")}))
	}
	b.outsider(other, plain(&journal.Annotated{Name: "x"}))
	notes := b.eventsOf(store.EventFilter{Run: run, Annotations: true, Resolve: store.ResolveAll})
	require.Len(b, notes, 5)
	for i, e := range notes {
		require.Equal(b, &journal.Annotated{Name: fmt.Sprint("n", i), Actor: "a", Step: "s", Attempt: 2, Value: payload("v")}, e.Data)
	}
	require.Empty(b, b.foreign().eventsOf(store.EventFilter{Run: run, Annotations: true}))
	b.check(run, other)
}

// Ids of entities are unique only within their run.
func eventEntityInRuns(b *bench) {
	step := b.mint()
	var runs []journal.ID
	for range 3 {
		run := b.start(journal.World3)
		runs = append(runs, run)
		b.write(run, about(step, &journal.StepCreated{Name: "s", Input: payload("in")}))
		b.write(run, about(step, &journal.StepStarted{}))
	}
	foreign := b.foreign()
	other := foreign.start(journal.World3)
	foreign.write(other, about(step, &journal.StepCreated{Name: "s"}))

	events := b.eventsOf(store.EventFilter{Entity: step, Resolve: store.ResolveAll})
	require.Len(b, events, 6)
	for i, e := range events {
		require.Equal(b, runs[i/2], e.Run)
		require.Equal(b, journal.World3, e.Dialect)
		require.Equal(b, int64(3+i%2), e.Seq)
	}
	require.Len(b, b.eventsOf(store.EventFilter{Entity: step, Run: runs[1]}), 2)
	require.Empty(b, b.eventsOf(store.EventFilter{Entity: step, Run: other}), "a run of another namespace")
	require.Len(b, foreign.eventsOf(store.EventFilter{Entity: step}), 1)
	b.check(runs...)
	foreign.check(other)
}

func eventIDs(b *bench) {
	for _, d := range []journal.Dialect{journal.Engine, journal.World3, journal.World6} {
		run := b.start(d)
		events := b.eventsOf(store.EventFilter{Run: run})
		require.Len(b, events, 2)
		for _, e := range events {
			require.Equal(b, b.now, e.At)
			require.Equal(b, d, e.Dialect)
			text := e.IDText(e.Run, e.Dialect)
			seq, err := journal.ParseEventID(text, d)
			require.NoError(b, err)
			found, err := b.store.Event(b.ctx(), b.ns, run, seq, store.ResolveAll)
			require.NoError(b, err)
			require.Equal(b, text, found.IDText(run, d), "an event is found by its id")
		}
		b.check(run)
	}
}

// An inline step has no row, and is still found by its id, which readers show.
func eventInlineEntity(b *bench) {
	run, twin := b.start(journal.Engine), b.start(journal.Engine)
	for _, r := range []journal.ID{run, twin} {
		b.write(r, keyed("a", &journal.StepCompleted{Result: payload("1")}), keyed("b", &journal.StepFailed{Error: &cairnerr.Error{Code: "x"}}))
	}
	for i, key := range []string{"a", "b"} {
		entity := journal.DeriveID(run, journal.PrefixStep, key)
		for _, f := range []store.EventFilter{{Run: run, Entity: entity}, {Entity: entity}} {
			l, err := b.store.Events(b.ctx(), b.ns, f, store.Page{})
			require.NoError(b, err)
			require.Len(b, l.Data, 1)
			require.Equal(b, run, l.Data[0].Run)
			require.Equal(b, int64(3+i), l.Data[0].Seq)
			require.Equal(b, entity, l.Data[0].Entity)
			require.False(b, l.HasMore)
			next, err := b.store.Events(b.ctx(), b.ns, f, store.Page{Cursor: l.Cursor})
			require.NoError(b, err)
			require.Empty(b, next.Data, "a cursor is exclusive")
			foreign, err := b.store.Events(b.ctx(), b.foreign().ns, f, store.Page{})
			require.NoError(b, err)
			require.Empty(b, foreign.Data)
		}
	}
	require.Empty(b, b.eventsOf(store.EventFilter{Run: twin, Entity: journal.DeriveID(run, journal.PrefixStep, "a")}))
	b.check(run, twin)
}

func eventLargePayload(b *bench) {
	large := journal.Payload(bytes.Repeat([]byte{0, 0xff, 'x', '\''}, 1<<18))
	run := b.start(journal.Engine, func(c *journal.RunCreated) { c.Input = large })
	b.write(run, keyed("a", &journal.StepCompleted{Input: large, Result: large}))
	b.write(run, plain(&journal.RunCompleted{Output: large}))
	got := b.run(run)
	require.True(b, bytes.Equal(large, got.Input))
	require.True(b, bytes.Equal(large, got.Output))
	step, err := b.store.Step(b.ctx(), b.ns, run, journal.DeriveID(run, journal.PrefixStep, "a"), store.ResolveAll)
	require.NoError(b, err)
	require.True(b, bytes.Equal(large, step.Output))
	for _, e := range b.eventsOf(store.EventFilter{Run: run, Resolve: store.ResolveNone}) {
		enc, err := journal.EncodeData(e.Data)
		require.NoError(b, err)
		require.Empty(b, enc.Input)
		require.Empty(b, enc.Output)
	}
}

func eventNeedsFilter(b *bench) {
	b.start(journal.Engine)
	_, err := b.store.Events(b.ctx(), b.ns, store.EventFilter{}, store.Page{})
	requireCode(b, cairnerr.CodeMalformed, err)
}

func eventNotFound(b *bench) {
	run := b.start(journal.Engine)
	for _, seq := range []int64{-1, 0, 3, 1 << 40} {
		_, err := b.store.Event(b.ctx(), b.ns, run, seq, store.ResolveAll)
		requireCode(b, cairnerr.CodeEventNotFound, err)
	}
	for _, foreign := range []*bench{b.foreign(), b.in("never seen")} {
		_, err := b.store.Event(b.ctx(), foreign.ns, run, 1, store.ResolveAll)
		requireCode(b, cairnerr.CodeRunNotFound, err)
		require.Empty(b, foreign.eventsOf(store.EventFilter{Run: run}))
	}
	require.Empty(b, b.eventsOf(store.EventFilter{Run: b.mint()}))
	require.Empty(b, b.eventsOf(store.EventFilter{Entity: b.mint()}))
}

// Payloads and errors are bytes; nobody looks inside.
func eventBytes(b *bench) {
	for _, text := range []string{"\x00", "a\x00b", "\xff\xfe", "\\x00'\"", "e\u0301\u2028\U0001f600", "\ufffd"} {
		p := payload(text)
		run := b.start(journal.World3, func(c *journal.RunCreated) { c.Input, c.Context = p, []byte(text) })
		step, hook, wait := b.mint(), b.mint(), b.mint()
		b.write(run,
			about(step, &journal.StepCreated{Name: "s", Input: p}),
			about(hook, &journal.HookCreated{Token: "t", Metadata: p}),
			about(wait, &journal.WaitCreated{}))
		b.later(time.Second)
		b.write(run,
			about(step, &journal.StepStarted{}),
			about(step, &journal.StepRetrying{Error: &cairnerr.Error{Message: text, Stack: text, Details: map[string]string{"k": text}}, Value: p}),
			about(hook, &journal.HookReceived{Payload: p, Sender: "s", Digest: []byte(text)}),
			about(wait, &journal.WaitCompleted{Result: p}))
		b.check(run)
		b.write(run, about(step, &journal.StepCompleted{Result: p}))
		b.write(run, about(hook, &journal.HookDisposed{}))
		b.write(run, plain(&journal.RunFailed{Error: &cairnerr.Error{Message: text}, ErrorCode: text, Value: p}))
		b.check(run)
	}
}
