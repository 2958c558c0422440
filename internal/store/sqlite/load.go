package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Load implements [store.Tx]. There is one writer at a time, so nothing is ever busy here.
func (t *tx) Load(ctx context.Context, want *store.LoadSet) (*store.Loaded, error) {
	if err := t.begin(ctx, false); err != nil {
		return nil, err
	}
	out := &store.Loaded{Runs: make([]store.LoadedRun, len(want.Runs)), Outside: journal.NewOutside()}
	err := t.w.raw.do(func() error {
		for i := range want.Runs {
			if err := t.loadRun(&want.Runs[i], &out.Runs[i]); err != nil {
				return err
			}
		}
		if err := t.loadOutside(want, out.Outside); err != nil {
			return err
		}
		var err error
		out.Streams, err = t.loadStreams(want.Streams)
		return err
	})
	if err != nil {
		return nil, classify("load", err)
	}
	return out, nil
}

const (
	// runColumns are those that scanRun reads.
	runColumns = `r.no, r.id, (select name from cairn_workflows w where w.no = r.workflow), r.dialect, r.status, r.spec, r.created_at, r.started_at, r.completed_at, r.end_seq,
		r.cancelled_at, r.parked_at, r.owner, r.epoch, r.wake_at, r.parent, r.start_key, r.start_digest, r.extra`
	runColumnCount = 19

	selectRun        = `select ` + runColumns + `, (select max(seq) from cairn_events e where e.run = r.no) from cairn_runs r where r.ns = ? and r.id = ?`
	selectAttributes = `select key, value from cairn_attributes where run = ?`
	selectLog        = `select ` + eventColumns + ` from cairn_events where run = ? and seq > ? order by seq`
	selectAttrSet    = `select data from cairn_events where entity = ? and run = ? and type = 17`
	selectHookMade   = `select 1 from cairn_events where entity = ? and run = ? and type in (11, 14) limit 1`
	selectReceipt    = `select sender, hook, digest, seq from cairn_receipts where run = ? and sender = ?`
)

// scanRun reads the columns of runColumns.
func scanRun(row []driver.Value) (run *journal.Run, ref int64, err error) {
	run = &journal.Run{
		ID: asID(row[1]), Workflow: asText(row[2]), Dialect: journal.Dialect(asInt(row[3])), Status: journal.Status(asInt(row[4])), Spec: int(asInt(row[5])),
		CreatedAt: asTime(row[6]), StartedAt: asTime(row[7]), CompletedAt: asTime(row[8]), EndSeq: asInt(row[9]),
		CancelledAt: asTime(row[10]), ParkedAt: asTime(row[11]), Owner: asID(row[12]), Epoch: asInt(row[13]), WakeAt: asTime(row[14]),
		Parent: asID(row[15]), StartKey: asText(row[16]), StartDigest: asBytes(row[17]),
	}
	return run, asInt(row[0]), store.DecodeRunExtra(asBytes(row[18]), run)
}

func (t *tx) loadRun(want *store.LoadRun, out *store.LoadedRun) error {
	out.State = &journal.State{Namespace: want.Namespace}
	ns, ok, err := t.namespaceNo(want.Namespace, false)
	if err != nil || !ok {
		return err
	}
	err = t.w.raw.query(func(row []driver.Value) error {
		run, ref, err := scanRun(row)
		if err != nil {
			return err
		}
		out.State = journal.LoadedState(want.Namespace, run, asInt(row[runColumnCount]), ref)
		return nil
	}, selectRun, ns, want.Run[:])
	if err != nil || out.State.Run == nil {
		return err
	}
	if err := t.loadAttributes(out.State); err != nil {
		return err
	}
	if want.EventsAfter >= 0 {
		err := t.w.raw.query(func(row []driver.Value) error {
			e, err := scanEvent(row)
			if err == nil {
				out.Events = append(out.Events, e)
			}
			return err
		}, selectLog, out.State.Ref, want.EventsAfter)
		if err != nil {
			return err
		}
	}
	return t.loadTouched(&want.Touch, out.State)
}

func (t *tx) loadAttributes(s *journal.State) error {
	return t.w.raw.query(func(row []driver.Value) error {
		if s.Run.Attributes == nil {
			s.Run.Attributes = map[string]string{}
		}
		s.Run.Attributes[asText(row[0])] = asText(row[1])
		return nil
	}, selectAttributes, s.Ref)
}

// loadTouched reads the entities that a command is about.
func (t *tx) loadTouched(touch *journal.Touch, s *journal.State) error {
	raw := t.w.raw
	s.Steps, s.Hooks, s.Waits = map[journal.ID]*journal.Step{}, map[journal.ID]*journal.Hook{}, map[journal.ID]*journal.Wait{}
	for _, id := range touch.Steps {
		err := raw.query(func(row []driver.Value) error { s.Steps[id] = scanStep(row); return nil }, selectStep, s.Ref, id[:])
		if err != nil {
			return err
		}
	}
	for _, id := range touch.Hooks {
		err := raw.query(func(row []driver.Value) error { s.Hooks[id] = scanHook(row); return nil }, selectHook, s.Ref, id[:])
		if err != nil {
			return err
		}
	}
	addWait := func(row []driver.Value) error { w := scanWait(row); s.Waits[w.ID] = w; return nil }
	for _, id := range touch.Waits {
		if err := raw.query(addWait, selectWait, s.Ref, id[:]); err != nil {
			return err
		}
	}
	for _, id := range touch.AttrSets {
		err := raw.query(func(row []driver.Value) error {
			data, err := journal.DecodeData(journal.EventAttrSet, journal.Encoded{Data: asBytes(row[0])})
			if d, ok := data.(*journal.AttrSet); !ok || !d.Step.IsZero() {
				return err // a step's change is not recorded once only
			}
			if s.AttrSets == nil {
				s.AttrSets = map[journal.ID]struct{}{}
			}
			s.AttrSets[id] = struct{}{}
			return nil
		}, selectAttrSet, id[:], s.Ref)
		if err != nil {
			return err
		}
	}
	for _, id := range touch.HooksMade {
		err := raw.query(func([]driver.Value) error {
			if s.HooksMade == nil {
				s.HooksMade = map[journal.ID]struct{}{}
			}
			s.HooksMade[id] = struct{}{}
			return nil
		}, selectHookMade, id[:], s.Ref)
		if err != nil {
			return err
		}
	}
	for _, sender := range touch.Senders {
		err := raw.query(func(row []driver.Value) error {
			if s.Receipts == nil {
				s.Receipts = map[string]*journal.Receipt{}
			}
			s.Receipts[sender] = &journal.Receipt{Sender: sender, Hook: asID(row[1]), Digest: asBytes(row[2]), Seq: asInt(row[3])}
			return nil
		}, selectReceipt, s.Ref, sender)
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	deleteExpiredToken = `delete from cairn_hooks where ns = ? and token = ? and status = 2 and retain_until <= ?`
	selectHolder       = `select r.id, h.id, h.status, h.retain_until from cairn_hooks h join cairn_runs r on r.no = h.run where h.ns = ? and h.token = ?`
	selectStarted      = `select id, start_digest from cairn_runs where workflow = ? and start_key = ?`
	selectDeliveries   = `select deliveries from cairn_messages where id = ?`
	selectFenced       = `select 1 from cairn_writers where incarnation = ? and fenced = 1 limit 1`
)

// loadOutside reads what commands depend on beyond their runs.
func (t *tx) loadOutside(want *store.LoadSet, out *journal.Outside) error {
	raw := t.w.raw
	for _, token := range want.Tokens {
		ns, ok, err := t.namespaceNo(token.Namespace, false)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if _, err := raw.exec(deleteExpiredToken, ns, token.Token, int64(t.now)); err != nil {
			return err
		}
		err = raw.query(func(row []driver.Value) error {
			out.Tokens[journal.TokenKey(token.Namespace, token.Token)] = journal.Holder{
				Run: asID(row[0]), Hook: asID(row[1]), Status: journal.HookStatus(asInt(row[2])), RetainUntil: asTime(row[3]),
			}
			return nil
		}, selectHolder, ns, token.Token)
		if err != nil {
			return err
		}
	}
	for _, key := range want.StartKeys {
		no, ok, err := t.findWorkflow(key.Namespace, key.Workflow)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		err = raw.query(func(row []driver.Value) error {
			out.StartKeys[key] = journal.Started{Run: asID(row[0]), Digest: asBytes(row[1])}
			return nil
		}, selectStarted, no, key.Key)
		if err != nil {
			return err
		}
	}
	for _, id := range want.Messages {
		err := raw.query(func(row []driver.Value) error { out.Deliveries[id] = int(asInt(row[0])); return nil }, selectDeliveries, id[:])
		if err != nil {
			return err
		}
	}
	for _, id := range want.Owners {
		err := raw.query(func([]driver.Value) error { out.Fenced[id] = true; return nil }, selectFenced, id[:])
		if err != nil {
			return err
		}
	}
	return nil
}

// namespaceNo finds the number of a namespace inside the batch, and makes it if it is to be stored.
func (t *tx) namespaceNo(name string, make bool) (no int64, ok bool, err error) {
	if no, ok := t.w.store.names.namespace(name); ok {
		return no, true, nil
	}
	if no, ok := t.namespaces[name]; ok {
		return no, true, nil
	}
	no, ok, err = t.number(`select no from cairn_namespaces where name = ?`, `insert into cairn_namespaces (name) values (?)`, make, name)
	if ok {
		if t.namespaces == nil {
			t.namespaces = map[string]int64{}
		}
		t.namespaces[name] = no
	}
	return no, ok, err
}

// workflowNo finds the number of a workflow inside the batch, and makes it if it is to be stored.
func (t *tx) workflowNo(ns int64, name string, make bool) (no int64, ok bool, err error) {
	if no, ok := t.w.store.names.workflow(ns, name); ok {
		return no, true, nil
	}
	w := workflowName{ns, name}
	if no, ok := t.workflows[w]; ok {
		return no, true, nil
	}
	no, ok, err = t.number(`select no from cairn_workflows where ns = ? and name = ?`, `insert into cairn_workflows (ns, name) values (?, ?)`, make, ns, name)
	if ok {
		if t.workflows == nil {
			t.workflows = map[workflowName]int64{}
		}
		t.workflows[w] = no
	}
	return no, ok, err
}

func (t *tx) number(find, insert string, make bool, args ...driver.Value) (no int64, ok bool, err error) {
	scan := func(row []driver.Value) error { no, ok = asInt(row[0]), true; return nil }
	if err := t.w.raw.query(scan, find, args...); err != nil || ok || !make {
		return no, ok, err
	}
	if _, err := t.w.raw.exec(insert, args...); err != nil {
		return 0, false, err
	}
	err = t.w.raw.query(scan, find, args...)
	return no, ok, err
}

func (t *tx) findWorkflow(namespace, workflow string) (no int64, ok bool, err error) {
	ns, ok, err := t.namespaceNo(namespace, false)
	if err != nil || !ok {
		return 0, false, err
	}
	return t.workflowNo(ns, workflow, false)
}
