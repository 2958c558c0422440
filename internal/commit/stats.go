package commit

import (
	"errors"
	"math/bits"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/internal/store"
)

// Stats is what a committer has done since it started.
type Stats struct {
	Commands  int64     // answered
	Refused   int64     // answered with an error
	Events    int64     // written
	Batches   int64     // transactions that wrote something
	Chunks    int64     // of streams, written
	Loads     int64     // runs and streams that had to be read
	Conflicts int64     // transactions in which somebody else was faster
	Busy      int64     // transactions that the database asked to repeat
	Postponed int64     // commands that waited because another transaction held their run
	Settled   int64     // times that the outcome of a commit had to be found out
	BatchSize Histogram // commands of a batch
	Latency   Histogram // microseconds from submission to answer
}

// Batch is one transaction that wrote something.
type Batch struct {
	Commands, Runs, Events int
	Bytes                  int // of payloads
	Took                   time.Duration
}

// Histogram counts values in powers of two: bucket i counts those below 2^i that are not in a lower one.
type Histogram struct {
	Buckets [40]int64
	Sum     int64
}

func (h *Histogram) add(v int64) {
	h.Buckets[min(bits.Len64(uint64(max(v, 0))), len(h.Buckets)-1)]++
	h.Sum += v
}

// Count returns how many values were counted.
func (h *Histogram) Count() int64 {
	var n int64
	for _, b := range h.Buckets {
		n += b
	}
	return n
}

// Quantile returns an upper bound of the value below which the share q of all values lies.
func (h *Histogram) Quantile(q float64) int64 {
	rest := int64(q * float64(h.Count()))
	for i, b := range h.Buckets {
		if rest -= b; rest < 0 {
			return 1 << i
		}
	}
	return 0
}

// stats collects Stats. The committer's goroutine writes, anybody reads.
type stats struct {
	mu sync.Mutex
	s  Stats
}

func (s *stats) read() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.s
}

func (s *stats) change(f func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.s)
}

func (s *stats) answered(tickets []*Ticket) {
	now := time.Now()
	s.change(func(s *Stats) {
		s.Commands += int64(len(tickets))
		for _, t := range tickets {
			if t.err != nil {
				s.Refused++
			}
			s.Latency.add(now.Sub(t.submitted).Microseconds())
		}
	})
}

func (s *stats) committed(b *batch) {
	commands, events := 0, 0
	for _, r := range b.runs {
		commands += len(r.tickets)
		events += len(r.events)
	}
	chunks := 0
	for _, w := range b.streamChanged {
		commands += len(w.tickets)
		chunks += len(w.chunks)
	}
	s.change(func(s *Stats) {
		s.Batches++
		s.Events += int64(events)
		s.Chunks += int64(chunks)
		s.BatchSize.add(int64(commands))
	})
}

// told tells of a transaction that was begun at a time.
func (b *batch) told(began time.Time) {
	if b.c.cfg.Committed == nil {
		return
	}
	done := Batch{Runs: len(b.runs), Took: time.Since(began)}
	for _, r := range b.runs {
		done.Commands += len(r.tickets)
		done.Events += len(r.events)
		for _, t := range r.tickets {
			done.Bytes += t.bytes
		}
	}
	b.c.cfg.Committed(done)
}

func (s *stats) retried(err error) {
	s.change(func(s *Stats) {
		if errors.Is(err, store.ErrBusy) {
			s.Busy++
		} else {
			s.Conflicts++
		}
	})
}

func (s *stats) loaded(n int)    { s.change(func(s *Stats) { s.Loads += int64(n) }) }
func (s *stats) postponed(n int) { s.change(func(s *Stats) { s.Postponed += int64(n) }) }
func (s *stats) settled()        { s.change(func(s *Stats) { s.Settled++ }) }
