package journal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// reduce reduces without commit.
func reduce(t *testing.T, b *bench, events ...Event) {
	t.Helper()
	_, err := b.state(theRun).Reduce(&Command{Namespace: ns, Run: theRun, Events: events, Guards: Guards{Owner: b.owner()}}, b.env(), b.outside)
	require.NoError(t, err)
}

func TestChanged(t *testing.T) {
	t.Parallel()
	b := newRun(t, World3, started(), about(h2, &HookCreated{Token: "u"}))
	s := b.state(theRun)
	require.Empty(t, s.Changed())
	reduce(
		t, b, about(s2, &StepCreated{}), about(s1, &StepCreated{}), about(s1, &StepStarted{}), about(h1, &HookCreated{Token: "t"}),
		about(h1, &HookReceived{Sender: "x"}), about(h2, &HookDisposed{}), about(w1, &WaitCreated{}), about(a1, &AttrSet{Changes: []AttrChange{{Key: "a", Value: "1"}}}),
	)
	want := Changed{
		Run: true, Steps: []*Step{s.Steps[s1], s.Steps[s2]}, Hooks: []*Hook{s.Hooks[h1]}, HooksGone: []ID{h2}, Waits: []*Wait{s.Waits[w1]},
		Receipts: []*Receipt{s.Receipts["x"]}, Attributes: []AttrChange{{Key: "a", Value: "1"}},
	}
	require.Equal(t, want, s.Changed(), "in the order of ids, each once")
	require.Equal(t, want, s.Changed(), "as often as one asks")

	_, err := s.Reduce(&Command{Namespace: ns, Run: theRun, Events: []Event{
		about(s2, &StepStarted{}), about(testID(33), &HookCreated{Token: "v"}), about(w1, &WaitCompleted{}), cancels(), ended(),
	}}, b.env(), b.outside)
	require.Equal(t, cairnerr.CodeRunEnded, cairnerr.CodeOf(err))
	require.Equal(t, want, s.Changed(), "a refused command leaves nothing to store")

	before := viewsOf(s)
	s.Commit()
	require.Empty(t, s.Changed())
	s.Rollback()
	require.Equal(t, before, viewsOf(s), "what was committed stays")
}

func TestStepsDoNotTouchTheRun(t *testing.T) {
	t.Parallel()
	b := newRun(t, Engine, started())
	reduce(t, b, keyed("charge", &StepCompleted{}))
	require.Empty(t, b.state(theRun).Changed(), "a finished step is one event, and no row")
	reduce(t, b, keyed("ship", &StepStarted{}))
	require.False(t, b.state(theRun).Changed().Run)
}

func TestRollback(t *testing.T) {
	t.Parallel()
	b := newRun(t, Engine, started(), keyed("approval", &HookCreated{Token: "t"}))
	s := b.state(theRun)
	before, holder := viewsOf(s), b.outside.Tokens[TokenKey(ns, "t")]
	reduce(t, b, keyed("charge", &StepCompleted{}), keyed("approval", &HookReceived{Sender: "x"}), keyed("approval", &HookDisposed{}))
	reduce(t, b, keyed("tag", &AttrSet{Changes: []AttrChange{{Key: "a"}}}), keyed("again", &HookCreated{Token: "t"}), ended())
	s.Rollback()
	require.Equal(t, before, viewsOf(s))
	require.Equal(t, Ownership{p1, 1}, b.owner())
	require.Empty(t, s.Changed())
	require.Equal(t, map[string]Holder{TokenKey(ns, "t"): holder}, b.outside.Tokens)

	fresh := newBench()
	reduce(t, fresh, Event{Data: &RunCreated{Workflow: "w", StartKey: "k"}})
	fresh.state(theRun).Rollback()
	require.Nil(t, fresh.state(theRun).Run)
	require.Zero(t, fresh.state(theRun).Seq)
	require.Empty(t, fresh.outside.StartKeys)
}

// A pointer that somebody took stays what it was.
func TestEntitiesAreReplaced(t *testing.T) {
	t.Parallel()
	b := newRun(t, World3, about(s1, &StepCreated{}), about(w1, &WaitCreated{}), about(h1, &HookCreated{Token: "t", SingleUse: true}))
	s := b.state(theRun)
	run, step, wait, hook := s.Run, s.Steps[s1], s.Waits[w1], s.Hooks[h1]
	runWas, stepWas, waitWas, hookWas := *run, *step, *wait, *hook
	_, err := b.write(
		started(), about(s1, &StepStarted{}), about(w1, &WaitCompleted{}), about(h1, &HookReceived{}), about(a1, &AttrSet{Changes: []AttrChange{{Key: "a"}}}),
	)
	require.NoError(t, err)
	require.Equal(t, runWas, *run)
	require.Equal(t, stepWas, *step)
	require.Equal(t, waitWas, *wait)
	require.Equal(t, hookWas, *hook)
}

func TestPartialStateSweeps(t *testing.T) {
	t.Parallel()
	b := newRun(t, World3, started(), about(h1, &HookCreated{Token: "t"}))
	s := b.state(theRun)
	part := LoadedState(ns, s.Run, s.Seq, 7)
	_, err := part.Reduce(&Command{Namespace: ns, Run: theRun, Events: []Event{ended()}}, b.env(), b.outside)
	require.NoError(t, err)
	require.True(t, part.Changed().Sweep, "the store must delete what was not read")
	part.Rollback()
	require.False(t, part.Changed().Sweep)

	_, err = s.Reduce(&Command{Namespace: ns, Run: theRun, Events: []Event{ended()}}, b.env(), b.outside)
	require.NoError(t, err)
	require.False(t, s.Changed().Sweep)
}

// Without the complete state nobody knows which steps have finished inline.
func TestPartialStateOfAnEngineRun(t *testing.T) {
	t.Parallel()
	b := newRun(t, Engine, started(), keyed("charge", &StepCompleted{}))
	s := b.state(theRun)
	part := LoadedState(ns, s.Run, s.Seq, 7)
	_, err := part.Reduce(&Command{Namespace: ns, Run: theRun, Events: []Event{keyed("charge", &StepCompleted{})}, Guards: Guards{Owner: b.owner()}}, b.env(), b.outside)
	require.Equal(t, cairnerr.CodeStepNotFound, cairnerr.CodeOf(err))
}

func TestFoldRefuses(t *testing.T) {
	t.Parallel()
	log := newRun(t, World3, started(), ended()).logs[theRun]
	for name, test := range map[string]struct {
		events []Event
		code   cairnerr.Code
	}{
		"a gap":          {[]Event{log[0], log[2]}, cairnerr.CodeCorrupt},
		"twice":          {[]Event{log[0], log[0]}, cairnerr.CodeCorrupt},
		"not the first":  {log[1:], cairnerr.CodeCorrupt},
		"no creation":    {[]Event{{Seq: 1, Type: EventRunStarted, Data: &RunStarted{}}}, cairnerr.CodeCorrupt},
		"without data":   {[]Event{log[0], {Seq: 2, Type: EventRunStarted}}, cairnerr.CodeUnknownEvent},
		"an unknown one": {[]Event{log[0], {Seq: 2, Type: 200}}, cairnerr.CodeUnknownEvent},
	} {
		_, err := Fold(ns, theRun, test.events)
		require.Equal(t, test.code, cairnerr.CodeOf(err), "%s: %v", name, err)
	}
	empty, err := Fold(ns, theRun, nil)
	require.NoError(t, err)
	require.Nil(t, empty.Run)
}

func TestFollow(t *testing.T) {
	t.Parallel()
	b := newRun(t, Engine, started(), keyed("charge", &StepStarted{}), keyed("charge", &StepCompleted{}), ended())
	log := stored(t, b.logs[theRun])
	s, err := Fold(ns, theRun, log[:2])
	require.NoError(t, err)
	require.NoError(t, s.Follow(theRun, log[2:4]))
	require.NoError(t, s.Follow(theRun, log[4:]))
	require.Equal(t, viewsOf(b.state(theRun)), viewsOf(s))
	require.Equal(t, cairnerr.CodeCorrupt, cairnerr.CodeOf(s.Follow(theRun, log[4:])))
}

// Rules let a run start once; the fold does not depend on it.
func TestFoldStartsOnce(t *testing.T) {
	t.Parallel()
	log := newRun(t, World3, started()).logs[theRun]
	s, err := Fold(ns, theRun, append(log, Event{Seq: 3, Type: EventRunStarted, At: t0 + 9, Data: &RunStarted{}}))
	require.NoError(t, err)
	require.Equal(t, t0, s.Run.StartedAt)
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	b := newRun(t, Engine, started())
	s, err := Fold(ns, theRun, b.logs[theRun])
	require.NoError(t, err)
	was := s.Run
	s.Adopt(&Run{Owner: p2, Epoch: 4, WakeAt: 9, Status: StatusFailed})
	require.Equal(t, p2, s.Run.Owner)
	require.Equal(t, int64(4), s.Run.Epoch)
	require.Equal(t, Time(9), s.Run.WakeAt)
	require.Equal(t, StatusRunning, s.Run.Status, "what is in the journal stays")
	require.True(t, was.Owner.IsZero())
	require.Positive(t, s.Weight())
}
