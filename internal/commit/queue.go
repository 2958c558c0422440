package commit

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/turn"
)

var errClosed = errors.New("closed")

// perTurn is how many commands of one run go into a batch before the next run has its turn.
const perTurn = 16

// queue holds the commands that wait, in one line for each run. Runs take turns, so a run with thousands of commands
// does not keep a small one waiting.
type queue struct {
	turns turn.Taker
	slots chan struct{} // one for each command that waits or is being committed
	wake  chan struct{} // tells the committer that there is work

	mu      sync.Mutex
	lines   map[store.RunKey]*line
	ready   []*line // whose turn comes, in order
	waiting int     // commands in lines that do not rest
	puts    int64
	picks   int64
	alone   bool // the last pick was of one run
	closed  bool
}

// line is the commands of one run. It is in lines while it has commands or one of them is being committed.
type line struct {
	key     store.RunKey
	tickets []*Ticket
	ready   bool // it is in queue.ready
	rests   bool // it comes back into queue.ready by itself

	picked int64 // the last pick that took from it
	group  int   // and where in that pick its commands are
}

// group is the commands of one run that go into a batch.
type group struct {
	key     store.RunKey
	tickets []*Ticket
}

func newQueue(limit int, turns turn.Taker) *queue {
	return &queue{turns: turns, slots: make(chan struct{}, limit), wake: make(chan struct{}, 1), lines: map[store.RunKey]*line{}}
}

// put adds a command to its run's line. It waits while the queue is full. The committer does not know of it yet.
func (q *queue) put(ctx context.Context, t *Ticket) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case q.slots <- struct{}{}:
	default:
		select {
		case q.slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		q.release()
		return errClosed
	}
	q.puts++
	t.number = q.puts
	l := q.lineOf(t.key())
	l.tickets = append(l.tickets, t)
	if !l.rests {
		q.waiting++
		q.enter(l)
	}
	q.mu.Unlock()
	return nil
}

func (q *queue) lineOf(key store.RunKey) *line {
	l := q.lines[key]
	if l == nil {
		l = &line{key: key}
		q.lines[key] = l
	}
	return l
}

// enter gives a line its turns.
func (q *queue) enter(l *line) {
	if !l.ready {
		l.ready = true
		q.ready = append(q.ready, l)
	}
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// release gives the place of an answered command to somebody who waits for one.
func (q *queue) release() { <-q.slots }

// wait waits until there is something to do, and reports false when ctx or the queue has ended.
func (q *queue) wait(ctx context.Context) bool {
	if q.count() == 0 {
		if q.ended() {
			return false
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// ended reports whether the queue is closed and empty.
func (q *queue) ended() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.lines {
		if len(l.tickets) > 0 {
			return false
		}
	}
	return q.closed
}

// take returns the commands of the next batch, in the order of their runs' turns: none if there are none.
func (q *queue) take(limit, bytes int) []group {
	q.grow()
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pick(limit, bytes)
}

// grow lets callers that are about to submit do so first: their commands then share this batch. Who was alone the last time, and is again,
// does not look for company: that would cost a tenth of what its commit does.
func (q *queue) grow() {
	before, alone := q.company()
	if before == 0 || alone {
		return
	}
	for range 3 {
		runtime.Gosched()
		now := q.count()
		if now == before {
			return
		}
		before = now
	}
}

// company returns how many commands wait, and whether they are those of one run as they were the last time.
func (q *queue) company() (waiting int, alone bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting, q.alone && q.ofOne()
}

// ofOne reports whether one run alone has something to write: a command, and perhaps the one on which that rests. The lock is held.
func (q *queue) ofOne() bool { return len(q.ready) == 1 && q.waiting <= 2 }

func (q *queue) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// pick takes from the lines in turns, and removes those that are empty, perhaps because their commands were withdrawn. The lock is
// held.
func (q *queue) pick(limit, bytes int) []group {
	q.picks++
	q.alone = q.ofOne()
	groups := make([]group, 0, min(q.waiting, len(q.ready), limit))
	for len(q.ready) > 0 && limit > 0 && bytes > 0 {
		l := q.ready[0]
		q.ready[0] = nil
		q.ready = q.ready[1:]
		n := 0
		for n < len(l.tickets) && n < perTurn && n < limit && bytes > 0 {
			bytes -= l.tickets[n].bytes
			n++
		}
		if n > 0 {
			groups = q.add(groups, l, n)
			limit -= n
		}
		if len(l.tickets) > 0 {
			q.ready = append(q.ready, l)
			continue
		}
		l.ready = false
		delete(q.lines, l.key)
	}
	if len(q.ready) == 0 {
		q.ready = nil // give the old array back
	}
	return groups
}

// add takes the first n commands of a line into its group.
func (q *queue) add(groups []group, l *line, n int) []group {
	tickets := l.tickets[:n:n]
	l.tickets = l.tickets[n:]
	q.waiting -= n
	if l.picked == q.picks {
		g := &groups[l.group]
		g.tickets = append(g.tickets, tickets...)
		return groups
	}
	l.picked, l.group = q.picks, len(groups)
	return append(groups, group{l.key, tickets})
}

// later puts commands of one run back to the front of its line, and lets it rest for a while.
func (q *queue) later(tickets []*Ticket, rest time.Duration) {
	first := tickets[0].number
	q.mu.Lock()
	l := q.lineOf(tickets[0].key())
	if !l.rests {
		q.waiting -= len(l.tickets)
	}
	if l.ready { // somebody submitted meanwhile
		q.ready = slices.DeleteFunc(q.ready, func(r *line) bool { return r == l })
		l.ready = false
	}
	l.tickets = append(tickets, l.tickets...)
	l.rests = true
	q.mu.Unlock()
	time.AfterFunc(rest, func() {
		q.turns.Take("rest", first)
		q.mu.Lock()
		l.rests = false
		q.waiting += len(l.tickets)
		q.enter(l)
		q.mu.Unlock()
		q.signal()
	})
}

// withdraw takes a command back that is still in its line, and tells all who wait for it why.
func (q *queue) withdraw(t *Ticket, why error) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[t.key()]
	if l == nil {
		return false
	}
	for i, other := range l.tickets {
		if other == t {
			l.tickets = slices.Delete(l.tickets, i, i+1)
			if !l.rests {
				q.waiting--
			}
			t.err = why
			close(t.done)
			<-q.slots
			return true
		}
	}
	return false
}

// close refuses further commands.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

// drain takes all commands that wait.
func (q *queue) drain() []*Ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	var all []*Ticket
	for _, l := range q.lines {
		all = append(all, l.tickets...)
		l.tickets = nil
	}
	q.waiting = 0
	return all
}
