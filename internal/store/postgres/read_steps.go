package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// stepColumns are those that stepScan reads.
const stepColumns = `s.id, coalesce(s.key, ''), s.name, s.status, s.attempt, s.created_at, coalesce(s.started_at, 0), coalesce(s.completed_at, 0),
	s.updated_at, coalesce(s.retry_after, 0), s.first_seq, coalesce(s.input_seq, 0), s.last_seq, coalesce(s.owner_message, '')`

// stepScan reads the columns of stepColumns.
type stepScan struct {
	step    journal.Step
	status  int16
	attempt int32
}

// into returns where to scan a row: first what comes before the columns, then the columns.
func (s *stepScan) into(before ...any) []any {
	t := &s.step
	return append(before, scanID{&t.ID}, &t.Key, &t.Name, &s.status, &s.attempt, (*int64)(&t.CreatedAt), (*int64)(&t.StartedAt),
		(*int64)(&t.CompletedAt), (*int64)(&t.UpdatedAt), (*int64)(&t.RetryAfter), &t.FirstSeq, &t.InputSeq, &t.LastSeq, &t.OwnerMessage)
}

func (s *stepScan) result() *journal.Step {
	step := s.step
	step.Status, step.Attempt = journal.Status(s.status), int(s.attempt)
	return &step
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
	steps, err := s.steps(ctx, run, storedSteps(r)+` and s.id = $2`, ref, raw(id))
	if err != nil {
		return nil, err
	}
	if len(steps) == 1 {
		return steps[0], nil
	}
	// An inline step has no row; its id follows from its key, so the outcomes of the run are gone through.
	_, seq, err := s.findInline(ctx, id, `e.run = $1`, ref)
	if err != nil {
		return nil, err
	}
	steps, err = s.steps(ctx, run, inlineSteps(r)+` and e.seq = $2`, ref, seq)
	if err != nil {
		return nil, err
	}
	if len(steps) == 0 {
		return nil, cairnerr.Errorf(cairnerr.CodeStepNotFound, "step %s not found", journal.PrefixStep.Format(id))
	}
	return steps[0], nil
}

// Steps implements [store.Reader]: steps with rows and inline ones, merged by their first events. It is one statement, because
// what is committed between two could be passed over by the cursor.
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
	steps, err := s.steps(ctx, run, `
		(`+storedSteps(r)+` and s.first_seq `+compare+` $2 order by s.first_seq `+order+` limit $3)
		union all
		(`+inlineSteps(r)+` and e.seq `+compare+` $2 order by e.seq `+order+` limit $3)
		order by first_seq `+order+` limit $3`, ref, bounds(p, seq), limit+1)
	if err != nil {
		return none, err
	}
	return store.Cut(steps, limit, func(st *journal.Step) string { return store.NumberCursor(store.CursorSteps, 0, st.FirstSeq) }), nil
}

// storedSteps selects steps that have rows, with what the events say about them.
func storedSteps(r store.Resolve) string {
	return `select false as inline, ` + stepColumns + `, coalesce(i.type, 0), ` + payloadColumn(`i.input`, r) + `,
			l.type, l.data, ` + payloadColumn(`l.output`, r) + `
		from steps s left join events i on i.run = s.run and i.seq = s.input_seq join events l on l.run = s.run and l.seq = s.last_seq
		where s.run = $1`
}

// inlineSteps selects the outcomes that stand for steps without rows, in the same columns.
func inlineSteps(r store.Resolve) string {
	return `select true, null::uuid, coalesce(e.key, ''), '', 0::smallint, 0, e.at, 0, 0, 0, 0, e.seq, 0, e.seq, '',
			e.type, ` + payloadColumn(`e.input`, r) + `, e.type, e.data, ` + payloadColumn(`e.output`, r) + `
		from events e where e.run = $1 and e.type in (9, 10) and e.entity is null`
}

// steps reads what storedSteps and inlineSteps select.
func (s *Store) steps(ctx context.Context, run journal.ID, query string, args ...any) ([]*journal.Step, error) {
	var steps []*journal.Step
	err := s.each(ctx, func(rows pgx.Rows) error {
		var row stepScan
		var inline bool
		var inputType, lastType int16
		var input, data, output []byte
		if err := rows.Scan(append(row.into(&inline), &inputType, &input, &lastType, &data, &output)...); err != nil {
			return err
		}
		if inline {
			e := journal.Event{Seq: row.step.FirstSeq, Type: journal.EventType(lastType), At: row.step.CreatedAt, Key: row.step.Key}
			var err error
			e.Data, err = journal.DecodeData(e.Type, journal.Encoded{Data: data, Input: input, Output: output})
			steps = append(steps, journal.InlineStep(run, &e))
			return err
		}
		step := row.result()
		steps = append(steps, step)
		return stepPayloads(step, journal.EventType(inputType), journal.EventType(lastType), input, data, output)
	}, query, args...)
	return steps, err
}

// stepPayloads fills in what the events say about a step. Those of a newer program are passed over.
func stepPayloads(step *journal.Step, inputType, lastType journal.EventType, input, data, output []byte) (err error) {
	var first, last journal.Data
	if inputType.Known() {
		if first, err = journal.DecodeData(inputType, journal.Encoded{Input: input}); err != nil {
			return err
		}
	}
	if lastType.Known() {
		if last, err = journal.DecodeData(lastType, journal.Encoded{Data: data, Output: output}); err != nil {
			return err
		}
	}
	store.StepPayloads(step, first, last)
	return nil
}
