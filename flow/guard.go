package flow

import (
	"context"
	"sync"
	"time"
)

// Guard remembers which pauses of sealed flows were answered, so that a token works once, and how often their forms were
// filled in wrongly. A guard in memory knows only what its own process has seen.
type Guard interface {
	// Take reserves a pause for one answer, and returns how many wrong ones there were. It fails with the code pause_over
	// if the pause was answered, or somebody else is answering it.
	Take(ctx context.Context, pause string, until time.Time) (wrong int, err error)
	// Give ends the reservation. Answered pauses are over.
	Give(ctx context.Context, pause string, became Became) error
}

// Became is what became of a pause that was taken.
type Became uint8

// What a pause can become.
const (
	Unchanged Became = iota // nothing was done
	Wrong                   // the form was filled in wrongly
	Answered                // the flow went on
)

// NewMemoryGuard returns a guard for one process.
func NewMemoryGuard() Guard { return &memoryGuard{pauses: map[string]*guarded{}, now: time.Now} }

type memoryGuard struct {
	mu     sync.Mutex
	pauses map[string]*guarded
	swept  int // pauses that were left when the old ones were last forgotten
	now    func() time.Time
}

type guarded struct {
	until       time.Time // then its token is not valid any more
	wrong       int
	taken, over bool
}

// Take implements [Guard].
func (g *memoryGuard) Take(_ context.Context, pause string, until time.Time) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pauses[pause]
	switch {
	case p == nil:
		g.sweep()
		p = &guarded{until: until}
		g.pauses[pause] = p
	case p.taken || p.over:
		return 0, errOver
	}
	p.taken = true
	return p.wrong, nil
}

// Give implements [Guard].
func (g *memoryGuard) Give(_ context.Context, pause string, became Became) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pauses[pause]
	if p == nil {
		return nil
	}
	p.taken = false
	switch {
	case became == Wrong:
		p.wrong++
	case became == Answered:
		p.over = true
	case p.wrong == 0:
		delete(g.pauses, pause)
	}
	return nil
}

// sweep forgets pauses whose tokens are not valid any more, whenever their number has doubled. The lock is held.
func (g *memoryGuard) sweep() {
	if len(g.pauses) < max(2*g.swept, 1024) {
		return
	}
	now := g.now()
	for id, p := range g.pauses {
		if !p.taken && !now.Before(p.until) {
			delete(g.pauses, id)
		}
	}
	g.swept = len(g.pauses)
}
