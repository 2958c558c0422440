package sqlite

import (
	"context"
	"database/sql/driver"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Run implements [store.Reader].
func (s *Store) Run(ctx context.Context, namespace string, id journal.ID, r store.Resolve) (*journal.Run, error) {
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, store.RunNotFound(id)
	}
	runs, err := s.runs(ctx, s.often(), r, `where r.ns = ? and r.id = ?`, ns, id[:])
	if err != nil {
		return nil, err
	}
	if len(runs) == 0 {
		return nil, store.RunNotFound(id)
	}
	return runs[0], nil
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
	q := runQuery{ns: ns, page: p, limit: limit + 1, after: after, value: value}
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
	ids, err := s.runIDs(ctx, &q, &f)
	if err != nil || len(ids) == 0 {
		return none, err
	}
	_, order := direction(p)
	runs, err := s.runs(ctx, s.db(), store.ResolveNone, `where r.no in (`+marks(len(ids))+`) order by r.id `+order, ids...)
	if err != nil {
		return none, err
	}
	f.SortRuns(runs, p.Desc)
	return store.Cut(runs, limit, f.RunCursor), nil
}

// runQuery is one page of a list of runs.
type runQuery struct {
	ns, workflow int64
	page         store.Page
	limit        int
	after        journal.ID
	value        string // of the attribute that the list is sorted by
}

// runIDs finds the runs of a page, each filter with the index that keeps their order: nothing is sorted or skipped over.
func (s *Store) runIDs(ctx context.Context, q *runQuery, f *store.RunFilter) ([]any, error) {
	parts := []string{""}
	if q.workflow == 0 && len(f.Attributes) == 0 && len(f.Ranges) == 0 && f.Parent.IsZero() && f.Phase != store.PhaseParked {
		parts = statusParts(f.Statuses)
	}
	var selects []string
	var args []any
	for _, status := range parts {
		text, values := runSelect(q, f, status)
		selects = append(selects, `select * from (`+text+`)`)
		args = append(args, values...)
	}
	_, order := direction(q.page)
	query := strings.Join(selects, ` union all `)
	if len(parts) > 1 {
		query += ` order by 2 ` + order + ` limit ?`
		args = append(args, q.limit)
	}
	var ids []any
	err := s.each(ctx, s.db(), 2, func(row []driver.Value) error { ids = append(ids, asInt(row[0])); return nil }, query, args...)
	return ids, err
}

// statusParts returns one condition for each state that the index on states knows, so that each part of the query
// reads it in order. Completed runs are not in that index: they are most of all runs.
func statusParts(statuses []journal.Status) []string {
	if len(statuses) == 0 || slices.Contains(statuses, journal.StatusCompleted) {
		return []string{""}
	}
	var parts []string
	for _, st := range slices.Compact(slices.Sorted(slices.Values(statuses))) {
		parts = append(parts, ` and r.status = `+strconv.Itoa(int(st))+` and r.status <> 2`)
	}
	return parts
}

func runSelect(q *runQuery, f *store.RunFilter, status string) (string, []any) {
	compare, order := direction(q.page)
	var b strings.Builder
	var args []any
	add := func(text string, values ...any) {
		b.WriteString(text)
		args = append(args, values...)
	}
	attributes := slices.Sorted(maps.Keys(f.Attributes))
	ranges, idColumn := f.Ranges, `r.id`
	switch {
	case len(attributes) > 0:
		idColumn = `a.id`
		add(selectByAttribute+` and a.value = ?`, q.ns, attributes[0], f.Attributes[attributes[0]])
		for _, key := range attributes[1:] {
			add(` and exists (select 1 from cairn_attributes x where x.run = r.no and x.key = ? and x.value = ?)`, key, f.Attributes[key])
		}
	case len(ranges) > 0:
		idColumn = `a.id`
		add(selectByAttribute, q.ns, ranges[0].Key)
		addRange(add, `a.value`, ranges[0])
		ranges = ranges[1:]
	case !f.Parent.IsZero():
		add(`select r.no, r.id from cairn_runs r indexed by cairn_runs_parent where r.ns = ?`, q.ns)
	case f.StartKey != "":
		add(`select r.no, r.id from cairn_runs r indexed by cairn_runs_start_key where r.workflow = ?`, q.workflow)
	case f.Phase == store.PhaseParked:
		add(`select r.no, r.id from cairn_runs r indexed by cairn_runs_parked where r.ns = ?`, q.ns)
	case q.workflow != 0:
		add(`select r.no, r.id from cairn_runs r indexed by cairn_runs_workflow where r.workflow = ?`, q.workflow)
	case status != "":
		add(`select r.no, r.id from cairn_runs r indexed by cairn_runs_status where r.ns = ?`, q.ns)
	default:
		add(`select r.no, r.id from cairn_runs r indexed by cairn_runs_id where r.ns = ?`, q.ns)
	}
	for _, x := range ranges {
		add(` and exists (select 1 from cairn_attributes x where x.run = r.no and x.key = ?`, x.Key)
		addRange(add, `x.value`, x)
		add(`)`)
	}
	b.WriteString(status)
	if f.StartKey != "" {
		add(` and r.start_key = ?`, f.StartKey)
	}
	b.WriteString(phases[f.Phase])
	if !f.Parent.IsZero() {
		add(` and r.parent = ?`, f.Parent[:])
	}
	if q.workflow != 0 {
		add(` and r.workflow = ?`, q.workflow)
	}
	if status == "" && len(f.Statuses) > 0 {
		add(` and r.status in (` + marks(len(f.Statuses)) + `)`)
		for _, st := range f.Statuses {
			args = append(args, int64(st))
		}
	}
	addTimes(add, idColumn, f)
	if f.ByValue() != "" {
		if !q.after.IsZero() {
			add(` and (a.value, a.id) `+compare+` (?, ?)`, q.value, q.after[:])
		}
		add(` order by a.value `+order+`, a.id `+order+` limit ?`, q.limit)
		return b.String(), args
	}
	if !q.after.IsZero() {
		add(` and `+idColumn+` `+compare+` ?`, q.after[:])
	}
	add(` order by `+idColumn+` `+order+` limit ?`, q.limit)
	return b.String(), args
}

// phases are the conditions for what a run is doing.
var phases = map[store.RunPhase]string{
	store.PhaseParked:  ` and r.parked_at is not null`,
	store.PhaseWaiting: ` and r.parked_at is null and r.owner is null and r.status = ` + strconv.Itoa(int(journal.StatusRunning)),
}

const selectByAttribute = `select r.no, a.id from cairn_attributes a indexed by cairn_attributes_search join cairn_runs r on r.no = a.run
	where a.ns = ? and a.key = ?`

func addRange(add func(string, ...any), column string, x store.AttributeRange) {
	if x.From != "" {
		add(` and `+column+` >= ?`, x.From)
	}
	if x.Below != "" {
		add(` and `+column+` < ?`, x.Below)
	}
}

// addTimes restricts the time of creation: exactly by column, and roughly by id, which is what the indexes are sorted by. An id is at
// most a day older or five minutes newer than its run.
func addTimes(add func(string, ...any), idColumn string, f *store.RunFilter) {
	if f.CreatedFrom != 0 {
		low := firstID(f.CreatedFrom.Add(-25 * time.Hour))
		add(` and r.created_at >= ? and `+idColumn+` >= ?`, int64(f.CreatedFrom), low[:])
	}
	if f.CreatedBefore != 0 {
		high := firstID(f.CreatedBefore.Add(10 * time.Minute))
		add(` and r.created_at < ? and `+idColumn+` < ?`, int64(f.CreatedBefore), high[:])
	}
}

// firstID returns the smallest id of a moment.
func firstID(t journal.Time) journal.ID {
	var id journal.ID
	for i, ms := 5, max(t, 0); i >= 0; i, ms = i-1, ms>>8 {
		id[i] = byte(ms)
	}
	return id
}

func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// runs reads whole runs, with their payloads if asked for.
func (s *Store) runs(ctx context.Context, q querier, r store.Resolve, where string, args ...any) ([]*journal.Run, error) {
	query := `select ` + runColumns + `,
		(select at from cairn_events e where e.run = r.no order by seq desc limit 1),
		(select ` + payloadColumn(`input`, r) + ` from cairn_events e where e.run = r.no and e.seq = 1),
		z.type, z.data, ` + payloadColumn(`z.output`, r) + `,
		(select json_group_object(key, value) from cairn_attributes a where a.run = r.no)
		from cairn_runs r left join cairn_events z on z.run = r.no and z.seq = r.end_seq ` + where
	var runs []*journal.Run
	err := s.each(ctx, q, runColumnCount+6, func(row []driver.Value) error {
		run, _, err := scanRun(row)
		if err != nil {
			return err
		}
		run.UpdatedAt = asTime(row[runColumnCount])
		run.Input = asBytes(row[runColumnCount+1])
		if kind := journal.EventType(asInt(row[runColumnCount+2])); kind.Known() {
			end, err := journal.DecodeData(kind, journal.Encoded{Data: asBytes(row[runColumnCount+3]), Output: asBytes(row[runColumnCount+4])})
			if err != nil {
				return err
			}
			store.RunOutcome(run, end)
		}
		runs = append(runs, run)
		return scanAttributes(asText(row[runColumnCount+5]), run)
	}, query, args...)
	return runs, err
}

// Journal implements [store.Reader].
func (s *Store) Journal(ctx context.Context, namespace string, id journal.ID, after int64) (*store.Journal, error) {
	return s.journal(ctx, namespace, id, selectLog, scanEvent, after)
}

// selectOutline leaves the payloads out of outcomes that may be taken over as they are.
const selectOutline = `select seq, type, at, entity, key, data, case when entity is not null or type not in (9, 10) then input end,
	case when entity is not null or type not in (9, 10) then output end from cairn_events where run = ? order by seq`

// Outline implements [store.Reader].
func (s *Store) Outline(ctx context.Context, namespace string, id journal.ID) (*store.Journal, error) {
	var decisions []int // which must be read after all: there are few
	n := 0
	j, err := s.journal(ctx, namespace, id, selectOutline, func(row []driver.Value) (journal.Event, error) {
		n++
		e := journal.Event{Seq: asInt(row[0]), Type: journal.EventType(asInt(row[1])), At: asTime(row[2]), Entity: asID(row[3]), Key: asText(row[4])}
		if skip, err := store.InOutline(&e, asBytes(row[5])); skip || err != nil {
			return e, err
		}
		if e.IsOutline() {
			decisions = append(decisions, n-1)
		}
		return scanEvent(row)
	})
	if err != nil {
		return nil, err
	}
	for _, i := range decisions {
		e, err := s.Event(ctx, namespace, id, j.Events[i].Seq, store.ResolveAll)
		if err != nil {
			return nil, err
		}
		e.Entity = journal.ID{} // as in a journal
		j.Events[i] = *e
	}
	return j, nil
}

// journal reads a run and events of it, from one moment.
func (s *Store) journal(ctx context.Context, namespace string, id journal.ID, query string, scan func([]driver.Value) (journal.Event, error), args ...any) (*store.Journal, error) {
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, store.RunNotFound(id)
	}
	tx, end, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var j store.Journal
	err = s.each(ctx, tx, runColumnCount+2, func(row []driver.Value) error {
		run, ref, err := scanRun(row)
		if err != nil {
			return err
		}
		j.Run, j.Ref, j.Seq = run, ref, asInt(row[runColumnCount])
		return scanAttributes(asText(row[runColumnCount+1]), run)
	}, `select `+runColumns+`, (select max(seq) from cairn_events e where e.run = r.no),
		(select json_group_object(key, value) from cairn_attributes a where a.run = r.no)
		from cairn_runs r where r.ns = ? and r.id = ?`, ns, id[:])
	if err != nil {
		return nil, err
	}
	if j.Run == nil {
		return nil, store.RunNotFound(id)
	}
	err = s.each(ctx, tx, eventColumnCount, func(row []driver.Value) error {
		e, err := scan(row)
		if err == nil {
			j.Events = append(j.Events, e)
		}
		return err
	}, query, append([]any{j.Ref}, args...)...)
	if err != nil {
		return nil, err
	}
	return &j, nil
}
