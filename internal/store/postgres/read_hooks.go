package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

const (
	// hookColumns are those that hookScan reads.
	hookColumns = `h.id, coalesce(h.key, ''), h.token, h.status, h.flags, h.created_at, coalesce(h.expires_at, 0), coalesce(h.retain_until, 0), h.seq`
	// waitColumns are those that waitScan reads.
	waitColumns = `w.id, coalesce(w.key, ''), coalesce(w.kind, ''), w.status, coalesce(w.resume_at, 0), w.created_at, coalesce(w.completed_at, 0), w.seq`
	selectWaits = `select ` + waitColumns + ` from waits w where w.run = $1`
)

type hookScan struct {
	hook          journal.Hook
	status, flags int16
}

// into returns where to scan a row: first what comes before the columns, then the columns.
func (s *hookScan) into(before ...any) []any {
	h := &s.hook
	return append(before, scanID{&h.ID}, &h.Key, &h.Token, &s.status, &s.flags, (*int64)(&h.CreatedAt), (*int64)(&h.ExpiresAt),
		(*int64)(&h.RetainUntil), &h.Seq)
}

func (s *hookScan) finish(h *journal.Hook) {
	h.Status = journal.HookStatus(s.status)
	store.SetHookFlags(h, int64(s.flags))
}

type waitScan struct {
	wait   journal.Wait
	status int16
}

// into returns where to scan a row: first what comes before the columns, then the columns.
func (s *waitScan) into(before ...any) []any {
	w := &s.wait
	return append(before, scanID{&w.ID}, &w.Key, &w.Kind, &s.status, (*int64)(&w.ResumeAt), (*int64)(&w.CreatedAt), (*int64)(&w.CompletedAt), &w.Seq)
}

func (s *waitScan) result() *journal.Wait {
	wait := s.wait
	wait.Status = journal.Status(s.status)
	return &wait
}

// hooks reads hooks with their runs, and with the metadata if asked for. It also returns the numbers of the runs.
func (s *Store) hooks(ctx context.Context, r store.Resolve, where string, args ...any) (hooks []*store.RunHook, refs []int64, err error) {
	query := `select r.id, h.run, ` + payloadColumn(`(select e.input from events e where e.run = h.run and e.seq = h.seq)`, r) + `, ` + hookColumns + `
		from hooks h join runs r on r.no = h.run where ` + where
	err = s.each(ctx, func(rows pgx.Rows) error {
		var ref int64
		var metadata []byte
		var row hookScan
		h := &store.RunHook{}
		if err := rows.Scan(row.into(scanID{&h.Run}, &ref, &metadata)...); err != nil {
			return err
		}
		h.Hook = row.hook
		h.Metadata = metadata
		row.finish(&h.Hook)
		hooks, refs = append(hooks, h), append(refs, ref)
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
	hooks, _, err := s.hooks(ctx, r, `h.run = $1 and h.id = $2`, ref, raw(id))
	if err != nil {
		return nil, err
	}
	if len(hooks) == 0 {
		return nil, cairnerr.Errorf(cairnerr.CodeHookNotFound, "no hook %s", journal.PrefixHook.Format(id))
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
		hooks, _, err = s.hooks(ctx, r, `h.ns = $1 and h.token = $2`, ns, token)
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
	where, args := `h.ns = $1`, arguments{ns}
	if !run.IsZero() {
		ref, _, ok, err := s.runRef(ctx, namespace, run)
		if err != nil || !ok {
			return none, err
		}
		where += ` and h.run = ` + args.add(ref)
	}
	where += ` and (h.run, h.seq) ` + compare + ` (` + args.add(bounds(p, afterRun)) + `, ` + args.add(bounds(p, afterSeq)) + `)
		order by h.run ` + order + `, h.seq ` + order + ` limit ` + args.add(limit+1)
	hooks, refs, err := s.hooks(ctx, r, where, args...)
	if err != nil {
		return none, err
	}
	list := store.Cut(hooks, limit, func(*store.RunHook) string { return "" })
	if n := len(list.Data); n > 0 {
		list.Cursor = store.NumberCursor(store.CursorHooks, refs[n-1], list.Data[n-1].Seq)
	}
	return list, nil
}

func (s *Store) waits(ctx context.Context, query string, args ...any) ([]*journal.Wait, error) {
	var waits []*journal.Wait
	err := s.each(ctx, func(rows pgx.Rows) error {
		var row waitScan
		err := rows.Scan(row.into()...)
		waits = append(waits, row.result())
		return err
	}, query, args...)
	return waits, err
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
	waits, err := s.waits(ctx, selectWaits+` and w.id = $2`, ref, raw(id))
	if err != nil {
		return nil, err
	}
	if len(waits) == 0 {
		return nil, cairnerr.Errorf(cairnerr.CodeWaitNotFound, "no wait %s", journal.PrefixWait.Format(id))
	}
	return waits[0], nil
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
	waits, err := s.waits(ctx, selectWaits+` and w.seq `+compare+` $2 order by w.seq `+order+` limit $3`, ref, bounds(p, seq), limit+1)
	if err != nil {
		return none, err
	}
	return store.Cut(waits, limit, func(w *journal.Wait) string { return store.NumberCursor(store.CursorWaits, 0, w.Seq) }), nil
}

const selectReceipts = `select r.id, t.sender, t.hook, t.digest, t.seq from receipts t join runs r on r.no = t.run
	where t.sender = $1 and r.ns = $2 order by r.id limit $3`

// Receipts implements [store.Reader].
func (s *Store) Receipts(ctx context.Context, namespace, sender string) ([]store.RunReceipt, error) {
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil || !ok {
		return nil, err
	}
	var found []store.RunReceipt
	err = s.each(ctx, func(rows pgx.Rows) error {
		var r store.RunReceipt
		err := rows.Scan(scanID{&r.Run}, &r.Sender, scanID{&r.Hook}, &r.Digest, &r.Seq)
		found = append(found, r)
		return err
	}, selectReceipts, sender, ns, store.ReceiptLimit)
	return found, err
}
