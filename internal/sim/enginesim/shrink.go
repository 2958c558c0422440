package enginesim

import "slices"

// Shrink looks for a smaller plan that still fails: it leaves out what a run of the plan did not come to, then parts of what is left, halves first. Tries limits
// how often the plan is run. It returns the smallest plan that was seen to fail, with its report.
//
// One plan has one schedule, and another plan another one: a part that is kept may have nothing to do with the failure but that the schedule fails with it.
func Shrink(plan *Plan, report *Report, tries int, run func(*Plan) *Report) (*Plan, *Report) {
	s := &shrinker{best: plan, report: report, tries: tries, run: run}
	s.try(func(p *Plan) { p.Faults = slices.Clone(report.Fired) })
	for before := -1; before != s.tries && s.tries > 0; {
		before = s.tries
		size := s.best.size()
		leaveOut(s, func(p *Plan) *[]PointFault { return &p.Faults })
		leaveOut(s, func(p *Plan) *[]Ask { return &p.Asks })
		leaveOut(s, func(p *Plan) *[]Blow { return &p.Blows })
		leaveOut(s, func(p *Plan) *[]Part { return &p.Parts })
		if len(s.best.Asks) == 0 { // asks name runs by their place
			leaveOut(s, func(p *Plan) *[]int { return &p.Runs })
		}
		if s.best.size() == size {
			break
		}
	}
	return s.best, s.report
}

// size is how many entries a plan has.
func (p *Plan) size() int {
	return len(p.Faults) + len(p.Asks) + len(p.Blows) + len(p.Parts) + len(p.Runs)
}

type shrinker struct {
	best   *Plan
	report *Report
	tries  int
	run    func(*Plan) *Report
}

// try runs the best plan with a change, and keeps that if it still fails.
func (s *shrinker) try(change func(*Plan)) bool {
	if s.tries <= 0 {
		return false
	}
	s.tries--
	next := *s.best
	change(&next)
	report := s.run(&next)
	if report.Err() == nil {
		return false
	}
	s.best, s.report = &next, report
	return true
}

// leaveOut tries the plan without runs of entries, shorter and shorter ones.
func leaveOut[T any](s *shrinker, list func(*Plan) *[]T) {
	for n := len(*list(s.best)); n > 0; n /= 2 {
		for from := 0; from < len(*list(s.best)); {
			without := slices.Delete(slices.Clone(*list(s.best)), from, min(from+n, len(*list(s.best))))
			if !s.try(func(p *Plan) { *list(p) = without }) {
				from += n
			}
		}
	}
}
