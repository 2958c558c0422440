package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

const (
	hookColumns     = `h.id, h.key, h.token, h.status, h.flags, h.created_at, h.expires_at, h.retain_until, h.seq`
	hookColumnCount = 9
	selectHook      = `select ` + hookColumns + ` from cairn_hooks h where h.run = ? and h.id = ?`

	waitColumns     = `w.id, w.key, w.kind, w.status, w.resume_at, w.created_at, w.completed_at, w.seq`
	waitColumnCount = 8
	selectWait      = `select ` + waitColumns + ` from cairn_waits w where w.run = ? and w.id = ?`
	selectWaits     = `select ` + waitColumns + ` from cairn_waits w where w.run = ?`
)

func scanHook(row []driver.Value) *journal.Hook {
	h := &journal.Hook{
		ID: asID(row[0]), Key: asText(row[1]), Token: asText(row[2]), Status: journal.HookStatus(asInt(row[3])), CreatedAt: asTime(row[5]),
		ExpiresAt: asTime(row[6]), RetainUntil: asTime(row[7]), Seq: asInt(row[8]),
	}
	store.SetHookFlags(h, asInt(row[4]))
	return h
}

func scanWait(row []driver.Value) *journal.Wait {
	return &journal.Wait{
		ID: asID(row[0]), Key: asText(row[1]), Kind: asText(row[2]), Status: journal.Status(asInt(row[3])), ResumeAt: asTime(row[4]),
		CreatedAt: asTime(row[5]), CompletedAt: asTime(row[6]), Seq: asInt(row[7]),
	}
}

// hooks reads hooks with their runs, and with the metadata if asked for. It also returns the numbers of the runs.
func (s *Store) hooks(ctx context.Context, r store.Resolve, where string, args ...any) (hooks []*store.RunHook, refs []int64, err error) {
	query := `select ` + hookColumns + `, r.id, r.no, ` + payloadColumn(`e.input`, r) + ` from cairn_hooks h join cairn_runs r on r.no = h.run
		join cairn_events e on e.run = h.run and e.seq = h.seq where ` + where
	err = s.each(ctx, s.db(), hookColumnCount+3, func(row []driver.Value) error {
		h := &store.RunHook{Run: asID(row[hookColumnCount]), Hook: *scanHook(row)}
		h.Metadata = asBytes(row[hookColumnCount+2])
		hooks, refs = append(hooks, h), append(refs, asInt(row[hookColumnCount+1]))
		return nil
	}, query, args...)
	return hooks, refs, err
}

// Hook implements [store.Reader].
func (s *Store) Hook(ctx context.Context, namespace string, run, id journal.ID, r store.Resolve) (*store.RunHook, error) {
	ref, _, ok, err := s.runRef(ctx, namespace, run)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, store.RunNotFound(run)
	}
	hooks, _, err := s.hooks(ctx, r, `h.run = ? and h.id = ?`, ref, id[:])
	if err == nil && len(hooks) == 0 {
		err = cairnerr.Errorf(cairnerr.CodeHookNotFound, "no hook %s", journal.PrefixHook.Format(id))
	}
	if err != nil {
		return nil, err
	}
	return hooks[0], nil
}

// HookByToken implements [store.Reader].
func (s *Store) HookByToken(ctx context.Context, namespace, token string, r store.Resolve) (*store.RunHook, error) {
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var hooks []*store.RunHook
	if ok {
		hooks, _, err = s.hooks(ctx, r, `h.ns = ? and h.token = ?`, ns, token)
		if err != nil {
			return nil, err
		}
	}
	if len(hooks) == 0 {
		return nil, cairnerr.Errorf(cairnerr.CodeHookNotFound, "no hook has this token")
	}
	return hooks[0], nil
}

// Hooks implements [store.Reader].
func (s *Store) Hooks(ctx context.Context, namespace string, run journal.ID, r store.Resolve, p store.Page) (store.List[*store.RunHook], error) {
	var none store.List[*store.RunHook]
	limit, err := p.Size()
	if err != nil {
		return none, err
	}
	afterRun, afterSeq, err := store.ParseNumberCursor(store.CursorHooks, p.Cursor)
	if err != nil {
		return none, err
	}
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil || !ok {
		return none, err
	}
	compare, order := direction(p)
	where, args := `h.ns = ?`, []any{ns}
	if !run.IsZero() {
		ref, _, ok, err := s.runRef(ctx, namespace, run)
		if err != nil || !ok {
			return none, err
		}
		where, args = where+` and h.run = ?`, append(args, ref)
	}
	args = append(args, bounds(p, afterRun), bounds(p, afterSeq), limit+1)
	hooks, refs, err := s.hooks(ctx, r, where+` and (h.run, h.seq) `+compare+` (?, ?) order by h.run `+order+`, h.seq `+order+` limit ?`, args...)
	if err != nil {
		return none, err
	}
	list := store.Cut(hooks, limit, func(*store.RunHook) string { return "" })
	if n := len(list.Data); n > 0 {
		list.Cursor = store.NumberCursor(store.CursorHooks, refs[n-1], list.Data[n-1].Seq)
	}
	return list, nil
}

// Wait implements [store.Reader].
func (s *Store) Wait(ctx context.Context, namespace string, run, id journal.ID) (*journal.Wait, error) {
	ref, _, ok, err := s.runRef(ctx, namespace, run)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, store.RunNotFound(run)
	}
	var found *journal.Wait
	err = s.each(ctx, s.db(), waitColumnCount, func(row []driver.Value) error { found = scanWait(row); return nil }, selectWait, ref, id[:])
	if err == nil && found == nil {
		err = cairnerr.Errorf(cairnerr.CodeWaitNotFound, "no wait %s", journal.PrefixWait.Format(id))
	}
	return found, err
}

// Waits implements [store.Reader].
func (s *Store) Waits(ctx context.Context, namespace string, run journal.ID, p store.Page) (store.List[*journal.Wait], error) {
	var none store.List[*journal.Wait]
	limit, err := p.Size()
	if err != nil {
		return none, err
	}
	_, seq, err := store.ParseNumberCursor(store.CursorWaits, p.Cursor)
	if err != nil {
		return none, err
	}
	ref, _, ok, err := s.runRef(ctx, namespace, run)
	if err != nil || !ok {
		return none, err
	}
	compare, order := direction(p)
	var waits []*journal.Wait
	err = s.each(ctx, s.db(), waitColumnCount, func(row []driver.Value) error { waits = append(waits, scanWait(row)); return nil },
		selectWaits+` and w.seq `+compare+` ? order by w.seq `+order+` limit ?`, ref, bounds(p, seq), limit+1)
	if err != nil {
		return none, err
	}
	return store.Cut(waits, limit, func(w *journal.Wait) string { return store.NumberCursor(store.CursorWaits, 0, w.Seq) }), nil
}

const selectReceipts = `select r.id, t.sender, t.hook, t.digest, t.seq from cairn_receipts t join cairn_runs r on r.no = t.run
	where t.sender = ? and r.ns = ? order by r.id limit ?`

// Receipts implements [store.Reader].
func (s *Store) Receipts(ctx context.Context, namespace, sender string) ([]store.RunReceipt, error) {
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil || !ok {
		return nil, err
	}
	var found []store.RunReceipt
	err = s.each(ctx, s.db(), 5, func(row []driver.Value) error {
		receipt := journal.Receipt{Sender: asText(row[1]), Hook: asID(row[2]), Digest: asBytes(row[3]), Seq: asInt(row[4])}
		found = append(found, store.RunReceipt{Run: asID(row[0]), Receipt: receipt})
		return nil
	}, selectReceipts, sender, ns, store.ReceiptLimit)
	return found, err
}
