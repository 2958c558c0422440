package sqlite

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Commit implements [store.Tx].
func (t *tx) Commit(ctx context.Context, changes *store.Changes) error {
	if err := t.begin(ctx, hasEvents(changes)); err != nil {
		t.Rollback()
		return err
	}
	refs, streams, err := t.write(changes)
	if err != nil {
		t.Rollback()
		if isConstraint(err) {
			return store.ErrConflict
		}
		if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrSourceGone) {
			return err
		}
		return classify("write", err)
	}
	if err := t.commit(ctx); err != nil {
		return err
	}
	for i := range changes.Runs {
		if changes.Runs[i].New {
			changes.Runs[i].State.Ref = refs[i]
		}
	}
	t.w.store.ckpt.committed(ctx, changes)
	t.w.store.hub.tell(changes.Notify)
	t.w.store.hub.runs.Tell(t.w.incarnation, changes.RunHints...)
	t.wroteStreams(changes, streams)
	return nil
}

func hasEvents(changes *store.Changes) bool {
	return slices.ContainsFunc(changes.Runs, func(c store.RunChange) bool { return len(c.Events) > 0 })
}

// write puts all rows of the batch into the transaction. It returns the number of each run and stream.
func (t *tx) write(changes *store.Changes) (refs, streams []int64, err error) {
	refs = make([]int64, len(changes.Runs))
	err = t.w.raw.do(func() (err error) {
		if streams, err = t.writeStreams(changes.Streams); err != nil {
			return err
		}
		if err := t.freeTokens(changes.Runs); err != nil {
			return err
		}
		for i := range changes.Runs {
			ref, err := t.writeRun(&changes.Runs[i])
			if err != nil {
				return err
			}
			refs[i] = ref
		}
		if err := t.insertEvents(refs, changes.Runs); err != nil {
			return err
		}
		if err := t.copyEvents(refs, changes.Runs); err != nil {
			return err
		}
		for _, key := range changes.Wake {
			if err := t.wake(key); err != nil {
				return err
			}
		}
		return t.writeMessages(changes)
	})
	return refs, streams, err
}

// freeTokens deletes the hooks that are no more, and those that are written anew, before any of the batch can take their tokens.
func (t *tx) freeTokens(runs []store.RunChange) error {
	for i := range runs {
		c := &runs[i]
		if c.New {
			continue
		}
		for _, id := range c.Rows.HooksGone {
			if _, err := t.w.raw.exec(deleteHook, c.State.Ref, id[:]); err != nil {
				return err
			}
		}
		for _, h := range c.Rows.Hooks {
			if _, err := t.w.raw.exec(deleteHook, c.State.Ref, h.ID[:]); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	insertRun = `insert into cairn_runs (ns, id, workflow, dialect, status, spec, created_at, started_at, completed_at, end_seq,
		cancelled_at, parked_at, owner, epoch, wake_at, parent, start_key, start_digest, extra)
		values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	// updateRun does not lose a time to wake that somebody else set in the meantime: the earlier one holds, unless the run has ended or is
	// parked.
	updateRun = `update cairn_runs set status = ?1, started_at = ?2, completed_at = ?3, end_seq = ?4, cancelled_at = ?5, parked_at = ?6,
		owner = ?7, epoch = ?8, wake_at = case when wake_at is ?13 or ?1 >= 2 or ?6 is not null then ?9
			else min(coalesce(wake_at, ?9), coalesce(?9, wake_at)) end
		where no = ?10 and epoch = ?11 and owner is ?12`
	wakeRun = `update cairn_runs set wake_at = ?1 where ns = ?2 and id = ?3 and status < 2 and parked_at is null and (wake_at is null or wake_at > ?1)`
)

func (t *tx) writeRun(c *store.RunChange) (int64, error) {
	ref := c.State.Ref
	ns, _, err := t.namespaceNo(c.State.Namespace, true)
	if err != nil {
		return 0, err
	}
	switch {
	case c.New:
		ref, err = t.insertRun(ns, c.State.Run)
	case c.Rows.Run:
		err = t.updateRun(ref, c.State.Run, c.Was)
	}
	if err != nil {
		return 0, err
	}
	return ref, t.writeRows(ns, ref, c)
}

func (t *tx) insertRun(ns int64, r *journal.Run) (int64, error) {
	workflow, _, err := t.workflowNo(ns, r.Workflow, true)
	if err != nil {
		return 0, err
	}
	extra, err := store.EncodeRunExtra(r)
	if err != nil {
		return 0, err
	}
	return t.w.raw.insert(insertRun, ns, r.ID[:], workflow, int64(r.Dialect), int64(r.Status), int64(r.Spec),
		int64(r.CreatedAt), intOrNull(r.StartedAt), intOrNull(r.CompletedAt), intOrNull(r.EndSeq), intOrNull(r.CancelledAt),
		intOrNull(r.ParkedAt), idOrNull(r.Owner), r.Epoch, intOrNull(r.WakeAt), idOrNull(r.Parent), textOrNull(r.StartKey),
		bytesOrNull(r.StartDigest), bytesOrNull(extra))
}

func (t *tx) updateRun(ref int64, r, was *journal.Run) error {
	n, err := t.w.raw.exec(updateRun, int64(r.Status), intOrNull(r.StartedAt), intOrNull(r.CompletedAt), intOrNull(r.EndSeq),
		intOrNull(r.CancelledAt), intOrNull(r.ParkedAt), idOrNull(r.Owner), r.Epoch, intOrNull(r.WakeAt), ref, was.Epoch, idOrNull(was.Owner), intOrNull(was.WakeAt))
	if err == nil && n != 1 {
		return store.ErrConflict
	}
	return err
}

func (t *tx) wake(key store.RunKey) error {
	ns, ok, err := t.namespaceNo(key.Namespace, false)
	if err != nil || !ok {
		return err
	}
	_, err = t.w.raw.exec(wakeRun, int64(t.now), ns, key.Run[:])
	return err
}

// A conflict takes the whole transaction back, so SQLite need not keep what a single statement changed.
const (
	insertEvent   = `insert or rollback into cairn_events (run, seq, type, at, entity, key, data, input, output, writer) values ` + eventMarks
	eventMarks    = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	eventArgCount = 10
)

// insertsOfEvents are statements that insert many events at once, the largest first: that saves a third of the time.
var insertsOfEvents = []struct {
	events int
	query  string
}{
	{64, insertEvent + strings.Repeat(`, `+eventMarks, 63)},
	{16, insertEvent + strings.Repeat(`, `+eventMarks, 15)},
	{4, insertEvent + strings.Repeat(`, `+eventMarks, 3)},
	{2, insertEvent + `, ` + eventMarks},
	{1, insertEvent},
}

// insertEvents appends the events of all runs to the journal.
func (t *tx) insertEvents(refs []int64, runs []store.RunChange) error {
	args := t.w.args[:0]
	for i := range runs {
		for j := range runs[i].Events {
			e := &runs[i].Events[j]
			enc, err := journal.EncodeData(e.Data)
			if err != nil {
				return err
			}
			args = append(args, refs[i], e.Seq, int64(e.Type), int64(e.At), idOrNull(store.StoredEntity(e, runs[i].State.Steps)),
				textOrNull(e.Key), bytesOrNull(enc.Data), bytesOrNull(enc.Input), bytesOrNull(enc.Output), nil)
			t.w.proof = proof{refs[i], e.Seq}
		}
	}
	if t.moved || len(args) == 0 {
		t.w.proof = proof{}
	} else {
		args[len(args)-1] = t.w.no
	}
	rest := args
	for _, insert := range insertsOfEvents {
		for n := insert.events * eventArgCount; len(rest) >= n; rest = rest[n:] {
			if _, err := t.w.raw.exec(insert.query, rest[:n]...); err != nil {
				return err
			}
		}
	}
	clear(args[:cap(args)]) // keep no payloads alive
	t.w.args = args[:0]
	return nil
}

const copyEvents = `insert into cairn_events (run, seq, type, at, entity, key, data, input, output)
	select ?1, seq + ?2, type, ?3, entity, key, data, input, output from cairn_events where run = ?4 and seq between ?5 and ?6 order by seq`

// copyEvents takes over events of other runs.
func (t *tx) copyEvents(refs []int64, runs []store.RunChange) error {
	for i := range runs {
		for _, k := range runs[i].Kept {
			n, err := t.w.raw.exec(copyEvents, refs[i], k.To-k.First, int64(t.now), k.Ref, k.First, k.Last)
			if err != nil {
				return err
			}
			if n != k.Last-k.First+1 {
				return store.ErrSourceGone
			}
		}
	}
	return nil
}

const (
	upsertStep = `insert or replace into cairn_steps (run, id, key, name, status, attempt, created_at, started_at, completed_at, updated_at,
		retry_after, first_seq, input_seq, last_seq, owner_message) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	// A hook is not replaced by its token: that another hook holds it must be noticed.
	insertHook = `insert into cairn_hooks (ns, run, id, key, token, status, flags, created_at, expires_at, retain_until, seq)
		values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	deleteHook = `delete from cairn_hooks where run = ? and id = ?`
	upsertWait = `insert or replace into cairn_waits (run, id, key, kind, status, resume_at, created_at, completed_at, seq)
		values (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	deleteWait      = `delete from cairn_waits where run = ? and id = ?`
	insertReceipt   = `insert into cairn_receipts (run, sender, hook, digest, seq) values (?, ?, ?, ?, ?)`
	upsertAttribute = `insert or replace into cairn_attributes (run, key, value, ns, id) values (?, ?, ?, ?, ?)`
	deleteAttribute = `delete from cairn_attributes where run = ? and key = ?`
	sweepWaits      = `delete from cairn_waits where run = ?`
	sweepHooks      = `delete from cairn_hooks where run = ? and (retain_until is null or retain_until <= ?)`
	retainHooks     = `update cairn_hooks set status = 2 where run = ?`
)

// writeRows writes the views of a run.
func (t *tx) writeRows(ns, ref int64, c *store.RunChange) error {
	raw, rows, run := t.w.raw, &c.Rows, c.State.Run
	for _, s := range rows.Steps {
		_, err := raw.exec(upsertStep, ref, s.ID[:], textOrNull(s.Key), s.Name, int64(s.Status), int64(s.Attempt), int64(s.CreatedAt),
			intOrNull(s.StartedAt), intOrNull(s.CompletedAt), int64(s.UpdatedAt), intOrNull(s.RetryAfter), s.FirstSeq, intOrNull(s.InputSeq),
			s.LastSeq, textOrNull(s.OwnerMessage))
		if err != nil {
			return err
		}
	}
	for _, h := range rows.Hooks {
		_, err := raw.exec(insertHook, ns, ref, h.ID[:], textOrNull(h.Key), h.Token, int64(h.Status), store.HookFlags(h), int64(h.CreatedAt),
			intOrNull(h.ExpiresAt), intOrNull(h.RetainUntil), h.Seq)
		if err != nil {
			return err
		}
	}
	for _, w := range rows.Waits {
		_, err := raw.exec(upsertWait, ref, w.ID[:], textOrNull(w.Key), textOrNull(w.Kind), int64(w.Status), intOrNull(w.ResumeAt),
			int64(w.CreatedAt), intOrNull(w.CompletedAt), w.Seq)
		if err != nil {
			return err
		}
	}
	for _, id := range rows.WaitsGone {
		if _, err := raw.exec(deleteWait, ref, id[:]); err != nil {
			return err
		}
	}
	for _, r := range rows.Receipts {
		if _, err := raw.exec(insertReceipt, ref, r.Sender, r.Hook[:], r.Digest, r.Seq); err != nil {
			return err
		}
	}
	for _, a := range rows.Attributes {
		var err error
		if a.Remove {
			_, err = raw.exec(deleteAttribute, ref, a.Key)
		} else {
			_, err = raw.exec(upsertAttribute, ref, a.Key, a.Value, ns, run.ID[:])
		}
		if err != nil {
			return err
		}
	}
	if rows.Sweep {
		return t.sweep(ref, run)
	}
	return nil
}

// sweep removes what a run leaves behind when it ends.
func (t *tx) sweep(ref int64, run *journal.Run) error {
	if _, err := t.w.raw.exec(sweepWaits, ref); err != nil {
		return err
	}
	if _, err := t.w.raw.exec(sweepHooks, ref, int64(run.CompletedAt)); err != nil {
		return err
	}
	_, err := t.w.raw.exec(retainHooks, ref)
	return err
}

const (
	insertMessage = `insert into cairn_messages (id, ns, queue, run, key, created_at, visible_at, payload) values (?, ?, ?, ?, ?, ?, ?, ?)
		on conflict do nothing`
	deleteMessage = `delete from cairn_messages where id = ?`
)

func (t *tx) writeMessages(changes *store.Changes) error {
	for _, id := range changes.Done {
		if _, err := t.w.raw.exec(deleteMessage, id[:]); err != nil {
			return err
		}
	}
	for i := range changes.Messages {
		m := &changes.Messages[i]
		ns, _, err := t.namespaceNo(m.Namespace, true)
		if err != nil {
			return err
		}
		_, err = t.w.raw.exec(insertMessage, m.ID[:], ns, m.Queue, idOrNull(m.Run), textOrNull(m.Key), int64(t.now),
			int64(max(m.VisibleAt, t.now)), bytesOrNull(m.Payload))
		if err != nil {
			return err
		}
	}
	return nil
}
