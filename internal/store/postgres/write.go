package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Commit implements [store.Tx]. All rows and the end of the transaction travel in one round trip; without a Load so does its
// beginning.
func (t *tx) Commit(ctx context.Context, changes *store.Changes) error {
	if t.done {
		return cairnerr.Errorf(cairnerr.CodeInternal, "the batch has ended")
	}
	t.done = true
	if err := t.prepare(ctx, changes); err != nil {
		t.rollback(ctx)
		return err
	}
	w := t.w
	trip := newTrip(ctx, w)
	w.rows.keyed = w.rows.keyed && t.begun // else the setting would be the session's
	if t.begun || !w.sendSmall(trip) {
		if !t.begun {
			t.move(trip)
		}
		w.streams.send(trip)
		w.rows.sendRuns(trip)
	}
	w.rows.sendViews(trip, t.now, w.store.notifier.channel)
	var more []int64
	if born := len(w.born); born > 0 && len(w.numbers)-born < numberLow {
		trip.send(stmtTakeNumbers, func(r pgx.Rows) error { return r.Scan(&more) }, number(int64(max(numberBlock, 2*born))))
	}
	if t.begun {
		trip.send(stmtCommit, nil)
	}
	err := trip.finish()
	if err := t.ended(ctx, err); err != nil {
		return err
	}
	w.numbers = append(w.numbers, more...)
	w.wakeMissed(ctx, t.now)
	w.wroteStreams(ctx, changes)
	w.store.notifier.wroteRuns(ctx, w.incarnation, changes.RunHints)
	return nil
}

// prepare makes sure of the connection, and puts the rows of the batch together.
func (t *tx) prepare(ctx context.Context, changes *store.Changes) error {
	w := t.w
	if t.begun && (w.conn == nil || w.conn.IsClosed()) {
		return cairnerr.Errorf(cairnerr.CodeUnreachable, "postgres: the connection was lost before the batch was committed")
	}
	if err := w.connect(ctx); err != nil {
		return err
	}
	fresh := 0
	for i := range changes.Runs {
		if changes.Runs[i].New {
			fresh++
		}
	}
	if missing := fresh - len(w.numbers); missing > 0 {
		var more []int64
		if err := w.conn.QueryRow(ctx, takeNumbers, max(numberBlock, missing)).Scan(&more); err != nil {
			return classify("take run numbers", err)
		}
		w.numbers = append(w.numbers, more...)
	}
	if err := w.fillStreams(ctx, changes.Streams); err != nil {
		return err
	}
	return w.fill(ctx, changes, t.now)
}

// ended decides what became of a batch that was sent.
func (t *tx) ended(ctx context.Context, err error) error {
	w := t.w
	taken := len(w.born)
	var local scanError
	switch {
	case err == nil:
		w.settled(true)
	case errors.As(err, &local):
		// The server went on, and committed; only this program could not read an answer.
		w.settled(true)
		w.store.cfg.Logger.ErrorContext(ctx, "read the answer to a batch", slog.Any("error", err))
		err = nil
	case !fatal(err):
		w.settled(false)
		return t.refused(ctx, err)
	case nothingSent(err):
		w.settled(false)
		t.rollback(ctx)
		return classify("commit", err)
	default:
		w.unsettled = true
		err = fmt.Errorf("%w: %v", store.ErrUnknownOutcome, err) //nolint:errorlint // its cause must not be taken for the outcome
	}
	w.numbers = w.numbers[taken:] // they may be in use now
	return err
}

// rows are the rows of one batch, by statement. The memory is used again.
type rows struct {
	inserts, updates, wakes, events      table
	kept                                 table
	keptCount                            int64
	steps                                table
	hooksGone, sweeps, hooks             table
	waitsGone, waits                     table
	receipts, attributesGone, attributes table
	done, messages                       table
	notify                               table
	woken                                []store.RunKey
	wakeSkipped                          []bool
	keyed                                bool // a new run has a start key
}

func newRows() rows {
	return rows{
		inserts: newTable(bigint, integer, uuid, integer, smallint, smallint, integer, bigint, bigint, bigint, bigint, bigint, bigint,
			uuid, bigint, bigint, uuid, text, bytea, bytea),
		updates: newTable(bigint, bigint, uuid, bigint, smallint, bigint, bigint, bigint, bigint, bigint, uuid, bigint, bigint),
		wakes:   newTable(integer, uuid),
		events:  newTable(bigint, bigint, smallint, bigint, uuid, text, bytea, bytea, bytea),
		kept:    newTable(bigint, bigint, bigint, bigint, bigint),
		steps: newTable(bigint, uuid, text, text, smallint, integer, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint,
			text),
		hooksGone:      newTable(bigint, uuid),
		sweeps:         newTable(bigint, bigint),
		hooks:          newTable(integer, bigint, uuid, text, text, smallint, smallint, bigint, bigint, bigint, bigint),
		waitsGone:      newTable(bigint, uuid),
		waits:          newTable(bigint, uuid, text, text, smallint, bigint, bigint, bigint, bigint),
		receipts:       newTable(bigint, text, uuid, bytea, bigint),
		attributesGone: newTable(bigint, text),
		attributes:     newTable(bigint, text, text, integer, uuid),
		done:           newTable(uuid),
		messages:       newTable(uuid, integer, text, uuid, text, bigint, bytea),
		notify:         newTable(text),
	}
}

func (r *rows) reset() {
	for _, t := range []table{
		r.inserts, r.updates, r.wakes, r.events, r.kept, r.steps, r.hooksGone, r.sweeps, r.hooks, r.waitsGone, r.waits, r.receipts,
		r.attributesGone, r.attributes, r.done, r.messages, r.notify,
	} {
		t.reset()
	}
	r.woken, r.keyed = r.woken[:0], false
	r.keptCount = 0
}

// sendRuns puts the statements for runs and their journals into a round trip. The order of the statements of a batch is that of all locks: it never
// differs between two writers.
func (r *rows) sendRuns(trip *trip) {
	if r.keyed {
		trip.send(stmtHurry, nil)
	}
	trip.sendTable(stmtInsertRuns, r.inserts, nil)
	if r.keyed {
		trip.send(stmtNoHurry, nil)
	}
	trip.sendTable(stmtUpdateRuns, r.updates, nil)
	trip.sendTable(stmtInsertEvents, r.events, nil)
}

// sendViews puts all other statements of a batch into a round trip. What frees a unique key comes before what takes one.
func (r *rows) sendViews(trip *trip, now journal.Time, channel string) {
	trip.sendTable(stmtWakeRuns, r.wakes, r.readWakes(), number(int64(now)))
	trip.sendTable(stmtCopyEvents, r.kept, nil, number(int64(now)), number(r.keptCount))
	trip.sendTable(stmtUpsertSteps, r.steps, nil)
	if r.hooksGone.rows() == 1 {
		trip.send(stmtDeleteHook, nil, r.hooksGone.row(nil, 0)...)
	} else {
		trip.sendTable(stmtDeleteHooks, r.hooksGone, nil)
	}
	trip.sendTable(stmtSweepHooks, r.sweeps, nil)
	if r.sweeps.rows() > 0 {
		trip.send(stmtRetainHooks, nil, r.sweeps[0].param())
	}
	trip.sendTable(stmtUpsertHooks, r.hooks, nil)
	trip.sendTable(stmtDeleteWaits, r.waitsGone, nil)
	if r.sweeps.rows() > 0 {
		trip.send(stmtSweepWaits, nil, r.sweeps[0].param())
	}
	trip.sendTable(stmtUpsertWaits, r.waits, nil)
	trip.sendTable(stmtInsertReceipts, r.receipts, nil)
	trip.sendTable(stmtDeleteAttributes, r.attributesGone, nil)
	trip.sendTable(stmtUpsertAttributes, r.attributes, nil)
	trip.sendTable(stmtDeleteMessages, r.done, nil)
	trip.sendTable(stmtInsertMessages, r.messages, nil, number(int64(now)))
	trip.sendTable(stmtNotify, r.notify, nil, []byte(channel))
}

// fill puts the rows of a batch together.
func (w *Writer) fill(ctx context.Context, changes *store.Changes, now journal.Time) error {
	r := &w.rows
	r.reset()
	clear(w.born)
	w.born = w.born[:0]
	for i := range changes.Runs {
		if err := w.fillRun(ctx, &changes.Runs[i]); err != nil {
			return err
		}
	}
	for _, key := range changes.Wake {
		ns, ok, err := w.store.namespaceNo(ctx, key.Namespace)
		if err != nil {
			return err
		}
		if ok {
			r.wakes[0].integer(ns)
			r.wakes[1].id(key.Run)
			r.woken = append(r.woken, key)
		}
	}
	for _, id := range changes.Done {
		r.done[0].id(id)
	}
	for i := range changes.Messages {
		if err := w.fillMessage(ctx, &changes.Messages[i], now); err != nil {
			return err
		}
	}
	for _, namespace := range changes.Notify {
		r.notify[0].text(namespace)
	}
	return nil
}

func (w *Writer) fillRun(ctx context.Context, c *store.RunChange) error {
	ns, err := w.store.makeNamespace(ctx, c.State.Namespace)
	if err != nil {
		return err
	}
	no := c.State.Ref
	switch {
	case c.New:
		no = w.numbers[len(w.born)]
		w.born = append(w.born, birth{c.State, no})
		if err := w.fillNew(ctx, no, ns, c.State.Run); err != nil {
			return err
		}
	case no == 0:
		return cairnerr.Errorf(cairnerr.CodeInternal, "%s is to be changed, but was never stored", journal.PrefixRun.Format(c.State.Run.ID))
	case c.Rows.Run:
		if c.Was == nil {
			return cairnerr.Errorf(cairnerr.CodeInternal, "the change of %s does not say what it changes", journal.PrefixRun.Format(c.State.Run.ID))
		}
		w.rows.update(no, c.State.Run, c.Was)
	}
	for i := range c.Events {
		if err := w.rows.event(no, &c.Events[i], c.State.Steps); err != nil {
			return err
		}
	}
	for _, k := range c.Kept {
		w.rows.keep(no, k)
	}
	w.rows.views(no, ns, c)
	return nil
}

// copyEvents takes over events of other runs. It fails, with a text that is no date, if they are not all there.
const copyEvents = `with k as (
		select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) as k (run, delta, source, first, last)
	), copied as (
		insert into events (` + storedEvent + `)
		select k.run, e.seq + k.delta, e.type, $6::bigint, e.entity, e.key, e.data, e.input, e.output
		from k join events e on e.run = k.source and e.seq between k.first and k.last
		returning 1
	)
	select case when count(*) = $7::bigint then current_date else ('found ' || count(*))::date end from copied`

func (r *rows) keep(no int64, k journal.Kept) {
	c := r.kept
	c[0].bigint(no)
	c[1].bigint(k.To - k.First)
	c[2].bigint(k.Ref)
	c[3].bigint(k.First)
	c[4].bigint(k.Last)
	r.keptCount += k.Last - k.First + 1
}

const (
	storedRun = `no, ns, id, workflow, dialect, status, spec, created_at, started_at, completed_at, end_seq, cancelled_at, parked_at, owner, epoch,
		wake_at, parent, start_key, start_digest, extra`
	storedEvent = `run, seq, type, at, entity, key, data, input, output`

	// A start key may be in use in a transaction of a user's own, which ends when he likes: the batch does not wait for that.
	hurry   = `set local lock_timeout = '5ms'`
	noHurry = `set local lock_timeout to default`
	// In a select list, unlike in a from clause, the arrays are not copied before they are read: a seventh of the server's time.
	insertRuns = `insert into runs (` + storedRun + `)
		select unnest($1::bigint[]), unnest($2::integer[]), unnest($3::uuid[]), unnest($4::integer[]), unnest($5::smallint[]),
			unnest($6::smallint[]), unnest($7::integer[]), unnest($8::bigint[]), unnest($9::bigint[]), unnest($10::bigint[]),
			unnest($11::bigint[]), unnest($12::bigint[]), unnest($13::bigint[]), unnest($14::uuid[]), unnest($15::bigint[]),
			unnest($16::bigint[]), unnest($17::uuid[]), unnest($18::text[]), unnest($19::bytea[]), unnest($20::bytea[])`
	// updateRuns fails, with a text that is no number, if a run is not what its change was computed from. A time to wake that
	// somebody else set in the meantime is not lost: the earlier one holds, unless the run has ended or is parked.
	updateRuns = `with u as (
			select * from unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::bigint[], $5::smallint[], $6::bigint[], $7::bigint[],
				$8::bigint[], $9::bigint[], $10::bigint[], $11::uuid[], $12::bigint[], $13::bigint[])
			as u (no, was_epoch, was_owner, was_wake_at, status, started_at, completed_at, end_seq, cancelled_at, parked_at, owner, epoch, wake_at)
		), done as (
			update runs r set status = u.status, started_at = u.started_at, completed_at = u.completed_at, end_seq = u.end_seq,
				cancelled_at = u.cancelled_at, parked_at = u.parked_at, owner = u.owner, epoch = u.epoch,
				wake_at = case when r.wake_at is not distinct from u.was_wake_at or u.status >= 2 or u.parked_at is not null
					then u.wake_at else least(r.wake_at, u.wake_at) end
			from u where r.no = u.no and r.epoch = u.was_epoch and r.owner is not distinct from u.was_owner returning 1
		)
		select case when count(*) = cardinality($1::bigint[]) then 0 else ('found ' || count(*))::integer end from done`
	insertEvents = `insert into events (` + storedEvent + `)
		select unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::smallint[]), unnest($4::bigint[]),
			unnest($5::uuid[]), unnest($6::text[]), unnest($7::bytea[]), unnest($8::bytea[]), unnest($9::bytea[])`
)

func (w *Writer) fillNew(ctx context.Context, no int64, ns int32, r *journal.Run) error {
	workflow, err := w.store.makeWorkflow(ctx, ns, r.Workflow)
	if err != nil {
		return err
	}
	extra, err := store.EncodeRunExtra(r)
	if err != nil {
		return err
	}
	c := w.rows.inserts
	c[0].bigint(no)
	c[1].integer(ns)
	c[2].id(r.ID)
	c[3].integer(workflow)
	c[4].smallint(int16(r.Dialect))
	c[5].smallint(int16(r.Status))
	c[6].integer(int32(r.Spec))
	c[7].bigint(int64(r.CreatedAt))
	c[8].time(r.StartedAt)
	c[9].time(r.CompletedAt)
	c[10].bigintOrNull(r.EndSeq)
	c[11].time(r.CancelledAt)
	c[12].time(r.ParkedAt)
	c[13].id(r.Owner)
	c[14].bigint(r.Epoch)
	c[15].time(r.WakeAt)
	c[16].id(r.Parent)
	c[17].textOrNull(r.StartKey)
	w.rows.keyed = w.rows.keyed || r.StartKey != ""
	c[18].bytes(r.StartDigest)
	c[19].bytes(extra)
	return nil
}

func (r *rows) update(no int64, run, was *journal.Run) {
	c := r.updates
	c[0].bigint(no)
	c[1].bigint(was.Epoch)
	c[2].id(was.Owner)
	c[3].time(was.WakeAt)
	c[4].smallint(int16(run.Status))
	c[5].time(run.StartedAt)
	c[6].time(run.CompletedAt)
	c[7].bigintOrNull(run.EndSeq)
	c[8].time(run.CancelledAt)
	c[9].time(run.ParkedAt)
	c[10].id(run.Owner)
	c[11].bigint(run.Epoch)
	c[12].time(run.WakeAt)
}

func (r *rows) event(no int64, e *journal.Event, steps map[journal.ID]*journal.Step) error {
	enc, err := journal.EncodeData(e.Data)
	if err != nil {
		return err
	}
	c := r.events
	c[0].bigint(no)
	c[1].bigint(e.Seq)
	c[2].smallint(int16(e.Type))
	c[3].bigint(int64(e.At))
	c[4].id(store.StoredEntity(e, steps))
	c[5].textOrNull(e.Key)
	c[6].bytes(enc.Data)
	c[7].bytes(enc.Input)
	c[8].bytes(enc.Output)
	return nil
}

// wakeRuns skips runs that somebody else holds, so that a batch never waits for another one here. It writes down those that it has skipped, and returns them. Also runs
// that are due already are locked: whoever is claiming one uses up its time to wake, and may not see what this batch writes.
const wakeRuns = `with u as (
		select * from unnest($1::integer[], $2::uuid[]) with ordinality as u (ns, id, i)
	), due as (
		select r.no, u.i, u.ns, u.id from u cross join lateral (select * from runs r where r.ns = u.ns and r.id = u.id limit 1) r
		where r.status < 2 and r.parked_at is null
	), locked as (
		select l.no from due cross join lateral (
			select r.no from runs r where r.no = due.no for update skip locked
		) l
	), woken as (
		update runs r set wake_at = $3::bigint from locked
		where r.no = locked.no and r.status < 2 and r.parked_at is null and (r.wake_at is null or r.wake_at > $3::bigint)
	), missed as (
		insert into wakes (ns, run) select due.ns, due.id from due where due.no not in (select no from locked)
	)
	select due.i from due where due.no not in (select no from locked)`

// readWakes notes which runs were skipped.
func (r *rows) readWakes() func(pgx.Rows) error {
	r.wakeSkipped = append(r.wakeSkipped[:0], make([]bool, len(r.woken))...)
	return func(row pgx.Rows) error {
		var i int64
		if err := row.Scan(&i); err != nil {
			return err
		}
		r.wakeSkipped[i-1] = true
		return nil
	}
}

// wakeMissed tries again to wake runs that somebody else held, now that the batch is durable and holds nothing that another one may wait
// for. What fails even so stays written down: it is tried after the next batch, and by whoever looks for due runs.
func (w *Writer) wakeMissed(ctx context.Context, now journal.Time) {
	var missed []store.RunKey
	for i, key := range w.rows.woken {
		if w.rows.wakeSkipped[i] {
			missed = append(missed, key)
		}
	}
	var err error
	switch {
	case len(missed) > 0:
		_, err = w.conn.Exec(ctx, wakeRunsWaiting, namespacesOf(w.store, missed), idsOf(missed), int64(now))
	case w.left:
		_, err = w.conn.Exec(ctx, wakeLeft, int64(now))
	default:
		return
	}
	w.left = err != nil
	if err != nil && sqlState(err) == "" {
		w.disconnect(ctx)
	}
}

const wakeRunsWaiting = `with w as (
		delete from wakes where (ns, run) in (select * from unnest($1::integer[], $2::uuid[])) returning ns, run
	)
	update runs r set wake_at = least(r.wake_at, $3::bigint) from (select distinct ns, run from w) w
	where r.ns = w.ns and r.id = w.run and r.status < 2 and r.parked_at is null`

func namespacesOf(s *Store, keys []store.RunKey) []int32 {
	nos := make([]int32, len(keys))
	for i := range keys {
		nos[i], _ = s.names.namespace(keys[i].Namespace) // known: the batch has used it
	}
	return nos
}

func idsOf(keys []store.RunKey) []pgtype.UUID {
	ids := make([]pgtype.UUID, len(keys))
	for i := range keys {
		ids[i] = raw(keys[i].Run)
	}
	return ids
}
