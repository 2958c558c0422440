package storetest

import (
	"reflect"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var aliasingTests = []test{
	{"Committed", aliasingCommitted},
	{"Loaded", aliasingLoaded},
	{"Read", aliasingRead},
}

// spoil changes every byte and every text that can be reached from a value.
func spoil(v reflect.Value, seen map[any]bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !seen[v.Interface()] {
			seen[v.Interface()] = true
			spoil(v.Elem(), seen)
		}
	case reflect.Interface:
		if !v.IsNil() {
			spoil(v.Elem(), seen)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				spoil(v.Field(i), seen)
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if v.Type().Elem().Kind() == reflect.String {
				v.SetMapIndex(key, reflect.ValueOf("spoilt").Convert(v.Type().Elem()))
			} else {
				spoil(v.MapIndex(key), seen)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			spoil(v.Index(i), seen)
		}
	case reflect.Uint8:
		if v.CanSet() {
			v.SetUint(v.Uint() ^ 0xff)
		}
	case reflect.Int64:
		if v.CanSet() {
			v.SetInt(^v.Int())
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString("spoilt")
		}
	default:
	}
}

// rich makes a run that has one of everything.
func (b *bench) rich() journal.ID {
	b.Helper()
	run := b.start(journal.World3, func(c *journal.RunCreated) {
		c.Attributes, c.Context, c.StartKey = map[string]string{"a": "1"}, []byte("context"), "key"
	})
	stored, hook, wait := b.mint(), b.mint(), b.mint()
	b.write(run,
		about(stored, &journal.StepStarted{Name: "s", Lazy: true, Input: payload("in")}),
		about(stored, &journal.StepRetrying{Error: &cairnerr.Error{Code: "x", Details: map[string]string{"k": "v"}}, Value: payload("why")}),
		about(hook, &journal.HookCreated{Token: "t", Metadata: payload("meta")}),
		about(hook, &journal.HookReceived{Sender: "s", Payload: payload("p")}),
		about(wait, &journal.WaitCreated{Kind: "k"}),
		about(b.mint(), &journal.AttrSet{Changes: []journal.AttrChange{{Key: "b", Value: "2"}}}))
	require.NoError(b, b.commit(&store.Changes{Messages: []journal.Message{b.message("q", "k", "payload")}}))
	return run
}

// everything reads all there is about a run of [bench.rich].
func (b *bench) everything(run journal.ID) []any {
	b.Helper()
	var out []any
	add := func(v any, err error) {
		b.Helper()
		require.NoError(b, err)
		out = append(out, v)
	}
	s, ctx, ns, r := b.store, b.ctx(), b.ns, store.ResolveAll
	add(s.Run(ctx, ns, run, r))
	runs, err := s.Runs(ctx, ns, store.RunFilter{}, store.Page{})
	add(&runs, err)
	add(s.Journal(ctx, ns, run, 0))
	add(s.Event(ctx, ns, run, 1, r))
	events, err := s.Events(ctx, ns, store.EventFilter{Run: run, Resolve: r}, store.Page{})
	add(&events, err)
	steps, err := s.Steps(ctx, ns, run, r, store.Page{})
	add(&steps, err)
	add(s.Step(ctx, ns, run, steps.Data[0].ID, r))
	hooks, err := s.Hooks(ctx, ns, run, r, store.Page{})
	add(&hooks, err)
	add(s.HookByToken(ctx, ns, "t", r))
	waits, err := s.Waits(ctx, ns, run, store.Page{})
	add(&waits, err)
	messages, err := s.Messages(ctx, ns, "q", r, store.Page{})
	add(&messages, err)
	add(s.Message(ctx, ns, messages.Data[0].ID))
	return out
}

func aliasingRead(b *bench) {
	run := b.rich()
	b.check(run)
	before := b.everything(run)
	for _, v := range b.everything(run) {
		spoil(reflect.ValueOf(v), map[any]bool{})
	}
	require.NotEqual(b, before, func() []any {
		spoilt := b.everything(run)
		spoil(reflect.ValueOf(spoilt), map[any]bool{})
		return spoilt
	}(), "the test spoils what it reads")
	require.Equal(b, before, b.everything(run))
	b.check(run)
}

func aliasingLoaded(b *bench) {
	run := b.rich()
	before := b.everything(run)
	state := b.cached(run)
	touch := journal.Touch{Senders: []string{"s"}}
	for id := range state.Steps {
		touch.Steps = append(touch.Steps, id)
	}
	for id := range state.Hooks {
		touch.Hooks = append(touch.Hooks, id)
	}
	for id := range state.Waits {
		touch.Waits = append(touch.Waits, id)
	}
	for range 2 {
		tx := b.begin()
		loaded, err := tx.Load(b.ctx(), &store.LoadSet{
			Runs:      []store.LoadRun{{Namespace: b.ns, Run: run, EventsAfter: 0, Touch: touch}},
			StartKeys: []journal.StartKey{{Namespace: b.ns, Workflow: "checkout", Key: "key"}},
			Tokens:    []store.Token{{Namespace: b.ns, Token: "t"}},
		})
		require.NoError(b, err)
		spoil(reflect.ValueOf(loaded), map[any]bool{})
		tx.Rollback()
	}
	require.Equal(b, before, b.everything(run))
	b.check(run)
}

// What is passed to Commit is the caller's own again when it has returned.
func aliasingCommitted(b *bench) {
	run := b.mint()
	created := birth(journal.Engine)
	created.Attributes, created.Context, created.Input = map[string]string{"a": "1"}, []byte("context"), payload("input")
	c := b.optimistic(journal.NewState(b.ns), &journal.Command{
		Run: run, Guards: journal.Guards{Owner: journal.Ownership{Incarnation: b.self}},
		Events: []journal.Event{
			plain(created), plain(&journal.RunStarted{}), keyed("s", &journal.StepStarted{Input: payload("step")}),
			keyed("i", &journal.StepCompleted{Result: payload("inline")}), keyed("h", &journal.HookCreated{Token: "t", Metadata: payload("meta")}),
			keyed("h", &journal.HookReceived{Sender: "x", Payload: payload("p")}), plain(&journal.RunFailed{Error: &cairnerr.Error{Code: "e"}, Value: payload("v")}),
		},
	})
	message := b.message("q", "", "payload")
	c.Messages = []journal.Message{message}
	require.NoError(b, b.commit(c))
	before := b.journals(run)
	b.check(run)
	spoil(reflect.ValueOf(c), map[any]bool{})
	require.Equal(b, before, b.journals(run))
	require.Equal(b, payload("input"), b.run(run).Input)
	require.Equal(b, []byte("context"), b.run(run).Context)
	require.Equal(b, []string{"payload"}, b.texts("q"))
	b.check(run)
}
