package postgres

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// statement is one of the prepared statements of a writer's connection.
type statement int

const (
	stmtBegin statement = iota
	stmtCommit
	stmtMoveWriter
	stmtTakeNumbers
	stmtHurry
	stmtInsertRuns
	stmtNoHurry
	stmtUpdateRuns
	stmtWakeRuns
	stmtInsertEvents
	stmtCopyEvents
	stmtUpsertSteps
	stmtDeleteHook
	stmtDeleteHooks
	stmtSweepHooks
	stmtRetainHooks
	stmtUpsertHooks
	stmtDeleteWaits
	stmtSweepWaits
	stmtUpsertWaits
	stmtInsertReceipts
	stmtDeleteAttributes
	stmtUpsertAttributes
	stmtDeleteMessages
	stmtInsertMessages
	stmtNotify
	stmtLockRuns
	stmtFindRuns
	stmtLoadSeqs
	stmtLoadAttributes
	stmtLoadEvents
	stmtLoadSteps
	stmtLoadHooks
	stmtLoadWaits
	stmtLoadAttrSets
	stmtLoadHooksMade
	stmtLoadReceipts
	stmtDeleteExpiredTokens
	stmtLoadHolders
	stmtLoadStarted
	stmtLoadDeliveries
	stmtLoadFenced
	stmtGuardStreams
	stmtInsertStreams
	stmtMoveStreams
	stmtInsertSources
	stmtUpdateSources
	stmtInsertChunks
	stmtLoadStreams
	stmtLoadSources
	stmtSmall // and those after it, see write_small.go

	statementCount = stmtSmall + smallStatements
)

var statements = withSmall([statementCount]statementText{
	stmtBegin:               {"cairn_begin", `begin isolation level read committed`},
	stmtCommit:              {"cairn_commit", `commit`},
	stmtMoveWriter:          {"cairn_move_writer", moveWriter},
	stmtTakeNumbers:         {"cairn_take_numbers", takeNumbers},
	stmtHurry:               {"cairn_hurry", hurry},
	stmtInsertRuns:          {"cairn_insert_runs", insertRuns},
	stmtNoHurry:             {"cairn_no_hurry", noHurry},
	stmtUpdateRuns:          {"cairn_update_runs", updateRuns},
	stmtWakeRuns:            {"cairn_wake_runs", wakeRuns},
	stmtInsertEvents:        {"cairn_insert_events", insertEvents},
	stmtCopyEvents:          {"cairn_copy_events", copyEvents},
	stmtUpsertSteps:         {"cairn_upsert_steps", upsertSteps},
	stmtDeleteHook:          {"cairn_delete_hook", deleteHook},
	stmtDeleteHooks:         {"cairn_delete_hooks", deleteHooks},
	stmtSweepHooks:          {"cairn_sweep_hooks", sweepHooks},
	stmtRetainHooks:         {"cairn_retain_hooks", retainHooks},
	stmtUpsertHooks:         {"cairn_upsert_hooks", upsertHooks},
	stmtDeleteWaits:         {"cairn_delete_waits", deleteWaits},
	stmtSweepWaits:          {"cairn_sweep_waits", sweepWaits},
	stmtUpsertWaits:         {"cairn_upsert_waits", upsertWaits},
	stmtInsertReceipts:      {"cairn_insert_receipts", insertReceipts},
	stmtDeleteAttributes:    {"cairn_delete_attributes", deleteAttributes},
	stmtUpsertAttributes:    {"cairn_upsert_attributes", upsertAttributes},
	stmtDeleteMessages:      {"cairn_delete_messages", deleteMessages},
	stmtInsertMessages:      {"cairn_insert_messages", insertMessages},
	stmtNotify:              {"cairn_notify", notify},
	stmtLockRuns:            {"cairn_lock_runs", lockRuns},
	stmtFindRuns:            {"cairn_find_runs", findRuns},
	stmtLoadSeqs:            {"cairn_load_seqs", loadSeqs},
	stmtLoadAttributes:      {"cairn_load_attributes", loadAttributes},
	stmtLoadEvents:          {"cairn_load_events", loadEvents},
	stmtLoadSteps:           {"cairn_load_steps", loadSteps},
	stmtLoadHooks:           {"cairn_load_hooks", loadHooks},
	stmtLoadWaits:           {"cairn_load_waits", loadWaits},
	stmtLoadAttrSets:        {"cairn_load_attr_sets", loadAttrSets},
	stmtLoadHooksMade:       {"cairn_load_hooks_made", loadHooksMade},
	stmtLoadReceipts:        {"cairn_load_receipts", loadReceipts},
	stmtDeleteExpiredTokens: {"cairn_delete_expired_tokens", deleteExpiredTokens},
	stmtLoadHolders:         {"cairn_load_holders", loadHolders},
	stmtLoadStarted:         {"cairn_load_started", loadStarted},
	stmtLoadDeliveries:      {"cairn_load_deliveries", loadDeliveries},
	stmtLoadFenced:          {"cairn_load_fenced", loadFenced},
	stmtGuardStreams:        {"cairn_guard_streams", guardStreams},
	stmtInsertStreams:       {"cairn_insert_streams", insertStreams},
	stmtMoveStreams:         {"cairn_move_streams", moveStreams},
	stmtInsertSources:       {"cairn_insert_sources", insertSources},
	stmtUpdateSources:       {"cairn_update_sources", updateSources},
	stmtInsertChunks:        {"cairn_insert_chunks", insertChunks},
	stmtLoadStreams:         {"cairn_load_streams", loadStreams},
	stmtLoadSources:         {"cairn_load_sources", loadSources},
})

// statementText is a statement to prepare.
type statementText struct{ name, sql string }

// prepared are the statements as a connection knows them.
type prepared [statementCount]*pgconn.StatementDescription

// prepare makes all statements known to a connection, in one round trip, so that no batch needs a second one.
func prepare(ctx context.Context, conn *pgconn.PgConn) (*prepared, error) {
	p := conn.StartPipeline(ctx)
	for i := range statements {
		p.SendPrepare(statements[i].name, statements[i].sql, nil)
	}
	if err := p.Sync(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	var all prepared
	for i := range statements {
		result, err := p.GetResults()
		if err != nil {
			_ = p.Close()
			return nil, err
		}
		described, ok := result.(*pgconn.StatementDescription)
		if !ok {
			_ = p.Close()
			return nil, errors.New("the server answered out of order")
		}
		described.Name, described.SQL = statements[i].name, statements[i].sql
		all[i] = described
	}
	return &all, p.Close()
}

var binary1 = []int16{1} // all parameters, or all results, are in binary form

// trip is one round trip: statements that are sent together and answered together. Without begin and commit
// they are one transaction of their own, which commits when the server has seen all of them.
type trip struct {
	conn *pgx.Conn
	all  *prepared
	pipe *pgconn.Pipeline
	read []func(pgx.Rows) error // what to do with each answer; nil: nothing

	count *atomic.Int64 // of the store's statements
}

func newTrip(ctx context.Context, w *Writer) *trip {
	return &trip{
		conn: w.conn, all: w.prepared, pipe: w.conn.PgConn().StartPipeline(ctx), read: make([]func(pgx.Rows) error, 0, 24),
		count: &w.store.statements,
	}
}

// send adds a statement; read, if not nil, gets its rows.
func (t *trip) send(s statement, read func(pgx.Rows) error, params ...[]byte) {
	t.pipe.SendQueryStatement(t.all[s], params, binary1, binary1)
	t.read = append(t.read, read)
}

// sendTable adds a statement whose parameters are the columns of a table, followed by more. It does nothing without rows.
func (t *trip) sendTable(s statement, rows table, read func(pgx.Rows) error, more ...[]byte) {
	if rows.rows() == 0 {
		return
	}
	params := make([][]byte, 0, len(rows)+len(more))
	for i := range rows {
		params = append(params, rows[i].param())
	}
	t.send(s, read, append(params, more...)...)
}

// finish sends everything and reads all answers. The error is the server's first one: what came after it was not executed.
// A [scanError] says that the server did everything.
func (t *trip) finish() error {
	t.count.Add(int64(len(t.read)))
	if err := t.pipe.Sync(); err != nil {
		_ = t.pipe.Close()
		return err
	}
	first := t.answers()
	last := t.pipe.Close()
	var local scanError
	if first == nil || (errors.As(first, &local) && last != nil) {
		return last
	}
	return first
}

func (t *trip) answers() error {
	for _, read := range t.read {
		result, err := t.pipe.GetResults()
		if err != nil {
			return err
		}
		reader, ok := result.(*pgconn.ResultReader)
		if !ok {
			return errors.New("the server answered out of order")
		}
		if err := consume(t.conn, reader, read); err != nil {
			return err
		}
	}
	return nil
}

// scanError is an error of the program that reads an answer, not of the server or the connection.
type scanError struct{ error }

func (e scanError) Unwrap() error { return e.error }

func consume(conn *pgx.Conn, reader *pgconn.ResultReader, read func(pgx.Rows) error) error {
	if read == nil {
		_, err := reader.Close()
		return err
	}
	rows := pgx.RowsFromResultReader(conn.TypeMap(), reader)
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			return scanError{err}
		}
	}
	return rows.Err()
}
