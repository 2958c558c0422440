package postgres

import (
	"context"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

const (
	upsertSteps = `insert into steps (run, id, key, name, status, attempt, created_at, started_at, completed_at, updated_at, retry_after,
			first_seq, input_seq, last_seq, owner_message)
		select * from unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::smallint[], $6::integer[], $7::bigint[], $8::bigint[],
			$9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[])
		on conflict (run, id) do update set name = excluded.name, status = excluded.status, attempt = excluded.attempt,
			started_at = excluded.started_at, completed_at = excluded.completed_at, updated_at = excluded.updated_at,
			retry_after = excluded.retry_after, input_seq = excluded.input_seq, last_seq = excluded.last_seq,
			owner_message = excluded.owner_message`
	deleteHook  = `delete from hooks where run = $1 and id = $2`
	deleteHooks = `delete from hooks h using unnest($1::bigint[], $2::uuid[]) as u (run, id) where h.run = u.run and h.id = u.id`
	// sweepHooks and retainHooks end the hooks of runs that have ended.
	sweepHooks = `delete from hooks h using unnest($1::bigint[], $2::bigint[]) as u (run, at)
		where h.run = u.run and (h.retain_until is null or h.retain_until <= u.at)`
	retainHooks = `update hooks set status = 2 where run = any($1::bigint[])`
	// A hook is not replaced by its token: that another hook holds it must be noticed.
	upsertHooks = `insert into hooks (ns, run, id, key, token, status, flags, created_at, expires_at, retain_until, seq)
		select * from unnest($1::integer[], $2::bigint[], $3::uuid[], $4::text[], $5::text[], $6::smallint[], $7::smallint[], $8::bigint[],
			$9::bigint[], $10::bigint[], $11::bigint[])
		on conflict (run, id) do update set status = excluded.status`
	deleteWaits = `delete from waits w using unnest($1::bigint[], $2::uuid[]) as u (run, id) where w.run = u.run and w.id = u.id`
	sweepWaits  = `delete from waits where run = any($1::bigint[])`
	upsertWaits = `insert into waits (run, id, key, kind, status, resume_at, created_at, completed_at, seq)
		select * from unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::smallint[], $6::bigint[], $7::bigint[], $8::bigint[],
			$9::bigint[])
		on conflict (run, id) do update set status = excluded.status, resume_at = excluded.resume_at, completed_at = excluded.completed_at`
	insertReceipts = `insert into receipts (run, sender, hook, digest, seq)
		select * from unnest($1::bigint[], $2::text[], $3::uuid[], $4::bytea[], $5::bigint[])`
	deleteAttributes = `delete from attributes a using unnest($1::bigint[], $2::text[]) as u (run, key) where a.run = u.run and a.key = u.key`
	upsertAttributes = `insert into attributes (run, key, value, ns, id)
		select * from unnest($1::bigint[], $2::text[], $3::text[], $4::integer[], $5::uuid[])
		on conflict (run, key) do update set value = excluded.value`
)

// views adds the rows of a run's steps, hooks, waits, receipts and attributes.
func (r *rows) views(no int64, ns int32, c *store.RunChange) {
	changed := &c.Rows
	for _, s := range changed.Steps {
		r.step(no, s)
	}
	for _, id := range changed.HooksGone {
		r.hookGone(no, id)
	}
	for _, h := range changed.Hooks {
		r.hook(no, ns, h)
	}
	if len(changed.Hooks) > 0 {
		// A hook that was disposed of and opened again is a new one: nothing of the old one stays.
		for i := range c.Events {
			if c.Events[i].Type == journal.EventHookDisposed {
				r.hookGone(no, c.Events[i].Entity)
			}
		}
	}
	for _, id := range changed.WaitsGone {
		r.waitsGone[0].bigint(no)
		r.waitsGone[1].id(id)
	}
	for _, w := range changed.Waits {
		r.wait(no, w)
	}
	for _, receipt := range changed.Receipts {
		t := r.receipts
		t[0].bigint(no)
		t[1].text(receipt.Sender)
		t[2].id(receipt.Hook)
		t[3].present(receipt.Digest)
		t[4].bigint(receipt.Seq)
	}
	if len(changed.Attributes) > 0 {
		r.attribute(no, ns, c.State.Run.ID, changed.Attributes)
	}
	if changed.Sweep {
		r.sweeps[0].bigint(no)
		r.sweeps[1].bigint(int64(c.State.Run.CompletedAt))
	}
}

func (r *rows) step(no int64, s *journal.Step) {
	t := r.steps
	t[0].bigint(no)
	t[1].id(s.ID)
	t[2].textOrNull(s.Key)
	t[3].text(s.Name)
	t[4].smallint(int16(s.Status))
	t[5].integer(int32(s.Attempt))
	t[6].bigint(int64(s.CreatedAt))
	t[7].time(s.StartedAt)
	t[8].time(s.CompletedAt)
	t[9].bigint(int64(s.UpdatedAt))
	t[10].time(s.RetryAfter)
	t[11].bigint(s.FirstSeq)
	t[12].bigintOrNull(s.InputSeq)
	t[13].bigint(s.LastSeq)
	t[14].textOrNull(s.OwnerMessage)
}

func (r *rows) hook(no int64, ns int32, h *journal.Hook) {
	t := r.hooks
	t[0].integer(ns)
	t[1].bigint(no)
	t[2].id(h.ID)
	t[3].textOrNull(h.Key)
	t[4].text(h.Token)
	t[5].smallint(int16(h.Status))
	t[6].smallint(int16(store.HookFlags(h)))
	t[7].bigint(int64(h.CreatedAt))
	t[8].time(h.ExpiresAt)
	t[9].time(h.RetainUntil)
	t[10].bigint(h.Seq)
}

func (r *rows) hookGone(no int64, id journal.ID) {
	r.hooksGone[0].bigint(no)
	r.hooksGone[1].id(id)
}

func (r *rows) wait(no int64, w *journal.Wait) {
	t := r.waits
	t[0].bigint(no)
	t[1].id(w.ID)
	t[2].textOrNull(w.Key)
	t[3].textOrNull(w.Kind)
	t[4].smallint(int16(w.Status))
	t[5].time(w.ResumeAt)
	t[6].bigint(int64(w.CreatedAt))
	t[7].time(w.CompletedAt)
	t[8].bigint(w.Seq)
}

// attribute adds changes of a run's attributes. A statement may name a row only once, so the last change of a key is looked for first.
func (r *rows) attribute(no int64, ns int32, run journal.ID, changes []journal.AttrChange) {
	last := make(map[string]int, len(changes))
	for i := range changes {
		last[changes[i].Key] = i
	}
	for i := range changes {
		a := &changes[i]
		switch {
		case last[a.Key] != i:
		case a.Remove:
			r.attributesGone[0].bigint(no)
			r.attributesGone[1].text(a.Key)
		default:
			t := r.attributes
			t[0].bigint(no)
			t[1].text(a.Key)
			t[2].text(a.Value)
			t[3].integer(ns)
			t[4].id(run)
		}
	}
}

const (
	// insertMessages leaves out messages whose key is taken, but not silently those whose id is.
	insertMessages = `insert into messages (id, ns, queue, run, key, visible_at, payload, created_at)
		select u.*, $8::bigint from unnest($1::uuid[], $2::integer[], $3::text[], $4::uuid[], $5::text[], $6::bigint[], $7::bytea[]) as u
		on conflict do nothing`
	deleteMessages = `delete from messages where id = any($1::uuid[])`
	notify         = `select pg_notify($2::text, u) from unnest($1::text[]) as u`
)

func (w *Writer) fillMessage(ctx context.Context, m *journal.Message, now journal.Time) error {
	ns, err := w.store.makeNamespace(ctx, m.Namespace)
	if err != nil {
		return err
	}
	t := w.rows.messages
	t[0].id(m.ID)
	t[1].integer(ns)
	t[2].text(m.Queue)
	t[3].id(m.Run)
	t[4].textOrNull(m.Key)
	t[5].bigint(int64(max(m.VisibleAt, now)))
	t[6].bytes(m.Payload)
	return nil
}
