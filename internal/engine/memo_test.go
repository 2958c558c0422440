package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// An execution goes on with the attempt that the view shows. A resume makes a step harmless again, and not younger.
func TestMemos_StepEvents_CountAttemptsAsViewsDo(t *testing.T) {
	t.Parallel()
	begins := &journal.StepStarted{}
	fails := &journal.StepRetrying{Error: &cairnerr.Error{Code: "busy"}}
	stopped := &journal.StepRetrying{Error: &cairnerr.Error{Code: cairnerr.CodeStopped}}
	parked, resumed := &journal.RunParked{Error: &cairnerr.Error{Code: cairnerr.CodePoison}}, &journal.RunResumed{}
	run := journal.ID{1}
	for _, events := range [][]journal.Data{
		{begins},
		{fails},
		{stopped},
		{begins, fails},
		{begins, stopped},
		{begins, begins, stopped},
		{fails, begins, stopped, begins},
		{begins, stopped, fails},
		{begins, stopped, stopped},
		{begins, begins, begins, parked, resumed, begins, fails},
		{begins, parked, resumed, stopped},
		{begins, parked, resumed, fails},
	} {
		log := []journal.Event{{Data: &journal.RunCreated{Workflow: "w"}}, {Data: &journal.RunStarted{}}}
		for _, d := range events {
			e := journal.Event{Data: d}
			if d.EventType().About() == journal.PrefixStep {
				e.Key = "s"
			}
			log = append(log, e)
		}
		m := newMemos()
		for i := range log {
			log[i].Type, log[i].Seq = log[i].Data.EventType(), int64(i+1)
			m.fold(run, &log[i])
		}
		state, err := journal.Fold("default", run, log)
		require.NoError(t, err)
		view := state.Steps[journal.DeriveID(run, journal.PrefixStep, "s")]
		require.Equal(t, view.Attempt, m.byKey["s"].attempts.N, "%v", events)
	}
}
