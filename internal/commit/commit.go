// Package commit is the one door through which a process writes: it puts the commands of many runs into one transaction,
// so that one sync of the disk pays for hundreds of steps, and each command still succeeds or fails alone.
//
// While one batch commits, the next gathers; there is no artificial delay. A batch is put together from what the committer
// remembers of the runs (see cache.go): then nothing is read before it is written, and the database's unique keys
// say whether somebody else was faster. If so, or if a command would be refused, the batch is reduced again on what
// the database holds now. A refusal therefore always rests on the truth.
//
// The commands of one run form a queue: they are reduced in the order in which they were submitted.
package commit

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/turn"
)

// Config tunes a committer. Now must be given; the rest has defaults.
type Config struct {
	// Now is the clock.
	Now func() journal.Time
	// Number tells several committers of one incarnation apart.
	Number int
	// MaxQueue is the most commands that wait or are being committed; who submits more waits for a place. Defaults to 20,000.
	MaxQueue int
	// MaxBatch is the most commands of one transaction. Defaults to 2,000.
	MaxBatch int
	// MaxBatchBytes ends a batch when its payloads exceed it. Defaults to 8 MiB.
	MaxBatchBytes int
	// CacheBytes is roughly how much memory the remembered runs may take. Defaults to 64 MiB.
	CacheBytes int
	// Logger gets what the committer has to say. Defaults to nothing.
	Logger *slog.Logger
	// Readers are told of chunks that are durable, before the writers are; nil: nobody.
	Readers Readers
	// Committed is told of each transaction, by the goroutine that commits: it must not wait. Nil: nobody is.
	Committed func(Batch)
	// Turn decides who goes on first, in simulations.
	Turn turn.Taker
}

func (c *Config) withDefaults() Config {
	cfg := *c
	def := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	def(&cfg.MaxQueue, 20_000)
	def(&cfg.MaxBatch, 2_000)
	def(&cfg.MaxBatchBytes, 8<<20)
	def(&cfg.CacheBytes, 64<<20)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg
}

// Committer writes the commands of one process. Its methods are safe for use by several goroutines.
type Committer struct {
	cfg         Config
	incarnation journal.ID
	writer      store.Writer
	queue       *queue
	cache       *cache
	streams     *streamCache
	stats       stats
	now         journal.Time // of the last batch: time does not go back in a journal

	baton      chan struct{} // held by who commits, see lead.go
	taken      []*batch      // from the queue, to be committed before any other
	unfinished *unfinished
	life       context.Context
	stop       context.CancelFunc
	done       chan struct{}
	close      func() error // ends the writer, once

	mu     sync.Mutex
	failed error // why nothing can be committed any more
}

// New opens a writer on the store and starts the committer. Close ends it.
func New(ctx context.Context, st store.Store, incarnation journal.ID, config *Config) (*Committer, error) {
	cfg := config.withDefaults()
	writer, err := st.OpenWriter(ctx, incarnation, cfg.Number)
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &Committer{
		cfg: cfg, incarnation: incarnation, writer: writer, queue: newQueue(cfg.MaxQueue, cfg.Turn), cache: newCache(cfg.CacheBytes), streams: newStreamCache(),
		baton: make(chan struct{}, 1), life: life, stop: stop, done: make(chan struct{}), close: sync.OnceValue(writer.Close),
	}
	go c.run()
	return c, nil
}

// Do submits a command and waits until it is durable, or refused. The error of a refusal is a [*cairnerr.Error].
//
// If nobody commits just now, the caller does, for all who wait: on an idle engine that saves waking the committer's goroutine and being woken by it.
// See lead.go.
//
// If ctx ends first, a command that was not yet taken up is withdrawn and ctx's error returned. Otherwise the
// error has [cairnerr.CodeOutcomeUnknown]: the command may still be applied.
func (c *Committer) Do(ctx context.Context, cmd *journal.Command) (*journal.Result, error) {
	return c.DoAfter(ctx, cmd, nil)
}

// DoAfter is [Committer.Do] for a command that rests on an earlier one of the same run, which need not be durable yet (nil: on none). If that one was not
// written, neither is this one, and the error has [cairnerr.CodeStaleEpoch].
func (c *Committer) DoAfter(ctx context.Context, cmd *journal.Command, earlier *Ticket) (*journal.Result, error) {
	t, err := c.enqueue(ctx, cmd, earlier)
	if err != nil {
		return nil, err
	}
	c.lead(ctx)
	return t.Wait(ctx)
}

// Put puts a command into the queue of its run and tells nobody: it goes with the next batch that somebody commits, which [Ticket.Lead] and [Ticket.WaitOrLead] do.
func (c *Committer) Put(ctx context.Context, cmd *journal.Command) (*Ticket, error) {
	return c.enqueue(ctx, cmd, nil)
}

// Submit puts a command into the queue of its run. It waits only while the committer is full. The command must not be
// changed afterwards.
func (c *Committer) Submit(ctx context.Context, cmd *journal.Command) (*Ticket, error) {
	t, err := c.enqueue(ctx, cmd, nil)
	if err != nil {
		return nil, err
	}
	c.queue.signal()
	return t, nil
}

func (c *Committer) enqueue(ctx context.Context, cmd *journal.Command, earlier *Ticket) (*Ticket, error) {
	if err := cmd.Check(); err != nil {
		return nil, err
	}
	t := &Ticket{cmd: cmd, earlier: earlier, c: c, done: make(chan struct{}), bytes: commandBytes(cmd), submitted: time.Now()}
	return t, c.put(ctx, t)
}

// put adds a ticket to the queue. Somebody has to be told.
func (c *Committer) put(ctx context.Context, t *Ticket) error {
	err := c.queue.put(ctx, t)
	if errors.Is(err, errClosed) {
		return c.closedError()
	}
	return err
}

// Close commits what was submitted before, then ends. If ctx ends first, what is left is refused with [cairnerr.CodeClosed].
func (c *Committer) Close(ctx context.Context) error {
	c.queue.close()
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	return c.Abort()
}

// Abort ends at once: what is not being committed is refused with [cairnerr.CodeClosed].
func (c *Committer) Abort() error {
	c.queue.close()
	c.stop()
	<-c.done
	return c.close()
}

// Waiting returns how many commands wait to be committed.
func (c *Committer) Waiting() int { return c.queue.count() }

// Stats returns what the committer has done so far.
func (c *Committer) Stats() Stats { return c.stats.read() }

// run is the committer's loop: take what is there, commit it, again.
func (c *Committer) run() {
	defer close(c.done)
	for {
		more := c.queue.wait(c.life)
		c.cfg.Turn.Take("committer", 0)
		c.baton <- struct{}{}
		c.cfg.Turn.Take("committer", 0) // who had it goes on, too
		c.finishOther()
		for b := c.next(); b != nil; b = c.next() {
			c.ended(b.run(c.life))
		}
		if !more && (c.life.Err() != nil || c.queue.ended()) { // whoever led may have put something back
			c.refuseAll(c.closedError())
			return // with the baton: nobody leads any more
		}
		c.pass()
	}
}

// next returns the next batch, nil if there is none. The caller holds the baton.
func (c *Committer) next() *batch {
	if c.life.Err() != nil {
		return nil
	}
	if len(c.taken) == 0 {
		if groups := c.queue.take(c.cfg.MaxBatch, c.cfg.MaxBatchBytes); len(groups) > 0 {
			c.taken = split(c, groups)
		}
	}
	if err := c.failure(); err != nil {
		c.refuseAll(err)
	}
	if len(c.taken) == 0 {
		return nil
	}
	b := c.taken[0]
	c.taken = c.taken[1:]
	return b
}

// ended takes note of how a batch went.
func (c *Committer) ended(err error) {
	if err != nil {
		c.fail(err)
	}
}

// fail remembers why nothing can be committed any more: this incarnation was fenced.
func (c *Committer) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = err
		c.cfg.Logger.Error("the committer ends", slog.Any("error", err))
	}
}

func (c *Committer) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

func (c *Committer) closedError() error {
	if err := c.failure(); err != nil {
		return err
	}
	return cairnerr.Errorf(cairnerr.CodeClosed, "the committer was closed")
}

// refuseAll answers all that wait. The caller holds the baton.
func (c *Committer) refuseAll(err error) {
	for _, b := range c.taken {
		b.refuse(err)
	}
	c.taken = nil
	c.finish(c.queue.drain(), err)
}

// finish answers tickets that were not committed.
func (c *Committer) finish(tickets []*Ticket, err error) {
	for _, t := range tickets {
		t.result, t.err = nil, err
	}
	c.answer(tickets)
}

// answer tells the callers what their tickets say.
func (c *Committer) answer(tickets []*Ticket) {
	c.stats.answered(tickets)
	for _, t := range tickets {
		close(t.done)
		c.queue.release()
	}
}

// tick returns the time of the next batch.
func (c *Committer) tick() journal.Time {
	c.now = max(c.now, c.cfg.Now())
	return c.now
}
