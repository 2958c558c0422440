package storetest

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// views are what a run's journal amounts to, as readers show it.
type views struct {
	run    *journal.Run
	steps  []*journal.Step
	hooks  []*store.RunHook
	waits  []*journal.Wait
	events []store.RunEvent
}

// check reads all there is about a run in every way, and compares it with the fold of the journal (invariants 1 and 2).
func (b *bench) check(runs ...journal.ID) {
	b.Helper()
	for _, run := range runs {
		j, err := b.store.Journal(b.ctx(), b.ns, run, 0)
		require.NoError(b, err)
		require.Equal(b, int64(len(j.Events)), j.Seq)
		for i, e := range j.Events {
			require.Equal(b, int64(i+1), e.Seq, "no gap")
		}
		folded, err := j.State(b.ns)
		require.NoError(b, err)
		want := b.viewsOf(folded, j.Events)
		b.checkRun(run, want, j)
		b.checkSteps(run, want.steps)
		b.checkHooks(run, want.hooks)
		b.checkWaits(run, want.waits)
		b.checkEvents(run, want.events)
		b.checkLoaded(run, folded, j)
	}
}

// viewsOf makes the views out of the fold. Payloads are in the events.
func (b *bench) viewsOf(s *journal.State, log []journal.Event) *views {
	run := *s.Run
	run.UpdatedAt = log[len(log)-1].At
	run.Input = log[0].Data.(*journal.RunCreated).Input
	if run.EndSeq > 0 {
		switch d := log[run.EndSeq-1].Data.(type) {
		case *journal.RunCompleted:
			run.Output = d.Output
		case *journal.RunFailed:
			run.Error = d
		case *journal.RunCancelled:
			run.Cancelled = d
		}
	}
	v := &views{run: normal(&run)}
	for i := range log {
		e := &log[i]
		v.events = append(v.events, store.RunEvent{Run: run.ID, Dialect: run.Dialect, Event: *e})
		outcome := e.Type == journal.EventStepCompleted || e.Type == journal.EventStepFailed
		if outcome && s.Steps[e.Entity] == nil {
			v.steps = append(v.steps, journal.InlineStep(run.ID, e))
		}
	}
	for _, step := range s.Steps {
		v.steps = append(v.steps, stepWith(step, log))
	}
	slices.SortFunc(v.steps, func(x, y *journal.Step) int { return int(x.FirstSeq - y.FirstSeq) })
	for _, h := range s.Hooks {
		if h.Status == journal.HookRetained && h.RetainUntil <= b.now {
			continue // gone as soon as somebody wants its token: may be there or not
		}
		hook := &store.RunHook{Run: run.ID, Hook: *h}
		hook.Metadata = log[h.Seq-1].Data.(*journal.HookCreated).Metadata
		v.hooks = append(v.hooks, hook)
	}
	slices.SortFunc(v.hooks, func(x, y *store.RunHook) int { return int(x.Seq - y.Seq) })
	for _, w := range s.Waits {
		v.waits = append(v.waits, w)
	}
	slices.SortFunc(v.waits, func(x, y *journal.Wait) int { return int(x.Seq - y.Seq) })
	return v
}

// stepWith returns a step with its payloads.
func stepWith(step *journal.Step, log []journal.Event) *journal.Step {
	s := *step
	if s.InputSeq > 0 {
		enc, _ := journal.EncodeData(log[s.InputSeq-1].Data)
		s.Input = enc.Input
	}
	switch d := log[s.LastSeq-1].Data.(type) {
	case *journal.StepCompleted:
		s.Output = d.Result
	case *journal.StepFailed:
		s.Output, s.Error = d.Value, d.Error
	case *journal.StepRetrying:
		s.Output, s.Error = d.Value, d.Error
	}
	return &s
}

// normal makes "no attributes" look the same everywhere.
func normal(r *journal.Run) *journal.Run {
	next := *r
	if len(next.Attributes) == 0 {
		next.Attributes = nil
	}
	return &next
}

func runWithout(r *journal.Run) *journal.Run {
	next := *r
	next.Input, next.Output = nil, nil
	if next.Error != nil {
		next.Error = &journal.RunFailed{Error: next.Error.Error, ErrorCode: next.Error.ErrorCode}
	}
	return &next
}

func stepWithout(s *journal.Step) *journal.Step {
	next := *s
	next.Input, next.Output = nil, nil
	if next.Inline {
		next.InputSeq = 0 // whether there is an input is not known without reading it
	}
	return &next
}

func eventWithout(b *bench, e store.RunEvent) store.RunEvent {
	enc, err := journal.EncodeData(e.Data)
	require.NoError(b, err)
	e.Data, err = journal.DecodeData(e.Type, journal.Encoded{Data: enc.Data})
	require.NoError(b, err)
	return e
}

func (b *bench) checkRun(run journal.ID, want *views, j *store.Journal) {
	b.Helper()
	got, err := b.store.Run(b.ctx(), b.ns, run, store.ResolveAll)
	require.NoError(b, err)
	require.Equal(b, want.run, normal(got))
	got, err = b.store.Run(b.ctx(), b.ns, run, store.ResolveNone)
	require.NoError(b, err)
	require.Equal(b, runWithout(want.run), normal(got))
	bare := runWithout(want.run)
	bare.Error, bare.Cancelled, bare.UpdatedAt = nil, nil, 0
	inJournal := runWithout(normal(j.Run))
	inJournal.Error, inJournal.Cancelled, inJournal.UpdatedAt = nil, nil, 0
	require.Equal(b, bare, inJournal)
}

func (b *bench) checkSteps(run journal.ID, want []*journal.Step) {
	b.Helper()
	for _, r := range []store.Resolve{store.ResolveAll, store.ResolveNone} {
		list := func(p store.Page) (store.List[*journal.Step], error) { return b.store.Steps(b.ctx(), b.ns, run, r, p) }
		expected := slices.Clone(want)
		for i, s := range expected {
			if r == store.ResolveNone {
				expected[i] = stepWithout(s)
			}
			got, err := b.store.Step(b.ctx(), b.ns, run, s.ID, r)
			require.NoError(b, err)
			require.Equal(b, expected[i], got)
		}
		requireList(b, expected, list)
	}
}

func (b *bench) checkHooks(run journal.ID, want []*store.RunHook) {
	b.Helper()
	for _, r := range []store.Resolve{store.ResolveAll, store.ResolveNone} {
		expected := make([]*store.RunHook, 0, len(want))
		for _, h := range want {
			next := *h
			if r == store.ResolveNone {
				next.Metadata = nil
			}
			expected = append(expected, &next)
			got, err := b.store.Hook(b.ctx(), b.ns, run, h.ID, r)
			require.NoError(b, err)
			require.Equal(b, &next, got)
			got, err = b.store.HookByToken(b.ctx(), b.ns, h.Token, r)
			require.NoError(b, err)
			require.Equal(b, &next, got)
		}
		live := func(h *store.RunHook) bool { return h.Status != journal.HookRetained || h.RetainUntil > b.now }
		requireList(b, expected, func(p store.Page) (store.List[*store.RunHook], error) {
			l, err := b.store.Hooks(b.ctx(), b.ns, run, r, p)
			l.Data = slices.DeleteFunc(l.Data, func(h *store.RunHook) bool { return !live(h) })
			return l, err
		})
		var inNamespace []*store.RunHook
		for _, h := range all(b, func(p store.Page) (store.List[*store.RunHook], error) {
			return b.store.Hooks(b.ctx(), b.ns, journal.ID{}, r, p)
		}, store.Page{}) {
			if h.Run == run && live(h) {
				inNamespace = append(inNamespace, h)
			}
		}
		require.ElementsMatch(b, expected, inNamespace)
	}
}

func (b *bench) checkWaits(run journal.ID, want []*journal.Wait) {
	b.Helper()
	for _, w := range want {
		got, err := b.store.Wait(b.ctx(), b.ns, run, w.ID)
		require.NoError(b, err)
		require.Equal(b, w, got)
	}
	requireList(b, want, func(p store.Page) (store.List[*journal.Wait], error) { return b.store.Waits(b.ctx(), b.ns, run, p) })
}

func (b *bench) checkEvents(run journal.ID, want []store.RunEvent) {
	b.Helper()
	for _, r := range []store.Resolve{store.ResolveAll, store.ResolveNone} {
		expected := slices.Clone(want)
		byEntity := map[journal.ID][]store.RunEvent{}
		for i := range expected {
			if r == store.ResolveNone {
				expected[i] = eventWithout(b, expected[i])
			}
			e := expected[i]
			if !e.Entity.IsZero() {
				byEntity[e.Entity] = append(byEntity[e.Entity], e)
			}
			if testing.Short() && i > 3 {
				continue
			}
			got, err := b.store.Event(b.ctx(), b.ns, run, e.Seq, r)
			require.NoError(b, err)
			require.Equal(b, &e.Event, got)
		}
		list := func(f store.EventFilter) func(store.Page) (store.List[store.RunEvent], error) {
			f.Resolve = r
			return func(p store.Page) (store.List[store.RunEvent], error) { return b.store.Events(b.ctx(), b.ns, f, p) }
		}
		requireList(b, expected, list(store.EventFilter{Run: run}))
		for entity, events := range byEntity {
			requireList(b, events, list(store.EventFilter{Run: run, Entity: entity}))
			inNamespace := all(b, list(store.EventFilter{Entity: entity}), store.Page{})
			inNamespace = slices.DeleteFunc(inNamespace, func(e store.RunEvent) bool { return e.Run != run })
			require.Equal(b, events, inNamespace)
		}
	}
}

// checkLoaded compares what a batch reads, all of it and in part, with the fold.
func (b *bench) checkLoaded(run journal.ID, folded *journal.State, j *store.Journal) {
	b.Helper()
	touch := journal.Touch{
		Steps: slices.Collect(maps.Keys(folded.Steps)), Hooks: slices.Collect(maps.Keys(folded.Hooks)), Waits: slices.Collect(maps.Keys(folded.Waits)),
		Senders: slices.Collect(maps.Keys(folded.Receipts)),
	}
	var entities []journal.ID
	for _, e := range j.Events {
		entities = append(entities, e.Entity)
	}
	slices.SortFunc(entities, journal.ID.Compare)
	// What is not there must not be found, also not by an id of another kind.
	touch.AttrSets = slices.DeleteFunc(slices.Compact(entities), journal.ID.IsZero)
	touch.HooksMade = touch.AttrSets
	tx := b.begin()
	defer tx.Rollback()
	loaded, err := tx.Load(b.ctx(), &store.LoadSet{Runs: []store.LoadRun{{Namespace: b.ns, Run: run, EventsAfter: 0, Touch: touch}}})
	require.NoError(b, err)
	got := loaded.Runs[0]
	require.False(b, got.Busy)
	_, err = journal.Fold(b.ns, run, got.Events) // fills in the entities that follow from keys
	require.NoError(b, err)
	require.Equal(b, j.Events, got.Events)
	require.Equal(b, folded.Seq, got.State.Seq)
	require.Equal(b, j.Ref, got.State.Ref)
	require.Equal(b, b.ns, got.State.Namespace)
	require.False(b, got.State.Complete)
	bare, inState := normal(folded.Run), normal(got.State.Run)
	bare.UpdatedAt, inState.UpdatedAt = 0, 0
	require.Equal(b, bare, inState)
	requireSame(b, folded.Steps, got.State.Steps)
	requireSame(b, b.unexpired(folded.Hooks), b.unexpired(got.State.Hooks))
	requireSame(b, folded.Waits, got.State.Waits)
	requireSame(b, folded.Receipts, got.State.Receipts)
	requireSame(b, folded.AttrSets, got.State.AttrSets)
	requireSame(b, folded.HooksMade, got.State.HooksMade)
}

func (b *bench) unexpired(hooks map[journal.ID]*journal.Hook) map[journal.ID]*journal.Hook {
	out := maps.Clone(hooks)
	maps.DeleteFunc(out, func(_ journal.ID, h *journal.Hook) bool {
		return h.Status == journal.HookRetained && h.RetainUntil <= b.now
	})
	return out
}

// requireSame compares two maps; none is the same as an empty one.
func requireSame[K comparable, V any](b *bench, want, got map[K]V) {
	b.Helper()
	if len(want)+len(got) > 0 {
		require.Equal(b, want, got)
	}
}

// all reads a list page by page.
func all[T any](b *bench, list func(store.Page) (store.List[T], error), p store.Page) []T {
	b.Helper()
	var rows []T
	for {
		l, err := list(p)
		require.NoError(b, err)
		rows = append(rows, l.Data...)
		if !l.HasMore {
			return rows
		}
		require.NotEqual(b, p.Cursor, l.Cursor, "a page moves on")
		p.Cursor = l.Cursor
	}
}

// requireList reads a list forwards, backwards and in small pages.
func requireList[T any](b *bench, want []T, list func(store.Page) (store.List[T], error)) {
	b.Helper()
	backwards := slices.Clone(want)
	slices.Reverse(backwards)
	requireRows(b, want, all(b, list, store.Page{}))
	requireRows(b, backwards, all(b, list, store.Page{Limit: 2, Desc: true}))
	if !testing.Short() {
		requireRows(b, want, all(b, list, store.Page{Limit: 2}))
		requireRows(b, backwards, all(b, list, store.Page{Desc: true}))
	}
}

func requireRows[T any](b *bench, want, got []T) {
	b.Helper()
	if len(want)+len(got) > 0 {
		require.Equal(b, want, got)
	}
}
