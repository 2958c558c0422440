package check

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// pageSize is how many rows are read at once. They come with their payloads.
const pageSize = 100

// notInJournal are the fields of a run that do not follow from its events.
var notInJournal = []string{"Owner", "Epoch", "WakeAt", "UpdatedAt", "Attributes"} // attributes are compared one by one

// comparison is one look at one run.
type comparison struct {
	reader    store.Reader
	namespace string
	run       journal.ID
	now       journal.Time
	found     []Difference
}

func (c *comparison) add(where, field, stored, folded string) {
	c.found = append(c.found, Difference{Namespace: c.namespace, Run: c.run, Where: where, Field: field, Stored: stored, Folded: folded})
}

// damage turns the error of a read into a difference, if it is about what is stored. Other errors are returned.
func (c *comparison) damage(where string, err error) error {
	switch code := cairnerr.CodeOf(err); {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case code == cairnerr.CodeCorrupt, code == cairnerr.CodeInternal, code == cairnerr.CodeMalformed:
		c.add(where, "", "cannot be read: "+err.Error(), "")
		return nil
	default:
		return err
	}
}

func (c *comparison) compare(ctx context.Context, log *store.Journal) error {
	if !c.compareSequence(log) {
		return nil
	}
	folded, err := journal.Fold(c.namespace, c.run, log.Events)
	if err != nil {
		return c.damage("journal", err)
	}
	want := viewsOf(folded, log.Events)
	return errors.Join(
		c.damage("run", c.compareRun(ctx, want.run)),
		c.damage("list of steps", c.compareSteps(ctx, want.steps)),
		c.damage("list of hooks", c.compareHooks(ctx, want.hooks)),
		c.damage("list of waits", c.compareWaits(ctx, want.waits)),
	)
}

// compareSequence reports whether the events are numbered from 1 without a gap.
func (c *comparison) compareSequence(log *store.Journal) bool {
	if len(log.Events) == 0 {
		c.add("journal", "", "has no events", "")
		return false
	}
	for i := range log.Events {
		if want := int64(i + 1); log.Events[i].Seq != want {
			c.add("journal", "", "has no event "+show(want)+": "+show(log.Events[i].Seq)+" comes in its place", "")
			return false
		}
	}
	if last := int64(len(log.Events)); log.Seq != last {
		c.add("journal", "last event", show(log.Seq), show(last))
		return false
	}
	return true
}

func (c *comparison) compareRun(ctx context.Context, want *journal.Run) error {
	got, err := c.reader.Run(ctx, c.namespace, c.run, store.ResolveAll)
	if err != nil {
		return err
	}
	c.fields("run", got, want, notInJournal...)
	keys := slices.AppendSeq(slices.Collect(maps.Keys(got.Attributes)), maps.Keys(want.Attributes))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		stored, isStored := got.Attributes[key]
		folded, isFolded := want.Attributes[key]
		if isStored != isFolded || stored != folded {
			c.add("attribute "+show(key), "", showIf(isStored, stored), showIf(isFolded, folded))
		}
	}
	return nil
}

func (c *comparison) compareSteps(ctx context.Context, want []*journal.Step) error {
	got, err := readAll(func(p store.Page) (store.List[*journal.Step], error) {
		return c.reader.Steps(ctx, c.namespace, c.run, store.ResolveAll, p)
	})
	if err != nil {
		return err
	}
	compareLists(c, journal.PrefixStep, want, got, func(s *journal.Step) journal.ID { return s.ID })
	return nil
}

func (c *comparison) compareHooks(ctx context.Context, want []*journal.Hook) error {
	got, err := readAll(func(p store.Page) (store.List[*store.RunHook], error) {
		return c.reader.Hooks(ctx, c.namespace, c.run, store.ResolveAll, p)
	})
	if err != nil {
		return err
	}
	hooks := make([]*journal.Hook, 0, len(got))
	for _, h := range got {
		hooks = append(hooks, &h.Hook)
	}
	want = slices.DeleteFunc(want, func(h *journal.Hook) bool { // gone as soon as somebody wanted its token
		expired := h.Status == journal.HookRetained && h.RetainUntil <= c.now
		return expired && !slices.ContainsFunc(hooks, func(stored *journal.Hook) bool { return stored.ID == h.ID })
	})
	compareLists(c, journal.PrefixHook, want, hooks, func(h *journal.Hook) journal.ID { return h.ID })
	return nil
}

func (c *comparison) compareWaits(ctx context.Context, want []*journal.Wait) error {
	got, err := readAll(func(p store.Page) (store.List[*journal.Wait], error) {
		return c.reader.Waits(ctx, c.namespace, c.run, p)
	})
	if err != nil {
		return err
	}
	compareLists(c, journal.PrefixWait, want, got, func(w *journal.Wait) journal.ID { return w.ID })
	return nil
}

// compareLists compares the parts of a run one by one.
func compareLists[T any](c *comparison, kind journal.Prefix, want, got []*T, id func(*T) journal.ID) {
	folded := make(map[journal.ID]*T, len(want))
	for _, v := range want {
		folded[id(v)] = v
	}
	seen := make(map[journal.ID]bool, len(got))
	for _, v := range got {
		where := kind.Format(id(v))
		switch f := folded[id(v)]; {
		case seen[id(v)]:
			c.add(where, "", "is listed twice", "")
		case f == nil:
			c.add(where, "", "there", "none")
		default:
			c.fields(where, v, f)
		}
		seen[id(v)] = true
	}
	for _, v := range want {
		if !seen[id(v)] {
			c.add(kind.Format(id(v)), "", "missing", "it exists")
		}
	}
}

// readAll reads a list page by page.
func readAll[T any](list func(store.Page) (store.List[T], error)) ([]T, error) {
	var rows []T
	page := store.Page{Limit: pageSize}
	for {
		l, err := list(page)
		if err != nil {
			return nil, err
		}
		rows = append(rows, l.Data...)
		if !l.HasMore {
			return rows, nil
		}
		page.Cursor = l.Cursor
	}
}
