package journal_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// FuzzTexts: any token, sender, key, name, reason or label from outside is taken, or refused with a code that says whose mistake it is.
func FuzzTexts(f *testing.F) {
	for _, text := range []string{"", "order-1", strings.Repeat("x", 5000), "a\x00b", "\xff\xfe", "ключ", "$system", "a/b\nc", "hook_01"} {
		f.Add(text, "other", "value")
		f.Add("token", text, text)
	}
	f.Fuzz(func(t *testing.T, first, second, third string) {
		run := journal.ID{1}
		env := journal.Env{Now: run.Time(), Self: journal.ID{2}}
		s := journal.NewState("test")
		created := &journal.RunCreated{Workflow: "w", Attributes: map[string]string{second: third}}
		if reduced(t, s, env, run, journal.Event{Data: created}) != nil {
			require.NoError(t, reduced(t, s, env, run, journal.Event{Data: &journal.RunCreated{Workflow: "w"}}))
		}
		for _, e := range []journal.Event{
			{Key: second, Data: &journal.HookCreated{Token: first}},
			{Key: second, Data: &journal.HookReceived{Sender: third, Payload: journal.Payload(third)}},
			{Data: &journal.AttrSet{Changes: []journal.AttrChange{{Key: first, Value: second}, {Key: third, Remove: true}}}},
			{Data: &journal.Annotated{Name: first, Actor: second}},
			{Data: &journal.CancelRequested{Reason: second, Actor: third}},
			{Data: &journal.RunCreated{Workflow: first, StartKey: second}},
		} {
			_ = reduced(t, s, env, run, e)
		}
		for _, parse := range []func(string) error{
			func(text string) error { _, err := journal.ParseStatus(text); return err },
			func(text string) error { _, err := journal.ParseDialect(text); return err },
			func(text string) error { _, err := journal.ParseEventType(text); return err },
			func(text string) error { _, err := journal.ParseEventID(text, journal.World3); return err },
			journal.CheckNamespace,
		} {
			blamed(t, parse(first))
		}
	})
}

func reduced(t *testing.T, s *journal.State, env journal.Env, run journal.ID, e journal.Event) error {
	t.Helper()
	cmd := &journal.Command{Namespace: "test", Run: run, Events: []journal.Event{e}}
	if err := cmd.Check(); err != nil {
		blamed(t, err)
		return err
	}
	_, err := s.Reduce(cmd, env, journal.NewOutside())
	blamed(t, err)
	return err
}

func blamed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		require.NotEqual(t, cairnerr.CodeInternal, cairnerr.CodeOf(err), "%v", err)
	}
}
