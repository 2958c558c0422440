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

// cost returns the microseconds that an event took on average.
func (s *slice) cost() float64 { return s.perEvent(s.seconds * 1e6) }

// call does one thing and waits for its answer.
type call func(context.Context) error

func repeat(n int, f call) []call {
	callers := make([]call, n)
	for i := range callers {
		callers[i] = f
	}
	return callers
}

// side is one of the things that are measured beside each other. It works for about the given time.
type side func(context.Context, time.Duration) (slice, error)

// loop is a side on which callers make their calls again and again.
func (db *database) loop(callers ...call) side {
	return func(ctx context.Context, d time.Duration) (slice, error) { return runSlice(ctx, d, db.meter, callers) }
}

// runSlice lets callers work until the time is over, each waiting for its own answer before it goes on. Each makes one call at least.
func runSlice(ctx context.Context, d time.Duration, meter func() use, callers []call) (slice, error) {
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

// turns lets the sides work in turns, n times, and returns the slices of each.
func turns(ctx context.Context, n int, d time.Duration, sides ...side) ([][]slice, error) {
	all := make([][]slice, len(sides))
	for round := range n + 1 {
		for i, side := range sides {
			s, err := side(ctx, d)
			if err != nil {
				return nil, err
			}
			if round > 0 { // the first round warms up
				all[i] = append(all[i], s)
			}
		}
	}
	return all, nil
}

// pairs is turns with two sides.
func pairs(ctx context.Context, n int, d time.Duration, mine, raw side) (ours, theirs []slice, err error) {
	all, err := turns(ctx, n, d, mine, raw)
	if err != nil {
		return nil, nil, err
	}
	return all[0], all[1], nil
}

// ratio returns the median of the rates' ratios, pair by pair.
func ratio(ours, theirs []slice) float64 { return medianRatio(ours, theirs, (*slice).rate) }

// medianRatio returns the median of the ratios of a figure, pair by pair.
func medianRatio(ours, theirs []slice, figure func(*slice) float64) float64 {
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = over(figure(&ours[i]), figure(&theirs[i]))
	}
	return median(ratios)
}

// over divides; what cannot be divided by is 0 here.
func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func medianRate(s []slice) float64 { return medianOf(s, (*slice).rate) }

// medianOf returns the median of a figure of slices.
func medianOf(s []slice, figure func(*slice) float64) float64 {
	figures := make([]float64, len(s))
	for i := range s {
		figures[i] = figure(&s[i])
	}
	return median(figures)
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
	return t
}

// quantile returns microseconds.
func (s *slice) quantile(q float64) float64 {
	if len(s.latencies) == 0 {
		return 0
	}
	slices.Sort(s.latencies)
	return float64(s.latencies[int(q*float64(len(s.latencies)-1))].Nanoseconds()) / 1e3
}

func (s *slice) p50() float64 { return s.quantile(0.5) }

func (s *slice) perEvent(v float64) float64 { return over(v, float64(s.events)) }
