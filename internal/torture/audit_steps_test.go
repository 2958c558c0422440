package torture

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// Attempts that were taken back had no body, or one that is repeated. Only those that failed must have been made.
func TestAudit_AttemptsTakenBack_NeedNoEffects(t *testing.T) {
	t.Parallel()
	retry := func(code cairnerr.Code) journal.Data {
		return &journal.StepRetrying{Error: &cairnerr.Error{Code: code}}
	}
	for code, found := range map[cairnerr.Code]int{cairnerr.CodeStopped: 0, errFlaky.Code: 1} {
		var events []journal.Event
		for _, d := range []journal.Data{
			&journal.StepStarted{}, retry(code), &journal.StepStarted{}, retry(code),
			&journal.StepStarted{}, &journal.StepCompleted{Attempt: 1},
		} {
			events = append(events, journal.Event{Key: "work", Data: d})
		}
		var findings []string
		a := &audit{
			report:  &Report{},
			found:   func(format string, args ...any) { findings = append(findings, fmt.Sprintf(format, args...)) },
			effects: map[string]map[string][]effect{"run": {"work": {{attempt: 1}, {attempt: 1, ended: true}}}},
		}
		a.steps(&audited{id: "run", outcomes: map[string]outcome{}}, events)
		require.Len(t, findings, found, "%s: %v", code, findings)
	}
}
