package journal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// sample is a well-formed event of each type. Events that make something make something new; the others are about what
// exists in a run made by legalityRun.
func sample(e EventType, d Dialect) Event {
	of := func(entity ID, key string, data Data) Event {
		if d == Engine {
			return keyed(key, data)
		}
		return about(entity, data)
	}
	failure := &cairnerr.Error{Code: "declined", Message: "m"}
	switch e {
	case EventRunCreated:
		return Event{Data: birth(d)}
	case EventRunStarted:
		return started()
	case EventRunCompleted:
		return ended()
	case EventRunFailed:
		return Event{Data: &RunFailed{Error: failure}}
	case EventRunCancelled:
		return cancels()
	case EventStepCreated:
		return of(s2, "new", &StepCreated{})
	case EventStepStarted:
		return of(s1, "charge", &StepStarted{})
	case EventStepRetrying:
		return of(s1, "charge", &StepRetrying{Error: failure})
	case EventStepCompleted:
		return of(s1, "charge", &StepCompleted{})
	case EventStepFailed:
		return of(s1, "charge", &StepFailed{Error: failure})
	case EventHookCreated:
		return of(h2, "new", &HookCreated{Token: "new"})
	case EventHookReceived:
		return of(h1, "approval", &HookReceived{})
	case EventHookDisposed:
		return of(h1, "approval", &HookDisposed{})
	case EventHookReplied:
		return of(h1, "approval", &HookReplied{To: 1})
	case EventHookConflict:
		return of(h2, "new", &HookConflict{Token: "t"})
	case EventWaitCreated:
		return of(testID(42), "new", &WaitCreated{})
	case EventWaitCompleted:
		return of(w1, "nap", &WaitCompleted{})
	case EventAttrSet:
		return of(a1, "tag", &AttrSet{Changes: []AttrChange{{Key: "a", Value: "1"}}})
	case EventCancelRequested:
		return Event{Data: &CancelRequested{}}
	case EventRunParked:
		return Event{Data: &RunParked{Error: failure}}
	case EventRunResumed:
		return Event{Data: &RunResumed{}}
	case EventAnnotated:
		return Event{Data: &Annotated{Name: "note"}}
	}
	panic("no sample of " + e.String())
}

// situations are the columns of the table.
var situations = []string{"none", "pending", "running", "parked", "completed", "failed", "cancelled"}

// legalityRun makes a run that has an open step, hook and wait (where its dialect allows it), and is in the given situation.
func legalityRun(t *testing.T, d Dialect, situation string) *bench {
	t.Helper()
	if situation == "none" {
		return newBench()
	}
	b := newRun(t, d)
	write := func(events ...Event) {
		_, err := b.write(events...)
		require.NoError(t, err)
	}
	stuff := func() {
		if d == Engine {
			write(keyed("charge", &StepStarted{}), keyed("approval", &HookCreated{Token: "t"}), keyed("nap", &WaitCreated{}))
		} else {
			write(about(s1, &StepCreated{}), about(s1, &StepStarted{}), about(h1, &HookCreated{Token: "t"}), about(w1, &WaitCreated{}))
		}
	}
	if situation == "pending" {
		if d != Engine {
			stuff()
		}
		return b
	}
	write(started())
	stuff()
	switch situation {
	case "parked":
		write(Event{Data: &RunParked{Error: &cairnerr.Error{Code: "poison"}}})
	case "completed":
		write(ended())
	case "failed":
		write(Event{Data: &RunFailed{}})
	case "cancelled":
		write(cancels())
	}
	return b
}

// The whole law, written out: what each event does to a run of each dialect in each state.
func TestLegality(t *testing.T) {
	t.Parallel()
	datadriven.RunTest(t, "testdata/legality.txt", func(t *testing.T, td *datadriven.TestData) string {
		t.Helper()
		var dialect, writer string
		td.ScanArgs(t, "dialect", &dialect)
		td.ScanArgs(t, "writer", &writer)
		var d Dialect
		for d.String() != dialect {
			d++
		}
		columns := situations
		if d != Engine {
			columns = []string{"none", "pending", "running", "completed", "failed", "cancelled"}
		}
		var out strings.Builder
		line := func(first string, cells []string) {
			text := fmt.Sprintf("%-17s", first)
			for _, c := range cells {
				text += fmt.Sprintf("%-19s", c)
			}
			fmt.Fprintln(&out, strings.TrimRight(text, " "))
		}
		line("", columns)
		for e := EventType(1); e < eventTypes; e++ {
			var cells []string
			for _, situation := range columns {
				b := legalityRun(t, d, situation)
				cmd := &Command{Events: []Event{sample(e, d)}}
				if writer == "owner" {
					cmd.Guards.Owner = b.owner()
					if situation == "none" {
						cmd.Guards.Owner.Incarnation = p1
					}
				}
				res, err := b.try(cmd)
				switch {
				case err != nil:
					cells = append(cells, string(cairnerr.CodeOf(err)))
				case len(res.Appended) == 0:
					cells = append(cells, "holds")
				default:
					cells = append(cells, "ok")
				}
			}
			line(e.String(), cells)
		}
		return out.String()
	})
}

// Every rule of the tables is used by TestLegality: the golden file has a line for it.
func TestRulesAreComplete(t *testing.T) {
	t.Parallel()
	for d := range Dialect(dialects) {
		for e := EventType(1); e < eventTypes; e++ {
			rule := rules[d][e]
			if rule == nil {
				continue
			}
			require.NotNil(t, rule.check, "%s %s", d, e)
			if rule.in != always {
				require.NotEmpty(t, rule.ended, "%s %s", d, e)
			}
			require.True(t, cmpCode(rule.ended).Known(), rule.ended)
			require.False(t, rule.owner && d != Engine, "runs of dialect %s have no owner", d)
		}
	}
}

func cmpCode(c cairnerr.Code) cairnerr.Code {
	if c == "" {
		return cairnerr.CodeIllegalTransition
	}
	return c
}
