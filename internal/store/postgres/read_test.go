package postgres

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// everything stores a run with all kinds of rows, and returns its state.
func (f *fixture) everything() *journal.State {
	f.tb.Helper()
	s, id := journal.NewState(namespace), f.mint()
	apply := func(g journal.Guards, events ...journal.Event) {
		f.tb.Helper()
		require.NoError(f.tb, f.commit(f.writer, &store.Changes{Runs: []store.RunChange{f.reduce(s, id, g, events...)}}))
	}
	apply(f.owner(), journal.Event{Data: &journal.RunCreated{
		Workflow: "order", Input: []byte("in"), Attributes: map[string]string{"a": "1", "b": "2"}, StartKey: "key", Parent: f.self, Deployment: "d1",
	}}, journal.Event{Data: &journal.RunStarted{}})
	apply(f.owner(), stepDone("inline-1"))
	apply(f.owner(), journal.Event{Key: "long", Data: &journal.StepStarted{Name: "long"}})
	apply(f.owner(), journal.Event{Key: "long", Data: &journal.StepRetrying{Error: cairnerr.Errorf("boom", "it failed"), RetryAfter: f.now + 5}})
	apply(f.owner(), stepDone("inline-2"), journal.Event{Key: "bad", Data: &journal.StepFailed{Name: "bad", Error: cairnerr.Errorf("bad", "no")}})
	apply(f.owner(), journal.Event{Key: "h", Data: &journal.HookCreated{Token: "token", RetainUntil: f.now + 1000, Metadata: []byte("meta")}},
		journal.Event{Key: "once", Data: &journal.HookCreated{Token: "once", SingleUse: true, Webhook: true}})
	apply(f.owner(), journal.Event{Key: "timer", Data: &journal.WaitCreated{ResumeAt: f.now + 100}}, journal.Event{Key: "timer-2", Data: &journal.WaitCreated{Kind: "child"}})
	apply(journal.Guards{}, journal.Event{Entity: journal.DeriveID(id, journal.PrefixHook, "once"), Data: &journal.HookReceived{Sender: "me", Payload: []byte("hello")}})
	apply(f.owner(), journal.Event{Key: "timer", Data: &journal.WaitCompleted{}})
	apply(f.owner(), journal.Event{Data: &journal.AttrSet{Changes: []journal.AttrChange{{Key: "a", Remove: true}, {Key: "c", Value: "3"}}}},
		journal.Event{Entity: f.mint(), Data: &journal.AttrSet{Changes: []journal.AttrChange{{Key: "c", Value: "4"}}}})
	return s
}

func TestViewsEqualTheFold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.everything()
	f.requireViews(s)
	ended := f.reduce(s, s.Run.ID, f.owner(), journal.Event{Data: &journal.RunFailed{Error: cairnerr.Errorf("bust", "out of money"), Value: []byte("value")}})
	require.NoError(t, f.commit(f.writer, &store.Changes{Runs: []store.RunChange{ended}}))
	f.requireViews(s)
	run, err := f.Run(t.Context(), namespace, s.Run.ID, store.ResolveNone)
	require.NoError(t, err)
	require.Equal(t, cairnerr.Code("bust"), run.Error.Error.Code, "errors come along")
	require.Empty(t, run.Error.Value)
	require.Empty(t, run.Input)
	run, err = f.Run(t.Context(), namespace, s.Run.ID, store.ResolveAll)
	require.NoError(t, err)
	require.EqualValues(t, "value", run.Error.Value)
	require.EqualValues(t, "in", run.Input)
	require.Equal(t, f.now, run.UpdatedAt)
}

// requireViews compares what readers say with the fold of the journal, and with a Load.
func (f *fixture) requireViews(s *journal.State) {
	f.tb.Helper()
	ctx, id := f.tb.Context(), s.Run.ID
	j, err := f.Journal(ctx, namespace, id, 0)
	require.NoError(f.tb, err)
	fold, err := j.State(namespace)
	require.NoError(f.tb, err)
	require.Equal(f.tb, s.Seq, fold.Seq)
	require.Equal(f.tb, s.Ref, fold.Ref)
	require.Equal(f.tb, s.Run, fold.Run)
	require.Equal(f.tb, s.Run, j.Run)

	steps, err := f.Steps(ctx, namespace, id, store.ResolveNone, store.Page{})
	require.NoError(f.tb, err)
	stored := map[journal.ID]*journal.Step{}
	for _, st := range steps.Data {
		one, err := f.Step(ctx, namespace, id, st.ID, store.ResolveNone)
		require.NoError(f.tb, err)
		require.Equal(f.tb, st, one)
		if !st.Inline {
			plain := *st
			plain.Error = nil
			stored[st.ID] = &plain
		}
	}
	requireSame(f.tb, fold.Steps, stored)
	hooks, err := f.Hooks(ctx, namespace, id, store.ResolveNone, store.Page{})
	require.NoError(f.tb, err)
	gotHooks := map[journal.ID]*journal.Hook{}
	for _, h := range hooks.Data {
		require.Equal(f.tb, id, h.Run)
		gotHooks[h.ID] = &h.Hook
		byToken, err := f.HookByToken(ctx, namespace, h.Token, store.ResolveNone)
		require.NoError(f.tb, err)
		require.Equal(f.tb, h, byToken)
	}
	requireSame(f.tb, fold.Hooks, gotHooks)
	waits, err := f.Waits(ctx, namespace, id, store.Page{})
	require.NoError(f.tb, err)
	gotWaits := map[journal.ID]*journal.Wait{}
	for _, w := range waits.Data {
		gotWaits[w.ID] = w
		one, err := f.Wait(ctx, namespace, id, w.ID)
		require.NoError(f.tb, err)
		require.Equal(f.tb, w, one)
	}
	requireSame(f.tb, fold.Waits, gotWaits)
	f.requireLoad(fold)
}

func (f *fixture) requireLoad(fold *journal.State) {
	f.tb.Helper()
	b := f.begin(f.writer)
	defer b.Rollback()
	touch := journal.Touch{
		Steps: append(slices.Collect(maps.Keys(fold.Steps)), f.mint()), Hooks: append(slices.Collect(maps.Keys(fold.Hooks)), f.mint()),
		Waits: append(slices.Collect(maps.Keys(fold.Waits)), f.mint()), HooksMade: append(slices.Collect(maps.Keys(fold.HooksMade)), f.mint()), AttrSets: append(slices.Collect(maps.Keys(fold.AttrSets)), f.mint()), Senders: append(slices.Collect(maps.Keys(fold.Receipts)), "nobody"),
	}
	loaded, err := b.Load(f.tb.Context(), &store.LoadSet{
		Runs:      []store.LoadRun{{Namespace: namespace, Run: fold.Run.ID, EventsAfter: fold.Seq - 2, Touch: touch}},
		Tokens:    []store.Token{{Namespace: namespace, Token: "token"}, {Namespace: namespace, Token: "other"}, {Namespace: "nowhere", Token: "token"}},
		StartKeys: []journal.StartKey{{Namespace: namespace, Workflow: "order", Key: "key"}, {Namespace: namespace, Workflow: "order", Key: "x"}, {Namespace: namespace, Workflow: "none", Key: "key"}},
	})
	require.NoError(f.tb, err)
	got := loaded.Runs[0].State
	require.Equal(f.tb, fold.Run, got.Run)
	require.Equal(f.tb, fold.Seq, got.Seq)
	require.Equal(f.tb, fold.Ref, got.Ref)
	require.False(f.tb, got.Complete)
	requireSame(f.tb, fold.Steps, got.Steps)
	requireSame(f.tb, fold.Hooks, got.Hooks)
	requireSame(f.tb, fold.Waits, got.Waits)
	requireSame(f.tb, fold.AttrSets, got.AttrSets)
	requireSame(f.tb, fold.HooksMade, got.HooksMade)
	requireSame(f.tb, fold.Receipts, got.Receipts)
	require.Len(f.tb, loaded.Runs[0].Events, 2)
	require.Equal(f.tb, fold.Seq, loaded.Runs[0].Events[1].Seq)
	require.Len(f.tb, loaded.Outside.Tokens, 1)
	require.Equal(f.tb, fold.Run.ID, loaded.Outside.Tokens[journal.TokenKey(namespace, "token")].Run)
	require.Equal(f.tb, map[journal.StartKey]journal.Started{
		{Namespace: namespace, Workflow: "order", Key: "key"}: {Run: fold.Run.ID, Digest: fold.Run.StartDigest},
	}, loaded.Outside.StartKeys)
}

// requireSame compares maps; none is the same as an empty one.
func requireSame[K comparable, V any](tb testing.TB, want, got map[K]V) {
	tb.Helper()
	if len(want) == 0 && len(got) == 0 {
		return
	}
	require.Equal(tb, want, got)
}

func TestSweep(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.everything()
	b := f.begin(f.writer)
	loaded, err := b.Load(t.Context(), &store.LoadSet{Runs: []store.LoadRun{{Namespace: namespace, Run: s.Run.ID, EventsAfter: -1}}})
	require.NoError(t, err)
	part := loaded.Runs[0].State
	c := f.reduce(part, s.Run.ID, journal.Guards{}, journal.Event{Data: &journal.RunCancelled{Reason: "enough"}})
	require.True(t, c.Rows.Sweep)
	require.NoError(t, b.Commit(t.Context(), &store.Changes{Runs: []store.RunChange{c}}))
	require.NoError(t, s.Follow(s.Run.ID, c.Events))
	s.Commit()
	f.requireViews(s)
	hooks, err := f.Hooks(t.Context(), namespace, journal.ID{}, store.ResolveAll, store.Page{})
	require.NoError(t, err)
	require.Len(t, hooks.Data, 1)
	require.Equal(t, journal.HookRetained, hooks.Data[0].Status)
	require.EqualValues(t, "meta", hooks.Data[0].Metadata)

	// When its time is over, the token is free again.
	f.now += 2000
	b = f.begin(f.writer)
	loaded, err = b.Load(t.Context(), &store.LoadSet{Tokens: []store.Token{{Namespace: namespace, Token: "token"}}})
	require.NoError(t, err)
	require.Empty(t, loaded.Outside.Tokens)
	b.Rollback()
	_, err = f.HookByToken(t.Context(), namespace, "token", false)
	require.NoError(t, err, "the batch was given up")
}

func TestInlineStepsAndEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	s := f.everything()
	id := s.Run.ID
	all, err := f.Steps(ctx, namespace, id, store.ResolveAll, store.Page{})
	require.NoError(t, err)
	var keys []string
	for _, st := range all.Data {
		keys = append(keys, st.Key)
	}
	require.Equal(t, []string{"inline-1", "long", "inline-2", "bad"}, keys)
	require.EqualValues(t, "result of inline-1", all.Data[0].Output)
	require.EqualValues(t, "input of inline-1", all.Data[0].Input)
	require.Equal(t, cairnerr.Code("boom"), all.Data[1].Error.Code)
	require.Equal(t, cairnerr.Code("bad"), all.Data[3].Error.Code)

	for _, desc := range []bool{false, true} {
		var paged []*journal.Step
		for cursor := ""; ; {
			page, err := f.Steps(ctx, namespace, id, store.ResolveAll, store.Page{Limit: 1, Cursor: cursor, Desc: desc})
			require.NoError(t, err)
			paged = append(paged, page.Data...)
			cursor = page.Cursor
			if !page.HasMore {
				break
			}
		}
		if desc {
			slices.Reverse(paged)
		}
		require.Equal(t, all.Data, paged)
	}

	// The event of an inline step is found by the step's id, with and without the run.
	step := all.Data[2]
	for _, filter := range []store.EventFilter{{Run: id, Entity: step.ID}, {Entity: step.ID}} {
		events, err := f.Events(ctx, namespace, filter, store.Page{})
		require.NoError(t, err)
		require.Len(t, events.Data, 1)
		require.Equal(t, step.FirstSeq, events.Data[0].Seq)
		require.Equal(t, step.ID, events.Data[0].Entity)
		require.Equal(t, id, events.Data[0].Run)
		events, err = f.Events(ctx, namespace, filter, store.Page{Cursor: events.Cursor})
		require.NoError(t, err)
		require.Empty(t, events.Data)
	}
	hook := journal.DeriveID(id, journal.PrefixHook, "once")
	for _, filter := range []store.EventFilter{{Run: id, Entity: hook}, {Entity: hook}} {
		events, err := f.Events(ctx, namespace, filter, store.Page{Desc: true})
		require.NoError(t, err)
		require.Len(t, events.Data, 2)
		require.Equal(t, journal.EventHookReceived, events.Data[0].Type)
	}
	_, err = f.Step(ctx, namespace, id, f.mint(), false)
	require.Equal(t, cairnerr.CodeStepNotFound, code(err))
	_, err = f.Event(ctx, namespace, id, 999, false)
	require.Equal(t, cairnerr.CodeEventNotFound, code(err))
	e, err := f.Event(ctx, namespace, id, 1, store.ResolveNone)
	require.NoError(t, err)
	require.Empty(t, e.Data.(*journal.RunCreated).Input) //nolint:forcetypeassert // a test
}

func TestUnknownEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.start()
	f.sql(`insert into events (run, seq, at, type, data) values ($1, 3, 1, 200, 'x')`, s.Ref)
	e, err := f.Event(t.Context(), namespace, s.Run.ID, 3, true)
	require.NoError(t, err)
	require.Nil(t, e.Data)
	require.EqualValues(t, 200, e.Type)
	j, err := f.Journal(t.Context(), namespace, s.Run.ID, 1)
	require.NoError(t, err)
	require.Len(t, j.Events, 2)
	require.Equal(t, cairnerr.CodeUnknownEvent, code(s.Follow(s.Run.ID, j.Events[1:])))
}

func TestRunsByFilter(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	var all []*journal.Run
	var changes store.Changes
	for i := range 60 {
		f.now++
		s := journal.NewState(namespace)
		created := &journal.RunCreated{Workflow: numbered("w", i%3), Attributes: map[string]string{"even": numbered("", i%2), "four": numbered("", i%4)}}
		if i%5 == 0 {
			created.Parent = f.self
		}
		events := []journal.Event{{Data: created}, {Data: &journal.RunStarted{}}, {Data: &journal.RunCompleted{}}}
		if i%4 == 1 {
			events[2] = journal.Event{Data: &journal.RunFailed{Error: cairnerr.Errorf("x", "y")}}
		}
		changes.Runs = append(changes.Runs, f.reduce(s, f.mint(), f.owner(), events[:1+i%3]...))
		all = append(all, s.Run)
	}
	require.NoError(t, f.commit(f.writer, &changes))
	for name, c := range map[string]struct {
		filter store.RunFilter
		want   func(r *journal.Run) bool
	}{
		"all":             {store.RunFilter{}, func(*journal.Run) bool { return true }},
		"workflow":        {store.RunFilter{Workflow: "w-1"}, func(r *journal.Run) bool { return r.Workflow == "w-1" }},
		"running":         {store.RunFilter{Statuses: []journal.Status{1}}, func(r *journal.Run) bool { return r.Status == 1 }},
		"completed":       {store.RunFilter{Statuses: []journal.Status{2}}, func(r *journal.Run) bool { return r.Status == 2 }},
		"two states":      {store.RunFilter{Statuses: []journal.Status{3, 0, 3}}, func(r *journal.Run) bool { return r.Status == 0 || r.Status == 3 }},
		"three states":    {store.RunFilter{Statuses: []journal.Status{3, 0, 2}}, func(r *journal.Run) bool { return r.Status != 1 }},
		"state, workflow": {store.RunFilter{Statuses: []journal.Status{0, 1}, Workflow: "w-0"}, func(r *journal.Run) bool { return r.Status < 2 && r.Workflow == "w-0" }},
		"parent":          {store.RunFilter{Parent: f.self}, func(r *journal.Run) bool { return r.Parent == f.self }},
		"attribute":       {store.RunFilter{Attributes: map[string]string{"even": "-0"}}, func(r *journal.Run) bool { return r.Attributes["even"] == "-0" }},
		"attributes":      {store.RunFilter{Attributes: map[string]string{"even": "-0", "four": "-2"}, Statuses: []journal.Status{0, 2}}, func(r *journal.Run) bool { return r.Attributes["four"] == "-2" && r.Status%2 == 0 }},
		"time":            {store.RunFilter{CreatedFrom: all[10].CreatedAt, CreatedBefore: all[20].CreatedAt}, func(r *journal.Run) bool { return r.CreatedAt >= all[10].CreatedAt && r.CreatedAt < all[20].CreatedAt }},
		"no such":         {store.RunFilter{Workflow: "none"}, func(*journal.Run) bool { return false }},
		"no state":        {store.RunFilter{Statuses: []journal.Status{}}, func(*journal.Run) bool { return false }},
	} {
		for _, desc := range []bool{false, true} {
			var got, want []journal.ID
			for cursor := ""; ; {
				page, err := f.Runs(ctx, namespace, c.filter, store.Page{Limit: 7, Cursor: cursor, Desc: desc})
				require.NoError(t, err, name)
				for _, r := range page.Data {
					got = append(got, r.ID)
					i := slices.IndexFunc(all, func(a *journal.Run) bool { return a.ID == r.ID })
					require.Equal(t, all[i].Attributes, r.Attributes)
					require.Equal(t, all[i].Workflow, r.Workflow)
					require.Equal(t, r.Status == journal.StatusFailed, r.Error != nil, "errors come along")
				}
				cursor = page.Cursor
				if !page.HasMore {
					break
				}
			}
			for _, r := range all {
				if c.want(r) {
					want = append(want, r.ID)
				}
			}
			if desc {
				slices.Reverse(want)
			}
			require.Equal(t, want, got, "%s %t", name, desc)
		}
	}
	_, err := f.Runs(ctx, namespace, store.RunFilter{}, store.Page{Cursor: "rubbish"})
	require.Equal(t, cairnerr.CodeMalformed, code(err))
}

// TestListsNeedNoSort asks the planner, on tables with enough rows and statistics.
func TestListsNeedNoSort(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.start()
	f.sql(`insert into runs (no, ns, id, workflow, dialect, status, created_at, parent)
		select 1000 + i, 1, gen_random_uuid(), 1 + i % 3, 0, case when i % 50 = 0 then i / 50 % 5 else 2 end, i,
			case when i % 100 = 0 then '00000000-0000-0000-0000-000000000001'::uuid end from generate_series(1, 30000) i`)
	f.sql(`insert into attributes (run, ns, id, key, value) select no, ns, id, 'k', (no % 10)::text from runs`)
	f.sql(`analyze`)
	for name, filter := range map[string]store.RunFilter{
		"all":       {},
		"workflow":  {Workflow: "w"},
		"running":   {Statuses: []journal.Status{1}},
		"states":    {Statuses: []journal.Status{0, 1, 3}},
		"parent":    {Parent: journal.ID{15: 1}},
		"attribute": {Attributes: map[string]string{"k": "3"}},
		"time":      {CreatedFrom: f.now, CreatedBefore: f.now + 1},
	} {
		q := runQuery{ns: 1, page: store.Page{Cursor: "x", Desc: true}, after: f.mint()}
		if filter.Workflow != "" {
			q.workflow = 1
		}
		query := `explain select r.no from ` + q.pageOf(&filter, 20)
		rows, err := f.pool.Query(context.Background(), query, q.args...)
		require.NoError(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		text := strings.Join(plan, "\n")
		require.NotContains(t, text, "Seq Scan", name)
		require.NotRegexp(t, `Sort +\(cost`, text, name)
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	a, b := f.mint(), f.mint()
	add := func(messages ...journal.Message) *store.Changes { return &store.Changes{Messages: messages} }
	require.NoError(t, f.commit(f.writer, add(
		journal.Message{ID: a, Namespace: namespace, Queue: "q", Key: "k", Payload: []byte("1"), Run: f.self},
		journal.Message{ID: f.mint(), Namespace: namespace, Queue: "q", Key: "k", Payload: []byte("2")},
		journal.Message{ID: b, Namespace: namespace, Queue: "q", VisibleAt: f.now + 7})))
	list, err := f.Messages(ctx, namespace, "q", store.ResolveAll, store.Page{})
	require.NoError(t, err)
	require.Len(t, list.Data, 2, "the second one has a key that is taken")
	require.Equal(t, a, list.Data[0].ID)
	require.EqualValues(t, "1", list.Data[0].Payload)
	require.Equal(t, f.now, list.Data[0].VisibleAt)
	require.Equal(t, f.self, list.Data[0].Run)
	require.Equal(t, f.now+7, list.Data[1].VisibleAt)

	f.sql(`update messages set deliveries = 3`)
	batch := f.begin(f.writer)
	loaded, err := batch.Load(ctx, &store.LoadSet{Messages: []journal.ID{a, f.mint()}})
	require.NoError(t, err)
	require.Equal(t, map[journal.ID]int{a: 3}, loaded.Outside.Deliveries)
	changes := add(journal.Message{ID: f.mint(), Namespace: namespace, Queue: "q", Key: "k"})
	changes.Done = []journal.ID{a}
	require.NoError(t, batch.Commit(ctx, changes))
	_, err = f.Message(ctx, namespace, a)
	require.Equal(t, cairnerr.CodeMessageNotFound, code(err))
	_, err = f.Message(ctx, "elsewhere", b)
	require.Equal(t, cairnerr.CodeMessageNotFound, code(err))
	page, err := f.Messages(ctx, namespace, "q", store.ResolveNone, store.Page{Limit: 1, Desc: true})
	require.NoError(t, err)
	require.True(t, page.HasMore)
	page, err = f.Messages(ctx, namespace, "q", store.ResolveNone, store.Page{Limit: 1, Desc: true, Cursor: page.Cursor})
	require.NoError(t, err)
	require.False(t, page.HasMore)
	require.Equal(t, b, page.Data[0].ID)
}

func TestNothingInAForeignNamespace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.everything()
	ctx, id := t.Context(), s.Run.ID
	other := journal.NewState("other")
	require.NoError(t, f.commit(f.writer, &store.Changes{Runs: []store.RunChange{f.reduce(other, f.mint(), f.owner(), journal.Event{Data: &journal.RunCreated{Workflow: "w"}})}}))
	for _, ns := range []string{"other", "nowhere"} {
		_, err := f.Run(ctx, ns, id, true)
		require.Equal(t, cairnerr.CodeRunNotFound, code(err))
		_, err = f.Journal(ctx, ns, id, 0)
		require.Equal(t, cairnerr.CodeRunNotFound, code(err))
		_, err = f.Hook(ctx, ns, id, journal.DeriveID(id, journal.PrefixHook, "h"), true)
		require.Equal(t, cairnerr.CodeRunNotFound, code(err))
		_, err = f.HookByToken(ctx, ns, "token", true)
		require.Equal(t, cairnerr.CodeHookNotFound, code(err))
		hooks, err := f.Hooks(ctx, ns, journal.ID{}, true, store.Page{})
		require.NoError(t, err)
		require.Empty(t, hooks.Data)
		events, err := f.Events(ctx, ns, store.EventFilter{Entity: journal.DeriveID(id, journal.PrefixHook, "h")}, store.Page{})
		require.NoError(t, err)
		require.Empty(t, events.Data)
		steps, err := f.Steps(ctx, ns, id, true, store.Page{})
		require.NoError(t, err)
		require.Empty(t, steps.Data)
		waits, err := f.Waits(ctx, ns, id, store.Page{})
		require.NoError(t, err)
		require.Empty(t, waits.Data)
	}
}

func TestNotifier(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	peer := openFixture(t, f.url, nil)
	ctx, cancel := context.WithCancel(t.Context())
	hints, err := f.Notifier().Listen(ctx)
	require.NoError(t, err)
	receive := func() string {
		select {
		case hint := <-hints:
			return hint
		case <-time.After(10 * time.Second):
			require.Fail(t, "no hint came")
			return ""
		}
	}
	for range 3 { // merged while nobody reads
		require.NoError(t, peer.commit(peer.writer, &store.Changes{Notify: []string{"a"}}))
	}
	require.NoError(t, peer.commit(peer.writer, &store.Changes{Notify: []string{"b"}}))
	require.NoError(t, peer.commit(peer.writer, &store.Changes{}))
	got := map[string]bool{}
	for len(got) < 2 {
		got[receive()] = true
	}
	require.Equal(t, map[string]bool{"a": true, "b": true}, got)

	// It comes back when the connection breaks.
	f.sql(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query like 'listen%'`)
	require.Eventually(t, func() bool {
		require.NoError(t, peer.commit(peer.writer, &store.Changes{Notify: []string{"c"}}))
		select {
		case hint := <-hints:
			return hint == "c"
		case <-time.After(50 * time.Millisecond):
			return false
		}
	}, 10*time.Second, 10*time.Millisecond)

	cancel()
	require.Eventually(t, func() bool {
		for hint := range hints {
			t.Log("a late hint", hint)
		}
		var listening bool
		err := f.pool.QueryRow(t.Context(), `select exists (select from pg_stat_activity where datname = current_database() and query like 'listen%')`).Scan(&listening)
		return err == nil && !listening
	}, 10*time.Second, 10*time.Millisecond, "the connection is given back")
}
