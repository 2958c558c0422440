package journal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

func worldSteps() []row {
	created := about(s1, &StepCreated{Name: "charge", Input: Payload("in")})
	begun := about(s1, &StepStarted{})
	lazy := about(s1, &StepStarted{Name: "charge", Lazy: true, Input: Payload("in"), OwnerMessage: "msg"})
	done := about(s1, &StepCompleted{Result: Payload("out")})
	failed := about(s1, &StepFailed{Error: &cairnerr.Error{Message: "m"}})
	retry := about(s1, &StepRetrying{Error: &cairnerr.Error{Message: "m"}, RetryAfter: t0 + 1500})
	step := func(check func(t *testing.T, step *Step)) func(*testing.T, *State, *Result) {
		return func(t *testing.T, s *State, _ *Result) {
			t.Helper()
			check(t, s.Steps[s1])
		}
	}
	rows := []row{
		{name: "new", when: created, then: step(func(t *testing.T, s *Step) {
			t.Helper()
			require.Equal(t, Step{
				ID: s1, Name: "charge", Status: StatusPending, CreatedAt: t0, UpdatedAt: t0, FirstSeq: 2, InputSeq: 2, LastSeq: 2,
			}, *s)
		})},
		{name: "exists", given: []Event{created}, when: created, code: cairnerr.CodeStepExists, status: 409},
		{name: "finished", given: []Event{created, done}, when: created, code: cairnerr.CodeStepExists, status: 409},
		{name: "another", given: []Event{created}, when: about(s2, &StepCreated{})},
		{name: "run ended", given: []Event{ended()}, when: created, code: cairnerr.CodeRunEnded, status: 409},

		{name: "pending", given: []Event{created}, after: 5, when: begun, then: step(func(t *testing.T, s *Step) {
			t.Helper()
			require.Equal(t, StatusRunning, s.Status)
			require.Equal(t, 1, s.Attempt)
			require.Equal(t, t0+5, s.StartedAt)
		})},
		{name: "running: redelivery", given: []Event{created, begun}, after: 5, when: begun, then: step(func(t *testing.T, s *Step) {
			t.Helper()
			require.Equal(t, 2, s.Attempt)
			require.Equal(t, t0, s.StartedAt, "the first start never moves")
		})},
		{name: "after its retry time", given: []Event{created, begun, retry}, after: 1500, when: begun, then: step(func(t *testing.T, s *Step) {
			t.Helper()
			require.Equal(t, 2, s.Attempt)
			require.Zero(t, s.RetryAfter)
		})},
		{name: "before its retry time", given: []Event{created, begun, retry}, after: 1499, when: begun, code: cairnerr.CodeTooEarly, status: 425},
		{name: "missing", when: begun, code: cairnerr.CodeStepNotFound, status: 404},
		{name: "finished", given: []Event{created, done}, when: begun, code: cairnerr.CodeStepFinished, status: 409},
		{name: "run ended, pending", given: []Event{created, ended()}, when: begun, code: cairnerr.CodeRunGone, status: 410},
		{name: "run ended, running", only: World3, given: []Event{created, begun, ended()}, when: begun},
		{name: "run ended, running", only: World6, given: []Event{created, begun, ended()}, when: begun, code: cairnerr.CodeRunGone, status: 410},
		{name: "run ended, missing", given: []Event{ended()}, when: begun, code: cairnerr.CodeRunGone, status: 410},

		{name: "lazy", after: 5, when: lazy, appends: []EventType{EventStepCreated, EventStepStarted}, then: func(t *testing.T, s *State, res *Result) {
			t.Helper()
			require.Equal(t, &StepCreated{Name: "charge", Input: Payload("in")}, res.Appended[0].Data)
			require.Equal(t, &StepStarted{Name: "charge", OwnerMessage: "msg"}, res.Appended[1].Data, "the input is stored once")
			require.Equal(t, Outcome{Appended: 1, Seq: 3}, res.Outcomes[0])
			require.Equal(t, Step{
				ID: s1, Name: "charge", Status: StatusRunning, Attempt: 1, CreatedAt: t0 + 5, UpdatedAt: t0 + 5, StartedAt: t0 + 5,
				FirstSeq: 2, InputSeq: 2, LastSeq: 3, OwnerMessage: "msg",
			}, *s.Steps[s1])
		}},
		{name: "lazy, exists: the gate", given: []Event{created}, when: lazy, code: cairnerr.CodeStepExists, status: 409},
		{name: "lazy, twice", given: []Event{lazy}, when: lazy, code: cairnerr.CodeStepExists, status: 409},
		{name: "lazy, finished", given: []Event{lazy, done}, when: lazy, code: cairnerr.CodeStepExists, status: 409},
		{name: "lazy, run ended", given: []Event{ended()}, when: lazy, code: cairnerr.CodeRunEnded, status: 409},

		{name: "running", given: []Event{created, begun}, after: 5, when: done, then: step(func(t *testing.T, s *Step) {
			t.Helper()
			require.Equal(t, StatusCompleted, s.Status)
			require.Equal(t, t0+5, s.CompletedAt)
			require.Equal(t, int64(4), s.LastSeq)
			require.False(t, s.Inline)
		})},
		{name: "running", given: []Event{created, begun}, after: 5, when: failed, then: step(func(t *testing.T, s *Step) {
			t.Helper()
			require.Equal(t, StatusFailed, s.Status)
			require.Equal(t, t0+5, s.CompletedAt)
		})},
		{name: "running", given: []Event{created, begun}, when: retry, then: step(func(t *testing.T, s *Step) {
			t.Helper()
			require.Equal(t, StatusPending, s.Status)
			require.Equal(t, t0+1500, s.RetryAfter)
			require.Equal(t, 1, s.Attempt)
			require.Zero(t, s.CompletedAt)
		})},
		{name: "pending: the World counts starts alone", given: []Event{created}, when: retry, then: step(func(t *testing.T, s *Step) {
			t.Helper()
			require.Zero(t, s.Attempt)
		})},
	}
	for _, outcome := range []Event{done, failed, retry} {
		rows = append(rows,
			row{name: "missing", when: outcome, code: cairnerr.CodeStepNotFound, status: 404},
			row{name: "completed", given: []Event{created, done}, when: outcome, code: cairnerr.CodeStepFinished, status: 409},
			row{name: "failed", given: []Event{created, failed}, when: outcome, code: cairnerr.CodeStepFinished, status: 409},
			row{name: "pending", given: []Event{created}, when: outcome},
			row{name: "late: the run was completed", given: []Event{created, begun, ended()}, when: outcome},
			row{name: "late: the run was cancelled", given: []Event{created, begun, cancels()}, when: outcome},
			row{name: "late and missing", given: []Event{ended()}, when: outcome, code: cairnerr.CodeStepNotFound, status: 404},
		)
	}
	return rows
}

func TestTooEarlySaysHowLong(t *testing.T) {
	t.Parallel()
	for wait, want := range map[Time]string{1: "1", 1000: "1", 1001: "2", 60_000: "60"} {
		b := newRun(t, World3, about(s1, &StepCreated{}), about(s1, &StepRetrying{RetryAfter: t0 + wait}))
		_, err := b.write(about(s1, &StepStarted{}))
		require.Equal(t, cairnerr.CodeTooEarly, cairnerr.CodeOf(err))
		require.Equal(t, want, cairnerr.AsError(err).Details["retry_after"], "seconds, rounded up")
	}
}

// The app's runtime looks for these words.
func TestStepNotFoundSaysSo(t *testing.T) {
	t.Parallel()
	_, err := newRun(t, World6).write(about(s1, &StepStarted{}))
	require.ErrorContains(t, err, "step ")
	require.ErrorContains(t, err, "not found")
}
