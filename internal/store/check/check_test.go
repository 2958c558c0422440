package check_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/check"
)

func TestGoodDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, run := range []journal.ID{w.full("a"), w.running("b"), w.retaining("b"), w.cancelled("b")} {
		for _, namespace := range []string{"a", "b"} {
			found, err := check.Views(t.Context(), w.store, namespace, run, w.now)
			if cairnerr.CodeOf(err) == cairnerr.CodeRunNotFound {
				continue
			}
			require.NoError(t, err)
			require.Empty(t, found)
		}
	}
	var last check.Counts
	report, err := check.All(t.Context(), w.store, check.Options{Now: w.clock, Progress: func(c check.Counts) { last = c }})
	require.NoError(t, err)
	require.Empty(t, report.Differences)
	require.Equal(t, 4, report.Runs)
	require.Equal(t, 2, report.Namespaces)
	require.Equal(t, report.Counts, last)
	require.Positive(t, report.Events)
}

func TestNoSuchRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := check.Views(t.Context(), w.store, "a", journal.ID{1}, w.now)
	require.Equal(t, cairnerr.CodeRunNotFound, cairnerr.CodeOf(err))
}

func TestEveryKindOfDamageIsSeen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lie  lie
		want string
	}{
		"run status":       {lie{run: func(r *journal.Run) { r.Status = journal.StatusFailed }}, "run: status is failed, the journal says completed"},
		"run end":          {lie{run: func(r *journal.Run) { r.CompletedAt = 0 }}, "run: completed at is not set, the journal says 2026-"},
		"run output":       {lie{run: func(r *journal.Run) { r.Output = nil }}, "run: output is none, the journal says 3 bytes (sha256 "},
		"run parent":       {lie{run: func(r *journal.Run) { r.Parent = journal.ID{1} }}, "run: parent is 0100000000"},
		"attribute":        {lie{run: func(r *journal.Run) { r.Attributes["color"] = "red" }}, `attribute "color" is "red", the journal says "blue"`},
		"attribute gone":   {lie{run: func(r *journal.Run) { delete(r.Attributes, "color") }}, `attribute "color" is none, the journal says "blue"`},
		"attribute new":    {lie{run: func(r *journal.Run) { r.Attributes["x"] = "y" }}, `attribute "x" is "y", the journal says none`},
		"step attempt":     {lie{steps: func(s []*journal.Step) []*journal.Step { s[0].Attempt = 9; return s }}, ": attempt is 9, the journal says 2"},
		"step error":       {lie{steps: func(s []*journal.Step) []*journal.Step { s[1].Error = nil; return s }}, `: error is none, the journal says "boom: it broke"`},
		"inline step":      {lie{steps: func(s []*journal.Step) []*journal.Step { s[2].Output = nil; return s }}, ": output is none, the journal says 4 bytes"},
		"inline step gone": {lie{steps: func(s []*journal.Step) []*journal.Step { return s[:2] }}, " is missing, the journal says it exists"},
		"step twice":       {lie{steps: func(s []*journal.Step) []*journal.Step { return append(s, s[0]) }}, " is listed twice"},
		"no event":         {lie{journal: func(j *store.Journal) { j.Seq, j.Events = 0, nil }}, "journal has no events"},
		"gap": {
			lie{journal: func(j *store.Journal) { j.Events = append(j.Events[:2:2], j.Events[3:]...) }},
			"journal has no event 3: 4 comes in its place",
		},
		"end missing": {lie{journal: func(j *store.Journal) { j.Events = j.Events[:3] }}, "journal: last event is "},
		"bad first":   {lie{journal: func(j *store.Journal) { j.Events[0].Type = journal.EventRunStarted }}, "journal cannot be read: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			run := w.full("a")
			c.lie.Reader = w.store
			found, err := check.Views(t.Context(), &c.lie, "a", run, w.now)
			require.NoError(t, err)
			require.Len(t, found, 1, "%v", found)
			require.Contains(t, found[0].String(), c.want)
			require.Contains(t, found[0].String(), journal.PrefixRun.Format(run)+" in a: ")
		})
	}
}

func TestDamagedHooksAndWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lie  lie
		want string
	}{
		"hook token":    {lie{hooks: func(h []*store.RunHook) []*store.RunHook { h[0].Token = "other"; return h }}, `: token is "other", the journal says "token-`},
		"hook gone":     {lie{hooks: func([]*store.RunHook) []*store.RunHook { return nil }}, " is missing, the journal says it exists"},
		"wait time":     {lie{waits: func(w []*journal.Wait) []*journal.Wait { w[0].ResumeAt++; return w }}, ": resume at is 2026-"},
		"wait too much": {lie{waits: func(w []*journal.Wait) []*journal.Wait { return append(w, &journal.Wait{ID: journal.ID{1}}) }}, "is there, the journal says none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			run := w.running("a")
			c.lie.Reader = w.store
			found, err := check.Views(t.Context(), &c.lie, "a", run, w.now)
			require.NoError(t, err)
			require.Len(t, found, 1, "%v", found)
			require.Contains(t, found[0].String(), c.want)
		})
	}
}

func TestWhatDoesNotFollowFromTheJournalMayChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.running("a")
	found, err := check.Views(t.Context(), &lie{Reader: w.store, run: func(r *journal.Run) {
		r.Owner, r.Epoch, r.WakeAt, r.UpdatedAt = journal.ID{1}, 99, 99, 99
	}}, "a", run, w.now)
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestRetainedHookMayBeGoneWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.retaining("a")
	gone := &lie{Reader: w.store, hooks: func([]*store.RunHook) []*store.RunHook { return nil }}
	found, err := check.Views(t.Context(), gone, "a", run, w.now)
	require.NoError(t, err)
	require.Len(t, found, 1)
	found, err = check.Views(t.Context(), gone, "a", run, w.now.Add(2*retention))
	require.NoError(t, err)
	require.Empty(t, found)
	found, err = check.Views(t.Context(), w.store, "a", run, w.now.Add(2*retention))
	require.NoError(t, err)
	require.Empty(t, found, "and may still be there")
}

func TestRunThatIsWrittenToMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.running("a")
	times := 3
	busy := &lie{Reader: w.store, steps: func(s []*journal.Step) []*journal.Step {
		if times--; times >= 0 {
			w.do("a", run, journal.Event{Key: fmt.Sprint("late", times), Data: &journal.StepCompleted{Name: "late"}})
			s = s[1:] // as if it had been read before
		}
		return s
	}}
	found, err := check.Views(t.Context(), busy, "a", run, w.now)
	require.NoError(t, err)
	require.Empty(t, found)

	times = 1000
	_, err = check.Views(t.Context(), busy, "a", run, w.now)
	require.ErrorIs(t, err, check.ErrMoving)
	report, err := check.All(t.Context(), busy, check.Options{Now: w.clock, Workers: 1})
	require.NoError(t, err)
	require.Equal(t, 1, report.Moving)
	require.Empty(t, report.Differences)
}

func TestRunOfANewerProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.full("a")
	newer := &lie{Reader: w.store, journal: func(j *store.Journal) { j.Events[2].Type, j.Events[2].Data = 200, nil }}
	_, err := check.Views(t.Context(), newer, "a", run, w.now)
	require.Equal(t, cairnerr.CodeUnknownEvent, cairnerr.CodeOf(err))
	report, err := check.All(t.Context(), newer, check.Options{Now: w.clock})
	require.NoError(t, err)
	require.Equal(t, 1, report.Unknown)
	require.Zero(t, report.Differing)
}

func TestAllReportsInOrderAndKeepsSome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var runs []journal.ID
	for range 20 {
		runs = append(runs, w.full("a"))
	}
	wrong := func(r *journal.Run) { r.Workflow, r.Spec = "wrong", 99 }
	report, err := check.All(t.Context(), &lie{Reader: w.store, run: wrong}, check.Options{Now: w.clock, MaxDifferences: 11})
	require.NoError(t, err)
	require.Equal(t, 20, report.Differing)
	require.Equal(t, 40, report.Found)
	require.Len(t, report.Differences, 11)
	for i, d := range report.Differences {
		require.Equal(t, runs[i/2], d.Run)
	}
}

func TestNewest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var runs []journal.ID
	for i := range 10 {
		runs = append(runs, w.full([]string{"a", "b", "c"}[i%3]))
	}
	var seen []journal.ID
	reader := &lie{Reader: w.store, run: func(r *journal.Run) { seen = append(seen, r.ID) }}
	report, err := check.All(t.Context(), reader, check.Options{Now: w.clock, Newest: 4, Workers: 1})
	require.NoError(t, err)
	require.Equal(t, 4, report.Runs)
	require.ElementsMatch(t, runs[6:], seen)
}

func TestAllEndsWithTheDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.full("a")
	gone := cairnerr.Errorf(cairnerr.CodeUnreachable, "gone")
	report, err := check.All(t.Context(), &lie{Reader: w.store, err: gone}, check.Options{Now: w.clock})
	require.ErrorIs(t, err, gone)
	require.Zero(t, report.Runs)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = check.All(ctx, w.store, check.Options{Now: w.clock})
	require.ErrorIs(t, err, context.Canceled)
}
