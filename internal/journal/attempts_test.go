package journal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

var (
	begins  = &StepStarted{}
	fails   = &StepRetrying{Error: &cairnerr.Error{Code: "busy"}}
	stopped = &StepRetrying{Error: &cairnerr.Error{Code: cairnerr.CodeStopped}}
)

func TestAttempts_Journal_CountsOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		events []Data
		want   int
	}{
		{"started", []Data{begins}, 1},
		{"created", []Data{&StepCreated{}}, 0},
		{"failed without a recorded start", []Data{fails}, 1},
		{"failed with a recorded start", []Data{begins, fails}, 1},
		{"its process died twice", []Data{begins, begins, begins}, 3},
		{"died, then failed", []Data{begins, begins, fails}, 2},
		{"stopped", []Data{begins, stopped}, 0},
		{"stopped, and begun again", []Data{begins, stopped, begins}, 1},
		{"stopped again and again", []Data{begins, stopped, begins, stopped, begins, stopped}, 0},
		{"stopped, then failed without a recorded start", []Data{begins, stopped, fails}, 1},
		{"died, then stopped", []Data{begins, begins, stopped}, 1},
		{"failed, then stopped", []Data{fails, begins, stopped}, 1},
		{"its own error has the code of a stop", []Data{stopped}, 1},
		{"completed", []Data{fails, begins, stopped, begins, &StepCompleted{Attempt: 2}}, 2},
		{"completed, and does not say at which attempt", []Data{fails, begins, stopped, begins, &StepCompleted{}}, 2},
		{"failed for good", []Data{begins, stopped, &StepFailed{Attempt: 1}}, 1},
		{"failed for good without a recorded start", []Data{fails, &StepFailed{Attempt: 2}}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var attempts Attempts
			b := newRun(t, Engine, started())
			for _, d := range c.events {
				attempts.Count(Engine, d)
				_, err := b.write(keyed("charge", d))
				require.NoError(t, err)
			}
			require.Equal(t, c.want, attempts.N)
			view := b.state(theRun).Steps[DeriveID(theRun, PrefixStep, "charge")]
			require.Equal(t, c.want, view.Attempt)
			requireFolds(t, theRun, b.state(theRun), b.logs[theRun])
		})
	}
}

// The World knows no stops: a start is an attempt, and what an outcome says can only add to that.
func TestAttempts_World_CountsStarts(t *testing.T) {
	t.Parallel()
	var a Attempts
	for _, d := range []Data{&StepCreated{}, begins, stopped, begins, fails, begins, &StepCompleted{Attempt: 1}} {
		a.Count(World6, d)
	}
	require.Equal(t, Attempts{N: 3}, a)
}

// A row of an older program may have counted starts that were taken back.
func TestAttempts_RowCountsTooMany_OutcomeIsRight(t *testing.T) {
	t.Parallel()
	for _, outcome := range []Data{&StepCompleted{Attempt: 2}, &StepFailed{Attempt: 2}} {
		a := Attempts{N: 4, Open: true}
		a.Count(Engine, outcome)
		require.Equal(t, Attempts{N: 2}, a)
	}
}
