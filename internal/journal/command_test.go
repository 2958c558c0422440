package journal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

func TestGuards(t *testing.T) {
	t.Parallel()
	note := []Event{{Data: &Annotated{Name: "n"}}}
	for name, test := range map[string]struct {
		guards Guards
		code   cairnerr.Code
	}{
		"none":               {Guards{}, ""},
		"sequence":           {Guards{Seq: 3}, ""},
		"older sequence":     {Guards{Seq: 2}, cairnerr.CodePrecondition},
		"later sequence":     {Guards{Seq: 4}, cairnerr.CodePrecondition},
		"status":             {Guards{Status: []Status{StatusPending, StatusRunning}}, ""},
		"another status":     {Guards{Status: []Status{StatusPending}}, cairnerr.CodePrecondition},
		"hook":               {Guards{Hook: h1}, ""},
		"another hook":       {Guards{Hook: h2}, cairnerr.CodeHookNotFound},
		"delivery":           {Guards{Delivery: Delivery{m1, 2}}, ""},
		"earlier delivery":   {Guards{Delivery: Delivery{m1, 1}}, cairnerr.CodeStaleDelivery},
		"unknown message":    {Guards{Delivery: Delivery{testID(62), 1}}, cairnerr.CodeStaleDelivery},
		"owner of the World": {Guards{Owner: Ownership{Incarnation: p1}}, cairnerr.CodeStaleEpoch},
	} {
		b := newRun(t, World3, started(), about(h1, &HookCreated{Token: "t"}))
		b.outside.Deliveries[m1] = 2
		_, err := b.try(&Command{Events: note, Guards: test.guards})
		require.Equal(t, test.code, cairnerr.CodeOf(err), "%s: %v", name, err)

		if test.guards.Delivery.Message.IsZero() && name != "none" && name != "owner of the World" {
			_, err = newBench().try(&Command{Events: []Event{{Data: birth(World3)}}, Guards: test.guards})
			require.Equal(t, cairnerr.CodeRunNotFound, cairnerr.CodeOf(err), "%s: no run has that", name)
		}
	}
}

func TestDeliveryIsUsedOnce(t *testing.T) {
	t.Parallel()
	b := newRun(t, World3, started())
	b.outside.Deliveries[m1] = 1
	cmd := func() *Command {
		return &Command{Events: []Event{{Data: &Annotated{Name: "n"}}}, Guards: Guards{Delivery: Delivery{m1, 1}}, Messages: []Message{{ID: testID(62), Queue: "q"}}}
	}
	res := b.must(t, cmd())
	require.Equal(t, m1, res.Effects.Done)
	require.Len(t, res.Effects.Messages, 1)
	_, err := b.try(cmd())
	require.Equal(t, cairnerr.CodeStaleDelivery, cairnerr.CodeOf(err), "a second command of the batch finds the message done")

	b.outside.Deliveries[m1] = 1
	_, err = b.state(theRun).Reduce(&Command{Namespace: ns, Run: theRun, Guards: cmd().Guards}, b.env(), b.outside)
	require.NoError(t, err)
	b.state(theRun).Rollback()
	require.Equal(t, 1, b.outside.Deliveries[m1], "until the batch is rolled back")
}

func TestPerEvent(t *testing.T) {
	t.Parallel()
	events := []Event{
		about(s1, &StepCreated{}),
		about(s1, &StepCreated{}),
		about(s1, &StepStarted{}),
		about(s2, &StepCompleted{}),
		about(s1, &StepCompleted{}),
	}
	b := newRun(t, World6, started())
	_, err := b.try(&Command{Events: events})
	require.Equal(t, cairnerr.CodeStepExists, cairnerr.CodeOf(err), "an atomic command is accepted or refused as one")
	require.Equal(t, int64(2), b.state(theRun).Seq)

	res, err := b.try(&Command{Events: events, PerEvent: true})
	require.NoError(t, err)
	require.Equal(t, []EventType{EventStepCreated, EventStepStarted, EventStepCompleted}, types(res.Appended))
	require.Equal(t, []cairnerr.Code{"", cairnerr.CodeStepExists, "", cairnerr.CodeStepNotFound, ""}, codes(res.Outcomes))
	for i, want := range []Outcome{{Appended: 0, Seq: 3}, {Appended: -1}, {Appended: 1, Seq: 4}, {Appended: -1}, {Appended: 2, Seq: 5}} {
		require.Equal(t, want.Appended, res.Outcomes[i].Appended)
		require.Equal(t, want.Seq, res.Outcomes[i].Seq)
	}
	requireFolds(t, theRun, b.state(theRun), b.logs[theRun])

	for e := EventType(1); e < eventTypes; e++ {
		_, err := newRun(t, World6, started()).try(&Command{Events: []Event{sample(e, World6)}, PerEvent: true})
		switch e {
		case EventRunCreated, EventRunStarted, EventRunCancelled, EventHookCreated, EventHookDisposed, EventAttrSet:
			require.Equal(t, cairnerr.CodeUnsupported, cairnerr.CodeOf(err), "%s refuses the whole command", e)
		default:
			require.NoError(t, err, "%s", e)
		}
	}
	_, err = newBench().try(&Command{Events: events, PerEvent: true})
	require.Equal(t, cairnerr.CodeRunNotFound, cairnerr.CodeOf(err))
}

func TestStartKey(t *testing.T) {
	t.Parallel()
	b := newBench()
	start := func(run ID, input string, more ...Event) (*Result, error) {
		c := &RunCreated{Workflow: "w", StartKey: "k", Input: Payload(input)}
		return b.try(&Command{Run: run, Events: append([]Event{{Data: c}}, more...), Guards: Guards{Owner: Ownership{Incarnation: p1}}})
	}
	res, err := start(theRun, "in")
	require.NoError(t, err)
	require.False(t, res.Existing)
	require.Len(t, res.Run.StartDigest, 16)

	res, err = start(another, "in", started())
	require.NoError(t, err)
	require.True(t, res.Existing)
	require.Equal(t, theRun, res.Run.ID)
	require.Empty(t, res.Appended)
	require.Equal(t, []Outcome{{Appended: -1}, {Appended: -1}}, res.Outcomes, "one for each event")
	require.Nil(t, b.state(another).Run)

	_, err = start(another, "other")
	require.Equal(t, cairnerr.CodeStartKeyConflict, cairnerr.CodeOf(err))
	require.Equal(t, 409, cairnerr.AsError(err).Status())
	_, err = start(theRun, "in")
	require.Equal(t, cairnerr.CodeRunExists, cairnerr.CodeOf(err))

	for _, c := range []*RunCreated{{Workflow: "v", StartKey: "k"}, {Workflow: "w", StartKey: "l"}} {
		res, err := newBench().outsider(Event{Data: c})
		require.NoError(t, err)
		require.False(t, res.Existing)
	}
	cmd := &Command{Namespace: ns, Events: []Event{{Data: &RunCreated{Workflow: "w", StartKey: "k"}}, {Data: &RunStarted{Create: &RunCreated{Workflow: "w", StartKey: "l"}}}}}
	require.Equal(t, []StartKey{{ns, "w", "k"}, {ns, "w", "l"}}, cmd.StartKeys())
	require.True(t, cmd.Creates())
	require.False(t, (&Command{Events: []Event{started()}}).Creates())
}

func TestRefusedStartKeyIsFree(t *testing.T) {
	t.Parallel()
	b := newBench()
	_, err := b.try(&Command{Events: []Event{{Data: &RunCreated{Workflow: "w", StartKey: "k"}}, ended()}})
	require.Error(t, err)
	require.Empty(t, b.outside.StartKeys)
}

func TestTouches(t *testing.T) {
	t.Parallel()
	cmd := &Command{
		Run: theRun, Lease: LeaseRelease, Guards: Guards{Hook: h2},
		Events: []Event{
			about(s1, &StepCompleted{}), keyed("charge", &StepFailed{}), about(h1, &HookReceived{Sender: "x"}), about(h1, &HookReceived{}),
			about(h1, &HookCreated{Token: "t"}), about(w1, &WaitCreated{}), about(a1, &AttrSet{}),
			{Data: &AttrSet{}},
			{},
			ended(),
		},
	}
	require.Equal(t, Touch{
		Steps: []ID{s1, DeriveID(theRun, PrefixStep, "charge")}, Hooks: []ID{h2, h1, h1, h1}, Waits: []ID{w1}, AttrSets: []ID{a1}, Senders: []string{"x"},
		HooksMade: []ID{h1},
	}, cmd.Touches())
	require.Equal(t, []string{"t"}, cmd.Tokens())
}

func TestRefusalsAreErrors(t *testing.T) {
	t.Parallel()
	_, err := newBench().write(started())
	var e *cairnerr.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 404, e.Status())
}
