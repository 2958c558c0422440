package check

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Options tune [All]. Now must be given.
type Options struct {
	// Now is the clock. It is asked by several goroutines.
	Now func() journal.Time
	// Newest restricts the check to this many of the newest runs; 0 is all.
	Newest int
	// Workers is how many runs are read at the same time. Defaults to 4.
	Workers int
	// MaxDifferences is how many differences the report keeps; the rest is only counted. Defaults to 1000.
	MaxDifferences int
	// Progress is called after each run with what has been found so far, by one goroutine at a time.
	Progress func(Counts)
}

// Counts say how much was looked at.
type Counts struct {
	Namespaces int
	Runs       int
	Events     int64 // of the runs that were compared
	// Differing runs have views that are not the fold of their journal.
	Differing int
	// Found is the number of differences in them.
	Found int
	// Unknown runs were written by a newer program, and Moving ones were written to all the time: nothing can be said of them.
	Unknown, Moving int
}

// Report is what [All] found.
type Report struct {
	Counts
	// Differences in the order of namespaces and runs.
	Differences []Difference
}

// All checks the runs of all namespaces. The report is also good if there is an error: it has what was found before.
func All(ctx context.Context, r store.Reader, o Options) (*Report, error) {
	w := &walk{reader: r, options: o, report: &Report{}}
	if w.options.Workers <= 0 {
		w.options.Workers = 4
	}
	if w.options.MaxDifferences <= 0 {
		w.options.MaxDifferences = 1000
	}
	namespaces, err := r.Namespaces(ctx)
	if err == nil {
		w.report.Namespaces = len(namespaces)
		if o.Newest > 0 {
			err = w.newest(ctx, namespaces)
		} else {
			err = w.all(ctx, namespaces)
		}
	}
	return w.report, err
}

type walk struct {
	reader  store.Reader
	options Options
	mu      sync.Mutex
	report  *Report
}

func (w *walk) all(ctx context.Context, namespaces []string) error {
	for _, namespace := range namespaces {
		page := store.Page{Limit: store.MaxLimit}
		for {
			l, err := w.reader.Runs(ctx, namespace, store.RunFilter{}, page)
			if err != nil {
				return err
			}
			if err := w.check(ctx, keys(namespace, l.Data)); err != nil {
				return err
			}
			if !l.HasMore {
				break
			}
			page.Cursor = l.Cursor
		}
	}
	return nil
}

func keys(namespace string, runs []*journal.Run) []store.RunKey {
	out := make([]store.RunKey, 0, len(runs))
	for _, run := range runs {
		out = append(out, store.RunKey{Namespace: namespace, Run: run.ID})
	}
	return out
}

// newest checks the newest runs of all namespaces together.
func (w *walk) newest(ctx context.Context, namespaces []string) error {
	var runs []store.RunKey
	for _, namespace := range namespaces {
		page := store.Page{Limit: min(w.options.Newest, store.MaxLimit), Desc: true}
		for left := w.options.Newest; left > 0; {
			l, err := w.reader.Runs(ctx, namespace, store.RunFilter{}, page)
			if err != nil {
				return err
			}
			runs = append(runs, keys(namespace, l.Data)...)
			if left -= len(l.Data); !l.HasMore {
				break
			}
			page.Cursor = l.Cursor
		}
		slices.SortFunc(runs, func(a, b store.RunKey) int { return b.Run.Compare(a.Run) })
		runs = runs[:min(len(runs), w.options.Newest)]
	}
	slices.SortFunc(runs, func(a, b store.RunKey) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), a.Run.Compare(b.Run))
	})
	return w.check(ctx, runs)
}

// check looks at some runs at the same time, and reports on them in their order.
func (w *walk) check(ctx context.Context, runs []store.RunKey) error {
	found := make([][]Difference, len(runs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(w.options.Workers)
	for i, run := range runs {
		group.Go(func() error {
			differences, events, err := views(ctx, w.reader, run.Namespace, run.Run, w.options.Now())
			found[i] = differences
			return w.count(differences, events, err)
		})
	}
	err := group.Wait()
	for _, differences := range found {
		room := w.options.MaxDifferences - len(w.report.Differences)
		w.report.Differences = append(w.report.Differences, differences[:min(len(differences), room)]...)
	}
	return err
}

// count adds one run to the report, or returns the error that ends the walk.
func (w *walk) count(found []Difference, events int64, err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := &w.report.Counts
	switch {
	case err == nil:
	case cairnerr.CodeOf(err) == cairnerr.CodeRunNotFound:
		return nil // it was deleted since it was listed
	case cairnerr.CodeOf(err) == cairnerr.CodeUnknownEvent:
		counts.Unknown++
		events = 0
	case errors.Is(err, ErrMoving):
		counts.Moving++
	default:
		return err
	}
	counts.Runs++
	counts.Events += events
	counts.Found += len(found)
	if len(found) > 0 {
		counts.Differing++
	}
	if w.options.Progress != nil {
		w.options.Progress(*counts)
	}
	return nil
}
