package storetest

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var pagingTests = []test{
	{"BadCursors", pagingBadCursors},
	{"Empty", pagingEmpty},
	{"Limits", pagingLimits},
	{"LastCursorContinues", pagingContinues},
	{"RowsInserted", pagingInserted},
}

// lister is a list of any kind, reduced to what all lists have in common.
type lister struct {
	name string
	list func(store.Page) (page, error)
	add  func() // adds a row at the end
}

// page is a page of any list; rows are texts that tell them apart.
type page struct {
	rows    []string
	cursor  string
	hasMore bool
}

func lists[T any](name string, list func(store.Page) (store.List[T], error), text func(T) string, add func()) lister {
	return lister{name, func(p store.Page) (page, error) {
		l, err := list(p)
		out := page{cursor: l.Cursor, hasMore: l.HasMore}
		for _, row := range l.Data {
			out.rows = append(out.rows, text(row))
		}
		return out, err
	}, add}
}

// everyList returns all lists that a store has, in the bench's namespace.
func (b *bench) everyList() []lister {
	b.Helper()
	s, ctx, ns := b.store, b.ctx(), b.ns
	run := b.start(journal.World3)
	engine := b.start(journal.Engine)
	entity := b.mint()
	b.write(run, about(entity, &journal.StepCreated{Name: "s"}))
	n := 0
	next := func() string { n++; return fmt.Sprint(n) }
	event := func(e store.RunEvent) string { return fmt.Sprint(e.Run, e.Seq) }
	hook := func(h *store.RunHook) string { return h.Token }
	addHook := func() { b.write(run, about(b.mint(), &journal.HookCreated{Token: "token " + next()})) }
	return []lister{
		lists("runs", func(p store.Page) (store.List[*journal.Run], error) {
			return s.Runs(ctx, ns, store.RunFilter{Workflow: "listed"}, p)
		}, func(r *journal.Run) string { return r.ID.String() },
			func() { b.start(journal.Engine, func(c *journal.RunCreated) { c.Workflow = "listed" }) }),
		lists("events", func(p store.Page) (store.List[store.RunEvent], error) {
			return s.Events(ctx, ns, store.EventFilter{Run: engine}, p)
		}, event, func() { b.write(engine, plain(&journal.Annotated{Name: "n"})) }),
		lists("events of an entity", func(p store.Page) (store.List[store.RunEvent], error) {
			return s.Events(ctx, ns, store.EventFilter{Entity: entity}, p)
		}, event, func() { b.write(run, about(entity, &journal.StepStarted{})) }),
		lists("steps", func(p store.Page) (store.List[*journal.Step], error) {
			return s.Steps(ctx, ns, engine, store.ResolveAll, p)
		}, func(s *journal.Step) string { return s.Key }, func() {
			if n%2 == 0 {
				b.write(engine, keyed("step "+next(), &journal.StepCompleted{}))
			} else {
				b.write(engine, keyed("step "+next(), &journal.StepStarted{}))
			}
		}),
		lists("hooks", func(p store.Page) (store.List[*store.RunHook], error) {
			return s.Hooks(ctx, ns, run, store.ResolveAll, p)
		}, hook, addHook),
		lists("hooks of the namespace", func(p store.Page) (store.List[*store.RunHook], error) {
			return s.Hooks(ctx, ns, journal.ID{}, store.ResolveAll, p)
		}, hook, addHook),
		lists("waits", func(p store.Page) (store.List[*journal.Wait], error) { return s.Waits(ctx, ns, engine, p) },
			func(w *journal.Wait) string { return w.Key }, func() { b.write(engine, keyed("wait "+next(), &journal.WaitCreated{})) }),
		lists("logs", func(p store.Page) (store.List[store.LogLine], error) {
			return s.Logs(ctx, ns, run, store.LogFilter{}, p)
		},
			func(l store.LogLine) string { return l.Message }, func() { b.appendLogs(roomy, b.line(run, "line "+next())) }),
		lists("messages", func(p store.Page) (store.List[*store.QueuedMessage], error) {
			return s.Messages(ctx, ns, "listed", store.ResolveAll, p)
		}, func(m *store.QueuedMessage) string { return m.ID.String() },
			func() {
				require.NoError(b, b.commit(&store.Changes{Messages: []journal.Message{b.message("listed", "", "x")}}))
			}),
	}
}

func (l *lister) page(b *bench, p store.Page) page {
	b.Helper()
	got, err := l.list(p)
	require.NoError(b, err, l.name)
	return got
}

func pagingBadCursors(b *bench) {
	lists := b.everyList()
	cursors := make([]string, len(lists))
	for i, l := range lists {
		l.add()
		cursors[i] = l.page(b, store.Page{}).cursor
		require.NotEmpty(b, cursors[i], l.name)
	}
	kind := func(cursor string) byte {
		raw, err := base64.RawURLEncoding.DecodeString(cursor)
		require.NoError(b, err)
		return raw[0]
	}
	for i, l := range lists {
		good := cursors[i]
		bad := []string{
			"x", "!!!", " ", "\x00", good[:len(good)-1], good + "A", good + "=", strings.Repeat("A", 23), "é" + good,
			strings.Repeat(good, 100), "0", "-1", "' or 1=1 --",
		}
		for n, other := range cursors {
			if kind(other) != kind(good) {
				bad = append(bad, other)
			} else if n != i {
				_, err := l.list(store.Page{Cursor: other})
				require.NoError(b, err)
			}
		}
		for _, cursor := range bad {
			for _, desc := range []bool{false, true} {
				_, err := l.list(store.Page{Cursor: cursor, Desc: desc})
				require.Error(b, err, "%s: %q", l.name, cursor)
				require.Equal(b, cairnerr.CodeMalformed, cairnerr.CodeOf(err), "%s: %q: %v", l.name, cursor, err)
			}
		}
		_, err := l.list(store.Page{Limit: -1})
		requireCode(b, cairnerr.CodeMalformed, err)
	}
}

func pagingEmpty(b *bench) {
	for _, f := range []store.RunFilter{{}, {Workflow: "none"}, {Parent: b.mint()}, {Attributes: map[string]string{"a": "b"}}} {
		l, err := b.store.Runs(b.ctx(), b.ns, f, store.Page{})
		require.NoError(b, err)
		require.Empty(b, l.Data)
		require.Empty(b, l.Cursor)
		require.False(b, l.HasMore)
	}
}

func pagingLimits(b *bench) {
	const size = 1003
	var c store.Changes
	for range size {
		c.Runs = append(c.Runs, b.newRun(b.mint()))
		c.Messages = append(c.Messages, b.message("q", "", ""))
	}
	require.NoError(b, b.commit(&c))
	var notes []journal.Event
	for range size - 2 {
		notes = append(notes, plain(&journal.Annotated{Name: "n"}))
	}
	run := c.Runs[0].State.Run.ID
	for len(notes) > 0 {
		n := min(len(notes), journal.MaxEvents)
		b.write(run, notes[:n]...)
		notes = notes[n:]
	}
	long := []lister{
		lists("runs", func(p store.Page) (store.List[*journal.Run], error) {
			return b.store.Runs(b.ctx(), b.ns, store.RunFilter{}, p)
		},
			func(r *journal.Run) string { return r.ID.String() }, nil),
		lists("events", func(p store.Page) (store.List[store.RunEvent], error) {
			return b.store.Events(b.ctx(), b.ns, store.EventFilter{Run: run}, p)
		}, func(e store.RunEvent) string { return fmt.Sprint(e.Seq) }, nil),
		lists("messages", func(p store.Page) (store.List[*store.QueuedMessage], error) {
			return b.store.Messages(b.ctx(), b.ns, "q", store.ResolveNone, p)
		}, func(m *store.QueuedMessage) string { return m.ID.String() }, nil),
	}
	for _, l := range long {
		for limit, want := range map[int]int{0: store.DefaultLimit, 1: 1, 999: 999, 1000: 1000, 1001: 1000, 1 << 40: 1000} {
			got := l.page(b, store.Page{Limit: limit})
			require.Len(b, got.rows, want, l.name)
			require.True(b, got.hasMore)
			rest := l.page(b, store.Page{Limit: 1000, Cursor: got.cursor})
			require.Len(b, rest.rows, min(size-want, 1000), l.name)
			require.Equal(b, size-want > 1000, rest.hasMore)
			require.NotContains(b, rest.rows, got.rows[want-1], "a cursor is exclusive")
		}
	}
}

// The cursor of the last page is good for asking later what has been added.
func pagingContinues(b *bench) {
	for _, l := range b.everyList() {
		l.add()
		cursor := l.page(b, store.Page{}).cursor
		for range 3 {
			require.Empty(b, l.page(b, store.Page{Cursor: cursor}).rows, l.name)
			l.add()
			got := l.page(b, store.Page{Cursor: cursor, Limit: 1})
			require.Len(b, got.rows, 1, l.name)
			require.False(b, got.hasMore)
			require.NotEmpty(b, got.cursor)
			cursor = got.cursor
		}
	}
}

// While rows are added between two pages, no row comes twice and none that was there is left out.
func pagingInserted(b *bench) {
	for _, l := range b.everyList() {
		for range 5 {
			l.add()
		}
		for _, desc := range []bool{false, true} {
			old := l.page(b, store.Page{Limit: 1000, Desc: desc}).rows
			seen := map[string]bool{}
			var order []string
			for p := (store.Page{Limit: 2, Desc: desc}); ; {
				got := l.page(b, p)
				for _, row := range got.rows {
					require.False(b, seen[row], "%s: twice", l.name)
					seen[row] = true
					order = append(order, row)
				}
				if !got.hasMore || len(order) > 3*len(old) {
					break
				}
				if len(order) < len(old) {
					l.add()
				}
				p.Cursor = got.cursor
			}
			for _, row := range old {
				require.True(b, seen[row], "%s: left out", l.name)
			}
			if desc {
				require.Equal(b, old, order, "%s: what was added lies before the first page", l.name)
			} else {
				require.Equal(b, l.page(b, store.Page{Limit: 1000}).rows, order, l.name)
			}
		}
	}
}
