package journal

import "github.com/cairn-workflow/cairn/cairnerr"

// Attempts counts the attempts of one step. Views, forks and executions must agree on the number, so nothing else
// counts. The zero value is a step without events.
type Attempts struct {
	N    int  // attempts so far, without those that were taken back
	Open bool // the start of the last attempt is recorded, and its end is not
}

// Count adds an event of the step.
func (a *Attempts) Count(dialect Dialect, d Data) {
	switch d := d.(type) {
	case *StepStarted:
		a.N, a.Open = a.N+1, true
	case *StepRetrying:
		switch {
		case dialect != Engine: // the World counts starts alone
		case !a.Open: // its start was not recorded
			a.N++
		case d.takesBack():
			a.N--
		}
		a.Open = false
	case *StepCompleted:
		a.end(dialect, d.Attempt)
	case *StepFailed:
		a.end(dialect, d.Attempt)
	}
}

// end counts an outcome. In dialect Engine the outcome knows its attempt best: the count before it may come from a row
// that an older program wrote, which also counted the starts that were taken back.
func (a *Attempts) end(dialect Dialect, attempt int) {
	a.Open = false
	if attempt > a.N || dialect == Engine && attempt > 0 {
		a.N = attempt
	}
}

// takesBack reports whether the engine gave up an attempt that it had recorded, because it was stopped or the run was
// paused: such an attempt does not count.
func (d *StepRetrying) takesBack() bool {
	return d.Error != nil && d.Error.Code == cairnerr.CodeStopped
}
