package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

const (
	// The run and the stream are read together, and before the chunks.
	selectStreamState = `select r.status is not null, coalesce(r.status, 0), r.owner, coalesce(r.epoch, 0),
			coalesce(s.no, 0), coalesce(s.next, 0), coalesce(s.sources, 0), coalesce(s.closed, false)
		from (select $1::integer as ns, $2::uuid as run, $3::text as name) k
		left join lateral (select r.status, r.owner, r.epoch from runs r where r.ns = k.ns and r.id = k.run limit 1) r on true
		left join lateral (select s.*, ` + nextIndex + ` as next from streams s where s.ns = k.ns and s.run = k.run and s.name = k.name limit 1) s on true`
	// selectStreamPage ends a page when it has enough bytes: only their number is looked at, not the bytes themselves.
	selectStreamPage = `select c.idx, c.at, c.data, s.key, s.attempt, s.epoch, s.state,
			c.idx = s.first and exists (select 1 from sources b where b.stream = s.stream and b.key = s.key and b.no < s.no)
		from (
			select *, sum(coalesce(octet_length(data), 0)) over (order by idx) - coalesce(octet_length(data), 0) as before
			from (select * from chunks where stream = $1 and idx >= $2 order by idx limit $3) c
		) c cross join lateral (select * from sources s where s.stream = $1 and s.no = c.source limit 1) s
		where c.before < $4 order by c.idx`
)

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
		err = s.each(ctx, func(rows pgx.Rows) error {
			var status int16
			err := rows.Scan(&page.Run.Exists, &status, scanID{&page.Run.Owner}, &page.Run.Epoch,
				&page.Head.No, &page.Head.Next, &page.Head.Sources, &page.Head.Closed)
			page.Run.Status = journal.Status(status)
			return err
		}, selectStreamState, ns, raw(key.Run), key.Name)
		if err != nil {
			return nil, err
		}
	}
	page.From = q.Start(page.Head.Next)
	if page.Head.No == 0 || page.From >= page.Head.Next {
		return page, nil
	}
	bytes := int64(q.Bytes)
	if bytes <= 0 {
		bytes = int64(limit) * (store.MaxChunk + 1)
	}
	err = s.each(ctx, func(rows pgx.Rows) error {
		var c store.Chunk
		var attempt int32
		var state int16
		err := rows.Scan(&c.Index, (*int64)(&c.At), (*[]byte)(&c.Data), &c.Key, &attempt, &c.Epoch, &state, &c.Boundary)
		c.Attempt, c.State = int(attempt), store.SourceState(state)
		page.Chunks = append(page.Chunks, c)
		return err
	}, selectStreamPage, page.Head.No, page.From, limit, bytes)
	// The page is complete if it has what there was when the stream was looked at.
	page.More = page.From+int64(len(page.Chunks)) < page.Head.Next
	return page, err
}

// Streams implements [store.Reader].
func (s *Store) Streams(ctx context.Context, namespace string, run journal.ID) ([]store.StreamInfo, error) {
	ns, ok, err := s.namespaceNo(ctx, namespace)
	if err != nil || !ok {
		return nil, err
	}
	var streams []store.StreamInfo
	err = s.each(ctx, func(rows pgx.Rows) error {
		var name, path string
		var head store.StreamHead
		var branch bool
		var n int64
		err := rows.Scan(&name, &head.No, &head.Next, &head.Sources, &head.Closed, &branch, &path, &n)
		streams = store.AddStreamInfo(streams, name, head, branch, path, n)
		return err
	}, `select s.name, s.no, `+nextIndex+`, s.sources, s.closed, b.key is not null, coalesce(b.key, ''), coalesce(b.n, 0)
		from streams s left join lateral (select b.key, b.n from sources b where b.stream = s.no and b.attempt = 0 offset 0) b on true
		where s.ns = $1 and s.run = $2 order by s.name`, ns, raw(run))
	return streams, err
}
