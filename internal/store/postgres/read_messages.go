package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

func (s *Store) messages(ctx context.Context, namespace string, r store.Resolve, where string, args ...any) ([]*store.QueuedMessage, error) {
	var messages []*store.QueuedMessage
	err := s.each(ctx, func(rows pgx.Rows) error {
		m := &store.QueuedMessage{Message: journal.Message{Namespace: namespace}}
		var deliveries int32
		err := rows.Scan(scanID{&m.ID}, &m.Queue, scanID{&m.Run}, &m.Key, (*int64)(&m.CreatedAt), (*int64)(&m.VisibleAt), &deliveries,
			(*[]byte)(&m.Payload))
		m.Deliveries = int(deliveries)
		messages = append(messages, m)
		return err
	}, `select id, queue, run, coalesce(key, ''), created_at, visible_at, deliveries, `+payloadColumn(`payload`, r)+` from messages where `+where, args...)
	return messages, err
}

// Message implements [store.Reader].
func (s *Store) Message(ctx context.Context, namespace string, id journal.ID) (*store.QueuedMessage, error) {
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var found []*store.QueuedMessage
	if ok {
		found, err = s.messages(ctx, namespace, store.ResolveAll, `id = $1 and ns = $2`, raw(id), ns)
		if err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, cairnerr.Errorf(cairnerr.CodeMessageNotFound, "no message %s", journal.PrefixMessage.Format(id))
	}
	return found[0], nil
}

// Messages implements [store.Reader].
func (s *Store) Messages(ctx context.Context, namespace, queue string, r store.Resolve, p store.Page) (store.List[*store.QueuedMessage], error) {
	var none store.List[*store.QueuedMessage]
	limit, err := p.Size()
	if err != nil {
		return none, err
	}
	after, err := store.ParseIDCursor(store.CursorMessages, p.Cursor)
	if err != nil {
		return none, err
	}
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil || !ok {
		return none, err
	}
	compare, order := direction(p)
	where, args := `ns = $1 and queue = $2`, arguments{ns, queue}
	if p.Cursor != "" {
		where += ` and id ` + compare + ` ` + args.add(raw(after))
	}
	where += ` order by id ` + order + ` limit ` + args.add(limit+1)
	messages, err := s.messages(ctx, namespace, r, where, args...)
	if err != nil {
		return none, err
	}
	return store.Cut(messages, limit, func(m *store.QueuedMessage) string { return store.IDCursor(store.CursorMessages, m.ID) }), nil
}
