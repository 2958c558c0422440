package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// slice is what was done in about a second.
type slice struct {
	events    int
	seconds   float64
	latencies []time.Duration
	use       use
}

func (s *slice) rate() float64 { return float64(s.events) / s.seconds }

// runSlice lets callers work until the time is over, each waiting for its own answer before it goes on. Each makes one call at least.
func runSlice(ctx context.Context, d time.Duration, meter func() use, callers []func(context.Context) error) (slice, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before := meter()
	began := time.Now()
	end := began.Add(d)
	var wg sync.WaitGroup
	latencies := make([][]time.Duration, len(callers))
	errs := make([]error, len(callers))
	for i, call := range callers {
		wg.Go(func() {
			for first := true; (first || time.Now().Before(end)) && ctx.Err() == nil; first = false {
				at := time.Now()
				if err := call(ctx); err != nil {
					errs[i] = err
					cancel()
					return
				}
				latencies[i] = append(latencies[i], time.Since(at))
			}
		})
	}
	wg.Wait()
	s := slice{seconds: time.Since(began).Seconds(), use: meter().minus(before)}
	for _, l := range latencies {
		s.events += len(l)
		s.latencies = append(s.latencies, l...)
	}
	return s, errors.Join(errs...)
}

// pairs runs two sides in turns, and returns their slices.
func pairs(ctx context.Context, n int, d time.Duration, mine, raw func(context.Context, time.Duration) (slice, error)) (ours, theirs []slice, err error) {
	for i := range n + 1 {
		a, err := mine(ctx, d)
		if err != nil {
			return nil, nil, err
		}
		b, err := raw(ctx, d)
		if err != nil {
			return nil, nil, err
		}
		if i > 0 { // the first pair warms up
			ours, theirs = append(ours, a), append(theirs, b)
		}
	}
	return ours, theirs, nil
}

// ratio returns the median of the rates' ratios, pair by pair.
func ratio(ours, theirs []slice) float64 {
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i].rate() / theirs[i].rate()
	}
	return median(ratios)
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func medianRate(s []slice) float64 {
	rates := make([]float64, len(s))
	for i := range s {
		rates[i] = s[i].rate()
	}
	return median(rates)
}

// total adds slices up.
func total(s []slice) slice {
	var t slice
	for i := range s {
		t.events += s[i].events
		t.seconds += s[i].seconds
		t.latencies = append(t.latencies, s[i].latencies...)
		t.use = t.use.plus(s[i].use)
	}
	slices.Sort(t.latencies)
	return t
}

// quantile returns microseconds. The latencies are sorted.
func (s *slice) quantile(q float64) float64 {
	if len(s.latencies) == 0 {
		return 0
	}
	return float64(s.latencies[int(q*float64(len(s.latencies)-1))].Nanoseconds()) / 1e3
}

func (s *slice) perEvent(v float64) float64 {
	if s.events == 0 {
		return 0
	}
	return v / float64(s.events)
}
