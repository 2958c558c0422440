package journal

import (
	"strconv"

	"github.com/cairn-workflow/cairn/cairnerr"
)

func (r *reduction) stepCreated(e *Event, _ *Outcome) (verdict, error) {
	d := e.Data.(*StepCreated)
	if err := CheckText("the step's name", d.Name, MaxName); err != nil {
		return 0, err
	}
	return appends, r.newStep(e)
}

// newStep refuses a step that exists.
func (r *reduction) newStep(e *Event) error {
	if _, finished := r.s.StepOutcome(e.Entity); finished || r.s.Steps[e.Entity] != nil {
		return cairnerr.Errorf(cairnerr.CodeStepExists, "step %s exists", stepText(e))
	}
	return nil
}

// openStep finds a step that has no outcome yet.
func (r *reduction) openStep(e *Event) (*Step, error) {
	if _, finished := r.s.StepOutcome(e.Entity); finished {
		return nil, cairnerr.Errorf(cairnerr.CodeStepFinished, "step %s is finished", stepText(e))
	}
	return r.s.Steps[e.Entity], nil
}

func stepNotFound(e *Event) error {
	return cairnerr.Errorf(cairnerr.CodeStepNotFound, "step %s not found", stepText(e))
}

func stepText(e *Event) string {
	if e.Key != "" {
		return strconv.Quote(e.Key)
	}
	return PrefixStep.Format(e.Entity)
}

func (r *reduction) engineStepStarted(e *Event, _ *Outcome) (verdict, error) {
	if err := checkStart(e.Data.(*StepStarted)); err != nil {
		return 0, err
	}
	_, err := r.openStep(e)
	return appends, err
}

// engineStepOutcome is the law for step_retrying, step_completed and step_failed in the engine's dialect: a step
// without a recorded start is known to the owner alone.
func (r *reduction) engineStepOutcome(e *Event, _ *Outcome) (verdict, error) {
	if err := CheckText("the step's name", stepName(e.Data), MaxName); err != nil {
		return 0, err
	}
	step, err := r.openStep(e)
	if err != nil {
		return 0, err
	}
	whole := r.s.Complete || r.result.created // of what a fork keeps unread, nothing comes a second time
	if step == nil && (r.cmd.Guards.Owner.Incarnation.IsZero() || !whole) {
		return 0, stepNotFound(e)
	}
	return appends, nil
}

func stepName(d Data) string {
	switch d := d.(type) {
	case *StepCompleted:
		return d.Name
	case *StepFailed:
		return d.Name
	case *StepRetrying:
		return d.Name
	default:
		return ""
	}
}

func checkStart(d *StepStarted) error {
	if err := CheckText("the step's name", d.Name, MaxName); err != nil {
		return err
	}
	return CheckText("the message that owns the step", d.OwnerMessage, MaxKey)
}

// worldStepStarted is the law for step_started in the World's dialects.
func (r *reduction) worldStepStarted(e *Event, _ *Outcome) (verdict, error) {
	d := *e.Data.(*StepStarted)
	if err := checkStart(&d); err != nil {
		return 0, err
	}
	if d.Lazy {
		return r.lazyStart(e, d)
	}
	step, err := r.openStep(e)
	if run := r.s.Run; run.Status.Terminal() {
		mayFinish := run.Dialect == World3 && step != nil && step.Status == StatusRunning
		if !mayFinish {
			return 0, cairnerr.Errorf(cairnerr.CodeRunGone, "step_started came after the run was %s", run.Status)
		}
	}
	if err != nil {
		return 0, err
	}
	if step == nil {
		return 0, stepNotFound(e)
	}
	if wait := step.RetryAfter - r.env.Now; wait > 0 {
		seconds := strconv.FormatInt(int64((wait+999)/1000), 10)
		return 0, cairnerr.Errorf(cairnerr.CodeTooEarly, "step %s is retried in %s s", stepText(e), seconds).With("retry_after", seconds)
	}
	return appends, nil
}

// lazyStart creates the step together with its first start. That it must not exist is what makes its caller the only one.
func (r *reduction) lazyStart(e *Event, d StepStarted) (verdict, error) {
	if status := r.s.Run.Status; status.Terminal() {
		return 0, cairnerr.Errorf(cairnerr.CodeRunEnded, "step_started came after the run was %s", status)
	}
	if err := r.newStep(e); err != nil {
		return 0, err
	}
	r.append(Event{Entity: e.Entity, Key: e.Key, Data: &StepCreated{Name: d.Name, Input: d.Input}})
	d.Lazy, d.Input = false, nil
	e.Data = &d
	return appends, nil
}

// worldStepOutcome is the law for step_retrying, step_completed and step_failed in the World's dialects: the
// run's state does not matter.
func (r *reduction) worldStepOutcome(e *Event, _ *Outcome) (verdict, error) {
	step, err := r.openStep(e)
	if err != nil {
		return 0, err
	}
	if step == nil {
		return 0, stepNotFound(e)
	}
	return appends, CheckText("the step's name", stepName(e.Data), MaxName)
}
