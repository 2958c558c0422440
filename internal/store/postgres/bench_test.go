package postgres

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// BenchmarkCommit commits batches in which each of many runs finishes an inline step. The reducer is not measured.
func BenchmarkCommit(b *testing.B) {
	for _, runs := range []int{64, 1000} {
		b.Run(fmt.Sprintf("runs=%d", runs), func(b *testing.B) { benchmarkCommit(b, runs) })
	}
}

func benchmarkCommit(b *testing.B, runs int) {
	b.Helper()
	f := newFixture(b)
	changes := &store.Changes{}
	for range runs {
		s := journal.NewState(namespace)
		changes.Runs = append(changes.Runs, f.reduce(s, f.mint(), f.owner(), journal.Event{Data: &journal.RunCreated{Workflow: "w"}},
			journal.Event{Data: &journal.RunStarted{}}))
	}
	require.NoError(b, f.commit(f.writer, changes))
	payload := make([]byte, 100)
	for i := range changes.Runs {
		c := &changes.Runs[i]
		*c = store.RunChange{State: c.State, Was: c.State.Run, Events: []journal.Event{{
			Seq: 2, Type: journal.EventStepCompleted, At: f.now, Key: "charge",
			Data: &journal.StepCompleted{Name: "charge", Attempt: 1, StartedAt: f.now, Input: payload, Result: payload},
		}}}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		for i := range changes.Runs {
			changes.Runs[i].Events[0].Seq++
		}
		t, err := f.writer.Begin(b.Context(), f.now)
		require.NoError(b, err)
		require.NoError(b, t.Commit(b.Context(), changes))
	}
	b.ReportMetric(float64(b.N*runs)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkLoad loads runs by what a command touches, and commits an annotation to each.
func BenchmarkLoad(b *testing.B) {
	const runs = 64
	f := newFixture(b)
	changes := &store.Changes{}
	want := &store.LoadSet{}
	for range runs {
		s, id := journal.NewState(namespace), f.mint()
		changes.Runs = append(changes.Runs, f.reduce(s, id, f.owner(), journal.Event{Data: &journal.RunCreated{Workflow: "w"}}, journal.Event{Data: &journal.RunStarted{}},
			journal.Event{Key: "s", Data: &journal.StepStarted{Name: "s"}}))
		want.Runs = append(want.Runs, store.LoadRun{Namespace: namespace, Run: id, EventsAfter: -1, Touch: journal.Touch{Steps: []journal.ID{journal.DeriveID(id, journal.PrefixStep, "s")}}})
	}
	require.NoError(b, f.commit(f.writer, changes))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		t, err := f.writer.Begin(b.Context(), f.now)
		require.NoError(b, err)
		loaded, err := t.Load(b.Context(), want)
		require.NoError(b, err)
		for i := range loaded.Runs {
			s := loaded.Runs[i].State
			changes.Runs[i] = f.reduce(s, s.Run.ID, journal.Guards{}, journal.Event{Data: &journal.Annotated{Name: "note"}})
		}
		require.NoError(b, t.Commit(b.Context(), changes))
	}
	b.ReportMetric(float64(b.N*runs)/b.Elapsed().Seconds(), "events/s")
}
