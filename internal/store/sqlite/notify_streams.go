package sqlite

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// streamHub carries hints about streams: those of this process by name. That another process has written something shows in the file's version, which
// is looked at again and again, but only while somebody listens.
type streamHub struct {
	store.RunListeners
	mu   sync.Mutex
	stop context.CancelFunc // ends the look at the file's version
}

// versionPause is how often the file's version is looked at. A look reads a few bytes of shared memory.
const versionPause = 2 * time.Millisecond

// ListenStreams implements [store.Notifier].
func (h *hub) ListenStreams(ctx context.Context, own func(writer journal.ID) bool) (<-chan journal.ID, error) {
	s := &h.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.Listen(ctx, own, h.leftStreams)
	if s.stop == nil && h.store.path != "" { // nobody else can write to a database in memory
		s.stop = h.store.asides.run(ctx, h.watchVersion)
	}
	return out, nil
}

func (h *hub) leftStreams() {
	s := &h.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Len() == 0 && s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// watchVersion hints at each commit of whomever.
func (h *hub) watchVersion(ctx context.Context) {
	v := &fileVersion{store: h.store}
	defer v.close()
	tick := time.NewTicker(versionPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if v.moved(ctx) {
			h.streams.Tell(journal.ID{}, journal.ID{})
		}
	}
}

// fileVersion looks whether somebody has written to the file. What SQLite tells is that of one connection, so it keeps one.
type fileVersion struct {
	store *Store
	db    *sql.DB
	conn  *sql.Conn
	last  int64
}

// moved reports whether something was written since the last call, as far as is known.
func (v *fileVersion) moved(ctx context.Context) bool {
	if v.conn == nil && !v.open(ctx) {
		return false
	}
	var version int64
	if err := v.conn.QueryRowContext(ctx, `pragma data_version`).Scan(&version); err != nil {
		v.close() // the next look begins anew
		return false
	}
	moved := version != v.last
	v.last = version
	return moved
}

func (v *fileVersion) open(ctx context.Context) bool {
	db, err := v.store.connect(1)
	if err != nil {
		return false
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		_ = db.Close()
		return false
	}
	v.db, v.conn, v.last = db, conn, -1
	return true
}

func (v *fileVersion) close() {
	if v.conn != nil {
		_, _ = v.conn.Close(), v.db.Close()
		v.conn, v.db = nil, nil
	}
}
