package sqlite

import (
	"database/sql/driver"
	"strings"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

const (
	selectOwned = `select 1 from cairn_runs where ns = ?1 and id = ?2 and owner = ?3 and epoch = ?4 and status = 1
		and not exists (select 1 from cairn_streams where no = ?5 and closed <> ?6)`
	insertStream = `insert into cairn_streams (ns, run, name, sources, closed) values (?, ?, ?, ?, ?)`
	moveStream   = `update cairn_streams set sources = ?, closed = ? where no = ? and sources = ? and closed = ?`
	insertSource = `insert into cairn_sources (stream, no, key, epoch, attempt, n, state, first) values (?, ?, ?, ?, ?, ?, ?, ?)`
	updateSource = `update cairn_sources set n = ?, state = ? where stream = ? and no = ?`

	insertChunk   = `insert or rollback into cairn_chunks (stream, idx, source, at, data) values ` + chunkMarks
	chunkMarks    = `(?, ?, ?, ?, ?)`
	chunkArgCount = 5
)

// insertsOfChunks are statements that insert many chunks at once, the largest first.
var insertsOfChunks = []struct {
	chunks int
	query  string
}{
	{64, insertChunk + strings.Repeat(`, `+chunkMarks, 63)},
	{16, insertChunk + strings.Repeat(`, `+chunkMarks, 15)},
	{4, insertChunk + strings.Repeat(`, `+chunkMarks, 3)},
	{1, insertChunk},
}

// writeStreams writes the streams of a batch. It returns the number of each stream.
func (t *tx) writeStreams(streams []store.StreamChange) ([]int64, error) {
	if len(streams) == 0 {
		return nil, nil
	}
	nos := make([]int64, len(streams))
	args := t.w.args[:0]
	for i := range streams {
		c := &streams[i]
		no, err := t.moveStream(c)
		if err != nil {
			return nil, err
		}
		nos[i] = no
		if err := t.writeSources(no, c); err != nil {
			return nil, err
		}
		for j := range c.Chunks {
			chunk := &c.Chunks[j]
			args = append(args, no, c.Was.Next+int64(j), chunk.Source, int64(chunk.At), bytesOrNull(chunk.Data))
		}
	}
	rest := args
	for _, insert := range insertsOfChunks {
		for n := insert.chunks * chunkArgCount; len(rest) >= n; rest = rest[n:] {
			if _, err := t.w.raw.exec(insert.query, rest[:n]...); err != nil {
				return nil, err
			}
		}
	}
	clear(args[:cap(args)]) // keep no payloads alive
	t.w.args = args[:0]
	return nos, nil
}

// moveStream makes sure of the run's owner, and changes the row of the stream if more than chunks is new.
func (t *tx) moveStream(c *store.StreamChange) (int64, error) {
	ns, _, err := t.namespaceNo(c.Namespace, true)
	if err != nil {
		return 0, err
	}
	if !c.Owner.Incarnation.IsZero() {
		owned := false
		found := func([]driver.Value) error { owned = true; return nil }
		if err := t.w.raw.query(found, selectOwned, ns, c.Run[:], c.Owner.Incarnation[:], c.Owner.Epoch, c.Was.No, intOf(c.Was.Closed)); err != nil {
			return 0, err
		}
		if !owned {
			return 0, store.ErrConflict
		}
	}
	if c.Was.No == 0 {
		return t.w.raw.insert(insertStream, ns, c.Run[:], c.Name, c.Head.Sources, intOf(c.Head.Closed))
	}
	if c.Head.Sources == c.Was.Sources && c.Head.Closed == c.Was.Closed && !c.Owner.Incarnation.IsZero() {
		return c.Was.No, nil
	}
	moved, err := t.w.raw.exec(moveStream, c.Head.Sources, intOf(c.Head.Closed), c.Was.No, c.Was.Sources, intOf(c.Was.Closed))
	if err == nil && moved != 1 {
		return 0, store.ErrConflict
	}
	return c.Was.No, err
}

func (t *tx) writeSources(no int64, c *store.StreamChange) error {
	for i := range c.Begun {
		s := &c.Begun[i]
		if _, err := t.w.raw.exec(insertSource, no, s.No, s.Key, s.Epoch, int64(s.Attempt), s.N, int64(s.State), s.First); err != nil {
			return err
		}
	}
	for i := range c.Changed {
		s := &c.Changed[i]
		if _, err := t.w.raw.exec(updateSource, s.N, int64(s.State), no, s.No); err != nil {
			return err
		}
	}
	return nil
}

func intOf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// wroteStreams is called when the streams of a batch are durable.
func (t *tx) wroteStreams(changes *store.Changes, nos []int64) {
	var runs []journal.ID
	for i := range changes.Streams {
		c := &changes.Streams[i]
		c.Head.No = nos[i]
		if n := len(runs); n == 0 || runs[n-1] != c.Run {
			runs = append(runs, c.Run)
		}
	}
	runs = append(runs, changes.StreamHints...)
	if t.w.store.hub.streams.Len() > 0 { // who reads a stream wants to know of the end of its run, and of a new owner
		runs = store.AddChangedRuns(runs, changes)
	}
	t.w.store.hub.streams.Tell(t.w.incarnation, runs...)
}

const (
	selectRunOfStream = `select status, owner, epoch from cairn_runs where ns = ? and id = ?`
	selectHead        = `select no, ` + nextIndex + `, sources, closed from cairn_streams s where ns = ? and run = ? and name = ?`
	nextIndex         = `coalesce((select max(c.idx) + 1 from cairn_chunks c where c.stream = s.no), 0)`
	selectSource      = `select no, key, epoch, attempt, n, state, first from cairn_sources where stream = ? and key = ? order by no desc limit 1`
)

// loadStreams reads streams for a batch. There is one writer at a time, so nothing is ever busy here.
func (t *tx) loadStreams(want []store.LoadStream) ([]store.LoadedStream, error) {
	out := make([]store.LoadedStream, len(want))
	for i := range want {
		if err := t.loadStream(&want[i], &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (t *tx) loadStream(want *store.LoadStream, out *store.LoadedStream) error {
	ns, ok, err := t.namespaceNo(want.Namespace, false)
	if err != nil || !ok {
		return err
	}
	err = t.w.raw.query(func(row []driver.Value) error { out.Run = scanStreamRun(row); return nil }, selectRunOfStream, ns, want.Run[:])
	if err != nil {
		return err
	}
	err = t.w.raw.query(func(row []driver.Value) error { out.Head = scanHead(row); return nil }, selectHead, ns, want.Run[:], want.Name)
	if err != nil || out.Head.No == 0 {
		return err
	}
	for _, key := range want.Keys {
		err := t.w.raw.query(func(row []driver.Value) error {
			out.Sources = append(out.Sources, store.Source{
				No: asInt(row[0]), Key: asText(row[1]), Epoch: asInt(row[2]), Attempt: int(asInt(row[3])), N: asInt(row[4]),
				State: store.SourceState(asInt(row[5])), First: asInt(row[6]),
			})
			return nil
		}, selectSource, out.Head.No, key)
		if err != nil {
			return err
		}
	}
	return nil
}

func scanStreamRun(row []driver.Value) store.StreamRun {
	return store.StreamRun{Exists: true, Status: journal.Status(asInt(row[0])), Owner: asID(row[1]), Epoch: asInt(row[2])}
}

func scanHead(row []driver.Value) store.StreamHead {
	return store.StreamHead{No: asInt(row[0]), Next: asInt(row[1]), Sources: asInt(row[2]), Closed: asInt(row[3]) != 0}
}
