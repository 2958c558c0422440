package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

const (
	stepColumns = `id, key, name, status, attempt, created_at, started_at, completed_at, updated_at, retry_after, first_seq,
		input_seq, last_seq, owner_message`
	stepColumnCount = 14
	selectStep      = `select ` + stepColumns + ` from cairn_steps where run = ? and id = ?`
)

func scanStep(row []driver.Value) *journal.Step {
	return &journal.Step{
		ID: asID(row[0]), Key: asText(row[1]), Name: asText(row[2]), Status: journal.Status(asInt(row[3])), Attempt: int(asInt(row[4])),
		CreatedAt: asTime(row[5]), StartedAt: asTime(row[6]), CompletedAt: asTime(row[7]), UpdatedAt: asTime(row[8]), RetryAfter: asTime(row[9]),
		FirstSeq: asInt(row[10]), InputSeq: asInt(row[11]), LastSeq: asInt(row[12]), OwnerMessage: asText(row[13]),
	}
}

// Step implements [store.Reader].
func (s *Store) Step(ctx context.Context, namespace string, run, id journal.ID, r store.Resolve) (*journal.Step, error) {
	ref, _, ok, err := s.runRef(ctx, namespace, run)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, store.RunNotFound(run)
	}
	steps, err := s.stepRows(ctx, s.db(), r, ref, ` and s.id = ?`, id[:])
	if err != nil {
		return nil, err
	}
	if len(steps) == 1 {
		return steps[0], nil
	}
	seq, err := s.inlineSeq(ctx, run, ref, id)
	if err != nil {
		return nil, err
	}
	steps, err = s.inlineSteps(ctx, s.db(), r, run, ref, `= ?`, ``, seq)
	if err == nil && len(steps) == 0 {
		err = cairnerr.Errorf(cairnerr.CodeStepNotFound, "step %s not found", journal.PrefixStep.Format(id))
	}
	if err != nil {
		return nil, err
	}
	return steps[0], nil
}

// inlineSeq finds the outcome of an inline step, 0 if there is none. The step has no row, and its id follows from its key,
// so the outcomes of the run are gone through.
func (s *Store) inlineSeq(ctx context.Context, run journal.ID, ref int64, id journal.ID) (seq int64, err error) {
	err = s.each(ctx, s.db(), 2, func(row []driver.Value) error {
		if seq == 0 && journal.DeriveID(run, journal.PrefixStep, asText(row[1])) == id {
			seq = asInt(row[0])
		}
		return nil
	}, `select seq, key from cairn_events where run = ? and type in (9, 10) and entity is null`, ref)
	return seq, err
}

// Steps implements [store.Reader]: steps with rows and inline ones, merged by their first events.
func (s *Store) Steps(ctx context.Context, namespace string, run journal.ID, r store.Resolve, p store.Page) (store.List[*journal.Step], error) {
	var none store.List[*journal.Step]
	limit, err := p.Size()
	if err != nil {
		return none, err
	}
	_, seq, err := store.ParseNumberCursor(store.CursorSteps, p.Cursor)
	if err != nil {
		return none, err
	}
	ref, _, ok, err := s.runRef(ctx, namespace, run)
	if err != nil || !ok {
		return none, err
	}
	compare, order := direction(p)
	tx, end, err := s.snapshot(ctx) // otherwise the cursor could pass over a step
	if err != nil {
		return none, err
	}
	defer end()
	tail := fmt.Sprintf(` order by 11 %s limit %d`, order, limit+1)
	rows, err := s.stepRows(ctx, tx, r, ref, ` and s.first_seq `+compare+` ?`+tail, bounds(p, seq))
	if err != nil {
		return none, err
	}
	tail = fmt.Sprintf(` order by e.seq %s limit %d`, order, limit+1)
	inline, err := s.inlineSteps(ctx, tx, r, run, ref, compare+` ?`, tail, bounds(p, seq))
	if err != nil {
		return none, err
	}
	steps := merge(rows, inline, func(a, b *journal.Step) bool { return (a.FirstSeq < b.FirstSeq) != p.Desc })
	return store.Cut(steps[:min(len(steps), limit+1)], limit, func(st *journal.Step) string {
		return store.NumberCursor(store.CursorSteps, 0, st.FirstSeq)
	}), nil
}

// merge merges two sorted lists.
func merge[T any](a, b []T, less func(a, b T) bool) []T {
	out := make([]T, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if less(a[0], b[0]) {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// stepRows reads steps that have rows, with what the events say about them.
func (s *Store) stepRows(ctx context.Context, q querier, r store.Resolve, ref int64, where string, args ...any) ([]*journal.Step, error) {
	query := `select s.id, s.key, s.name, s.status, s.attempt, s.created_at, s.started_at, s.completed_at, s.updated_at, s.retry_after, s.first_seq,
		s.input_seq, s.last_seq, s.owner_message, i.type, ` + payloadColumn(`i.input`, r) + `, l.type, l.data, ` + payloadColumn(`l.output`, r) + `
		from cairn_steps s left join cairn_events i on i.run = s.run and i.seq = s.input_seq
		left join cairn_events l on l.run = s.run and l.seq = s.last_seq where s.run = ?` + where
	var steps []*journal.Step
	err := s.each(ctx, q, stepColumnCount+5, func(row []driver.Value) error {
		step := scanStep(row)
		var input, last journal.Data
		if t := journal.EventType(asInt(row[stepColumnCount])); t.Known() {
			data, err := journal.DecodeData(t, journal.Encoded{Input: asBytes(row[stepColumnCount+1])})
			if err != nil {
				return err
			}
			input = data
		}
		if t := journal.EventType(asInt(row[stepColumnCount+2])); t.Known() {
			data, err := journal.DecodeData(t, journal.Encoded{Data: asBytes(row[stepColumnCount+3]), Output: asBytes(row[stepColumnCount+4])})
			if err != nil {
				return err
			}
			last = data
		}
		store.StepPayloads(step, input, last)
		steps = append(steps, step)
		return nil
	}, query, append([]any{ref}, args...)...)
	return steps, err
}

// inlineSteps reads steps from their outcomes.
func (s *Store) inlineSteps(ctx context.Context, q querier, r store.Resolve, run journal.ID, ref int64, seq, tail string, args ...any) ([]*journal.Step, error) {
	var steps []*journal.Step
	err := s.each(ctx, q, eventColumnCount, func(row []driver.Value) error {
		e, err := scanEvent(row)
		if err == nil {
			steps = append(steps, journal.InlineStep(run, &e))
		}
		return err
	}, `select `+resolvedEvent(r)+` from cairn_events e where e.run = ? and e.type in (9, 10) and e.entity is null and e.seq `+seq+tail,
		append([]any{ref}, args...)...)
	return steps, err
}
