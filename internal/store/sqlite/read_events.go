package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/json"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// eventColumns are those that scanEvent reads.
const (
	eventColumns     = `seq, type, at, entity, key, data, input, output`
	eventColumnCount = 8
)

// scanEvent reads the columns of eventColumns. An event of a newer program comes without data: who needs it will say so.
func scanEvent(row []driver.Value) (journal.Event, error) {
	e := journal.Event{
		Seq: asInt(row[0]), Type: journal.EventType(asInt(row[1])), At: asTime(row[2]), Entity: asID(row[3]), Key: asText(row[4]),
	}
	if !e.Type.Known() {
		return e, nil
	}
	data, err := journal.DecodeData(e.Type, journal.Encoded{Data: asBytes(row[5]), Input: asBytes(row[6]), Output: asBytes(row[7])})
	e.Data = data
	return e, err
}

func scanAttributes(text string, run *journal.Run) error {
	if text == "" || text == "{}" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &run.Attributes); err != nil {
		return cairnerr.Errorf(cairnerr.CodeCorrupt, "read the attributes of %s: %w", journal.PrefixRun.Format(run.ID), err)
	}
	return nil
}

// runRef finds the number and dialect of a run.
func (s *Store) runRef(ctx context.Context, namespace string, id journal.ID) (ref int64, dialect journal.Dialect, ok bool, err error) {
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil || !ok {
		return 0, 0, false, err
	}
	ok = false
	err = s.each(ctx, s.often(), 2, func(row []driver.Value) error {
		ref, dialect, ok = asInt(row[0]), journal.Dialect(asInt(row[1])), true
		return nil
	}, `select no, dialect from cairn_runs where ns = ? and id = ?`, ns, id[:])
	return ref, dialect, ok, err
}

func resolvedEvent(r store.Resolve) string {
	return `e.seq, e.type, e.at, e.entity, e.key, e.data, ` + payloadColumn(`e.input`, r) + `, ` + payloadColumn(`e.output`, r)
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
	err = s.each(ctx, s.db(), eventColumnCount, func(row []driver.Value) error {
		e, err := scanEvent(row)
		withEntity(run, &e)
		found = &e
		return err
	}, `select `+resolvedEvent(r)+` from cairn_events e where e.run = ? and e.seq = ?`, ref, seq)
	if err == nil && found == nil {
		err = cairnerr.Errorf(cairnerr.CodeEventNotFound, "%s has no event %d", journal.PrefixRun.Format(run), seq)
	}
	return found, err
}

// withEntity fills in the entity where it follows from the key.
func withEntity(run journal.ID, e *journal.Event) {
	if e.Entity.IsZero() && e.Key != "" {
		e.Entity = journal.DeriveID(run, journal.PrefixStep, e.Key)
	}
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
	where, args := `e.run = ?`, []any{ref}
	if f.Annotations {
		where += ` and e.type = 21` // journal.EventAnnotated; as the index has it
	}
	if !f.Entity.IsZero() {
		where, args = `e.entity = ? and e.run = ?`, []any{f.Entity[:], ref}
	}
	args = append(args, bounds(p, seq), limit+1)
	var events []store.RunEvent
	err = s.each(ctx, s.often(), eventColumnCount, func(row []driver.Value) error {
		e, err := scanEvent(row)
		withEntity(f.Run, &e)
		events = append(events, store.RunEvent{Run: f.Run, Dialect: dialect, Event: e})
		return err
	}, `select `+resolvedEvent(f.Resolve)+` from cairn_events e where `+where+` and e.seq `+compare+` ? order by e.seq `+order+` limit ?`, args...)
	if err == nil && len(events) == 0 && p.Cursor == "" && !f.Entity.IsZero() {
		events, _, err = s.inlineEvent(ctx, f, `r.no = ?`, ref)
	}
	if err != nil {
		return none, err
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
	err = s.each(ctx, s.db(), eventColumnCount+3, func(row []driver.Value) error {
		e, err := scanEvent(row)
		events = append(events, store.RunEvent{Run: asID(row[eventColumnCount]), Dialect: journal.Dialect(asInt(row[eventColumnCount+1])), Event: e})
		refs = append(refs, asInt(row[eventColumnCount+2]))
		return err
	}, `select `+resolvedEvent(f.Resolve)+`, r.id, r.dialect, r.no from cairn_events e join cairn_runs r on r.no = e.run
		where e.entity = ? and (e.run, e.seq) `+compare+` (?, ?) and r.ns = ? order by e.run `+order+`, e.seq `+order+` limit ?`,
		f.Entity[:], bounds(p, run), bounds(p, seq), ns, limit+1)
	if err == nil && len(events) == 0 && p.Cursor == "" {
		// The id of an inline step begins with the time of its run: few runs come into question.
		low, high := firstID(f.Entity.Time()), firstID(f.Entity.Time()+1)
		events, refs, err = s.inlineEvent(ctx, f, `r.ns = ? and r.id >= ? and r.id < ?`, ns, low[:], high[:])
	}
	if err != nil {
		return none, err
	}
	list := store.Cut(events, limit, func(store.RunEvent) string { return "" })
	if n := len(list.Data); n > 0 {
		list.Cursor = store.NumberCursor(store.CursorEntity, refs[n-1], list.Data[n-1].Seq)
	}
	return list, nil
}

// inlineEvent finds the outcome of an inline step by the step's id, in runs of dialect Engine. It also returns the number of the run.
func (s *Store) inlineEvent(ctx context.Context, f store.EventFilter, runs string, args ...any) ([]store.RunEvent, []int64, error) {
	type candidate struct {
		id  journal.ID
		ref int64
	}
	var candidates []candidate
	err := s.each(ctx, s.db(), 2, func(row []driver.Value) error {
		candidates = append(candidates, candidate{asID(row[0]), asInt(row[1])})
		return nil
	}, `select r.id, r.no from cairn_runs r where `+runs+` and r.dialect = 0`, args...)
	if err != nil {
		return nil, nil, err
	}
	for _, run := range candidates {
		seq, err := s.inlineSeq(ctx, run.id, run.ref, f.Entity)
		if err != nil {
			return nil, nil, err
		}
		if seq == 0 {
			continue
		}
		var events []store.RunEvent
		err = s.each(ctx, s.db(), eventColumnCount, func(row []driver.Value) error {
			e, err := scanEvent(row)
			withEntity(run.id, &e)
			events = append(events, store.RunEvent{Run: run.id, Dialect: journal.Engine, Event: e})
			return err
		}, `select `+resolvedEvent(f.Resolve)+` from cairn_events e where e.run = ? and e.seq = ?`, run.ref, seq)
		return events, []int64{run.ref}, err
	}
	return nil, nil, nil
}
