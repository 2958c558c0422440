package postgres

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// kind is what [store.Info] calls these databases.
const kind = "postgres"

// InTx returns a handle on a transaction of yours, for starts that are part of it. It must be one on the engine's database, and its
// user needs the rights to write there. A savepoint (a pgx.Tx begun on another one) is good, too. As everything of a pgx.Tx, it is for one
// goroutine at a time.
func InTx(tx pgx.Tx) Tx {
	if v := reflect.ValueOf(tx); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return Tx{}
	}
	return Tx{pgxTx{tx}}
}

// InSQLTx is [InTx] for transactions of package database/sql, with the driver of pgx or another one.
func InSQLTx(tx *sql.Tx) Tx {
	if tx == nil {
		return Tx{}
	}
	return Tx{sqlTx{tx}}
}

// Tx is a transaction of the user's.
type Tx struct{ tx transaction }

// Kind implements [store.UserTx].
func (Tx) Kind() string { return kind }

// transaction is what a start needs of a transaction: statements that return one row at most.
type transaction interface {
	row(ctx context.Context, into []any, query string, args ...any) error
}

type pgxTx struct{ pgx.Tx }

func (t pgxTx) row(ctx context.Context, into []any, query string, args ...any) error {
	return t.QueryRow(ctx, query, args...).Scan(into...)
}

type sqlTx struct{ *sql.Tx }

func (t sqlTx) row(ctx context.Context, into []any, query string, args ...any) error {
	return t.QueryRowContext(ctx, query, args...).Scan(into...)
}

var _ store.Joiner = (*Store)(nil)

// Join implements [store.Joiner].
func (s *Store) Join(ctx context.Context, user store.UserTx, _ journal.Time) (store.Joined, error) {
	u, ok := user.(Tx)
	switch {
	case !ok:
		return nil, store.WrongTx(user, kind)
	case u.tx == nil:
		return nil, store.WrongTx(nil, kind)
	case s.closed.Load():
		return nil, errClosed()
	case s.cfg.ReadOnly:
		return nil, cairnerr.Errorf(cairnerr.CodeReadOnly, "%s was opened for reading only", s.location)
	}
	j := &joined{s: s, tx: u.tx}
	return j, j.examine(ctx)
}

// joined is a transaction of the user's.
type joined struct {
	s  *Store
	tx transaction
}

// The statements of a start. They name the schema, because the user's connection does not have it in its search path. Values are of types that every driver
// knows: text for ids and for all attributes together, numbers, bytes.
const (
	examineTx = `select current_setting('transaction_read_only'),
		(select count(*) from SCHEMA.writers where incarnation = $1::uuid or incarnation = $2::uuid)`
	findStarted = `select id::text, start_digest from SCHEMA.runs where workflow = $1::integer and start_key = $2::text`
	joinNote    = `insert into SCHEMA.events (run, seq, type, at, data, input)
		values ($1::bigint, $2::bigint, $3::smallint, $4::bigint, $5::bytea, $6::bytea) returning seq`
	// joinRun waits for a transaction that is open and has used the same start key, and does nothing if that is committed.
	joinRun = `with r as (
			insert into SCHEMA.runs (no, ns, id, workflow, dialect, status, spec, created_at, wake_at, epoch, parent, start_key, start_digest, extra)
			values (nextval('SCHEMA.runs_no'), $1::integer, $2::uuid, $3::integer, $4::smallint, $5::smallint, $6::integer, $7::bigint, $8::bigint, $9::bigint, $10::uuid,
				$11::text, $12::bytea, $13::bytea)
			on conflict (workflow, start_key) where start_key is not null do nothing returning no
		), e as (
			insert into SCHEMA.events (run, seq, type, at, data, input, output)
			select no, $14::bigint, $15::smallint, $16::bigint, $17::bytea, $18::bytea, $19::bytea from r
		), a as (
			insert into SCHEMA.attributes (run, ns, id, key, value) select r.no, $1::integer, $2::uuid, a.key, a.value from r, json_each_text($20::json) a
		)
		select no, pg_notify($21::text, $22::text)::text from r`
)

func (j *joined) row(ctx context.Context, op string, into []any, query string, args ...any) (found bool, err error) {
	query = strings.ReplaceAll(query, "SCHEMA", j.s.cfg.Schema)
	err = j.tx.row(ctx, into, query, args...)
	if errors.Is(err, sql.ErrNoRows) || errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, joinError(op, err)
}

// examine makes sure that the transaction can write, and is on this database.
func (j *joined) examine(ctx context.Context) error {
	first, last := j.s.witness.Both()
	var readOnly string
	var seen int64
	_, err := j.row(ctx, "join", []any{&readOnly, &seen}, examineTx, hex.EncodeToString(first[:]), hex.EncodeToString(last[:]))
	switch {
	case err != nil:
		return err
	case seen == 0:
		return store.ForeignTx(j.s.location)
	case readOnly == "on":
		return cairnerr.Errorf(cairnerr.CodeReadOnly, "the transaction is for reading only")
	default:
		return nil
	}
}

// Started implements [store.Joined].
func (j *joined) Started(ctx context.Context, key journal.StartKey) (started journal.Started, found bool, err error) {
	ns, ok, err := j.s.namespaceNo(ctx, key.Namespace)
	if err != nil || !ok {
		return started, false, err
	}
	workflow, ok, err := j.s.workflowNo(ctx, ns, key.Workflow)
	if err != nil || !ok {
		return started, false, err
	}
	var id string
	found, err = j.row(ctx, "find a start key", []any{&id, &started.Digest}, findStarted, workflow, key.Key)
	if err != nil || !found {
		return started, false, err
	}
	bytes, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if err != nil || len(bytes) != len(started.Run) {
		return started, false, cairnerr.Errorf(cairnerr.CodeCorrupt, "postgres: the id of a run is %.64q", id)
	}
	started.Run = journal.ID(bytes)
	return started, true, nil
}

// Insert implements [store.Joined]. Names that are new are made outside, and committed at once: a number that is never used does no
// harm, but a name in an open transaction would keep everybody waiting who uses it for the first time.
func (j *joined) Insert(ctx context.Context, change *store.RunChange) (bool, error) {
	run := change.State.Run
	notes := change.Events[min(len(change.Events), 1):]
	if len(change.Events) == 0 || change.Events[0].Type != journal.EventRunCreated || slices.ContainsFunc(notes, isNoNote) {
		return false, cairnerr.Errorf(cairnerr.CodeInternal, "only the creation of a run can be part of a user's transaction")
	}
	ns, err := j.s.makeNamespace(ctx, change.State.Namespace)
	if err != nil {
		return false, err
	}
	workflow, err := j.s.makeWorkflow(ctx, ns, run.Workflow)
	if err != nil {
		return false, err
	}
	extra, err := store.EncodeRunExtra(run)
	if err != nil {
		return false, err
	}
	event := &change.Events[0]
	enc, err := journal.EncodeData(event.Data)
	if err != nil {
		return false, err
	}
	attributes := map[string]string{}
	for _, a := range change.Rows.Attributes {
		attributes[a.Key] = a.Value
	}
	texts, err := json.Marshal(attributes)
	if err != nil {
		return false, err
	}
	var no int64
	var hint string
	inserted, err := j.row(ctx, "start", []any{&no, &hint}, joinRun,
		ns, hex.EncodeToString(run.ID[:]), workflow, int64(run.Dialect), int64(run.Status), int64(run.Spec), int64(run.CreatedAt),
		orNull(int64(run.WakeAt), run.WakeAt == 0), run.Epoch, orNull(hex.EncodeToString(run.Parent[:]), run.Parent.IsZero()),
		orNull(run.StartKey, run.StartKey == ""), orNull(run.StartDigest, len(run.StartDigest) == 0), orNull(extra, len(extra) == 0),
		event.Seq, int64(event.Type), int64(event.At), orNull(enc.Data, len(enc.Data) == 0), orNull([]byte(enc.Input), len(enc.Input) == 0),
		orNull([]byte(enc.Output), len(enc.Output) == 0), string(texts), j.s.notifier.channel, change.State.Namespace)
	if err != nil || !inserted {
		return false, err
	}
	return true, j.annotate(ctx, no, notes)
}

func isNoNote(e journal.Event) bool { return e.Type != journal.EventAnnotated }

// annotate adds annotations to the run.
func (j *joined) annotate(ctx context.Context, no int64, notes []journal.Event) error {
	for i := range notes {
		e := &notes[i]
		enc, err := journal.EncodeData(e.Data)
		if err != nil {
			return err
		}
		var seq int64
		_, err = j.row(ctx, "annotate", []any{&seq}, joinNote, no, e.Seq, int64(e.Type), int64(e.At), orNull(enc.Data, len(enc.Data) == 0), orNull([]byte(enc.Input), len(enc.Input) == 0))
		if err != nil {
			return err
		}
	}
	return nil
}

// orNull returns null for a value that is not set.
func orNull[T any](v T, none bool) any {
	if none {
		return nil
	}
	return v
}

// The conditions that PostgreSQL reports in a transaction of the user's.
const (
	stateTxFailed      = "25P02" // an earlier statement has failed
	stateUndefinedName = "3F000" // no such schema
	stateNoRight       = "42501"
)

// joinError gives an error that came up in a transaction of the user's its code. It may be that of any driver.
func joinError(op string, err error) error {
	state := ""
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		state = e.SQLState()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrTxClosed), errors.Is(err, sql.ErrTxDone), errors.Is(err, sql.ErrConnDone):
		return cairnerr.Errorf(cairnerr.CodeTxOver, "the transaction has ended: %w", err)
	case state == stateTxFailed:
		return cairnerr.Errorf(cairnerr.CodeTxOver, "a statement of the transaction has failed before, and it can only be rolled back: %w", err)
	case state == stateUndefinedTable, state == stateUndefinedName:
		return cairnerr.Errorf(cairnerr.CodeForeignTx, "the transaction is on a database without Cairn's tables: begin it on the engine's database: %w", err)
	case state == stateSerialization, state == stateDeadlock, state == stateLockNotAvailable:
		conflict := cairnerr.Errorf(cairnerr.CodeTxConflict, "postgres: %s: %w", op, err)
		conflict.Retryable = true
		return conflict
	case state == stateReadOnly, state == stateNoRight:
		return cairnerr.Errorf(cairnerr.CodeReadOnly, "postgres: %s: %w", op, err)
	case strings.Contains(err.Error(), "conn busy"):
		return cairnerr.Errorf(cairnerr.CodeUnsupported, "the transaction is in use: close its rows, and use it in one goroutine at a time: %w", err)
	default:
		return classify(op, err)
	}
}
