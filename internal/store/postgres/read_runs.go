package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// runColumns are those that runScan reads.
const runColumns = `r.no, r.id, r.workflow, r.dialect, r.status, r.spec, r.created_at, coalesce(r.started_at, 0), coalesce(r.completed_at, 0),
	coalesce(r.end_seq, 0), coalesce(r.cancelled_at, 0), coalesce(r.parked_at, 0), r.owner, r.epoch, coalesce(r.wake_at, 0), r.parent,
	coalesce(r.start_key, ''), r.start_digest, r.extra`

// runScan reads the columns of runColumns.
type runScan struct {
	run             journal.Run
	ref             int64
	workflow, spec  int32
	dialect, status int16
	extra           []byte
}

// into returns where to scan a row: first what comes before the columns, then the columns.
func (s *runScan) into(before ...any) []any {
	r := &s.run
	return append(before, &s.ref, scanID{&r.ID}, &s.workflow, &s.dialect, &s.status, &s.spec, (*int64)(&r.CreatedAt), (*int64)(&r.StartedAt),
		(*int64)(&r.CompletedAt), &r.EndSeq, (*int64)(&r.CancelledAt), (*int64)(&r.ParkedAt), scanID{&r.Owner}, &r.Epoch, (*int64)(&r.WakeAt),
		scanID{&r.Parent}, &r.StartKey, &r.StartDigest, &s.extra)
}

func (s *runScan) result(workflow string) (*journal.Run, error) {
	run := s.run
	run.Workflow, run.Dialect, run.Status, run.Spec = workflow, journal.Dialect(s.dialect), journal.Status(s.status), int(s.spec)
	return &run, store.DecodeRunExtra(s.extra, &run)
}

// attributeColumns are the keys and the values of a run's attributes, in the same order.
const attributeColumns = `array(select a.key from attributes a where a.run = r.no order by a.key),
	array(select a.value from attributes a where a.run = r.no order by a.key)`

func setAttributes(run *journal.Run, keys, values []string) {
	for i := range keys {
		put(&run.Attributes, keys[i], values[i])
	}
}

// Run implements [store.Reader].
func (s *Store) Run(ctx context.Context, namespace string, id journal.ID, r store.Resolve) (*journal.Run, error) {
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, store.RunNotFound(id)
	}
	runs, err := s.runs(ctx, r, `runs r`, ` where r.ns = $1 and r.id = $2`, ns, raw(id))
	if err != nil {
		return nil, err
	}
	if len(runs) == 0 {
		return nil, store.RunNotFound(id)
	}
	return runs[0], nil
}

// runs reads whole runs, with their payloads if asked for.
func (s *Store) runs(ctx context.Context, r store.Resolve, from, where string, args ...any) ([]*journal.Run, error) {
	query := `select (select e.at from events e where e.run = r.no order by e.seq desc limit 1),
			` + payloadColumn(`(select e.input from events e where e.run = r.no and e.seq = 1)`, r) + `,
			coalesce(z.type, 0), z.data, ` + payloadColumn(`z.output`, r) + `, ` + attributeColumns + `, ` + runColumns + `
		from ` + from + ` left join events z on z.run = r.no and z.seq = r.end_seq` + where
	var found []*runScan
	err := s.each(ctx, func(rows pgx.Rows) error {
		row := &runScan{}
		var input, data, output []byte
		var kind int16
		var keys, values []string
		if err := rows.Scan(row.into((*int64)(&row.run.UpdatedAt), &input, &kind, &data, &output, &keys, &values)...); err != nil {
			return err
		}
		row.run.Input = input
		setAttributes(&row.run, keys, values)
		found = append(found, row)
		if kind := journal.EventType(kind); kind.Known() {
			end, err := journal.DecodeData(kind, journal.Encoded{Data: data, Output: output})
			if err != nil {
				return err
			}
			store.RunOutcome(&row.run, end)
		}
		return nil
	}, query, args...)
	if err != nil {
		return nil, err
	}
	runs := make([]*journal.Run, len(found))
	for i, row := range found { // names are looked up when the connection is free again
		name, err := s.workflowName(ctx, row.workflow)
		if err != nil {
			return nil, err
		}
		if runs[i], err = row.result(name); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// Runs implements [store.Reader].
func (s *Store) Runs(ctx context.Context, namespace string, f store.RunFilter, p store.Page) (store.List[*journal.Run], error) {
	var none store.List[*journal.Run]
	limit, err := p.Size()
	if err != nil {
		return none, err
	}
	value, after, err := f.ParseRunCursor(p.Cursor)
	if err != nil {
		return none, err
	}
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil || !ok {
		return none, err
	}
	q := runQuery{ns: ns, page: p, after: after, value: value}
	if f.Workflow != "" {
		q.workflow, ok, err = s.workflowNo(ctx, ns, f.Workflow)
		if err != nil || !ok {
			return none, err
		}
	}
	if f.Statuses != nil && len(f.Statuses) == 0 {
		return none, nil
	}
	if f.StartKey != "" && f.Workflow == "" {
		return none, store.StartKeyWithoutWorkflow()
	}
	_, order := direction(p)
	from := q.pageOf(&f, limit+1)
	runs, err := s.runs(ctx, store.ResolveNone, from, ` order by r.id `+order, q.args...)
	if err != nil {
		return none, err
	}
	f.SortRuns(runs, p.Desc)
	return store.Cut(runs, limit, f.RunCursor), nil
}

// runQuery is one page of a list of runs.
type runQuery struct {
	ns, workflow int32
	page         store.Page
	after        journal.ID
	value        string // of the attribute that the list is sorted by
	id           string // the column that the runs are sorted by
	args         arguments
}

// pageOf selects the runs of a page. Each filter has an index that keeps their order, and several states are
// several ordered parts: nothing but the page itself is sorted.
func (q *runQuery) pageOf(f *store.RunFilter, limit int) string {
	_, order := direction(q.page)
	q.id = `r.id`
	if len(f.Attributes)+len(f.Ranges) > 0 {
		q.id = `a.id` // the same, and sorted by the index on attributes
	}
	tail := order + ` limit ` + q.args.add(limit)
	if f.ByValue() != "" {
		return `(` + q.part(f) + q.anyOf(f.Statuses) + ` order by a.value ` + order + `, a.id ` + tail + `) r`
	}
	var parts []string
	for _, status := range statusParts(f.Statuses) {
		parts = append(parts, `(`+q.part(f)+status+` order by `+q.id+` `+tail+`)`)
	}
	if len(parts) == 1 {
		return parts[0] + ` r`
	}
	return `(` + strings.Join(parts, ` union all `) + ` order by id ` + tail + `) r`
}

// statusParts returns one condition for each state. The state is written out, because the planner must see that the index
// without completed runs will do.
func statusParts(statuses []journal.Status) []string {
	if len(statuses) == 0 {
		return []string{""}
	}
	var parts []string
	for _, st := range slices.Compact(slices.Sorted(slices.Values(statuses))) {
		parts = append(parts, ` and r.status = `+strconv.Itoa(int(st)))
	}
	return parts
}

// anyOf restricts the states without parts: the order is not that of their index anyway.
func (q *runQuery) anyOf(statuses []journal.Status) string {
	if len(statuses) == 0 {
		return ""
	}
	numbers := make([]int16, len(statuses))
	for i, st := range statuses {
		numbers[i] = int16(st)
	}
	return ` and r.status = any(` + q.args.add(numbers) + `)`
}

// part selects runs by everything but their state.
func (q *runQuery) part(f *store.RunFilter) string {
	compare, _ := direction(q.page)
	var b strings.Builder
	add := func(parts ...string) {
		for _, p := range parts {
			b.WriteString(p)
		}
	}
	attributes, ranges := slices.Sorted(maps.Keys(f.Attributes)), f.Ranges
	workflow := func() {
		if q.workflow != 0 {
			add(` and r.workflow = `, q.args.add(q.workflow))
		}
	}
	switch {
	case len(attributes) > 0:
		add(`select r.* from attributes a join runs r on r.no = a.run where a.ns = `, q.args.add(q.ns), ` and a.key = `, q.args.add(attributes[0]),
			` and a.value = `, q.args.add(f.Attributes[attributes[0]]))
		for _, key := range attributes[1:] {
			add(` and exists (select from attributes x where x.run = r.no and x.key = `, q.args.add(key), ` and x.value = `, q.args.add(f.Attributes[key]), `)`)
		}
		workflow()
	case len(ranges) > 0:
		add(`select r.* from attributes a join runs r on r.no = a.run where a.ns = `, q.args.add(q.ns), ` and a.key = `, q.args.add(ranges[0].Key),
			q.within(`a.value`, ranges[0]))
		ranges = ranges[1:]
		workflow()
	case q.workflow != 0 && f.Parent.IsZero(): // a workflow's number stands for its namespace too
		add(`select r.* from runs r where r.workflow = `, q.args.add(q.workflow))
	default:
		add(`select r.* from runs r where r.ns = `, q.args.add(q.ns))
		workflow()
	}
	for _, x := range ranges {
		add(` and exists (select from attributes x where x.run = r.no and x.key = `, q.args.add(x.Key), q.within(`x.value`, x), `)`)
	}
	if f.StartKey != "" {
		add(` and r.start_key = `, q.args.add(f.StartKey))
	}
	add(phases[f.Phase])
	if !f.Parent.IsZero() {
		add(` and r.parent = `, q.args.add(raw(f.Parent)))
	}
	switch {
	case q.page.Cursor == "":
	case f.ByValue() != "":
		add(` and (a.value, a.id) `, compare, ` (`, q.args.add(q.value), `, `, q.args.add(raw(q.after)), `)`)
	default:
		add(` and `, q.id, ` `, compare, ` `, q.args.add(raw(q.after)))
	}
	// The time of creation is exact by column, and rough by id, which is what the indexes are sorted by. An id is at most a day older
	// or five minutes newer than its run.
	if f.CreatedFrom != 0 {
		add(` and r.created_at >= `, q.args.add(int64(f.CreatedFrom)), ` and `, q.id, ` >= `, q.args.add(raw(firstID(f.CreatedFrom.Add(-25*time.Hour)))))
	}
	if f.CreatedBefore != 0 {
		add(` and r.created_at < `, q.args.add(int64(f.CreatedBefore)), ` and `, q.id, ` < `, q.args.add(raw(firstID(f.CreatedBefore.Add(10*time.Minute)))))
	}
	return b.String()
}

// phases are the conditions for what a run is doing.
var phases = map[store.RunPhase]string{
	store.PhaseParked:  ` and r.parked_at is not null`,
	store.PhaseWaiting: ` and r.parked_at is null and r.owner is null and r.status = ` + strconv.Itoa(int(journal.StatusRunning)),
}

func (q *runQuery) within(column string, x store.AttributeRange) string {
	text := ""
	if x.From != "" {
		text += ` and ` + column + ` >= ` + q.args.add(x.From)
	}
	if x.Below != "" {
		text += ` and ` + column + ` < ` + q.args.add(x.Below)
	}
	return text
}

// firstID returns the smallest id of a moment.
func firstID(t journal.Time) journal.ID {
	var id journal.ID
	for i, ms := 5, max(t, 0); i >= 0; i, ms = i-1, ms>>8 {
		id[i] = byte(ms)
	}
	return id
}

const (
	beginSnapshot = `begin isolation level repeatable read, read only`
	selectJournal = `select (select coalesce(max(e.seq), 0) from events e where e.run = r.no), ` + attributeColumns + `, ` + runColumns + `
		from runs r where r.ns = $1 and r.id = $2`
	// selectOutline leaves the payloads out of outcomes that may be taken over as they are.
	selectOutline = `select e.seq, e.type, e.at, e.entity, coalesce(e.key, ''), e.data, case when e.entity is not null or e.type not in (9, 10) then e.input end,
		case when e.entity is not null or e.type not in (9, 10) then e.output end
		from events e where e.run = (select no from runs where ns = $1 and id = $2) order by e.seq`
	selectLog = `select ` + eventColumns + ` from events e where e.run = (select no from runs where ns = $1 and id = $2) and e.seq > $3 order by e.seq`
)

// Journal implements [store.Reader].
func (s *Store) Journal(ctx context.Context, namespace string, id journal.ID, after int64) (*store.Journal, error) {
	return s.journal(ctx, namespace, id, selectLog, (*eventScan).result, after)
}

// Outline implements [store.Reader].
func (s *Store) Outline(ctx context.Context, namespace string, id journal.ID) (*store.Journal, error) {
	var decisions []int // which must be read after all: there are few
	n := 0
	j, err := s.journal(ctx, namespace, id, selectOutline, func(row *eventScan, run journal.ID) (journal.Event, error) {
		n++
		row.event.Type = journal.EventType(row.kind)
		if skip, err := store.InOutline(&row.event, row.enc.Data); skip || err != nil {
			return row.event, err
		}
		if row.event.IsOutline() {
			decisions = append(decisions, n-1)
		}
		return row.result(run)
	})
	if err != nil {
		return nil, err
	}
	for _, i := range decisions {
		e, err := s.Event(ctx, namespace, id, j.Events[i].Seq, store.ResolveAll)
		if err != nil {
			return nil, err
		}
		j.Events[i] = *e
	}
	return j, nil
}

// journal reads a run and events of it. Both queries see the same moment, and travel together with the transaction around them.
func (s *Store) journal(ctx context.Context, namespace string, id journal.ID, query string,
	result func(*eventScan, journal.ID) (journal.Event, error), args ...any,
) (*store.Journal, error) {
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, store.RunNotFound(id)
	}
	var j store.Journal
	var row runScan
	b := &pgx.Batch{}
	b.Queue(beginSnapshot)
	b.Queue(selectJournal, ns, raw(id)).QueryRow(func(r pgx.Row) error {
		var keys, values []string
		err := r.Scan(row.into(&j.Seq, &keys, &values)...)
		setAttributes(&row.run, keys, values)
		return err
	})
	b.Queue(query, append([]any{ns, raw(id)}, args...)...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var row eventScan
			if err := rows.Scan(row.into()...); err != nil {
				return err
			}
			e, err := result(&row, id)
			if err != nil {
				return err
			}
			j.Events = append(j.Events, e)
		}
		return rows.Err()
	})
	b.Queue(`commit`)
	err = s.pool.SendBatch(ctx, b).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, store.RunNotFound(id)
	}
	if err != nil {
		return nil, classify("read", err)
	}
	name, err := s.workflowName(ctx, row.workflow)
	if err != nil {
		return nil, err
	}
	j.Ref = row.ref
	j.Run, err = row.result(name)
	return &j, err
}
