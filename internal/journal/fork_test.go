package journal

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFork(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.must(t, &Command{
		Events: []Event{{Data: &RunCreated{Workflow: "checkout", StartKey: "k", Parent: testID(9), Attributes: map[string]string{"$x": "1"}, AllowReserved: true, Input: Payload("in")}}},
		Guards: Guards{Owner: Ownership{Incarnation: p1}},
	})
	for _, e := range []Event{
		started(),
		keyed("reserve", &StepCompleted{Name: "Reserve", Digest: []byte("d"), Result: Payload("r1")}),
		keyed("charge", &StepStarted{Name: "Charge", Input: Payload("card")}),
		keyed("charge", &StepRetrying{Error: &Error{Code: "busy"}}),
		keyed("charge", &StepStarted{}),
		keyed("charge", &StepFailed{Error: &Error{Code: "declined"}}),
		keyed("approval", &HookCreated{Token: "t"}),
		keyed("ship", &StepStarted{}),
		keyed("note", &StepCompleted{Result: Payload("r3")}),
	} {
		b.later(1e9)
		_, err := b.write(e)
		require.NoError(t, err)
	}
	source := viewsOf(b.state(theRun))
	log := b.logs[theRun]

	fork := func(from string, input Payload) *Result {
		drop, err := DropFrom(log, from)
		require.NoError(t, err)
		cmd, err := Fork(ns, theRun, log, another, drop, input)
		require.NoError(t, err)
		return b.must(t, cmd)
	}
	res := fork("ship", nil)
	require.Equal(t, source, viewsOf(b.state(theRun)), "the source is not touched")
	require.Equal(t, []EventType{EventRunCreated, EventStepCompleted, EventStepFailed}, types(res.Appended))
	created := res.Appended[0].Data.(*RunCreated)
	require.Equal(t, theRun, created.ForkedFrom)
	require.Equal(t, int64(10), created.ForkedAt)
	require.Equal(t, Payload("in"), created.Input)
	require.Empty(t, created.StartKey)
	require.False(t, created.AllowReserved, "a flag that is not stored does not show")
	require.True(t, created.Parent.IsZero(), "nobody waits for the fork")
	require.Equal(t, &StepCompleted{Name: "Reserve", Digest: []byte("d"), Result: Payload("r1"), Copied: true}, res.Appended[1].Data)
	require.Equal(t, &StepFailed{
		Name: "Charge", Attempt: 2, StartedAt: t0 + 3000, Error: &Error{Code: "declined"}, Input: Payload("card"), Copied: true,
	}, res.Appended[2].Data, "with what only earlier events say")
	require.Equal(t, StatusPending, res.Run.Status)
	require.Equal(t, map[string]string{"$x": "1"}, res.Run.Attributes)
	require.Equal(t, []ID{another}, res.Effects.Wake)
	require.Empty(t, b.state(another).Hooks)
	_, finished := b.state(another).StepOutcome(DeriveID(another, PrefixStep, "reserve"))
	require.True(t, finished, "ids follow from the new run")
	requireFolds(t, another, b.state(another), b.logs[another])

	_, err := b.try(&Command{Run: another, Events: []Event{keyed("ship", &StepCompleted{Copied: true})}})
	require.Equal(t, CodeIllegalTransition, CodeOf(err), "results are copied with the birth alone")

	delete(b.states, another)
	res = fork("reserve", Payload("new"))
	require.Equal(t, []EventType{EventRunCreated}, types(res.Appended))
	require.Equal(t, Payload("new"), res.Appended[0].Data.(*RunCreated).Input)
}

func TestForkOfAFork(t *testing.T) {
	t.Parallel()
	b := newRun(t, Engine, started(), keyed("a", &StepCompleted{Result: Payload("1")}), ended())
	keep := func(string) bool { return false }
	third := testID(3)
	cmd, err := Fork(ns, theRun, b.logs[theRun], another, keep, nil)
	require.NoError(t, err)
	b.must(t, cmd)
	cmd, err = Fork(ns, another, b.logs[another], third, keep, nil)
	require.NoError(t, err)
	b.must(t, cmd)
	require.Equal(t, another, b.state(third).Run.ForkedFrom)
	_, finished := b.state(third).StepOutcome(DeriveID(third, PrefixStep, "a"))
	require.True(t, finished)
}

// A fork copies as many results as there are.
func TestForkOfALongRun(t *testing.T) {
	t.Parallel()
	b := newRun(t, Engine, started())
	for i := range MaxEvents + 1 {
		_, err := b.write(keyed(string(rune('a'+i%26))+testID(uint32(i)).String(), &StepCompleted{}))
		require.NoError(t, err)
	}
	cmd, err := Fork(ns, theRun, b.logs[theRun], another, func(string) bool { return false }, nil)
	require.NoError(t, err)
	res := b.must(t, cmd)
	require.Len(t, res.Appended, MaxEvents+2)
}

func TestForkRefuses(t *testing.T) {
	t.Parallel()
	keep := func(string) bool { return false }
	_, err := Fork(ns, theRun, nil, another, keep, nil)
	require.Equal(t, CodeRunNotFound, CodeOf(err))
	_, err = Fork(ns, theRun, newRun(t, World6).logs[theRun], another, keep, nil)
	require.Equal(t, CodeUnsupported, CodeOf(err))
	_, err = DropFrom(newRun(t, Engine).logs[theRun], "charge")
	require.Equal(t, CodeStepNotFound, CodeOf(err))

	b := newRun(t, Engine, started(), keyed("a", &StepCompleted{}))
	cmd, err := Fork(ns, theRun, b.logs[theRun], another, keep, nil)
	require.NoError(t, err)
	cmd.Events = append(cmd.Events, keyed("a", &StepCompleted{Copied: true}))
	_, err = b.try(cmd)
	require.Equal(t, CodeStepFinished, CodeOf(err), "a step is copied once")
}
