package commit

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// Who commits holds the baton: the committer's own goroutine, or a caller who leads. To lead is to try a batch once, on the caller's goroutine. Whatever needs
// more than that, because the database is busy, does not answer, or refuses, is left to the committer's goroutine, and the caller waits like all others.

// leadGrace is how much longer than its context allows a call may take that leads, while the database does not answer.
const leadGrace = 100 * time.Millisecond

// unfinished is a batch that a leader has left behind.
type unfinished struct {
	b   *batch
	err error // of its first attempt
}

// lead commits the next batch if nobody else does just now.
func (c *Committer) lead(ctx context.Context) {
	select {
	case c.baton <- struct{}{}:
	default: // whoever commits looks for more when it is done
		return
	}
	defer crash()
	if c.unfinished == nil {
		if b := c.next(); b != nil {
			c.tryOnce(ctx, b)
		}
	}
	c.pass()
}

// tryOnce tries a batch once. It ends soon after ctx.
func (c *Committer) tryOnce(ctx context.Context, b *batch) {
	attempt, cancel := context.WithCancel(c.life)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(leadGrace, cancel) })
	defer stop()
	if err := b.attempt(attempt); err != nil { //nolint:contextcheck // the caller's context must not end what it does for others at once
		c.unfinished = &unfinished{b, err}
	}
}

// finishOther brings the batch that a leader left behind to its end.
func (c *Committer) finishOther() {
	if u := c.unfinished; u != nil {
		c.unfinished = nil
		c.ended(u.b.resume(c.life, u.err))
	}
}

// pass gives the baton away. Who has put something into the queue meanwhile, and could not lead, relies on it.
func (c *Committer) pass() {
	more := c.unfinished != nil || len(c.taken) > 0
	<-c.baton
	if more || c.queue.count() > 0 {
		c.queue.signal()
	}
}

// crash ends the process with a panic of the caller's. It is a mistake of this package, and the code of a workflow, which may be
// among the callers, must not recover from it.
func crash() {
	if p := recover(); p != nil {
		text := fmt.Sprintf("%v\n\n%s", p, debug.Stack())
		go panic(text)
		select {}
	}
}
