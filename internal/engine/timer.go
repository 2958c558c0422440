package engine

import (
	"container/heap"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/turn"
)

// timers calls back when runs are due. One goroutine and one timer serve any number of runs.
type timers struct {
	mu    sync.Mutex
	queue timerQueue
	timer *time.Timer
	now   func() journal.Time
	turns turn.Taker
}

type timerEntry struct {
	at   journal.Time
	fire func()
	i    int // place in the queue, -1 when it is not there
}

func newTimers(now func() journal.Time, turns turn.Taker) *timers {
	return &timers{now: now, turns: turns}
}

// set arranges for fire to be called at a time. The returned function takes that back.
func (t *timers) set(at journal.Time, fire func()) (stop func()) {
	e := &timerEntry{at: at, fire: fire}
	t.mu.Lock()
	defer t.mu.Unlock()
	heap.Push(&t.queue, e)
	t.arm()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if e.i >= 0 {
			heap.Remove(&t.queue, e.i)
		}
	}
}

// arm sets the one timer to the first entry. The lock is held.
func (t *timers) arm() {
	if len(t.queue) == 0 {
		return
	}
	wait := max(t.queue[0].at.Std().Sub(t.now().Std()), 0)
	if t.timer == nil {
		t.timer = time.AfterFunc(wait, t.run)
	} else {
		t.timer.Reset(wait)
	}
}

func (t *timers) run() {
	t.turns.Take("timers", 0)
	for {
		t.mu.Lock()
		if len(t.queue) == 0 || t.queue[0].at > t.now() {
			t.arm()
			t.mu.Unlock()
			return
		}
		e, _ := heap.Pop(&t.queue).(*timerEntry)
		t.mu.Unlock()
		e.fire()
	}
}

func (t *timers) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.queue {
		e.i = -1
	}
	t.queue = nil
	if t.timer != nil {
		t.timer.Stop()
	}
}

// timerQueue is a heap by time.
type timerQueue []*timerEntry

func (q timerQueue) Len() int           { return len(q) }
func (q timerQueue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q timerQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].i, q[j].i = i, j
}

// Push implements [heap.Interface].
func (q *timerQueue) Push(v any) {
	e, _ := v.(*timerEntry)
	e.i = len(*q)
	*q = append(*q, e)
}

// Pop implements [heap.Interface].
func (q *timerQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	e.i = -1
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
