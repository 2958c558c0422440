package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

const (
	selectStreamPage = `select c.idx, c.at, c.data, s.key, s.attempt, s.epoch, s.state,
			c.idx = s.first and exists (select 1 from cairn_sources b where b.stream = s.stream and b.key = s.key and b.no < s.no)
		from cairn_chunks c join cairn_sources s on s.stream = c.stream and s.no = c.source
		where c.stream = ? and c.idx >= ? order by c.idx limit ?`
	// The run and the stream are read together, and before the chunks.
	selectStreamState = `select r.status, r.owner, r.epoch, s.no, ` + nextIndex + `, s.sources, s.closed
		from (select ?1 as ns, ?2 as run, ?3 as name) k
		left join cairn_runs r on r.ns = k.ns and r.id = k.run
		left join cairn_streams s on s.ns = k.ns and s.run = k.run and s.name = k.name`
)

// errPageFull ends a page before its limit.
var errPageFull = errors.New("the page is full")

// Stream implements [store.Reader].
func (s *Store) Stream(ctx context.Context, key store.StreamKey, q store.StreamQuery) (*store.StreamPage, error) {
	limit, err := q.Size()
	if err != nil {
		return nil, err
	}
	page := &store.StreamPage{}
	ns, ok, err := s.namespaceNo(ctx, key.Namespace)
	if err != nil {
		return nil, err
	}
	if ok {
		err = s.each(ctx, s.db(), 7, func(row []driver.Value) error {
			if row[0] != nil {
				page.Run = scanStreamRun(row)
			}
			page.Head = scanHead(row[3:])
			return nil
		}, selectStreamState, ns, key.Run[:], key.Name)
		if err != nil {
			return nil, err
		}
	}
	page.From = q.Start(page.Head.Next)
	if page.Head.No == 0 || page.From >= page.Head.Next {
		return page, nil
	}
	bytes := 0
	err = s.each(ctx, s.db(), 8, func(row []driver.Value) error {
		if len(page.Chunks) == limit || (q.Bytes > 0 && bytes >= q.Bytes) {
			page.More = true
			return errPageFull
		}
		page.Chunks = append(page.Chunks, store.Chunk{
			Index: asInt(row[0]), At: asTime(row[1]), Data: asBytes(row[2]), Key: asText(row[3]), Attempt: int(asInt(row[4])), Epoch: asInt(row[5]),
			State: store.SourceState(asInt(row[6])), Boundary: asInt(row[7]) != 0,
		})
		bytes += len(asBytes(row[2]))
		return nil
	}, selectStreamPage, page.Head.No, page.From, limit+1)
	if err != nil && !errors.Is(err, errPageFull) {
		return nil, err
	}
	return page, nil
}

// Streams implements [store.Reader].
func (s *Store) Streams(ctx context.Context, namespace string, run journal.ID) ([]store.StreamInfo, error) {
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil || !ok {
		return nil, err
	}
	var streams []store.StreamInfo
	err = s.each(ctx, s.db(), 7, func(row []driver.Value) error {
		streams = store.AddStreamInfo(streams, asText(row[0]), scanHead(row[1:]), row[5] != nil, asText(row[5]), asInt(row[6]))
		return nil
	}, `select s.name, s.no, `+nextIndex+`, s.sources, s.closed, b.key, b.n
		from cairn_streams s left join cairn_sources b on b.stream = s.no and b.attempt = 0
		where s.ns = ? and s.run = ? order by s.name`, ns, run[:])
	return streams, err
}
