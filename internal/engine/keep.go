package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// KeepLogs says what is kept of what runs say.
type KeepLogs struct {
	Level    slog.Leveler // what is less important is not kept; nil: Info
	MaxLines int          // of a run; 0: 1,000
	MaxBytes int          // of a run; 0: 256 KiB
}

const (
	keepPause = 200 * time.Millisecond // how long lines gather before they are written together
	keepBatch = 200                    // lines of one transaction
	keepQueue = 10_000                 // lines that wait in memory; more are dropped
	keepBytes = 8 << 20                // and their bytes
	keepLimit = 5 * time.Second        // how long a transaction may take
	keepQuiet = time.Minute            // between two warnings
)

// keeper writes down what runs say, in batches, outside the journal. Nobody waits for it: if the database is slow, lines are dropped, and counted.
type keeper struct {
	store store.Store
	log   *slog.Logger
	level slog.Leveler
	limit store.LogLimit
	base  context.Context // that of the engine, and never ends

	wake chan struct{} // there is something to do
	stop chan struct{} // ends the keeper when it has written all
	kill context.CancelFunc
	done chan struct{}
	end  func()
	work sync.WaitGroup

	mu      sync.Mutex
	lines   []store.LogLine
	bytes   int
	queued  int64         // lines that were ever taken in
	settled int64         // of those, how many were written, or given up
	moved   chan struct{} // closed, and made anew, when settled moves
	hurry   bool          // somebody waits for it
	dropped int64
	warned  time.Time
	told    int64 // of those that were dropped, how many the last warning knew of
	gone    bool  // nothing more is written
}

func newKeeper(ctx context.Context, cfg *KeepLogs, st store.Store, log *slog.Logger) *keeper {
	if cfg == nil {
		return nil
	}
	k := &keeper{
		store: st, log: log, level: cfg.Level, limit: store.LogLimit{Lines: cfg.MaxLines, Bytes: cfg.MaxBytes},
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}), moved: make(chan struct{}),
	}
	if k.level == nil {
		k.level = slog.LevelInfo
	}
	if k.limit.Lines <= 0 {
		k.limit.Lines = 1000
	}
	if k.limit.Bytes <= 0 {
		k.limit.Bytes = 256 << 10
	}
	k.base, k.kill = context.WithCancel(context.WithoutCancel(ctx))
	k.end = sync.OnceFunc(func() { close(k.stop) })
	k.work.Go(k.run)
	return k
}

// wants reports whether lines of a level are kept.
func (k *keeper) wants(level slog.Level) bool { return k != nil && level >= k.level.Level() }

// keep takes a line in, or drops it.
func (k *keeper) keep(h *handler, r *slog.Record) {
	at := r.Time
	if at.IsZero() {
		at = time.Now()
	}
	l := store.LogLine{
		Namespace: h.x.key.Namespace, Run: h.x.key.Run, At: journal.TimeOf(at), Level: int(r.Level), Epoch: h.epoch, Attempt: h.attempt, Step: h.step,
		Message: cutText(r.Message, store.MaxLogLine), Attrs: attrsOf(h.parts, r),
	}
	if h.line != nil {
		l.Step = h.line.path
	}
	k.mu.Lock()
	if full := len(k.lines) >= keepQueue || k.bytes+l.Size() > keepBytes; full {
		k.dropped++
	} else {
		k.lines, k.bytes, k.queued = append(k.lines, l), k.bytes+l.Size(), k.queued+1
	}
	k.mu.Unlock()
	k.signal()
}

func (k *keeper) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run writes lines until the keeper is stopped, and then those that are left.
func (k *keeper) run() {
	defer close(k.done)
	for {
		select {
		case <-k.wake:
		case <-k.stop:
			k.writeAll()
			return
		}
		if !k.inHurry() {
			timer := time.NewTimer(keepPause)
			select {
			case <-timer.C:
			case <-k.stop:
			}
			timer.Stop()
		}
		k.writeAll()
	}
}

func (k *keeper) inHurry() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hurry
}

// writeAll writes what there is, as many lines at a time as a small transaction takes.
func (k *keeper) writeAll() {
	for {
		k.mu.Lock()
		if k.gone {
			k.lines = nil
		}
		n := min(len(k.lines), keepBatch)
		batch := k.lines[:n:n]
		k.mu.Unlock()
		if n == 0 {
			k.mu.Lock()
			k.hurry = false
			k.mu.Unlock()
			k.complain(nil)
			return
		}
		ctx, cancel := context.WithTimeout(k.base, keepLimit)
		err := k.store.AppendLogs(ctx, batch, k.limit)
		cancel()
		k.settle(batch, err)
		k.complain(err)
	}
}

// settle takes lines away that were written. Those that could not be are given up: trying again would let the queue grow, and they are not worth that.
func (k *keeper) settle(batch []store.LogLine, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range batch {
		k.bytes -= batch[i].Size()
	}
	if k.lines = k.lines[len(batch):]; len(k.lines) == 0 {
		k.lines = nil // give the old array back
	}
	k.settled += int64(len(batch))
	if err != nil {
		k.dropped += int64(len(batch))
	}
	close(k.moved)
	k.moved = make(chan struct{})
}

// complain says from time to time that lines were dropped.
func (k *keeper) complain(err error) {
	k.mu.Lock()
	dropped := k.dropped
	due := dropped > k.told && time.Since(k.warned) >= keepQuiet
	if due {
		k.warned, k.told = time.Now(), dropped
	}
	k.mu.Unlock()
	if due && k.base.Err() == nil {
		k.log.WarnContext(k.base, "lines that runs said were not kept, because the database is slow or failed", slog.Int64("dropped", dropped), slog.Any("error", err))
	}
}

// flush waits until what was said before is written, or given up.
func (k *keeper) flush(ctx context.Context) error {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	until := k.queued
	k.hurry = true
	k.mu.Unlock()
	k.signal()
	for {
		k.mu.Lock()
		reached, moved := k.settled >= until, k.moved
		k.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-moved:
		case <-k.done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// drops returns how many lines were dropped.
func (k *keeper) drops() int64 {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dropped
}

// close writes what is left, and ends the keeper; it does not wait longer than for one transaction that hangs.
func (k *keeper) close() {
	if k == nil {
		return
	}
	k.end()
	timer := time.NewTimer(keepLimit)
	defer timer.Stop()
	select {
	case <-k.done:
	case <-timer.C:
	}
	k.kill()
	<-k.done
}

// abort ends the keeper as kill -9 would.
func (k *keeper) abort() {
	if k == nil {
		return
	}
	k.mu.Lock()
	k.gone = true
	k.mu.Unlock()
	k.kill()
	k.end()
	<-k.done
}

// Logs returns what a run has said, as far as it was kept.
func (e *Engine) Logs(ctx context.Context, run journal.ID, f store.LogFilter, p store.Page) (store.List[store.LogLine], error) {
	if err := e.keeper.flush(ctx); err != nil {
		return store.List[store.LogLine]{}, err
	}
	list, err := e.store.Logs(ctx, e.namespace, run, f, p)
	if err == nil && len(list.Data) == 0 {
		_, err = e.store.Run(ctx, e.namespace, run, store.ResolveNone)
	}
	return list, err
}
