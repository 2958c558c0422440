package journal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// forkOf reduces a fork of the run that tests are about.
func (b *bench) forkOf(t *testing.T, source, run ID, spec ForkSpec) *Result {
	t.Helper()
	spec.NewToken = func() (string, error) { return "new token", nil }
	cmd, err := Fork(ns, b.state(source).Run, 1, b.logs[source], run, &spec)
	require.NoError(t, err)
	cmd.Guards.Owner, cmd.WakeAt = Ownership{Incarnation: p1, Epoch: 1}, b.now
	return b.must(t, cmd)
}

func forked(t *testing.T) *bench {
	t.Helper()
	b := newBench()
	b.must(t, &Command{
		Events: []Event{{Data: &RunCreated{Workflow: "checkout", StartKey: "k", Parent: testID(9), Attributes: map[string]string{"$x": "1"}, AllowReserved: true, Input: Payload("in")}}},
		Guards: Guards{Owner: Ownership{Incarnation: p1}},
	})
	for _, e := range []Event{
		started(),
		keyed("reserve", &StepCompleted{Name: "Reserve", Digest: []byte("d"), Result: Payload("r1")}),
		keyed("charge", &StepStarted{Name: "Charge", Input: Payload("card")}),
		keyed("charge", &StepRetrying{Error: &cairnerr.Error{Code: "busy"}}),
		keyed("charge", &StepStarted{}),
		keyed("charge", &StepFailed{Name: "Charge", Attempt: 2, StartedAt: t0 + 3000, Error: &cairnerr.Error{Code: "declined"}}),
		keyed("nap", &WaitCreated{ResumeAt: t0 + 5000, Kind: "sleep"}),
		keyed("nap", &WaitCompleted{ResumeAt: t0 + 5000}),
		keyed("limit", &WaitCreated{ResumeAt: t0 + 1e6, Kind: "deadline"}),
		keyed("approval", &HookCreated{Token: "t", Metadata: Payload("m")}),
		keyed("approval", &HookReceived{Sender: "ann", Payload: Payload("yes")}),
		keyed("approval", &HookReplied{To: 12, Value: Payload("thanks")}),
		{Data: &AttrSet{Changes: []AttrChange{{Key: "color", Value: "red"}}}},
		{Data: &Annotated{Name: "seen"}},
		keyed("ship", &StepStarted{}),
		keyed("note", &StepCompleted{Result: Payload("r3")}),
		keyed("limit", &WaitCompleted{ResumeAt: t0 + 1e6}),
	} {
		b.later(1e9)
		_, err := b.write(e)
		require.NoError(t, err)
	}
	return b
}

func TestFork(t *testing.T) {
	t.Parallel()
	b := forked(t)
	source := viewsOf(b.state(theRun))
	received := b.logs[theRun][11]
	res := b.forkOf(t, theRun, another, ForkSpec{From: "ship", Actor: "ann", Reason: Payload("why")})
	require.Equal(t, source, viewsOf(b.state(theRun)), "the source is not touched")
	require.Equal(t, []EventType{
		EventRunCreated, EventRunStarted, EventStepCompleted, EventStepFailed, EventWaitCreated, EventWaitCompleted, EventHookCreated, EventHookReceived, EventHookReplied,
		EventAttrSet, EventAnnotated,
	}, types(res.Appended))
	require.Equal(t, &RunCreated{
		Workflow: "checkout", Input: Payload("in"), Root: another, ForkedFrom: theRun, ForkedAt: 18, Kept: 8, Seed: theRun, SeedAt: t0,
		Attributes: map[string]string{"$x": "1", ForkedFrom: PrefixRun.Format(theRun)},
	}, res.Appended[0].Data, "nobody waits for the fork, and its start key is its own")
	require.Equal(t, &StepFailed{
		Name: "Charge", Attempt: 2, StartedAt: t0 + 3000, Error: &cairnerr.Error{Code: "declined"}, Input: Payload("card"),
	}, res.Appended[3].Data, "with what only earlier events say")
	require.Equal(t, &HookCreated{Token: "new token", Metadata: Payload("m")}, res.Appended[6].Data)
	require.Equal(t, At{received.At, Payload("yes")}, at(res.Appended[7]), "it came when it came")
	require.Equal(t, &HookReplied{To: 8, Value: Payload("thanks")}, res.Appended[8].Data)
	require.Equal(t, &Annotated{Name: "cairn.fork", Actor: "ann", Value: Payload("why")}, res.Appended[10].Data)
	require.Equal(t, StatusRunning, res.Run.Status)
	require.True(t, res.Run.Owner.IsZero())
	require.Equal(t, b.now, res.Run.WakeAt)
	require.Equal(t, "red", res.Run.Attributes["color"])
	_, finished := b.state(another).StepOutcome(DeriveID(another, PrefixStep, "reserve"))
	require.True(t, finished, "ids follow from the new run")
	requireFolds(t, another, b.state(another), b.logs[another])

	third := testID(3)
	res = b.forkOf(t, theRun, third, ForkSpec{From: "reserve", Input: Payload("new"), Digest: []byte("x"), StartKey: "again"})
	require.Equal(t, []EventType{EventRunCreated, EventRunStarted}, types(res.Appended))
	require.Equal(t, Payload("new"), res.Appended[0].Data.(*RunCreated).Input)
}

// At is when something came, and what.
type At struct {
	At Time
	In Payload
}

func at(e Event) At {
	d, _ := e.Data.(*HookReceived)
	return At{d.At, d.Payload}
}

// A fork that drops single keys keeps what came after them.
func TestForkWithout(t *testing.T) {
	t.Parallel()
	b := forked(t)
	res := b.forkOf(t, theRun, another, ForkSpec{Drop: []string{"reserve", "approval", "nap"}})
	require.Equal(t, []EventType{EventRunCreated, EventRunStarted, EventStepFailed, EventWaitCreated, EventAttrSet, EventStepCompleted, EventWaitCompleted}, types(res.Appended))
}

// What a run did after it was asked to stop is not kept.
func TestForkOfACancelledRun(t *testing.T) {
	t.Parallel()
	b := newRun(t, Engine, started(), keyed("a", &StepCompleted{}), Event{Data: &CancelRequested{}}, keyed("b", &StepFailed{Error: &cairnerr.Error{Code: "cancelled"}}), keyed("c", &StepCompleted{}), Event{Data: &RunCancelled{}})
	res := b.forkOf(t, theRun, another, ForkSpec{From: "c"})
	require.Equal(t, []EventType{EventRunCreated, EventRunStarted, EventStepCompleted}, types(res.Appended))
}

func TestForkOfAFork(t *testing.T) {
	t.Parallel()
	b := newRun(t, Engine, started(), keyed("a", &StepCompleted{Result: Payload("1")}), keyed("z", &StepCompleted{}), ended())
	third := testID(3)
	b.forkOf(t, theRun, another, ForkSpec{From: "z"})
	b.forkOf(t, another, third, ForkSpec{Drop: []string{"a"}})
	created := b.logs[third][0].Data.(*RunCreated)
	require.Equal(t, another, created.ForkedFrom)
	require.Equal(t, theRun, created.Seed)
	require.Equal(t, int64(2), created.LastKept())
}

// A fork copies as many results as there are; those that it has not read, it takes over.
func TestForkOfALongRun(t *testing.T) {
	t.Parallel()
	b := newRun(t, Engine, started())
	for i := range MaxEvents + 1 {
		_, err := b.write(keyed(string(rune('a'+i%26))+testID(uint32(i)).String(), &StepCompleted{}))
		require.NoError(t, err)
	}
	_, err := b.write(keyed("last", &StepCompleted{}))
	require.NoError(t, err)
	res := b.forkOf(t, theRun, another, ForkSpec{From: "last"})
	require.Len(t, res.Appended, MaxEvents+3)

	log := b.logs[theRun]
	for i := range log[2:] {
		log[2+i].Data, log[2+i].Entity = nil, ID{}
	}
	third := testID(3)
	res = b.forkOf(t, theRun, third, ForkSpec{From: "last"})
	require.Equal(t, []Kept{{To: 3, Ref: 1, First: 3, Last: MaxEvents + 3}}, res.Kept)
	require.Equal(t, int64(MaxEvents+3), res.Seq)
	require.False(t, b.state(third).Complete)
	b.state(third).Rollback()
}

func TestForkRefuses(t *testing.T) {
	t.Parallel()
	world, b := newRun(t, World6), newRun(t, Engine, started(), keyed("a", &StepCompleted{}))
	for _, c := range []struct {
		b    *bench
		spec ForkSpec
		code cairnerr.Code
	}{
		{world, ForkSpec{From: "a"}, cairnerr.CodeUnsupported},
		{b, ForkSpec{}, cairnerr.CodeMalformed},
		{b, ForkSpec{From: "a", Drop: []string{"a"}}, cairnerr.CodeMalformed},
		{b, ForkSpec{From: "charge"}, cairnerr.CodeStepNotFound},
		{b, ForkSpec{Drop: []string{"a", "charge"}}, cairnerr.CodeStepNotFound},
		{b, ForkSpec{Drop: []string{"a", ""}}, cairnerr.CodeStepNotFound},
	} {
		_, err := Fork(ns, c.b.state(theRun).Run, 1, c.b.logs[theRun], another, &c.spec)
		require.Equal(t, c.code, cairnerr.CodeOf(err))
	}
	_, err := Fork(ns, b.state(theRun).Run, 1, nil, another, &ForkSpec{From: "a"})
	require.Equal(t, cairnerr.CodeCorrupt, cairnerr.CodeOf(err))
	for _, cmd := range []*Command{
		{Events: []Event{keyed("b", &StepCompleted{})}, Keeps: []Keep{{Ref: 1, First: 1, Last: 2}}},
		{Run: another, Events: []Event{{Data: &RunCreated{Workflow: "w", ForkedFrom: theRun}}, started()}, Keeps: []Keep{{Before: 2, First: 1, Last: 2}}},
		{Run: another, Events: []Event{{Data: &RunCreated{Workflow: "w", ForkedFrom: theRun}}, started()}, Keeps: []Keep{{Before: 2, Ref: 1, First: 3, Last: 2}}},
	} {
		cmd.Guards.Owner = Ownership{Incarnation: p1, Epoch: 1}
		_, err := b.try(cmd)
		require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err))
	}
	_, err = b.try(&Command{
		Run: another, Events: []Event{{Data: &RunCreated{Workflow: "w", ForkedFrom: theRun}}}, Keeps: []Keep{{Before: 0, Ref: 1, First: 1, Last: 1}},
	})
	require.Equal(t, cairnerr.CodeIllegalTransition, cairnerr.CodeOf(err), "nothing comes before its birth")
}

// A start that was taken back is no attempt, in the fork as in its source.
func TestFork_StartTakenBack_KeepsAttempt(t *testing.T) {
	t.Parallel()
	for _, outcome := range []Data{&StepCompleted{Attempt: 2}, &StepCompleted{}, &StepFailed{Attempt: 2}, &StepFailed{}} {
		for _, first := range [][]Data{{begins, fails}, {fails}} {
			b := newRun(t, Engine, started())
			for _, d := range append(first, begins, stopped, begins, outcome) {
				_, err := b.write(keyed("charge", d))
				require.NoError(t, err)
			}
			_, err := b.write(keyed("ship", &StepCompleted{}))
			require.NoError(t, err)
			res := b.forkOf(t, theRun, another, ForkSpec{From: "ship"})
			source := b.state(theRun).Steps[DeriveID(theRun, PrefixStep, "charge")]
			require.Equal(t, 2, source.Attempt)
			require.Equal(t, 2, InlineStep(another, &res.Appended[2]).Attempt)
		}
	}
}
