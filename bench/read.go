package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// readWorkload reads runs by id, with their payloads, beside plain rows by key.
func readWorkload(ctx context.Context, db *database, o options, out *report) error {
	runs := min(20_000, o.runs)
	ids, err := createRuns(ctx, db, runs, nil)
	if err != nil {
		return err
	}
	if err := db.raw.insert(ctx, runs); err != nil {
		return err
	}
	for _, n := range []int{1, 16} {
		mine := func(ctx context.Context) error {
			_, err := db.store.Run(ctx, namespace, ids[rand.IntN(len(ids))], store.ResolveAll)
			return err
		}
		raw := func(ctx context.Context) error { return db.raw.get(ctx, rand.Int64N(int64(runs))+1) }
		ours, theirs, err := pairs(ctx, o.pairs(), o.slice, db.loop(repeat(n, mine)...), db.loop(repeat(n, raw)...))
		if err != nil {
			return err
		}
		if err := out.add(compare("read", db, n, "reads/s", ours, theirs)); err != nil {
			return err
		}
	}
	return nil
}

// createRuns makes runs that have only been created, many in each transaction, with the attributes that a function gives to each.
func createRuns(ctx context.Context, db *database, n int, attributes func(i int) map[string]string) ([]journal.ID, error) {
	e, err := openEngine(ctx, db.store)
	if err != nil {
		return nil, err
	}
	defer func() { _ = e.Close(ctx) }()
	l, err := newLife(e)
	if err != nil {
		return nil, err
	}
	ids := make([]journal.ID, n)
	for i := range ids {
		if ids[i], err = l.minter.Mint(now()); err != nil {
			return nil, err
		}
	}
	const window = 2000
	for from := 0; from < n; from += window {
		waits := make([]func() error, 0, window)
		for i := from; i < min(from+window, n); i++ {
			created := &journal.RunCreated{Workflow: "bench", Input: make([]byte, rowBytes)}
			if attributes != nil {
				created.Attributes = attributes(i)
			}
			t, err := e.Submit(ctx, &journal.Command{Namespace: namespace, Run: ids[i], Events: []journal.Event{{Data: created}}})
			if err != nil {
				return nil, err
			}
			waits = append(waits, func() error { _, err := t.Wait(ctx); return err })
		}
		for _, wait := range waits {
			if err := wait(); err != nil {
				return nil, err
			}
		}
	}
	return ids, nil
}

// listWorkload turns the pages of a list of many runs: the thousandth must not cost more than the first.
func listWorkload(ctx context.Context, db *database, o options, out *report) error {
	if _, err := createRuns(ctx, db, o.runs, nil); err != nil {
		return err
	}
	filters := []struct {
		name   string
		filter store.RunFilter
	}{
		{"all", store.RunFilter{}},
		{"by workflow", store.RunFilter{Workflow: "bench"}},
		{"by status", store.RunFilter{Statuses: []journal.Status{journal.StatusPending}}},
	}
	limit := max(1, o.runs/1000)
	pages := min(1000, o.runs/limit)
	for _, f := range filters {
		page := store.Page{Limit: limit, Desc: true}
		last := page
		for range pages - 1 {
			list, err := db.store.Runs(ctx, namespace, f.filter, last)
			if err != nil {
				return err
			}
			last.Cursor = list.Cursor
		}
		read := func(p store.Page) side {
			return db.loop(func(ctx context.Context) error {
				_, err := db.store.Runs(ctx, namespace, f.filter, p)
				return err
			})
		}
		ours, theirs, err := pairs(ctx, 5, o.slice/2, read(last), read(page))
		if err != nil {
			return err
		}
		r := compare("list", db, 1, "pages/s", ours, theirs)
		r.Note = fmt.Sprintf("page %d of %s; raw is page 1", pages, f.name)
		if err := out.add(r); err != nil {
			return err
		}
	}
	return nil
}

// searchWorkload searches many runs by their attributes. Beside it: the first page of a list without a filter.
func searchWorkload(ctx context.Context, db *database, o options, out *report) error {
	_, err := createRuns(ctx, db, o.runs, func(i int) map[string]string {
		return map[string]string{"color": fmt.Sprint(i % 10), "order": fmt.Sprintf("%09d", (i*7919)%o.runs)}
	})
	if err != nil {
		return err
	}
	middle := fmt.Sprintf("%09d", o.runs/2)
	equal := func(key, value string) store.RunFilter {
		return store.RunFilter{Attributes: map[string]string{key: value}}
	}
	filters := []struct {
		name   string
		filter store.RunFilter
	}{
		{"a value of every tenth run", equal("color", "3")},
		{"a value of one run", equal("order", middle)},
		{"a range of values", store.RunFilter{Ranges: []store.AttributeRange{{Key: "order", From: middle}}}},
		{"a value of every tenth run, and a state", store.RunFilter{Attributes: map[string]string{"color": "3"}, Statuses: []journal.Status{journal.StatusPending}}},
	}
	read := func(f store.RunFilter) side {
		return db.loop(func(ctx context.Context) error {
			_, err := db.store.Runs(ctx, namespace, f, store.Page{Desc: true})
			return err
		})
	}
	for _, f := range filters {
		ours, theirs, err := pairs(ctx, 5, o.slice/2, read(f.filter), read(store.RunFilter{}))
		if err != nil {
			return err
		}
		r := compareLatency("search", db, ours, theirs)
		r.Note = fmt.Sprintf("the first page of %d runs by %s; raw: without a filter", o.runs, f.name)
		if err := out.add(r); err != nil {
			return err
		}
	}
	return nil
}
