package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	submitters = 64
	// mostSteps bounds the steps of one turn, as in Cairn's own benchmark.
	mostSteps  = 20_000
	leastPairs = 3
	// patience is how long one turn may take before the benchmark gives up.
	patience = 90 * time.Second
)

// turn is what one side did before the other had its turn.
type turn struct {
	steps   int
	runs    int
	seconds float64
	cpu     float64 // microseconds, of the side's process and its PostgreSQL server
}

func (t turn) rate() float64 { return float64(t.steps) / t.seconds }

// cpuPerRun returns milliseconds.
func cpuPerRun(turns []turn) float64 {
	var cpu, runs float64
	for _, t := range turns {
		cpu += t.cpu
		runs += float64(t.runs)
	}
	return cpu / runs / 1000
}

// measure has Cairn and the peer work in turns.
func (c cell) measure(ctx context.Context, o options) (r row, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(4*o.seconds*float64(time.Second))+4*patience)
	defer cancel()
	ours, err := startSide(ctx, "cairn", c, o)
	if err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, ours.close()) }()
	theirs, err := startSide(ctx, c.peer, c, o)
	if err != nil {
		return row{}, err
	}
	defer func() { err = errors.Join(err, theirs.close()) }()

	length := time.Duration(o.seconds / (leastPairs + 1) * float64(time.Second))
	for _, s := range []*side{ours, theirs} {
		if err := s.warmUp(ctx, length, o.runs); err != nil {
			return row{}, fmt.Errorf("warm-up of %s: %w", s.system, err)
		}
	}
	var a, b []turn
	for began := time.Now(); len(a) < leastPairs || time.Since(began).Seconds() < o.seconds; {
		for _, s := range []*side{ours, theirs} {
			t, err := s.work(ctx, s.runs)
			if err != nil {
				return row{}, fmt.Errorf("%s: %w", s.system, err)
			}
			if s == ours {
				a = append(a, t)
			} else {
				b = append(b, t)
			}
		}
	}
	return c.row(a, b), nil
}

func (c cell) row(ours, theirs []turn) row {
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i].rate() / theirs[i].rate()
	}
	r := row{
		Bench: c.bench, Peer: c.peer, Store: c.store, InFlight: ours[0].runs, Value: medianRate(ours), Unit: "steps/s", Raw: medianRate(theirs),
		Ratio: median(ratios), Pairs: len(ours), RatioMin: slices.Min(ratios), RatioMax: slices.Max(ratios), PeerInFlight: theirs[0].runs,
		CPU: cpuPerRun(ours), PeerCPU: cpuPerRun(theirs),
	}
	if r.CPU > 0 {
		r.CPURatio = r.PeerCPU / r.CPU
	}
	return r
}

func medianRate(turns []turn) float64 {
	rates := make([]float64, len(turns))
	for i, t := range turns {
		rates[i] = t.rate()
	}
	return median(rates)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
