package enginesim

import (
	"fmt"
	"hash"
	"hash/fnv"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/internal/sim"
)

// turns gives everybody who could go on an instant of virtual time of its own. So at each instant one goroutine does something, and those that it wakes take a turn first:
// the runtime, which chooses at random among timers of one instant, the ready cases of a select and, in race builds, goroutines, has nothing to choose from.
type turns struct {
	seed  uint64
	began time.Time

	mu     sync.Mutex
	had    map[string]int        // how many turns each has had
	chosen map[time.Duration]int // by how many an instant of the future was chosen
	all    int                   // turns so far
	digest hash.Hash64           // of them
}

func newTurns(seed uint64, began time.Time) *turns {
	return &turns{seed: seed, began: began, had: map[string]int{}, chosen: map[time.Duration]int{}, digest: fnv.New64a()}
}

// longestTurn is how long somebody may have to wait for its turn.
const longestTurn = 200 * time.Microsecond

// lane is who instants belong to. Instants of different lanes are never the same.
type lane int

const (
	lanes             = 16
	laneWorld    lane = 0
	laneTurns    lane = 1 // and those that follow, one for each slot
	laneDatabase lane = 8 // the same
)

// take waits for an instant that nobody else has chosen. If somebody has, all of them choose again: who came first is not known.
func (t *turns) take(l lane, who string) {
	for {
		at := t.choose(l, who)
		time.Sleep(at - time.Since(t.began))
		if t.alone(at) {
			return
		}
	}
}

func (t *turns) choose(l lane, who string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.had[who]
	t.had[who]++
	at := l.after(time.Since(t.began), within(sim.NewActor(t.seed, fmt.Sprint("turn ", n, " of ", who)), longestTurn))
	t.chosen[at]++
	return at
}

// alone reports whether nobody else has chosen an instant, which has come.
func (t *turns) alone(at time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.chosen[at] > 1 {
		return false
	}
	delete(t.chosen, at)
	return true
}

// note counts a turn that somebody has now.
func (t *turns) note(who string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all++
	fmt.Fprintln(t.digest, time.Since(t.began), who)
}

// reserve returns a duration of about d after which an instant of the lane comes that nobody else of it has reserved. Those who reserve do so one after the other.
func (t *turns) reserve(l lane, d time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Since(t.began)
	at := l.after(now, d)
	for t.chosen[at] > 0 {
		at += lanes
	}
	t.chosen[at]++
	fmt.Fprintln(t.digest, at)
	return at - now
}

// String tells how many turns there were, and which: two simulations in which somebody did something at another time differ in it.
func (t *turns) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("%d turns (%x)", t.all, t.digest.Sum64())
}

// after returns the first instant of the lane that is so much later.
func (l lane) after(now, d time.Duration) time.Duration {
	at := now + d
	return at + (time.Duration(l)-at%lanes+lanes)%lanes
}
