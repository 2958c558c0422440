package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

const (
	insertLog = `insert into cairn_logs (run, at, level, epoch, attempt, size, step, message, attrs)
		select no, ?, ?, ?, ?, ?, nullif(?, ''), ?, nullif(?, '') from cairn_runs where ns = ? and id = ? returning run`
	countLogs = `select count(*), coalesce(sum(size), 0) from cairn_logs where run = ?`
	trimLogs  = `delete from cairn_logs where n in (
		select n from (select n, row_number() over w as place, sum(size) over w as bytes from cairn_logs where run = ? window w as (order by n desc))
		where place > 1 and (place > ? or bytes > ?))`
)

// aside does something in a transaction on a connection of its own, which does not wait for the disk: what is committed so is on the disk with
// the next batch of the journal, or the next checkpoint.
func (s *Store) aside(ctx context.Context, what string, do func(conn *sql.Conn) error) error {
	raw, err := s.openRaw(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }() // takes the transaction back if it has not been committed
	if err := s.turn.take(ctx); err != nil {
		return err
	}
	defer s.turn.give()
	exec := func(statement string) error {
		return retryBusy(ctx, func() error { _, err := raw.conn.ExecContext(ctx, statement); return err })
	}
	if err := exec(`pragma synchronous = normal`); err != nil {
		return classify(what, err)
	}
	if err := exec(`begin immediate`); err != nil {
		return classify(what, err)
	}
	if err := do(raw.conn); err != nil {
		return classify(what, err)
	}
	return classify(what, exec(`commit`))
}

// AppendLogs implements [store.Logs].
func (s *Store) AppendLogs(ctx context.Context, lines []store.LogLine, limit store.LogLimit) error {
	spaces := map[string]int64{}
	for i := range lines {
		no, ok, err := s.namespaceNo(ctx, lines[i].Namespace)
		if err != nil {
			return err
		}
		if ok {
			spaces[lines[i].Namespace] = no
		}
	}
	return s.aside(ctx, "keep log lines", func(conn *sql.Conn) error {
		var runs []int64 // each once, in order
		known := map[int64]bool{}
		for i := range lines {
			l := &lines[i]
			ns, ok := spaces[l.Namespace]
			if !ok {
				continue
			}
			message, attrs := store.LogText(l.Message), store.LogText(l.Attrs)
			var run int64
			err := conn.QueryRowContext(ctx, insertLog, int64(l.At), l.Level, l.Epoch, l.Attempt, len(message)+len(attrs), store.LogText(l.Step), message, attrs, ns, l.Run[:]).Scan(&run)
			switch {
			case errors.Is(err, sql.ErrNoRows): // there is no such run
			case err != nil:
				return err
			case !known[run]:
				known[run] = true
				runs = append(runs, run)
			}
		}
		for _, run := range runs {
			if err := trim(ctx, conn, run, limit); err != nil {
				return err
			}
		}
		return nil
	})
}

// trim takes away what a run has too much.
func trim(ctx context.Context, conn *sql.Conn, run int64, limit store.LogLimit) error {
	var count, bytes int
	if err := conn.QueryRowContext(ctx, countLogs, run).Scan(&count, &bytes); err != nil {
		return err
	}
	if count <= limit.Lines && bytes <= limit.Bytes {
		return nil
	}
	_, err := conn.ExecContext(ctx, trimLogs, run, limit.Lines, limit.Bytes)
	return err
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
	err = s.each(ctx, s.db(), 8, func(row []driver.Value) error {
		lines = append(lines, store.LogLine{
			Namespace: namespace, Run: run, N: asInt(row[0]), At: asTime(row[1]), Level: int(asInt(row[2])), Epoch: asInt(row[3]), Attempt: int(asInt(row[4])),
			Step: asText(row[5]), Message: asText(row[6]), Attrs: asText(row[7]),
		})
		return nil
	}, `select n, at, level, epoch, attempt, step, message, attrs from cairn_logs
		where run = ? and n `+compare+` ? and level >= ? order by n `+order+` limit ?`, ref, bounds(p, after), f.MinLevel, limit+1)
	if err != nil {
		return none, err
	}
	return store.Cut(lines, limit, store.LogCursor), nil
}
