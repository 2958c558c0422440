package engine

import (
	"context"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// Progress is how far a step says it has come.
type Progress struct {
	Fraction float64 // 0 to 1
	Note     string
	At       journal.Time
}

// Report tells how far the step has come, and that it goes on.
func (i StepInfo) Report(p Progress) {
	if i.attempt != nil {
		i.attempt.step.report(p)
	}
}

// Beat shows that the step goes on.
func (i StepInfo) Beat() {
	if i.attempt != nil {
		i.attempt.step.beat()
	}
}

// report keeps the progress for who asks, and shows that the body goes on.
func (s *step) report(p Progress) {
	x := s.b.x
	p.Fraction = min(max(p.Fraction, 0), 1)
	p.At = x.eng.now()
	s.reports.Add(1)
	x.mu.Lock()
	if x.progress == nil {
		x.progress = map[string]Progress{}
	}
	x.progress[s.key] = p
	x.mu.Unlock()
	s.beat()
}

func (s *step) beat() {
	select {
	case s.beats <- struct{}{}:
	default:
	}
}

// watch ends the returned context when the body of a step that must show that it goes on has not done so in time.
func (s *step) watch(ctx context.Context) (watched context.Context, stop func()) {
	if s.spec.Beat <= 0 {
		return ctx, func() {}
	}
	watched, cancel := context.WithCancelCause(ctx)
	s.beats = make(chan struct{}, 1)
	over := make(chan struct{})
	go func() {
		timer := time.NewTimer(s.spec.Beat)
		defer timer.Stop()
		for {
			select {
			case <-over:
				return
			case <-s.beats:
				timer.Reset(s.spec.Beat)
			case <-timer.C:
				cancel(cairnerr.Errorf(cairnerr.CodeTimeout, "step %q has shown no heartbeat for %s", s.key, s.spec.Beat))
				return
			}
		}
	}()
	return watched, func() {
		close(over)
		cancel(context.Canceled)
	}
}
