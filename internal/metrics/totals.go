package metrics

import (
	"maps"
	"slices"
	"sync"

	"github.com/cairn-workflow/cairn/observe"
)

// Totals adds the numbers of the engines of a process by namespace. What engines that are stopped have counted stays: a counter does not go back. Its zero
// value is ready.
type Totals struct {
	mu      sync.Mutex
	engines map[observe.Source]struct{}
	past    map[string]observe.Stats
}

// Started adds an engine.
func (t *Totals) Started(s observe.Source) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.engines == nil {
		t.engines, t.past = map[observe.Source]struct{}{}, map[string]observe.Stats{}
	}
	t.engines[s] = struct{}{}
}

// Stopped takes an engine away, and keeps what it has counted.
func (t *Totals) Stopped(s observe.Source) {
	last := s.Stats()
	last.Active, last.Waiting, last.Queue = 0, 0, 0
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, there := t.engines[s]; there {
		delete(t.engines, s)
		t.past[last.Namespace] = add(t.past[last.Namespace], last)
	}
}

// Read returns the numbers, one for each namespace, in the order of their names. Engines are asked without a lock: they may take theirs.
func (t *Totals) Read() []observe.Stats {
	t.mu.Lock()
	engines := slices.Collect(maps.Keys(t.engines))
	all := maps.Clone(t.past)
	t.mu.Unlock()
	for _, e := range engines {
		s := e.Stats()
		all[s.Namespace] = add(all[s.Namespace], s)
	}
	sums := make([]observe.Stats, 0, len(all))
	for _, namespace := range slices.Sorted(maps.Keys(all)) {
		sums = append(sums, all[namespace])
	}
	return sums
}

func add(a, b observe.Stats) observe.Stats {
	b.Active += a.Active
	b.Waiting += a.Waiting
	b.Queue += a.Queue
	b.LeasesLost += a.LeasesLost
	b.PeersDied += a.PeersDied
	b.LogLinesDropped += a.LogLinesDropped
	b.ObservationsDropped += a.ObservationsDropped
	return b
}

// Sampled are the metrics that are read from [observe.Stats].
func Sampled() []Sample {
	return []Sample{
		{RunsActive, func(s *observe.Stats) int64 { return int64(s.Active) }},
		{RunsWaiting, func(s *observe.Stats) int64 { return int64(s.Waiting) }},
		{CommitQueue, func(s *observe.Stats) int64 { return int64(s.Queue) }},
		{LeasesLost, func(s *observe.Stats) int64 { return s.LeasesLost }},
		{PeersDied, func(s *observe.Stats) int64 { return s.PeersDied }},
		{LogLinesDropped, func(s *observe.Stats) int64 { return s.LogLinesDropped }},
		{ObservationsDropped, func(s *observe.Stats) int64 { return s.ObservationsDropped }},
	}
}

// Sample is a metric and where its value is.
type Sample struct {
	Metric
	Value func(*observe.Stats) int64
}
