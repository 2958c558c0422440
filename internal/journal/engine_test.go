package journal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

func keyed(key string, d Data) Event { return Event{Key: key, Data: d} }

// engineRows is the law of runs that Cairn executes.
func engineRows() []row {
	outsider := (*bench).outsider
	done := keyed("charge", &StepCompleted{Name: "Charge", Attempt: 1, Result: Payload("out"), StartedAt: t0 - 10})
	failed := keyed("charge", &StepFailed{Name: "Charge", Error: &cairnerr.Error{Code: "declined"}})
	begun := keyed("charge", &StepStarted{Name: "Charge", Input: Payload("in")})
	retry := keyed("charge", &StepRetrying{Error: &cairnerr.Error{Code: "declined"}, RetryAfter: t0 + 10})
	hook := keyed("approval", &HookCreated{Token: "t"})
	received := keyed("approval", &HookReceived{Payload: Payload("p")})
	wait := keyed("nap", &WaitCreated{ResumeAt: t0 + 1000})
	parked := Event{Data: &RunParked{Error: &cairnerr.Error{Code: "mismatch"}}}
	paused := Event{Data: &RunParked{Error: &cairnerr.Error{Code: "paused", Message: "later"}, Actor: "ann", Asked: true}}
	asked := Event{Data: &CancelRequested{Reason: "r", Actor: "a"}}
	charge := DeriveID(theRun, PrefixStep, "charge")
	step := func(check func(t *testing.T, step *Step)) func(*testing.T, *State, *Result) {
		return func(t *testing.T, s *State, _ *Result) {
			t.Helper()
			check(t, s.Steps[charge])
		}
	}
	rows := []row{
		{name: "twice", given: []Event{started()}, when: started(), code: cairnerr.CodeIllegalTransition, status: 409},
		{name: "by an outsider", when: started(), from: outsider, code: cairnerr.CodeStaleEpoch, status: 409},
		{name: "pending", when: ended(), code: cairnerr.CodeIllegalTransition, status: 409},
		{name: "running", given: []Event{started(), hook, wait}, after: 5, when: ended(), then: func(t *testing.T, s *State, _ *Result) {
			t.Helper()
			require.Equal(t, t0+5, s.Run.CompletedAt)
			require.True(t, s.Run.Owner.IsZero())
			require.Equal(t, int64(1), s.Run.Epoch)
			require.Empty(t, s.Hooks)
			require.Empty(t, s.Waits)
		}},
		{name: "by an outsider", given: []Event{started()}, when: ended(), from: outsider, code: cairnerr.CodeStaleEpoch, status: 409},
		{name: "pending", when: cancels(), from: outsider},
		{name: "running", given: []Event{started()}, when: cancels(), from: outsider},
		{name: "twice", given: []Event{started(), cancels()}, when: cancels(), from: outsider, code: cairnerr.CodeRunEnded, status: 409},

		{name: "only event of its step", given: []Event{started()}, after: 5, when: done, then: func(t *testing.T, s *State, res *Result) {
			t.Helper()
			require.Empty(t, s.Steps, "no row")
			outcome, finished := s.StepOutcome(charge)
			require.True(t, finished)
			require.Equal(t, StatusCompleted, outcome)
			require.Equal(t, &Step{
				ID: charge, Key: "charge", Name: "Charge", Status: StatusCompleted, Inline: true, Attempt: 1, CreatedAt: t0 - 10, StartedAt: t0 - 10,
				CompletedAt: t0 + 5, UpdatedAt: t0 + 5, FirstSeq: 3, LastSeq: 3, Output: Payload("out"),
			}, InlineStep(theRun, &res.Appended[0]))
		}},
		{name: "only event of its step", given: []Event{started()}, when: failed, then: func(t *testing.T, s *State, res *Result) {
			t.Helper()
			outcome, _ := s.StepOutcome(charge)
			require.Equal(t, StatusFailed, outcome)
			require.Equal(t, cairnerr.Code("declined"), InlineStep(theRun, &res.Appended[0]).Error.Code)
		}},
		{name: "by an outsider, unknown", given: []Event{started()}, when: done, from: outsider, code: cairnerr.CodeStepNotFound, status: 404},
		{name: "by an outsider, started", given: []Event{started(), begun}, when: done, from: outsider},
		{name: "by an outsider, ended: the ghost", given: []Event{started(), begun, ended()}, when: done, from: outsider, code: cairnerr.CodeRunEnded, status: 409},
		{name: "pending", when: done, code: cairnerr.CodeIllegalTransition, status: 409},
		{name: "pending", when: keyed("charge", &StepCreated{}), code: cairnerr.CodeIllegalTransition, status: 409},

		{name: "first start", given: []Event{started()}, after: 5, when: begun, then: step(func(t *testing.T, s *Step) {
			t.Helper()
			require.Equal(t, Step{
				ID: charge, Key: "charge", Name: "Charge", Status: StatusRunning, Attempt: 1, CreatedAt: t0 + 5, StartedAt: t0 + 5, UpdatedAt: t0 + 5,
				FirstSeq: 3, InputSeq: 3, LastSeq: 3,
			}, *s)
		})},
		{name: "recorded late", given: []Event{started()}, after: 1000, when: keyed("charge", &StepStarted{StartedAt: t0 + 7}), then: step(func(t *testing.T, s *Step) {
			t.Helper()
			require.Equal(t, t0+7, s.StartedAt)
		})},
		{name: "second start", given: []Event{started(), begun, retry}, after: 5, when: begun, then: step(func(t *testing.T, s *Step) {
			t.Helper()
			require.Equal(t, 2, s.Attempt)
			require.Equal(t, t0, s.StartedAt)
			require.Equal(t, int64(3), s.InputSeq)
		})},
		{name: "of an attempt without recorded start", given: []Event{started()}, when: retry, then: step(func(t *testing.T, s *Step) {
			t.Helper()
			require.Equal(t, 1, s.Attempt)
			require.Equal(t, StatusPending, s.Status)
		})},
		{name: "after an attempt without recorded start", given: []Event{started(), retry}, when: begun, then: step(func(t *testing.T, s *Step) {
			t.Helper()
			require.Equal(t, 2, s.Attempt)
		})},
		{name: "by an outsider, unknown", given: []Event{started()}, when: retry, from: outsider, code: cairnerr.CodeStepNotFound, status: 404},

		{name: "by an outsider", given: []Event{started()}, when: hook, from: outsider, code: cairnerr.CodeStaleEpoch, status: 409},
		{name: "by an outsider", given: []Event{started(), hook}, when: received, from: outsider},
		{name: "ended", given: []Event{started(), hook, ended()}, when: received, from: outsider, code: cairnerr.CodeRunGone, status: 410},
		{name: "by its id", given: []Event{started(), hook}, when: about(DeriveID(theRun, PrefixHook, "approval"), &HookReceived{}), from: outsider},
		{name: "id and key differ", given: []Event{started()}, when: Event{Entity: h1, Key: "approval", Data: &HookCreated{Token: "t"}}, code: cairnerr.CodeMalformed, status: 400},
		{name: "names an entity", given: []Event{started()}, when: keyed("charge", &RunCompleted{}), code: cairnerr.CodeMalformed, status: 400},
		{name: "names none", given: []Event{started()}, when: Event{Data: &StepStarted{}}, code: cairnerr.CodeMalformed, status: 400},

		{name: "first", given: []Event{started()}, after: 5, when: asked, from: outsider, then: func(t *testing.T, s *State, _ *Result) {
			t.Helper()
			require.Equal(t, StatusRunning, s.Run.Status, "a cancel is a request")
			require.Equal(t, t0+5, s.Run.CancelledAt)
			require.Equal(t, "cancelling", s.Run.Phase())
		}},
		{name: "twice", given: []Event{started(), asked}, when: asked, from: outsider, nothing: true},
		{name: "ended", given: []Event{started(), ended()}, when: asked, from: outsider, code: cairnerr.CodeRunEnded, status: 409},
		{name: "after a request to cancel", given: []Event{started(), asked}, when: done},

		{name: "running", given: []Event{started()}, after: 5, when: parked, then: func(t *testing.T, s *State, _ *Result) {
			t.Helper()
			require.Equal(t, t0+5, s.Run.ParkedAt)
			require.True(t, s.Run.Owner.IsZero())
		}},
		{name: "by an outsider", given: []Event{started()}, when: parked, from: outsider},
		{name: "paused", given: []Event{started()}, after: 5, when: paused, from: outsider, then: func(t *testing.T, s *State, res *Result) {
			t.Helper()
			require.Equal(t, t0+5, s.Run.ParkedAt)
			require.False(t, s.Run.Owner.IsZero(), "the owner ends what is under way")
			require.Equal(t, []ID{theRun}, res.Effects.Wake, "and is told")
		}},
		{name: "under way while paused", given: []Event{started(), paused}, when: keyed("a", &StepCompleted{Name: "a"})},
		{name: "paused for a long reason", given: []Event{started()}, when: Event{Data: &RunParked{Error: &cairnerr.Error{Message: strings.Repeat("x", MaxReason+1)}, Asked: true}}, from: outsider, code: cairnerr.CodeLimitExceeded, status: 400},
		{name: "twice", given: []Event{started(), parked}, when: parked, from: outsider, nothing: true},
		{name: "parked", given: []Event{started(), parked}, after: 5, when: Event{Data: &RunResumed{}}, from: outsider, then: func(t *testing.T, s *State, res *Result) {
			t.Helper()
			require.Zero(t, s.Run.ParkedAt)
			require.Equal(t, t0+5, s.Run.WakeAt, "somebody should take it")
			require.Equal(t, []ID{theRun}, res.Effects.Wake)
		}},
		{name: "not parked", given: []Event{started()}, when: Event{Data: &RunResumed{}}, from: outsider, code: cairnerr.CodeIllegalTransition, status: 409},
		{name: "received while parked", given: []Event{started(), hook, parked}, when: received, from: outsider, then: func(t *testing.T, s *State, res *Result) {
			t.Helper()
			require.Zero(t, s.Run.WakeAt)
			require.Empty(t, res.Effects.Wake)
		}},
		{name: "ended", given: []Event{started(), ended()}, when: Event{Data: &Annotated{Name: "n"}}, from: outsider},
		{name: "without a name", when: Event{Data: &Annotated{}}, from: outsider, code: cairnerr.CodeMalformed, status: 400},
		{name: "only we write it", given: []Event{started()}, when: keyed("approval", &HookConflict{Token: "t"}), code: cairnerr.CodeUnsupported, status: 400},
		{name: "the same change", given: []Event{keyed("tag", &AttrSet{Changes: []AttrChange{{Key: "a"}}})}, when: keyed("tag", &AttrSet{Changes: []AttrChange{{Key: "a"}}}), code: cairnerr.CodeAttributeExists, status: 409},
	}
	for _, late := range []Event{begun, retry, done, failed} {
		rows = append(rows,
			row{name: "completed", given: []Event{started(), done}, when: late, code: cairnerr.CodeStepFinished, status: 409},
			row{name: "completed, with a row", given: []Event{started(), begun, done}, when: late, code: cairnerr.CodeStepFinished, status: 409},
			row{name: "failed", given: []Event{started(), failed}, when: late, code: cairnerr.CodeStepFinished, status: 409},
		)
	}
	for _, late := range []Event{ended(), {Data: &RunFailed{}}, begun, retry, done, failed, hook, wait, parked, keyed("nap", &WaitCompleted{})} {
		rows = append(rows, row{name: "ghost", given: []Event{started(), begun, hook, wait, cancels()}, when: late, code: cairnerr.CodeRunEnded, status: 409})
	}
	return rows
}

func TestEngine(t *testing.T) {
	t.Parallel()
	for _, c := range engineRows() {
		t.Run(c.when.Data.EventType().String()+"/"+c.name, func(t *testing.T) {
			t.Parallel()
			c.check(t, Engine)
		})
	}
}

// A ghost writes with the right that it had once.
func TestOldEpochChangesNothing(t *testing.T) {
	t.Parallel()
	for name, ghost := range map[string]Ownership{
		"another process":   {Incarnation: p2, Epoch: 1},
		"an earlier epoch":  {Incarnation: p1, Epoch: 0},
		"a later epoch":     {Incarnation: p1, Epoch: 2},
		"neither fits":      {Incarnation: p2, Epoch: 7},
		"nobody's next one": {Incarnation: p2},
	} {
		for e := EventType(1); e < eventTypes; e++ {
			b := newRun(t, Engine, started(), keyed("charge", &StepStarted{}), keyed("approval", &HookCreated{Token: "t"}), keyed("nap", &WaitCreated{}))
			ev := sample(e, Engine)
			_, err := b.try(&Command{Events: []Event{ev}, Guards: Guards{Owner: ghost}})
			want := cairnerr.CodeStaleEpoch
			if e == EventRunCreated {
				want = cairnerr.CodeRunExists
			}
			require.Equal(t, want, cairnerr.CodeOf(err), "%s: %s: %v", name, e, err)
		}
		b := newRun(t, Engine)
		_, err := b.try(&Command{
			Events: []Event{{Data: &RunStarted{Create: birth(Engine)}}, keyed("charge", &StepCompleted{}), ended()},
			Guards: Guards{Owner: ghost},
		})
		require.Equal(t, cairnerr.CodeStaleEpoch, cairnerr.CodeOf(err), "%s: creation data is no way around the fence", name)
	}
}

func TestEngineRunWithoutOwner(t *testing.T) {
	t.Parallel()
	b := newBench()
	_, err := b.outsider(Event{Data: &RunStarted{Create: birth(Engine)}})
	require.Equal(t, cairnerr.CodeStaleEpoch, cairnerr.CodeOf(err), "only an owner starts a run, also one that he creates with it")

	c := birth(Engine)
	c.StartAt = t0 + 5000
	res, err := b.outsider(Event{Data: c})
	require.NoError(t, err)
	require.Equal(t, t0+5000, res.Run.WakeAt)
	require.Equal(t, []ID{theRun}, res.Effects.Wake)
	require.True(t, res.Run.Owner.IsZero())
	require.Zero(t, res.Run.Epoch)
}
