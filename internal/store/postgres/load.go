package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Load implements [store.Tx]. The start of the transaction, the locks and all reads travel in one round trip.
//
// Writers that know a run's complete state append without locking its row, so the last position is read before anything
// that it vouches for: what is read after it can only be newer, and then the position is taken and the batch refused.
func (t *tx) Load(ctx context.Context, want *store.LoadSet) (*store.Loaded, error) {
	w := t.w
	if t.done {
		return nil, cairnerr.Errorf(cairnerr.CodeInternal, "the batch has ended")
	}
	if t.begun && w.conn.IsClosed() {
		return nil, t.failed(ctx, cairnerr.Errorf(cairnerr.CodeUnreachable, "postgres: the connection was lost during a batch"))
	}
	if err := w.connect(ctx); err != nil {
		return nil, t.failed(ctx, err)
	}
	l := &loading{ctx: ctx, store: w.store, want: want, out: &store.Loaded{Runs: make([]store.LoadedRun, len(want.Runs)), Outside: journal.NewOutside()}}
	if err := w.wanted.fill(ctx, w.store, want); err != nil {
		return nil, t.failed(ctx, err)
	}
	trip := newTrip(ctx, w)
	t.begin(trip)
	w.wanted.send(trip, l, t.now)
	if err := trip.finish(); err != nil {
		return nil, t.failed(ctx, err)
	}
	t.begun = true
	if err := t.findBusy(ctx, l); err != nil {
		return nil, t.failed(ctx, err)
	}
	var err error
	if l.out.Streams, err = t.loadStreams(ctx, want.Streams); err != nil {
		return nil, t.failed(ctx, err)
	}
	l.finish()
	return l.out, nil
}

// failed ends a batch that could not be loaded. No commit was sent, so nothing was written.
func (t *tx) failed(ctx context.Context, err error) error {
	t.done = true
	if sqlState(err) != "" && !fatal(err) {
		return t.refused(ctx, err)
	}
	t.rollback(ctx)
	return classify("load", err)
}

// wanted are the parameters of the statements that read. Each row begins with the index of its run, token or key in the LoadSet. The memory
// is used again.
type wanted struct {
	runs, events, steps, hooks, waits, attrSets, hooksMade, receipts table
	tokens, startKeys, messages, owners                              table
}

func newWanted() wanted {
	return wanted{
		runs:      newTable(integer, integer, uuid),
		events:    newTable(integer, integer, uuid, bigint),
		steps:     newTable(integer, integer, uuid, uuid),
		hooks:     newTable(integer, integer, uuid, uuid),
		waits:     newTable(integer, integer, uuid, uuid),
		attrSets:  newTable(integer, integer, uuid, uuid),
		hooksMade: newTable(integer, integer, uuid, uuid),
		receipts:  newTable(integer, integer, uuid, text),
		tokens:    newTable(integer, integer, text),
		startKeys: newTable(integer, integer, text),
		messages:  newTable(uuid),
		owners:    newTable(uuid),
	}
}

// fill puts the parameters together. What belongs to a namespace or workflow that does not exist cannot be found.
func (w *wanted) fill(ctx context.Context, s *Store, want *store.LoadSet) error {
	for _, t := range []table{
		w.runs, w.events, w.steps, w.hooks, w.waits, w.attrSets, w.hooksMade, w.receipts, w.tokens, w.startKeys, w.messages, w.owners,
	} {
		t.reset()
	}
	for i := range want.Runs {
		ns, ok, err := s.namespaceNo(ctx, want.Runs[i].Namespace)
		if err != nil {
			return err
		}
		if ok {
			w.fillRun(int32(i), ns, &want.Runs[i])
		}
	}
	for i, token := range want.Tokens {
		ns, ok, err := s.namespaceNo(ctx, token.Namespace)
		if err != nil {
			return err
		}
		if ok {
			addKey(w.tokens, i, ns, token.Token)
		}
	}
	for i, key := range want.StartKeys {
		ns, ok, err := s.namespaceNo(ctx, key.Namespace)
		if err != nil || !ok {
			if err != nil {
				return err
			}
			continue
		}
		workflow, ok, err := s.workflowNo(ctx, ns, key.Workflow)
		if err != nil {
			return err
		}
		if ok {
			addKey(w.startKeys, i, workflow, key.Key)
		}
	}
	for _, id := range want.Messages {
		w.messages[0].id(id)
	}
	for _, id := range want.Owners {
		w.owners[0].id(id)
	}
	return nil
}

func addKey(t table, i int, no int32, key string) {
	t[0].integer(int32(i))
	t[1].integer(no)
	t[2].text(key)
}

func (w *wanted) fillRun(i, ns int32, want *store.LoadRun) {
	add := func(t table) {
		t[0].integer(i)
		t[1].integer(ns)
		t[2].id(want.Run)
	}
	addIDs := func(t table, ids []journal.ID) {
		for _, id := range ids {
			add(t)
			t[3].id(id)
		}
	}
	add(w.runs)
	if want.EventsAfter >= 0 {
		add(w.events)
		w.events[3].bigint(want.EventsAfter)
	}
	addIDs(w.steps, want.Touch.Steps)
	addIDs(w.hooks, want.Touch.Hooks)
	addIDs(w.attrSets, want.Touch.AttrSets)
	addIDs(w.hooksMade, want.Touch.HooksMade)
	addIDs(w.waits, want.Touch.Waits)
	for _, sender := range want.Touch.Senders {
		add(w.receipts)
		w.receipts[3].text(sender)
	}
}

const (
	wantedRuns     = ` from unnest($1::integer[], $2::integer[], $3::uuid[]) as u (i, ns, run) join runs r on r.ns = u.ns and r.id = u.run `
	wantedEntities = ` from unnest($1::integer[], $2::integer[], $3::uuid[], $4::uuid[]) as u (i, ns, run, id) join runs r on r.ns = u.ns and r.id = u.run `
	// each begins a subquery for each wanted entity. It ends with a limit or an offset, which keeps the planner from another order of joins: on a
	// young table it would read all that a run has, or all runs.
	each       = `cross join lateral (select * from `
	wantedKeys = ` from unnest($1::integer[], $2::integer[], $3::text[]) as u (i, no, key) `

	// lockRuns takes the runs in the order that all writers have; those that another one holds are left for a later batch.
	lockRuns       = `select u.i, ` + runColumns + wantedRuns + `order by u.i for update of r skip locked`
	findRuns       = `select u.i` + wantedRuns
	loadSeqs       = `select u.i, (select max(e.seq) from events e where e.run = r.no)` + wantedRuns
	loadAttributes = `select u.i, a.key, a.value` + wantedRuns + `join attributes a on a.run = r.no`
	loadEvents     = `select u.i, ` + eventColumns + ` from unnest($1::integer[], $2::integer[], $3::uuid[], $4::bigint[]) as u (i, ns, run, after)
		join runs r on r.ns = u.ns and r.id = u.run ` + each + `events e where e.run = r.no and e.seq > u.after order by e.seq offset 0) e`
	loadSteps     = `select u.i, ` + stepColumns + wantedEntities + each + `steps s where s.run = r.no and s.id = u.id limit 1) s`
	loadHooks     = `select u.i, ` + hookColumns + wantedEntities + each + `hooks h where h.run = r.no and h.id = u.id limit 1) h`
	loadWaits     = `select u.i, ` + waitColumns + wantedEntities + each + `waits w where w.run = r.no and w.id = u.id limit 1) w`
	loadAttrSets  = `select u.i, e.entity, e.data` + wantedEntities + each + `events e where e.entity = u.id and e.run = r.no and e.type = 17 offset 0) e`
	loadHooksMade = `select u.i, e.entity` + wantedEntities + each + `events e where e.entity = u.id and e.run = r.no and e.type in (11, 14) limit 1) e`
	loadReceipts  = `select u.i, t.sender, t.hook, t.digest, t.seq
		from unnest($1::integer[], $2::integer[], $3::uuid[], $4::text[]) as u (i, ns, run, sender) join runs r on r.ns = u.ns and r.id = u.run
		` + each + `receipts t where t.run = r.no and t.sender = u.sender limit 1) t`
	deleteExpiredTokens = `delete from hooks h using unnest($1::integer[], $2::integer[], $3::text[]) as u (i, ns, token)
		where h.ns = u.ns and h.token = u.token and h.status = 2 and h.retain_until <= $4::bigint`
	loadHolders = `select u.i, r.id, h.id, h.status, coalesce(h.retain_until, 0)` + wantedKeys + `join hooks h on h.ns = u.no and h.token = u.key
		join runs r on r.no = h.run`
	loadStarted    = `select u.i, r.id, r.start_digest` + wantedKeys + `join runs r on r.workflow = u.no and r.start_key = u.key`
	loadDeliveries = `select id, deliveries from messages where id = any($1::uuid[]) order by id for update`
	loadFenced     = `select incarnation from writers where incarnation = any($1::uuid[]) and number = -1 and fenced`
)

// send puts the statements into a round trip.
func (w *wanted) send(trip *trip, l *loading, now journal.Time) {
	trip.sendTable(stmtLockRuns, w.runs, l.run)
	trip.sendTable(stmtLoadSeqs, w.runs, l.seq)
	trip.sendTable(stmtLoadAttributes, w.runs, l.attribute)
	trip.sendTable(stmtLoadEvents, w.events, l.event)
	trip.sendTable(stmtLoadSteps, w.steps, l.step)
	trip.sendTable(stmtLoadHooks, w.hooks, l.hook)
	trip.sendTable(stmtLoadWaits, w.waits, l.wait)
	trip.sendTable(stmtLoadAttrSets, w.attrSets, l.attrSet)
	trip.sendTable(stmtLoadHooksMade, w.hooksMade, l.hookMade)
	trip.sendTable(stmtLoadReceipts, w.receipts, l.receipt)
	trip.sendTable(stmtDeleteExpiredTokens, w.tokens, nil, number(int64(now)))
	trip.sendTable(stmtLoadHolders, w.tokens, l.holder)
	trip.sendTable(stmtLoadStarted, w.startKeys, l.started)
	trip.sendTable(stmtLoadDeliveries, w.messages, l.delivery)
	trip.sendTable(stmtLoadFenced, w.owners, l.fenced)
}

// findBusy tells runs that were skipped from those that do not exist.
func (t *tx) findBusy(ctx context.Context, l *loading) error {
	w := t.w
	w.wanted.runs.reset()
	for i := range l.out.Runs {
		if l.out.Runs[i].State != nil {
			continue
		}
		if ns, ok := w.store.names.namespace(l.want.Runs[i].Namespace); ok {
			r := w.wanted.runs
			r[0].integer(int32(i))
			r[1].integer(ns)
			r[2].id(l.want.Runs[i].Run)
		}
	}
	if w.wanted.runs.rows() == 0 {
		return nil
	}
	trip := newTrip(ctx, w)
	trip.sendTable(stmtFindRuns, w.wanted.runs, l.busy)
	return trip.finish()
}

// loading is the answer being read. Rows of runs that were not locked are passed over.
type loading struct {
	ctx   context.Context // it lasts as long as the call
	store *Store
	want  *store.LoadSet
	out   *store.Loaded
}

// state returns the state that a row belongs to, nil if its run was not locked.
func (l *loading) state(i int32) *journal.State { return l.out.Runs[i].State }

func (l *loading) run(rows pgx.Rows) error {
	var i int32
	var row runScan
	if err := rows.Scan(row.into(&i)...); err != nil {
		return err
	}
	name, err := l.store.workflowName(l.ctx, row.workflow)
	if err != nil {
		return err
	}
	run, err := row.result(name)
	if err != nil {
		return err
	}
	l.out.Runs[i].State = journal.LoadedState(l.want.Runs[i].Namespace, run, 0, row.ref)
	return nil
}

func (l *loading) busy(rows pgx.Rows) error {
	var i int32
	err := rows.Scan(&i)
	if err == nil {
		l.out.Runs[i].Busy = true
	}
	return err
}

func (l *loading) seq(rows pgx.Rows) error {
	var i int32
	var seq int64
	err := rows.Scan(&i, &seq)
	if s := l.state(i); err == nil && s != nil {
		s.Seq = seq
	}
	return err
}

func (l *loading) attribute(rows pgx.Rows) error {
	var i int32
	var key, value string
	err := rows.Scan(&i, &key, &value)
	if s := l.state(i); err == nil && s != nil {
		put(&s.Run.Attributes, key, value)
	}
	return err
}

func (l *loading) event(rows pgx.Rows) error {
	var i int32
	var row eventScan
	if err := rows.Scan(row.into(&i)...); err != nil {
		return err
	}
	s := l.state(i)
	if s == nil || row.event.Seq > s.Seq {
		return nil // committed after the position was read: not part of what this batch stands on
	}
	e, err := row.result(s.Run.ID)
	l.out.Runs[i].Events = append(l.out.Runs[i].Events, e)
	return err
}

func (l *loading) step(rows pgx.Rows) error {
	var i int32
	var row stepScan
	err := rows.Scan(row.into(&i)...)
	if s := l.state(i); err == nil && s != nil {
		put(&s.Steps, row.step.ID, row.result())
	}
	return err
}

func (l *loading) hook(rows pgx.Rows) error {
	var i int32
	var row hookScan
	err := rows.Scan(row.into(&i)...)
	if s := l.state(i); err == nil && s != nil {
		hook := row.hook
		row.finish(&hook)
		put(&s.Hooks, hook.ID, &hook)
	}
	return err
}

func (l *loading) wait(rows pgx.Rows) error {
	var i int32
	var row waitScan
	err := rows.Scan(row.into(&i)...)
	if s := l.state(i); err == nil && s != nil {
		put(&s.Waits, row.wait.ID, row.result())
	}
	return err
}

func (l *loading) attrSet(rows pgx.Rows) error {
	var i int32
	var id journal.ID
	var blob []byte
	if err := rows.Scan(&i, scanID{&id}, &blob); err != nil {
		return err
	}
	data, err := journal.DecodeData(journal.EventAttrSet, journal.Encoded{Data: blob})
	if err != nil {
		return err
	}
	// What a step wrote may be written again by its next attempt.
	if d, ok := data.(*journal.AttrSet); ok && d.Step.IsZero() && l.state(i) != nil {
		put(&l.state(i).AttrSets, id, struct{}{})
	}
	return nil
}

func (l *loading) hookMade(rows pgx.Rows) error {
	var i int32
	var id journal.ID
	err := rows.Scan(&i, scanID{&id})
	if s := l.state(i); err == nil && s != nil {
		put(&s.HooksMade, id, struct{}{})
	}
	return err
}

func (l *loading) receipt(rows pgx.Rows) error {
	var i int32
	r := &journal.Receipt{}
	err := rows.Scan(&i, &r.Sender, scanID{&r.Hook}, &r.Digest, &r.Seq)
	if s := l.state(i); err == nil && s != nil {
		put(&s.Receipts, r.Sender, r)
	}
	return err
}

func (l *loading) holder(rows pgx.Rows) error {
	var i int32
	var status int16
	var h journal.Holder
	err := rows.Scan(&i, scanID{&h.Run}, scanID{&h.Hook}, &status, (*int64)(&h.RetainUntil))
	if err == nil {
		h.Status = journal.HookStatus(status)
		token := l.want.Tokens[i]
		l.out.Outside.Tokens[journal.TokenKey(token.Namespace, token.Token)] = h
	}
	return err
}

func (l *loading) started(rows pgx.Rows) error {
	var i int32
	var s journal.Started
	err := rows.Scan(&i, scanID{&s.Run}, &s.Digest)
	if err == nil {
		l.out.Outside.StartKeys[l.want.StartKeys[i]] = s
	}
	return err
}

func (l *loading) delivery(rows pgx.Rows) error {
	var id journal.ID
	var deliveries int32
	err := rows.Scan(scanID{&id}, &deliveries)
	if err == nil {
		l.out.Outside.Deliveries[id] = int(deliveries)
	}
	return err
}

func (l *loading) fenced(rows pgx.Rows) error {
	var id journal.ID
	err := rows.Scan(scanID{&id})
	if err == nil {
		l.out.Outside.Fenced[id] = true
	}
	return err
}

// finish gives runs that do not exist an empty state, and makes sure of the order of events, for which the statement does not sort.
func (l *loading) finish() {
	for i := range l.out.Runs {
		run := &l.out.Runs[i]
		if run.State == nil && !run.Busy {
			run.State = journal.NewState(l.want.Runs[i].Namespace)
		}
		slices.SortFunc(run.Events, func(a, b journal.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	}
}

// put sets an entry of a map that may not exist yet.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}
