package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

func (s *Store) messages(ctx context.Context, namespace string, r store.Resolve, where string, args ...any) ([]*store.QueuedMessage, error) {
	var messages []*store.QueuedMessage
	err := s.each(ctx, s.db(), 8, func(row []driver.Value) error {
		messages = append(messages, &store.QueuedMessage{
			Message: journal.Message{
				ID: asID(row[0]), Namespace: namespace, Queue: asText(row[1]), Run: asID(row[2]), Key: asText(row[3]), VisibleAt: asTime(row[5]), Payload: asBytes(row[7]),
			},
			CreatedAt: asTime(row[4]), Deliveries: int(asInt(row[6])),
		})
		return nil
	}, `select id, queue, run, key, created_at, visible_at, deliveries, `+payloadColumn(`payload`, r)+` from cairn_messages where `+where, args...)
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
		found, err = s.messages(ctx, namespace, store.ResolveAll, `id = ? and ns = ?`, id[:], ns)
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
	where, args := `ns = ? and queue = ?`, []any{ns, queue}
	if p.Cursor != "" {
		where, args = where+` and id `+compare+` ?`, append(args, after[:])
	}
	messages, err := s.messages(ctx, namespace, r, where+` order by id `+order+` limit ?`, append(args, limit+1)...)
	if err != nil {
		return none, err
	}
	return store.Cut(messages, limit, func(m *store.QueuedMessage) string { return store.IDCursor(store.CursorMessages, m.ID) }), nil
}
