package stream

import (
	"context"
	"sync"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/turn"
)

// What may be on its way to one stream. Who writes more waits.
const (
	maxPending      = 256
	maxPendingBytes = 256 << 10
)

// Pipe carries what a run writes to one of its streams into the database, in the order in which it was written. While some of it is being committed, the
// rest gathers.
type Pipe struct {
	send  func(ops []commit.StreamOp) (refused []int, err error)
	turns turn.Taker

	mu      sync.Mutex
	queue   []commit.StreamOp
	writers []*Writer // of the queue
	bytes   int       // that are not durable
	pending int       // operations that are not durable
	put     int64     // operations ever put
	done    int64     // of those, how many are durable or refused
	busy    bool      // somebody sends
	failed  error     // nothing can be written any more
	moved   chan struct{}
	waits   int64 // how often somebody has waited for that
}

// Writer is who writes to a pipe: a branch, or an attempt of a step.
type Writer struct {
	last int64 // its last operation
	err  error // why one of its operations was refused; guarded by the pipe
}

// NewPipe returns a pipe. send writes operations, and returns when they are durable, with the indices of those that were refused because the
// stream is closed; after an error nothing more can be written.
func NewPipe(turns turn.Taker, send func(ops []commit.StreamOp) (refused []int, err error)) *Pipe {
	return &Pipe{send: send, turns: turns, moved: make(chan struct{})}
}

// Put puts an operation into the pipe. It waits while too much is on its way, until ctx or over ends. It returns the error of an earlier operation of the same writer,
// if there was one. Calls of one writer come one after the other.
func (p *Pipe) Put(ctx context.Context, over <-chan struct{}, w *Writer, op commit.StreamOp) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.pending > 0 && (p.pending >= maxPending || p.bytes+len(op.Data) > maxPendingBytes) && p.failed == nil && w.err == nil {
		if err := p.wait(ctx, over); err != nil {
			return err
		}
	}
	switch {
	case p.failed != nil:
		return p.failed
	case w.err != nil:
		return w.err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	p.queue = append(p.queue, op)
	p.writers = append(p.writers, w)
	p.pending++
	p.bytes += len(op.Data)
	p.put++
	w.last = p.put
	if !p.busy {
		p.busy = true
		go p.pump()
	}
	return nil
}

// Flush waits until all that a writer has put is durable, and returns what was wrong with it.
func (p *Pipe) Flush(ctx context.Context, over <-chan struct{}, w *Writer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.done < w.last && p.failed == nil {
		if err := p.wait(ctx, over); err != nil {
			return err
		}
	}
	if w.err != nil {
		return w.err
	}
	if p.done < w.last {
		return p.failed
	}
	return nil
}

// Clean reports whether nothing of a writer is on its way.
func (p *Pipe) Clean(w *Writer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done >= w.last || p.failed != nil
}

// wait waits until something has happened. The lock is held, and given up meanwhile.
func (p *Pipe) wait(ctx context.Context, over <-chan struct{}) error {
	moved := p.moved
	p.waits++
	n := p.waits
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-moved:
	case <-ctx.Done():
	case <-over:
	}
	p.turns.Take("wait", n)
	select {
	case <-moved:
		return nil
	default:
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return cairnerr.Errorf(cairnerr.CodeClosed, "the run is not executed here any more")
}

// pump sends until there is nothing more.
func (p *Pipe) pump() {
	p.turns.Take("pump", 0)
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) > 0 && p.failed == nil {
		ops, writers := p.queue, p.writers
		p.queue, p.writers = nil, nil
		p.mu.Unlock()
		refused, err := p.send(ops)
		p.mu.Lock()
		p.sent(ops, writers, refused, err)
	}
	p.busy = false
}

// sent notes what became of operations. The lock is held.
func (p *Pipe) sent(ops []commit.StreamOp, writers []*Writer, refused []int, err error) {
	for i := range ops {
		p.bytes -= len(ops[i].Data)
	}
	p.pending -= len(ops)
	if err != nil {
		p.failed = err
		p.queue, p.writers = nil, nil
	} else {
		p.done += int64(len(ops))
		for _, i := range refused {
			if writers[i].err == nil {
				writers[i].err = errClosed
			}
		}
	}
	close(p.moved)
	p.moved = make(chan struct{})
}

var errClosed = &cairnerr.Error{Code: cairnerr.CodeStreamClosed, Message: "the stream was closed before all was written"}
