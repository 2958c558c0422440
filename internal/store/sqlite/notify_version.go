package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// How often the version of the file is looked at. A look reads a few bytes of shared memory and writes nothing.
const (
	versionPause = 15 * time.Millisecond
	// streamPause is for readers of streams, who want each chunk soon.
	streamPause = 2 * time.Millisecond
	// doubtPause is how soon it is looked again if a commit of this process may hide one of another.
	doubtPause = 4 * time.Millisecond
	// foreignGap is the least time between two hints at what others commit: each of them makes engines look for work.
	foreignGap = 10 * time.Millisecond
)

// versionWatch looks at the version of the file while somebody listens, and others may write to it.
type versionWatch struct {
	stop context.CancelFunc // nil: nobody listens; guarded by the hub
	// begun counts the transactions of this process. Each of them compares versions when it begins, and sets foreign if
	// somebody else has committed since the one before. So only commits that come after the last of them are in doubt.
	begun   atomic.Int64
	foreign atomic.Bool
	// alone says that no other process has a writer, as far as is known. To look all the same would cost more than
	// all else that an idle process does: to be woken takes longer than to look.
	alone atomic.Bool
	own   sync.Map      // incarnations of this process
	wake  chan struct{} // ends the sleep of who is alone
	looks atomic.Int64
}

// began is called by each transaction of a writer that begins.
func (v *versionWatch) began(foreign bool) {
	if foreign && !v.foreign.Swap(true) {
		v.rouse()
	}
	v.begun.Add(1)
}

// sawPeers is called with all processes that have writers, whenever somebody asks for them. Engines do so all the time.
func (v *versionWatch) sawPeers(peers []store.Peer) {
	alone := !slices.ContainsFunc(peers, func(p store.Peer) bool {
		_, own := v.own.Load(p.Incarnation)
		return !own
	})
	if v.alone.Swap(alone) && !alone {
		v.rouse()
	}
}

func (v *versionWatch) rouse() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// watch makes sure that the version is looked at. Nobody else can write to a database in memory. The lock is held.
func (h *hub) watch(ctx context.Context) {
	if h.version.stop == nil && h.store.path != "" {
		h.version.stop = h.store.asides.run(ctx, h.watchVersion)
	}
	h.version.rouse()
}

// left is called when a listener has left. With the last one, the look at the version ends.
func (h *hub) left() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.listeners) == 0 && h.runs.Len() == 0 && h.streams.Len() == 0 && h.version.stop != nil {
		h.version.stop()
		h.version.stop = nil
	}
}

// watchVersion hints at commits of other processes. Readers of streams are told of every commit, at once; the others
// only if it is not known to be one of this process.
func (h *hub) watchVersion(ctx context.Context) {
	file := &fileVersion{store: h.store}
	defer file.close()
	base := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var begun int64    // at the last look
	var doubt bool     // there was a commit, perhaps of this process
	var foreign bool   // there was one of another process
	var told time.Time // when that was last hinted at
	for {
		if !h.asleep() || doubt || foreign { // at whole milliseconds: in a simulation these instants are nobody else's
			now := time.Since(base)
			timer.Reset((now + h.pause(doubt)).Truncate(time.Millisecond) - now)
		}
		select {
		case <-ctx.Done():
			return
		case <-h.version.wake:
			continue
		case <-timer.C:
		}
		n := h.version.begun.Load() // before the version: what begins now is not there yet
		if file.moved(ctx) {
			doubt = true
			h.streams.Tell(journal.ID{}, journal.ID{})
		}
		foreign = h.version.foreign.Swap(false) || foreign
		if doubt && n == begun { // this process has begun nothing since the last look
			doubt, foreign = false, true
		}
		begun = n
		if foreign && time.Since(told) >= foreignGap {
			foreign, told = false, time.Now()
			h.tell([]string{""})
			h.runs.Tell(journal.ID{}, journal.ID{})
		}
	}
}

// asleep reports whether there is nothing to look for until somebody ends that with rouse.
func (h *hub) asleep() bool {
	return h.version.alone.Load() && !h.version.foreign.Load() && h.streams.Len() == 0
}

// pause returns how long to wait before the next look.
func (h *hub) pause(doubt bool) time.Duration {
	switch {
	case h.streams.Len() > 0:
		return streamPause
	case doubt:
		return doubtPause
	default:
		return versionPause
	}
}

// fileVersion looks whether somebody has written to the file. What SQLite tells is that of one connection, so it
// keeps one.
type fileVersion struct {
	store *Store
	raw   *rawConn
	last  int64
}

// moved reports whether something was written since the last call, as far as is known.
func (v *fileVersion) moved(ctx context.Context) bool {
	if v.raw == nil && !v.open(ctx) {
		return false
	}
	version := v.last
	err := v.raw.do(func() error {
		return v.raw.query(func(row []driver.Value) error {
			version = asInt(row[0])
			return nil
		}, `pragma data_version`)
	})
	if err != nil {
		v.close() // the next look begins anew
		return false
	}
	moved := version != v.last
	v.last = version
	return moved
}

func (v *fileVersion) open(ctx context.Context) bool {
	raw, err := v.store.openRaw(ctx)
	if err != nil {
		return false
	}
	raw.count = &v.store.hub.version.looks // these are not the writers' statements
	v.raw, v.last = raw, -1
	return true
}

func (v *fileVersion) close() {
	if v.raw != nil {
		_ = v.raw.Close()
		v.raw = nil
	}
}
