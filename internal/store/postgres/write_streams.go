package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

const (
	// guardStreams makes sure of the owners of runs, and keeps everybody from changing them before the batch has ended. It fails, with a text that is no
	// number, if a run is not owned as asked for, or is held by another transaction, or if a stream was closed: it never waits. While the run has
	// this owner in this epoch nobody else writes to its streams.
	guardStreams = `select case when count(*) = cardinality($1::integer[]) then 0 else ('found ' || count(*))::integer end
		from unnest($1::integer[], $2::uuid[], $3::uuid[], $4::bigint[], $5::bigint[], $6::smallint[]) as u (ns, id, owner, epoch, stream, closed)
		cross join lateral (
			select 1 from runs r where r.ns = u.ns and r.id = u.id and r.owner = u.owner and r.epoch = u.epoch and r.status = 1
			for share skip locked
		) r
		where not exists (select 1 from streams s where s.no = u.stream and s.closed <> (u.closed = 1))`
	insertStreams = `insert into streams (no, ns, run, name, sources, closed)
		select unnest($1::bigint[]), unnest($2::integer[]), unnest($3::uuid[]), unnest($4::text[]), unnest($5::bigint[]), unnest($6::smallint[]) = 1`
	// moveStreams fails like guardStreams if a stream is not as it was when the batch was put together.
	moveStreams = `with u as (
			select * from unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bigint[], $5::smallint[])
			as u (no, was_sources, was_closed, sources, closed)
		), done as (
			update streams s set sources = u.sources, closed = u.closed = 1
			from u where s.no = u.no and s.sources = u.was_sources and s.closed = (u.was_closed = 1) returning 1
		)
		select case when count(*) = cardinality($1::bigint[]) then 0 else ('found ' || count(*))::integer end from done`
	insertSources = `insert into sources (stream, no, key, epoch, attempt, n, state, first)
		select unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::text[]), unnest($4::bigint[]), unnest($5::integer[]), unnest($6::bigint[]),
			unnest($7::smallint[]), unnest($8::bigint[])`
	updateSources = `update sources s set n = u.n, state = u.state
		from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::smallint[]) as u (stream, no, n, state) where s.stream = u.stream and s.no = u.no`
	storedChunk  = `stream, idx, source, at, data`
	insertChunks = `insert into chunks (` + storedChunk + `)
		select unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]), unnest($5::bytea[])`
	takeStreamNumbers = `select array_agg(nextval('streams_no')) from generate_series(1, $1::bigint)`
)

// streamRows are the rows of a batch's streams, by statement. The memory is used again.
type streamRows struct {
	guards, begun, moved     table
	sources, changed, chunks table
	nos                      []int64 // of the streams of the batch
	spare                    []int64 // numbers for new streams
}

func newStreamRows() streamRows {
	return streamRows{
		guards:  newTable(integer, uuid, uuid, bigint, bigint, smallint),
		begun:   newTable(bigint, integer, uuid, text, bigint, smallint),
		moved:   newTable(bigint, bigint, smallint, bigint, smallint),
		sources: newTable(bigint, bigint, text, bigint, integer, bigint, smallint, bigint),
		changed: newTable(bigint, bigint, bigint, smallint),
		chunks:  newTable(bigint, bigint, bigint, bigint, bytea),
	}
}

func (r *streamRows) send(trip *trip) {
	if len(r.nos) == 0 {
		return
	}
	trip.sendTable(stmtGuardStreams, r.guards, nil)
	trip.sendTable(stmtInsertStreams, r.begun, nil)
	trip.sendTable(stmtMoveStreams, r.moved, nil)
	trip.sendTable(stmtInsertSources, r.sources, nil)
	trip.sendTable(stmtUpdateSources, r.changed, nil)
	trip.sendTable(stmtInsertChunks, r.chunks, nil)
}

// fillStreams puts the rows of a batch's streams together.
func (w *Writer) fillStreams(ctx context.Context, streams []store.StreamChange) error {
	r := &w.streams
	r.nos = r.nos[:0]
	if len(streams) == 0 {
		return nil
	}
	for _, t := range []table{r.guards, r.begun, r.moved, r.sources, r.changed, r.chunks} {
		t.reset()
	}
	if err := w.spareNumbers(ctx, streams); err != nil {
		return err
	}
	for i := range streams {
		c := &streams[i]
		ns, err := w.store.makeNamespace(ctx, c.Namespace)
		if err != nil {
			return err
		}
		if !c.Owner.Incarnation.IsZero() {
			r.guards[0].integer(ns)
			r.guards[1].id(c.Run)
			r.guards[2].id(c.Owner.Incarnation)
			r.guards[3].bigint(c.Owner.Epoch)
			r.guards[4].bigint(c.Was.No)
			r.guards[5].smallint(smallintOf(c.Was.Closed))
		}
		r.stream(ns, c)
	}
	return nil
}

// spareNumbers makes sure that there are numbers for the new streams of a batch.
func (w *Writer) spareNumbers(ctx context.Context, streams []store.StreamChange) error {
	fresh := 0
	for i := range streams {
		if streams[i].Was.No == 0 {
			fresh++
		}
	}
	missing := fresh - len(w.streams.spare)
	if missing <= 0 {
		return nil
	}
	var more []int64
	if err := w.conn.QueryRow(ctx, takeStreamNumbers, max(numberBlock, missing)).Scan(&more); err != nil {
		return classify("take stream numbers", err)
	}
	w.streams.spare = append(w.streams.spare, more...)
	return nil
}

func (r *streamRows) stream(ns int32, c *store.StreamChange) {
	no := c.Was.No
	if no == 0 {
		no, r.spare = r.spare[0], r.spare[1:] // one that is not used in the end is lost, and does no harm
		t := r.begun
		t[0].bigint(no)
		t[1].integer(ns)
		t[2].id(c.Run)
		t[3].text(c.Name)
		t[4].bigint(c.Head.Sources)
		t[5].smallint(smallintOf(c.Head.Closed))
	} else if c.Head.Sources != c.Was.Sources || c.Head.Closed != c.Was.Closed || c.Owner.Incarnation.IsZero() { // more than chunks is new
		t := r.moved
		t[0].bigint(no)
		t[1].bigint(c.Was.Sources)
		t[2].smallint(smallintOf(c.Was.Closed))
		t[3].bigint(c.Head.Sources)
		t[4].smallint(smallintOf(c.Head.Closed))
	}
	r.nos = append(r.nos, no)
	for i := range c.Begun {
		s, t := &c.Begun[i], r.sources
		t[0].bigint(no)
		t[1].bigint(s.No)
		t[2].text(s.Key)
		t[3].bigint(s.Epoch)
		t[4].integer(int32(s.Attempt))
		t[5].bigint(s.N)
		t[6].smallint(int16(s.State))
		t[7].bigint(s.First)
	}
	for i := range c.Changed {
		s, t := &c.Changed[i], r.changed
		t[0].bigint(no)
		t[1].bigint(s.No)
		t[2].bigint(s.N)
		t[3].smallint(int16(s.State))
	}
	for i := range c.Chunks {
		chunk, t := &c.Chunks[i], r.chunks
		t[0].bigint(no)
		t[1].bigint(c.Was.Next + int64(i))
		t[2].bigint(chunk.Source)
		t[3].bigint(int64(chunk.At))
		t[4].bytes(chunk.Data)
	}
}

func smallintOf(b bool) int16 {
	if b {
		return 1
	}
	return 0
}

// wroteStreams is called when the streams of a batch are durable.
func (w *Writer) wroteStreams(ctx context.Context, changes *store.Changes) {
	var runs []journal.ID
	for i := range changes.Streams {
		c := &changes.Streams[i]
		c.Head.No = w.streams.nos[i]
		if n := len(runs); n == 0 || runs[n-1] != c.Run {
			runs = append(runs, c.Run)
		}
	}
	n := w.store.notifier
	n.wroteStreams(ctx, w.incarnation, append(runs, changes.StreamHints...))
	if n.streams.Len() > 0 { // who reads a stream wants to know of the end of its run, and of a new owner
		n.streams.Tell(w.incarnation, store.AddChangedRuns(nil, changes)...)
	}
}

const (
	// loadStreams reads streams and their runs, and keeps everybody from changing those. A run that another transaction holds is not locked.
	loadStreams = `select u.i, r.status is not null, l.status is not null, coalesce(l.status, 0), l.owner, coalesce(l.epoch, 0),
			coalesce(s.no, 0), coalesce(s.next, 0), coalesce(s.sources, 0), coalesce(s.closed, false)
		from unnest($1::integer[], $2::integer[], $3::uuid[], $4::text[]) as u (i, ns, run, name)
		left join lateral (select r.status from runs r where r.ns = u.ns and r.id = u.run limit 1) r on true
		left join lateral (select r.status, r.owner, r.epoch from runs r where r.ns = u.ns and r.id = u.run for share skip locked) l on true
		left join lateral (select s.*, ` + nextIndex + ` as next from streams s where s.ns = u.ns and s.run = u.run and s.name = u.name limit 1) s on true`
	// nextIndex is the end of a stream: the newest chunk is found by its key.
	nextIndex   = `coalesce((select c.idx + 1 from chunks c where c.stream = s.no order by c.idx desc limit 1), 0)`
	loadSources = `select u.i, s.no, s.key, s.epoch, s.attempt, s.n, s.state, s.first
		from unnest($1::integer[], $2::integer[], $3::uuid[], $4::text[], $5::text[]) as u (i, ns, run, name, key)
		cross join lateral (select no from streams t where t.ns = u.ns and t.run = u.run and t.name = u.name limit 1) t
		cross join lateral (select * from sources s where s.stream = t.no and s.key = u.key order by s.no desc limit 1) s`
)

// loadStreams reads streams in the transaction of a batch.
func (t *tx) loadStreams(ctx context.Context, want []store.LoadStream) ([]store.LoadedStream, error) {
	if len(want) == 0 {
		return nil, nil
	}
	heads, keys := newTable(integer, integer, uuid, text), newTable(integer, integer, uuid, text, text)
	for i := range want {
		ns, ok, err := t.w.store.namespaceNo(ctx, want[i].Namespace)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		heads[0].integer(int32(i))
		heads[1].integer(ns)
		heads[2].id(want[i].Run)
		heads[3].text(want[i].Name)
		for _, key := range want[i].Keys {
			keys[0].integer(int32(i))
			keys[1].integer(ns)
			keys[2].id(want[i].Run)
			keys[3].text(want[i].Name)
			keys[4].text(key)
		}
	}
	out := make([]store.LoadedStream, len(want))
	trip := newTrip(ctx, t.w)
	trip.sendTable(stmtLoadStreams, heads, func(rows pgx.Rows) error { return scanLoadedStream(rows, out) })
	trip.sendTable(stmtLoadSources, keys, func(rows pgx.Rows) error {
		var i int32
		var s store.Source
		err := scanSource(rows, &i, &s)
		out[i].Sources = append(out[i].Sources, s)
		return err
	})
	return out, trip.finish()
}

func scanLoadedStream(rows pgx.Rows, out []store.LoadedStream) error {
	var i int32
	var l store.LoadedStream
	var locked bool
	var status int16
	err := rows.Scan(&i, &l.Run.Exists, &locked, &status, scanID{&l.Run.Owner}, &l.Run.Epoch, &l.Head.No, &l.Head.Next, &l.Head.Sources, &l.Head.Closed)
	l.Run.Status = journal.Status(status)
	l.Busy = l.Run.Exists && !locked
	out[i] = l
	return err
}

func scanSource(rows pgx.Rows, i *int32, s *store.Source) error {
	var attempt int32
	var state int16
	err := rows.Scan(i, &s.No, &s.Key, &s.Epoch, &attempt, &s.N, &state, &s.First)
	s.Attempt, s.State = int(attempt), store.SourceState(state)
	return err
}
