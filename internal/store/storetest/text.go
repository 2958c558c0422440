package storetest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var textTests = []test{
	{"AnyText", textAny},
	{"LookUp", textLookUp},
}

// strange are texts of which some cannot be stored by every database.
var strange = []string{
	"a\x00b", "\x00", "\xff", "a\xc3", "\xed\xa0\x80", "\u0301", "\u2028", "\ufeffbom", "\U0001f600", "'\"`\\", "%_", "\r\n\t", "\x01\x7f", strings.Repeat("ü", 100),
}

// A text is refused with its command, or it is stored and comes back as it was. It never spoils a batch.
func textAny(b *bench) {
	for name, command := range map[string]func(text string) *journal.Command{
		"annotation": func(text string) *journal.Command {
			return b.started(journal.World3, plain(&journal.Annotated{Name: text, Actor: text}))
		},
		"attribute": func(text string) *journal.Command {
			return b.started(journal.World3, plain(&journal.AttrSet{Changes: []journal.AttrChange{{Key: text, Value: text}}}))
		},
		"birth": func(text string) *journal.Command {
			return b.starting(b.mint(), journal.World3, func(c *journal.RunCreated) { c.Workflow, c.Deployment = text, text })
		},
		"born attribute": func(text string) *journal.Command {
			return b.starting(b.mint(), journal.World3, func(c *journal.RunCreated) { c.Attributes = map[string]string{text: text} })
		},
		"cancel": func(text string) *journal.Command {
			return b.started(journal.Engine, plain(&journal.CancelRequested{Reason: text, Actor: text}), plain(&journal.RunCancelled{Reason: text, Actor: text}))
		},
		"error": func(text string) *journal.Command {
			return b.started(journal.World3, plain(&journal.RunFailed{ErrorCode: text, Error: &cairnerr.Error{
				Code: cairnerr.Code(text), Message: text, Stack: text, Details: map[string]string{text: text},
			}}))
		},
		"hook": func(text string) *journal.Command {
			return b.started(journal.World3, about(b.mint(), &journal.HookCreated{Token: text}))
		},
		"hook's other token": func(text string) *journal.Command {
			hook := b.mint()
			return b.started(journal.World3, about(hook, &journal.HookCreated{Token: "t"}), about(hook, &journal.HookDisposed{Token: text}))
		},
		"key": func(text string) *journal.Command {
			return b.started(journal.Engine, keyed(text, &journal.StepCompleted{}), keyed(text, &journal.WaitCreated{}), keyed(text, &journal.HookCreated{Token: "t"}))
		},
		"message": func(text string) *journal.Command {
			cmd := b.started(journal.World3)
			cmd.Messages = []journal.Message{b.message(text, text, text)}
			return cmd
		},
		"message's namespace": func(text string) *journal.Command {
			cmd := b.started(journal.World3)
			cmd.Messages = []journal.Message{{ID: b.mint(), Namespace: text, Queue: "q"}}
			return cmd
		},
		"namespace": func(text string) *journal.Command {
			cmd := b.starting(b.mint(), journal.World3)
			cmd.Namespace = text
			return cmd
		},
		"sender": func(text string) *journal.Command {
			hook := b.mint()
			return b.started(journal.World3, about(hook, &journal.HookCreated{Token: b.mint().String()}), about(hook, &journal.HookReceived{Sender: text}))
		},
		"start key": func(text string) *journal.Command {
			return b.starting(b.mint(), journal.World3, func(c *journal.RunCreated) { c.StartKey = text })
		},
		"step": func(text string) *journal.Command {
			step := b.mint()
			return b.started(journal.World3, about(step, &journal.StepCreated{Name: text}), about(step, &journal.StepStarted{Name: text}))
		},
		"step's late name": func(text string) *journal.Command {
			step := b.mint()
			return b.started(journal.World3, about(step, &journal.StepCreated{}), about(step, &journal.StepCompleted{Name: text}))
		},
		"step's owner": func(text string) *journal.Command {
			step := b.mint()
			return b.started(journal.World3, about(step, &journal.StepCreated{}), about(step, &journal.StepStarted{OwnerMessage: text}))
		},
		"step's retry": func(text string) *journal.Command {
			step := b.mint()
			return b.started(journal.World3, about(step, &journal.StepCreated{}), about(step, &journal.StepRetrying{Name: text, Error: &cairnerr.Error{Message: text}}))
		},
		"wait": func(text string) *journal.Command {
			return b.started(journal.World3, about(b.mint(), &journal.WaitCreated{Kind: text}))
		},
	} {
		for i, text := range strange {
			if testing.Short() && i%3 > 0 {
				continue
			}
			cmd := command(text)
			res, err := b.try(cmd)
			if err != nil {
				require.Contains(b, []cairnerr.Code{cairnerr.CodeMalformed, cairnerr.CodeUnsupported}, cairnerr.CodeOf(err), "%s %q: %v", name, text, err)
				_, refused := journal.NewState(cmd.Namespace).Reduce(cmd, b.env(), journal.NewOutside())
				require.Error(b, refused, "%s %q: refused by the database, and with it the whole batch: %v", name, text, err)
				continue
			}
			in := b.in(cmd.Namespace)
			in.check(cmd.Run)
			log, err := b.store.Journal(b.ctx(), in.ns, cmd.Run, 0)
			require.NoError(b, err)
			_, err = log.State(in.ns)
			require.NoError(b, err)
			require.Equal(b, res.Appended, log.Events, "%s %q", name, text)
			for _, m := range cmd.Messages {
				got, err := b.store.Message(b.ctx(), m.Namespace, m.ID)
				require.NoError(b, err, "%s %q", name, text)
				require.Equal(b, m.Queue, got.Queue)
				require.Equal(b, m.Key, got.Key)
			}
			if !in.run(cmd.Run).Status.Terminal() { // its tokens are to be free again
				in.outsider(cmd.Run, plain(&journal.RunCancelled{}))
			}
		}
	}
}

// started returns a command that makes a run and writes events to it.
func (b *bench) started(d journal.Dialect, events ...journal.Event) *journal.Command {
	cmd := b.starting(b.mint(), d)
	cmd.Events = append(cmd.Events, events...)
	return cmd
}

// Looking for a text that cannot be stored finds nothing, or is refused as malformed.
func textLookUp(b *bench) {
	run := b.start(journal.World3)
	for _, text := range strange {
		errs := map[string]error{}
		_, errs["namespace"] = b.store.Runs(b.ctx(), text, store.RunFilter{}, store.Page{})
		_, errs["workflow"] = b.store.Runs(b.ctx(), b.ns, store.RunFilter{Workflow: text}, store.Page{})
		_, errs["attribute"] = b.store.Runs(b.ctx(), b.ns, store.RunFilter{Attributes: map[string]string{text: text}}, store.Page{})
		_, errs["queue"] = b.store.Messages(b.ctx(), b.ns, text, store.ResolveAll, store.Page{})
		for name, err := range errs {
			if err != nil {
				require.Equal(b, cairnerr.CodeMalformed, cairnerr.CodeOf(err), "%s %q: %v", name, text, err)
			}
		}
		_, err := b.store.HookByToken(b.ctx(), b.ns, text, store.ResolveAll)
		require.Contains(b, []cairnerr.Code{cairnerr.CodeHookNotFound, cairnerr.CodeMalformed}, cairnerr.CodeOf(err), "%q: %v", text, err)
		_, err = b.store.Run(b.ctx(), text, run, store.ResolveAll)
		require.Contains(b, []cairnerr.Code{cairnerr.CodeRunNotFound, cairnerr.CodeMalformed}, cairnerr.CodeOf(err), "%q: %v", text, err)
	}
}
