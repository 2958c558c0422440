package commit

import (
	"slices"
	"time"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// A start with a key can meet a transaction of a user's own that has used the same key and is still open. Whether the run exists is not
// known before that ends, which may take as long as the user likes; the database makes the start wait. So such a start is set aside: the rest
// of its batch goes on without it, and it is tried again from time to time, with others of the same key and nobody else.

const (
	// maxHeldPause is how long a start that was set aside waits for its next try, at most.
	maxHeldPause = 250 * time.Millisecond
	// closingTries is how often a start that was set aside is still tried when the committer is being closed.
	closingTries = 3
)

// split returns the batches that groups are committed in: first all that were not set aside, then the others by key.
func split(c *Committer, groups []group) []*batch {
	if !slices.ContainsFunc(groups, func(g group) bool { return g.tickets[0].held > 0 }) {
		return []*batch{newBatch(c, groups)}
	}
	parts := [][]group{nil}
	place := map[journal.StartKey]int{}
	for _, g := range groups {
		if g.tickets[0].held == 0 {
			parts[0] = append(parts[0], g)
			continue
		}
		key := g.tickets[0].cmd.StartKeys()[0]
		if place[key] == 0 {
			place[key] = len(parts)
			parts = append(parts, nil)
		}
		parts[place[key]] = append(parts[place[key]], g)
	}
	var batches []*batch
	for _, part := range parts {
		if len(part) > 0 {
			batches = append(batches, newBatch(c, part))
		}
	}
	return batches
}

// setAside takes the starts with keys out of a batch that the database asks to repeat, because one of them may be what it waits for. It reports
// whether there was one.
func (b *batch) setAside() bool {
	before := len(b.runs)
	b.runs = slices.DeleteFunc(b.runs, func(r *runBatch) bool {
		first := r.tickets[0]
		if len(first.cmd.StartKeys()) == 0 {
			return false
		}
		first.held++
		if first.held > closingTries && b.c.queue.isClosed() {
			b.c.finish(r.tickets, b.c.closedError())
			return true
		}
		b.c.stats.postponed(len(r.tickets))
		b.c.queue.later(r.tickets, min(minPause<<min(first.held-1, 10), maxHeldPause))
		return true
	})
	return len(b.runs) < before
}

func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}
