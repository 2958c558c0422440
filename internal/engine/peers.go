package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// forgotten is after how long a peer that does nothing and owns nothing is taken for one that died in peace. If it did not, it goes on as a new
// incarnation.
const forgotten = 24 * time.Hour

// pulse is what this process has seen of a peer.
type pulse struct {
	store.Peer
	at   time.Time // when it was last seen to move; by this process's own clock, which is all that is compared
	idle bool      // it owned nothing then, and has written nothing since
	owns bool      // it owned something when it was last asked
	free time.Time // since when the database could be written, at each look; zero: it could not, or nobody has tried
}

// watch looks after the peers: one that owns runs and has not moved for the lease time is declared dead. Its runs are then due, and whoever
// sees that takes them.
//
// Who could not write cannot have moved. So the second half of the lease is counted only while this process finds that it can write: somebody who
// holds the lock of a SQLite file for long makes nobody look dead.
func (e *Engine) watch() {
	seen := map[journal.ID]*pulse{}
	tick := time.NewTicker(e.cfg.Lease / 10) // how late a death may be noticed
	defer tick.Stop()
	for {
		select {
		case <-e.life.Done():
		case <-tick.C:
		}
		e.turns.Take("watch", 0)
		if e.life.Err() != nil {
			return
		}
		if peers, err := e.store.Peers(e.life); err == nil {
			e.examine(seen, peers)
		}
	}
}

func (e *Engine) examine(seen map[journal.ID]*pulse, peers []store.Peer) {
	there := map[journal.ID]bool{}
	self := e.self().id
	canWrite := sync.OnceValue(func() bool { return e.canWrite(self) })
	for _, p := range peers {
		if p.Incarnation == self {
			continue
		}
		there[p.Incarnation] = true
		last := seen[p.Incarnation]
		if last == nil || last.Peer != p {
			seen[p.Incarnation] = &pulse{Peer: p, at: time.Now()}
			continue
		}
		if e.isDead(last, canWrite) {
			e.declareDead(p.Incarnation)
		}
	}
	for id := range seen {
		if !there[id] {
			delete(seen, id)
		}
	}
}

// isDead judges a peer that has not moved since the last look. Who has written nothing since it owned nothing cannot own anything: so it is
// asked once, and not at each look.
func (e *Engine) isDead(p *pulse, canWrite func() bool) bool {
	still := time.Since(p.at)
	switch {
	case still < e.cfg.Lease*2/5: // a peer in good health moves every third of the lease
		return false
	case p.idle:
		return still >= forgotten
	}
	if !p.owns {
		owns, err := e.store.Owns(e.life, p.Incarnation)
		p.idle, p.owns = err == nil && !owns, owns
		if !owns {
			return false
		}
	}
	if !canWrite() {
		p.free = time.Time{}
		return false
	}
	if p.free.IsZero() {
		p.free = time.Now()
	}
	return still >= e.cfg.Lease && time.Since(p.free) >= e.cfg.Lease/2
}

// canWrite reports whether the database can be written. It moves the heart of this process, which does no harm.
func (e *Engine) canWrite(self journal.ID) bool {
	ctx, cancel := context.WithTimeout(e.life, e.cfg.Lease/6)
	defer cancel()
	return e.store.Beat(ctx, self) == nil
}

func (e *Engine) declareDead(id journal.ID) {
	e.log.WarnContext(e.life, "a process has not moved for the lease time; its runs are taken over", slog.String("incarnation", journal.PrefixIncarnation.Format(id)))
	ctx, cancel := context.WithTimeout(e.life, e.cfg.Lease/2)
	defer cancel()
	if err := e.store.Fence(ctx, id); err != nil {
		return // the next look judges again
	}
	e.peerDied(id)
	e.lookNow()
}
