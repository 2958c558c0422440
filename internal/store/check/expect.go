package check

import (
	"slices"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// expected are the views as readers should show them, with the payloads that the events carry.
type expected struct {
	run   *journal.Run
	steps []*journal.Step
	hooks []*journal.Hook
	waits []*journal.Wait
}

func viewsOf(s *journal.State, log []journal.Event) *expected {
	run := *s.Run
	if d, ok := log[0].Data.(*journal.RunCreated); ok {
		run.Input = d.Input
	}
	if run.EndSeq > 0 {
		store.RunOutcome(&run, log[run.EndSeq-1].Data)
	}
	want := &expected{run: &run}
	for _, step := range s.Steps {
		want.steps = append(want.steps, withPayloads(step, log))
	}
	for i := range log {
		e := &log[i]
		if outcome := e.Type == journal.EventStepCompleted || e.Type == journal.EventStepFailed; outcome && s.Steps[e.Entity] == nil {
			want.steps = append(want.steps, journal.InlineStep(run.ID, e))
		}
	}
	for _, h := range s.Hooks {
		hook := *h
		if d, ok := log[h.Seq-1].Data.(*journal.HookCreated); ok {
			hook.Metadata = d.Metadata
		}
		want.hooks = append(want.hooks, &hook)
	}
	for _, w := range s.Waits {
		want.waits = append(want.waits, w)
	}
	slices.SortFunc(want.steps, func(a, b *journal.Step) int { return int(a.FirstSeq - b.FirstSeq) })
	slices.SortFunc(want.hooks, func(a, b *journal.Hook) int { return int(a.Seq - b.Seq) })
	slices.SortFunc(want.waits, func(a, b *journal.Wait) int { return int(a.Seq - b.Seq) })
	return want
}

func withPayloads(step *journal.Step, log []journal.Event) *journal.Step {
	s := *step
	var input journal.Data
	if s.InputSeq > 0 {
		input = log[s.InputSeq-1].Data
	}
	store.StepPayloads(&s, input, log[s.LastSeq-1].Data)
	return &s
}
