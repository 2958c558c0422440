package journal

// Fork returns the command that makes a new run out of another one: it keeps the results of all steps that drop
// does not name. The source is not touched, and may go on.
//
// Open hooks, waits and children are not kept: the new run makes its own. input replaces the source's if it is not nil.
func Fork(namespace string, source ID, log []Event, run ID, drop func(key string) bool, input Payload) (*Command, error) {
	if len(log) == 0 || log[0].Type != EventRunCreated {
		return nil, Errorf(CodeRunNotFound, "no run %s", PrefixRun.Format(source))
	}
	created, ok := log[0].Data.(*RunCreated)
	if !ok || created.Dialect != Engine {
		return nil, Errorf(CodeUnsupported, "only runs of dialect engine can be forked")
	}
	birth := *created
	birth.ForkedFrom, birth.ForkedAt = source, log[len(log)-1].Seq
	birth.StartKey, birth.StartDigest, birth.StartAt = "", nil, 0 // those belong to the source
	birth.Parent, birth.AllowReserved = ID{}, true                // nobody waits for the fork
	if input != nil {
		birth.Input = input
	}
	cmd := &Command{Namespace: namespace, Run: run, Events: []Event{{Data: &birth}}}
	state, err := Fold(namespace, source, log)
	if err != nil {
		return nil, err
	}
	for i := range log {
		e := &log[i]
		if e.Key == "" || drop(e.Key) {
			continue
		}
		// An outcome does not repeat what earlier events of its step said, and is the only one that is copied.
		step := state.Steps[e.entity(source)]
		switch d := e.Data.(type) {
		case *StepCompleted:
			kept := *d
			kept.Copied = true
			if step != nil {
				kept.Name, kept.Attempt, kept.StartedAt = step.Name, step.Attempt, step.StartedAt
				kept.Input = inputOf(step, log)
			}
			cmd.Events = append(cmd.Events, Event{Key: e.Key, Data: &kept})
		case *StepFailed:
			kept := *d
			kept.Copied = true
			if step != nil {
				kept.Name, kept.Attempt, kept.StartedAt = step.Name, step.Attempt, step.StartedAt
				kept.Input = inputOf(step, log)
			}
			cmd.Events = append(cmd.Events, Event{Key: e.Key, Data: &kept})
		}
	}
	return cmd, nil
}

// inputOf returns the input of a step from the event that carries it.
func inputOf(step *Step, log []Event) Payload {
	if step.InputSeq == 0 {
		return nil
	}
	if in, _ := log[step.InputSeq-1].Data.payloads(); in != nil {
		return *in
	}
	return nil
}

// DropFrom returns what to drop so that a fork repeats the step with the given key and everything first seen after it.
func DropFrom(log []Event, key string) (func(key string) bool, error) {
	before := map[string]bool{}
	found := false
	for i := range log {
		k := log[i].Key
		if k == "" {
			continue
		}
		if k == key {
			found = true
		}
		if !found {
			before[k] = true
		}
	}
	if !found {
		return nil, Errorf(CodeStepNotFound, "no step %q to fork from", key)
	}
	return func(k string) bool { return !before[k] }, nil
}
