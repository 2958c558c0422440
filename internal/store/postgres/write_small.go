package postgres

import (
	"fmt"
	"strings"
)

// A small batch is what an engine writes that has little to do: the row of one run at most and a few events, or a few chunks of one stream. It goes to
// the server as one statement with plain values, the writer's row included. That takes less of its time than the statements for many rows, which
// have arrays to take apart and larger plans to set up.

// maxSmall is the most events, or chunks, of a small batch.
const maxSmall = 4

// What a small batch does, besides appending to the journal.
const (
	smallAppend = iota
	smallCreate
	smallUpdate
	smallChunks // it appends to a stream instead

	smallKinds
)

const smallStatements = smallKinds * maxSmall

// smallStatement returns the statement for a number of events or chunks.
func smallStatement(kind, rows int) statement {
	return stmtSmall + statement(kind*maxSmall+rows-1)
}

// withSmall adds the statements for small batches to the others.
func withSmall(all [statementCount]statementText) [statementCount]statementText {
	for kind := range smallKinds {
		for rows := 1; rows <= maxSmall; rows++ {
			s := smallStatement(kind, rows)
			all[s] = statementText{fmt.Sprintf("cairn_small_%d", s-stmtSmall), smallSQL(kind, rows)}
		}
	}
	return all
}

const (
	moveFirst = `with moved as (update writers set batch = $2::bigint where no = $1::bigint and batch = $2::bigint - 1 and not fenced returning 1)`
	createRun = `, run as (insert into runs (` + storedRun + `) values (%s))`
	updateRun = `, run as (
		update runs set status = $7::smallint, started_at = $8::bigint, completed_at = $9::bigint, end_seq = $10::bigint, cancelled_at = $11::bigint,
			parked_at = $12::bigint, owner = $13::uuid, epoch = $14::bigint,
			wake_at = case when wake_at is not distinct from $6::bigint or $7::smallint >= 2 or $12::bigint is not null
				then $15::bigint else least(wake_at, $15::bigint) end
		where no = $3::bigint and epoch = $4::bigint and owner is not distinct from $5::uuid returning 1
	)`
	// ownRun is guardStreams for one run.
	ownRun = `, run as (
		select 1 from runs where ns = $3::integer and id = $4::uuid and owner = $5::uuid and epoch = $6::bigint and status = 1
			and not exists (select 1 from streams where no = $7::bigint and closed <> ($8::smallint = 1))
		for share skip locked
	)`
	appendEvents = `, journal as (insert into events (` + storedEvent + `) values %s)`
	appendChunks = `, stream as (insert into chunks (` + storedChunk + `) values %s)`
	// The writer's row is moved first, as in every batch: what is asked first is done first. See moveWriter and updateRuns for how the statement fails.
	askMoved = ` select 1 / (select count(*) from moved)`
	askFound = `, (select case count(*) when 1 then 0 else ('found ' || count(*))::integer end from run)`
)

// smallSQL puts a statement together. Its parameters are the writer's number and batch, a row about the run, and the rows to append.
func smallSQL(kind, rows int) string {
	last := 2
	row := func(columns string) string {
		marks := make([]string, strings.Count(columns, ",")+1)
		for i := range marks {
			last++
			marks[i] = fmt.Sprintf("$%d", last)
		}
		return strings.Join(marks, ", ")
	}
	text, asked := moveFirst, askMoved
	appended, columns := appendEvents, storedEvent
	switch kind {
	case smallCreate:
		text += fmt.Sprintf(createRun, row(storedRun))
	case smallUpdate:
		text += updateRun
		asked += askFound
		last = 15
	case smallChunks:
		text += ownRun
		asked += askFound
		appended, columns = appendChunks, storedChunk
		last = 8
	}
	values := make([]string, rows)
	for i := range values {
		values[i] = "(" + row(columns) + ")"
	}
	return text + fmt.Sprintf(appended, strings.Join(values, ", ")) + asked
}

// sendSmall puts a small batch into a round trip, and reports whether it was one.
func (w *Writer) sendSmall(trip *trip) bool {
	kind, about, appended := smallAppend, table(nil), w.rows.events
	r, s := &w.rows, &w.streams
	switch {
	case len(s.nos) > 0:
		if !s.onlyChunks() || r.events.rows()+r.inserts.rows()+r.updates.rows() > 0 {
			return false
		}
		kind, about, appended = smallChunks, s.guards, s.chunks
	case r.inserts.rows()+r.updates.rows() > 1:
		return false
	case r.inserts.rows() > 0:
		kind, about = smallCreate, r.inserts
	case r.updates.rows() > 0:
		kind, about = smallUpdate, r.updates
	}
	rows := appended.rows()
	if rows == 0 || rows > maxSmall {
		return false
	}
	params := make([][]byte, 0, 2+len(about)+rows*len(appended))
	params = append(params, number(w.no), number(w.batch+1))
	if about != nil {
		params = about.row(params, 0)
	}
	for i := range rows {
		params = appended.row(params, i)
	}
	trip.send(smallStatement(kind, rows), nil, params...)
	return true
}

// onlyChunks reports whether chunks of one stream are all that a batch has for streams.
func (r *streamRows) onlyChunks() bool {
	return r.guards.rows() == 1 && len(r.nos) == 1 && r.begun.rows()+r.moved.rows()+r.sources.rows()+r.changed.rows() == 0
}
