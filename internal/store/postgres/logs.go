package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

const (
	// insertLogs gives the lines their numbers in the order in which they came.
	insertLogs = `insert into logs (run, at, epoch, level, attempt, size, step, message, attrs)
		select r.no, u.at, u.epoch, u.level, u.attempt, u.size, nullif(u.step, ''), u.message, nullif(u.attrs, '')
		from unnest($1::text[], $2::uuid[], $3::bigint[], $4::bigint[], $5::integer[], $6::integer[], $7::integer[], $8::text[], $9::text[], $10::text[])
			with ordinality as u (ns, id, at, epoch, level, attempt, size, step, message, attrs, place)
		join namespaces s on s.name = u.ns join runs r on r.ns = s.no and r.id = u.id
		order by u.place
		returning run`
	trimLogs = `delete from logs l using (
			select n, row_number() over w as place, sum(size) over w as bytes from logs where run = any($1::bigint[]) window w as (partition by run order by n desc)
		) x where l.n = x.n and x.place > 1 and (x.place > $2 or x.bytes > $3)`
)

// AppendLogs implements [store.Logs]. The commit does not wait for the disk.
func (s *Store) AppendLogs(ctx context.Context, lines []store.LogLine, limit store.LogLimit) error {
	if len(lines) == 0 {
		return nil
	}
	var namespaces, steps, messages, attrs []string
	var ids [][16]byte
	var at, epochs []int64
	var levels, attempts, sizes []int32
	for i := range lines {
		l := &lines[i]
		message, attributes := store.LogText(l.Message), store.LogText(l.Attrs)
		namespaces, ids, at, epochs = append(namespaces, l.Namespace), append(ids, l.Run), append(at, int64(l.At)), append(epochs, l.Epoch)
		levels, attempts, sizes = append(levels, int32(l.Level)), append(attempts, int32(l.Attempt)), append(sizes, int32(len(message)+len(attributes)))
		steps, messages, attrs = append(steps, store.LogText(l.Step)), append(messages, message), append(attrs, attributes)
	}
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `set local synchronous_commit = off`); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, insertLogs, namespaces, ids, at, epochs, levels, attempts, sizes, steps, messages, attrs)
		if err != nil {
			return err
		}
		runs, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, trimLogs, runs, limit.Lines, limit.Bytes)
		return err
	})
	return classify("keep log lines", err)
}

// Logs implements [store.Logs].
func (s *Store) Logs(ctx context.Context, namespace string, run journal.ID, f store.LogFilter, p store.Page) (store.List[store.LogLine], error) {
	var none store.List[store.LogLine]
	limit, err := p.Size()
	if err != nil {
		return none, err
	}
	_, after, err := store.ParseNumberCursor(store.CursorLogs, p.Cursor)
	if err != nil {
		return none, err
	}
	ref, _, ok, err := s.runRef(ctx, namespace, run)
	if err != nil || !ok {
		return none, err
	}
	compare, order := direction(p)
	var lines []store.LogLine
	err = s.each(ctx, func(rows pgx.Rows) error {
		l := store.LogLine{Namespace: namespace, Run: run}
		var level, attempt int32
		err := rows.Scan(&l.N, (*int64)(&l.At), &level, &l.Epoch, &attempt, &l.Step, &l.Message, &l.Attrs)
		l.Level, l.Attempt = int(level), int(attempt)
		lines = append(lines, l)
		return err
	}, `select n, at, level, epoch, attempt, coalesce(step, ''), message, coalesce(attrs, '') from logs
		where run = $1 and n `+compare+` $2 and level >= $3 order by n `+order+` limit $4`, ref, bounds(p, after), int64(f.MinLevel), limit+1)
	if err != nil {
		return none, err
	}
	return store.Cut(lines, limit, store.LogCursor), nil
}
