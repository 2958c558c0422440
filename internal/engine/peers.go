package engine

import (
	"log/slog"
	"time"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// heart beats while this process has runs that do something, so that peers know it is alive. A process without does nothing.
func (e *Engine) heart() {
	tick := time.NewTicker(e.cfg.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-e.life.Done():
			return
		case <-tick.C:
		}
		if e.busy() {
			if err := e.store.Beat(e.life, e.self); err != nil && e.life.Err() == nil {
				e.log.WarnContext(e.life, "the heartbeat failed", slog.Any("error", err))
			}
		}
	}
}

func (e *Engine) busy() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.active > 0
}

// pulse is what this process has seen of a peer's heart.
type pulse struct {
	beat int64
	at   time.Time // when the beat was seen to move; by this process's own clock, which is all that is compared
}

// watch looks after the peers: one whose heart has not moved for the lease time, and that owns runs, is declared dead. Its runs are
// then due, and whoever sees that takes them.
func (e *Engine) watch() {
	seen := map[journal.ID]pulse{}
	tick := time.NewTicker(e.cfg.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-e.life.Done():
			return
		case <-tick.C:
		}
		owners, err := e.store.Owners(e.life)
		if err != nil {
			continue
		}
		for id := range seen {
			if _, owns := owners[id]; !owns {
				delete(seen, id) // it owns nothing, and need not beat
			}
		}
		for id, beat := range owners {
			last, known := seen[id]
			switch {
			case id == e.self:
			case !known || last.beat != beat:
				seen[id] = pulse{beat, time.Now()}
			case time.Since(last.at) >= e.cfg.Lease:
				e.declareDead(id)
				delete(seen, id)
			}
		}
	}
}

func (e *Engine) declareDead(id journal.ID) {
	e.log.WarnContext(e.life, "a process has not moved for the lease time; its runs are taken over", slog.String("incarnation", journal.PrefixIncarnation.Format(id)))
	if err := e.store.Fence(e.life, id); err != nil {
		return // the next look tries again
	}
	e.lookNow()
}
