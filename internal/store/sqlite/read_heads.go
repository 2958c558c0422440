package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/hex"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// The ids come as one value, so that the text of the statement is always the same.
const selectHeads = `select r.id, r.status, r.parked_at, (select max(seq) from cairn_events e where e.run = r.no)
	from json_each(?) j cross join cairn_runs r indexed by cairn_runs_id on r.ns = ? and r.id = unhex(j.value)`

// Heads implements [store.Reader].
func (s *Store) Heads(ctx context.Context, namespace string, ids []journal.ID) ([]store.RunHead, error) {
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil || !ok {
		return nil, err
	}
	var heads []store.RunHead
	err = s.each(ctx, s.often(), 4, func(row []driver.Value) error {
		heads = append(heads, store.RunHead{
			Run: asID(row[0]), Status: journal.Status(asInt(row[1])), ParkedAt: asTime(row[2]), Seq: asInt(row[3]),
		})
		return nil
	}, selectHeads, hexList(ids), ns)
	return heads, err
}

// hexList returns ids as JSON.
func hexList(ids []journal.ID) string {
	text := make([]byte, 0, 2+35*len(ids))
	text = append(text, '[')
	for i, id := range ids {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, '"')
		text = hex.AppendEncode(text, id[:])
		text = append(text, '"')
	}
	return string(append(text, ']'))
}
