package postgres

import (
	"bytes"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// eventColumns are those that eventScan reads.
const eventColumns = `e.seq, e.type, e.at, e.entity, coalesce(e.key, ''), e.data, e.input, e.output`

func resolvedEvent(r store.Resolve) string {
	return `e.seq, e.type, e.at, e.entity, coalesce(e.key, ''), e.data, ` + payloadColumn(`e.input`, r) + `, ` + payloadColumn(`e.output`, r)
}

// eventScan reads the columns of eventColumns.
type eventScan struct {
	event journal.Event
	kind  int16
	enc   journal.Encoded
}

// into returns where to scan a row: first what comes before the columns, then the columns.
func (s *eventScan) into(before ...any) []any {
	e := &s.event
	return append(before, &e.Seq, &s.kind, (*int64)(&e.At), scanID{&e.Entity}, &e.Key,
		&s.enc.Data, (*[]byte)(&s.enc.Input), (*[]byte)(&s.enc.Output))
}

// result returns the event. One of a newer program comes without data: who needs it will say so.
func (s *eventScan) result(run journal.ID) (journal.Event, error) {
	e := &s.event
	e.Type = journal.EventType(s.kind)
	if e.Entity.IsZero() && e.Key != "" {
		e.Entity = journal.DeriveID(run, journal.PrefixStep, e.Key) // it is not stored where it follows from the key
	}
	if !e.Type.Known() {
		return *e, nil
	}
	var err error
	e.Data, err = journal.DecodeData(e.Type, s.enc)
	return *e, err
}

// runRef finds the number and dialect of a run.
func (s *Store) runRef(ctx context.Context, namespace string, id journal.ID) (ref int64, dialect journal.Dialect, ok bool, err error) {
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil || !ok {
		return 0, 0, false, err
	}
	ok = false
	err = s.each(ctx, func(rows pgx.Rows) error {
		var d int16
		err := rows.Scan(&ref, &d)
		dialect, ok = journal.Dialect(d), err == nil
		return err
	}, `select no, dialect from runs where ns = $1 and id = $2`, ns, raw(id))
	return ref, dialect, ok, err
}

// Event implements [store.Reader].
func (s *Store) Event(ctx context.Context, namespace string, run journal.ID, seq int64, r store.Resolve) (*journal.Event, error) {
	ref, _, ok, err := s.runRef(ctx, namespace, run)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, store.RunNotFound(run)
	}
	var found *journal.Event
	err = s.each(ctx, func(rows pgx.Rows) error {
		var row eventScan
		if err := rows.Scan(row.into()...); err != nil {
			return err
		}
		e, err := row.result(run)
		found = &e
		return err
	}, `select `+resolvedEvent(r)+` from events e where e.run = $1 and e.seq = $2`, ref, seq)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, cairnerr.Errorf(cairnerr.CodeEventNotFound, "%s has no event %d", journal.PrefixRun.Format(run), seq)
	}
	return found, nil
}

// Events implements [store.Reader].
func (s *Store) Events(ctx context.Context, namespace string, f store.EventFilter, p store.Page) (store.List[store.RunEvent], error) {
	var none store.List[store.RunEvent]
	limit, err := p.Size()
	if err != nil {
		return none, err
	}
	if f.Run.IsZero() {
		return s.eventsOfEntity(ctx, namespace, f, p, limit)
	}
	_, seq, err := store.ParseNumberCursor(store.CursorEvents, p.Cursor)
	if err != nil {
		return none, err
	}
	ref, dialect, ok, err := s.runRef(ctx, namespace, f.Run)
	if err != nil || !ok {
		return none, err
	}
	compare, order := direction(p)
	where, args := `e.run = $1`, arguments{ref, bounds(p, seq), limit + 1}
	if f.Annotations {
		where += ` and e.type = 21` // journal.EventAnnotated; as the index has it
	}
	if !f.Entity.IsZero() {
		where += ` and e.entity = ` + args.add(raw(f.Entity))
	}
	var events []store.RunEvent
	err = s.each(ctx, func(rows pgx.Rows) error {
		var row eventScan
		if err := rows.Scan(row.into()...); err != nil {
			return err
		}
		e, err := row.result(f.Run)
		events = append(events, store.RunEvent{Run: f.Run, Dialect: dialect, Event: e})
		return err
	}, `select `+resolvedEvent(f.Resolve)+` from events e where `+where+` and e.seq `+compare+` $2 order by e.seq `+order+` limit $3`, args...)
	if err != nil {
		return none, err
	}
	if len(events) == 0 && p.Cursor == "" && !f.Entity.IsZero() && dialect == journal.Engine {
		events, _, err = s.inlineEvent(ctx, f, `e.run = $1`, ref)
		if err != nil {
			return none, err
		}
	}
	return store.Cut(events, limit, func(e store.RunEvent) string { return store.NumberCursor(store.CursorEvents, 0, e.Seq) }), nil
}

// eventsOfEntity lists the events of one correlation id in all runs of a namespace.
func (s *Store) eventsOfEntity(ctx context.Context, namespace string, f store.EventFilter, p store.Page, limit int) (store.List[store.RunEvent], error) {
	var none store.List[store.RunEvent]
	if f.Entity.IsZero() {
		return none, cairnerr.Errorf(cairnerr.CodeMalformed, "a list of events needs a run or a correlation id")
	}
	run, seq, err := store.ParseNumberCursor(store.CursorEntity, p.Cursor)
	if err != nil {
		return none, err
	}
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil || !ok {
		return none, err
	}
	compare, order := direction(p)
	var refs []int64
	var events []store.RunEvent
	err = s.each(ctx, func(rows pgx.Rows) error {
		e, ref, err := scanRunEvent(rows)
		events, refs = append(events, e), append(refs, ref)
		return err
	}, selectRunEvent+resolvedEvent(f.Resolve)+` from events e join runs r on r.no = e.run
		where e.entity = $1 and (e.run, e.seq) `+compare+` ($2, $3) and r.ns = $4 order by e.run `+order+`, e.seq `+order+` limit $5`,
		raw(f.Entity), bounds(p, run), bounds(p, seq), ns, limit+1)
	if err != nil {
		return none, err
	}
	if len(events) == 0 && p.Cursor == "" {
		// The id of an inline step begins with the time of its run: few runs come into question.
		low, high := f.Entity, f.Entity
		clear(low[6:])
		copy(high[6:], bytes.Repeat([]byte{0xff}, 10))
		var ref int64
		events, ref, err = s.inlineEvent(ctx, f, `r.ns = $1 and r.id between $2 and $3 and r.dialect = 0`, ns, raw(low), raw(high))
		if err != nil {
			return none, err
		}
		refs = append(refs, ref)
	}
	list := store.Cut(events, limit, func(store.RunEvent) string { return "" })
	if n := len(list.Data); n > 0 {
		list.Cursor = store.NumberCursor(store.CursorEntity, refs[n-1], list.Data[n-1].Seq)
	}
	return list, nil
}

const selectRunEvent = `select r.no, r.id, r.dialect, `

// scanRunEvent reads the columns of selectRunEvent and those of an event.
func scanRunEvent(rows pgx.Rows) (store.RunEvent, int64, error) {
	var e store.RunEvent
	var ref int64
	var dialect int16
	var row eventScan
	if err := rows.Scan(row.into(&ref, scanID{&e.Run}, &dialect)...); err != nil {
		return e, 0, err
	}
	e.Dialect = journal.Dialect(dialect)
	var err error
	e.Event, err = row.result(e.Run)
	return e, ref, err
}

// inlineOutcomes are the events that stand for a step without a row.
const inlineOutcomes = ` from events e join runs r on r.no = e.run where e.type in (9, 10) and e.entity is null and `

// findInline finds the one event of an inline step, whose id is not stored: it follows from the run and the key.
func (s *Store) findInline(ctx context.Context, step journal.ID, where string, args ...any) (ref, seq int64, err error) {
	err = s.each(ctx, func(rows pgx.Rows) error {
		var run journal.ID
		var no, at int64
		var key string
		err := rows.Scan(scanID{&run}, &no, &at, &key)
		if err == nil && journal.DeriveID(run, journal.PrefixStep, key) == step {
			ref, seq = no, at
		}
		return err
	}, `select r.id, e.run, e.seq, coalesce(e.key, '')`+inlineOutcomes+where, args...)
	return ref, seq, err
}

// inlineEvent reads what findInline finds.
func (s *Store) inlineEvent(ctx context.Context, f store.EventFilter, where string, args ...any) (events []store.RunEvent, ref int64, err error) {
	ref, seq, err := s.findInline(ctx, f.Entity, where, args...)
	if err != nil || ref == 0 {
		return nil, 0, err
	}
	err = s.each(ctx, func(rows pgx.Rows) error {
		e, _, err := scanRunEvent(rows)
		events = append(events, e)
		return err
	}, selectRunEvent+resolvedEvent(f.Resolve)+inlineOutcomes+`e.run = $1 and e.seq = $2`, ref, seq)
	return events, ref, err
}
