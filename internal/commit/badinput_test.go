package commit_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// TestBadInput sends what must not be accepted, and looks at the code, the status, and that nothing is lost.
func TestBadInput(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p := start(t, again())
		run := p.newRun()
		owned := func(e journal.Event) *journal.Command { return p.owned(run, e) }
		with := func(cmd *journal.Command, change func(*journal.Command)) *journal.Command {
			change(cmd)
			return cmd
		}
		tests := map[string]struct {
			cmd    *journal.Command
			code   cairnerr.Code
			status int
		}{
			"an event without data":   {owned(journal.Event{Type: 99}), cairnerr.CodeUnknownEvent, http.StatusBadRequest},
			"an illegal transition":   {owned(started()), cairnerr.CodeIllegalTransition, http.StatusConflict},
			"an oversized payload":    {owned(note(string(make([]byte, journal.MaxPayload+1)))), cairnerr.CodePayloadTooLarge, http.StatusRequestEntityTooLarge},
			"no run":                  {outside(journal.ID{}, note("x")), cairnerr.CodeMalformed, http.StatusBadRequest},
			"an unknown run":          {outside(p.id(), note("x")), cairnerr.CodeRunNotFound, http.StatusNotFound},
			"an unknown hook":         {outside(run, journal.Event{Entity: p.id(), Data: &journal.HookReceived{}}), cairnerr.CodeHookNotFound, http.StatusNotFound},
			"an unknown hook by key":  {outside(run, journal.Event{Key: "h", Data: &journal.HookReceived{}}), cairnerr.CodeHookNotFound, http.StatusNotFound},
			"another owner":           {outside(run, stepDone("x")), cairnerr.CodeStepNotFound, http.StatusNotFound},
			"a bad key":               {owned(stepDone("\x00")), cairnerr.CodeMalformed, http.StatusBadRequest},
			"a foreign namespace":     {with(outside(run, note("x")), func(c *journal.Command) { c.Namespace = "foreign" }), cairnerr.CodeRunNotFound, http.StatusNotFound},
			"a bad namespace":         {with(outside(run, note("x")), func(c *journal.Command) { c.Namespace = "a\nb" }), cairnerr.CodeMalformed, http.StatusBadRequest},
			"a wrong epoch":           {with(owned(stepDone("x")), func(c *journal.Command) { c.Guards.Owner.Epoch = 2 }), cairnerr.CodeStaleEpoch, http.StatusConflict},
			"an old sequence":         {with(owned(stepDone("x")), func(c *journal.Command) { c.Guards.Seq = 1 }), cairnerr.CodePrecondition, http.StatusPreconditionFailed},
			"a message that is gone":  {with(outside(run, note("x")), func(c *journal.Command) { c.Guards.Delivery.Message = p.id() }), cairnerr.CodeStaleDelivery, http.StatusConflict},
			"a spec from the future":  {outside(p.id(), journal.Event{Data: &journal.RunCreated{Workflow: "w", Dialect: journal.World6, Spec: 99}}), cairnerr.CodeSpecNotSupported, http.StatusBadRequest},
			"an id of another decade": {outside(journal.ID{1}, world("w")), cairnerr.CodeMalformed, http.StatusBadRequest},
		}
		for name, test := range tests {
			_, err := p.Do(t.Context(), test.cmd)
			require.Equal(t, test.code, cairnerr.CodeOf(err), "%s: %v", name, err)
			require.Equal(t, test.status, cairnerr.AsError(err).Status(), name)
		}
		p.must(owned(stepDone("still here")))
		require.Equal(t, []string{"still here"}, keys(log(t, p.store, run)))
	})
}
