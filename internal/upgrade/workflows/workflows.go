// Package workflows has workflows that programs of all versions can execute: it is compiled with old ones to write databases, and with that of today
// to go on with them. What is here must not change.
package workflows

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-workflow/cairn"
)

// Scenario is a run that is left in a certain state.
type Scenario struct {
	Name     string
	Workflow *cairn.Workflow[string, string]
	// Children are the workflows of its children.
	Children []cairn.Definition
	// Token is that of the hook for whose answer it waits, if it does.
	Token string
	// Result is what it returns in the end, if the answer was "yes"; "" if it fails.
	Result string
}

// Start starts the run, or returns it if it was started before.
func (s *Scenario) Start(ctx context.Context, e *cairn.Engine) (*cairn.Run[string], error) {
	return s.Workflow.Start(ctx, e, s.Name, cairn.Key(s.Name))
}

// pause is how long runs sleep: longer than they are executed by who writes a database, and over when they go on.
const pause = 20 * time.Second

// All returns what this program can do.
func All() []Scenario {
	return append([]Scenario{
		{Name: "finished", Workflow: finished, Result: "hello finished"},
		{Name: "failed", Workflow: failed},
		{Name: "asleep", Workflow: asleep, Result: "before asleep, after asleep"},
		{Name: "asks", Workflow: asks, Token: "token-asks", Result: "asks got yes"},
		{Name: "branches", Workflow: branches, Token: "token-branches", Result: "slept, branches got yes, 1.2.3."},
	}, families()...)
}

func do(ctx cairn.Context, name, result string) (string, error) {
	return cairn.Do(ctx, name, func(context.Context) (string, error) { return result, nil })
}

var finished = cairn.NewWorkflow("finished", func(ctx cairn.Context, in string) (string, error) { return do(ctx, "greet", "hello "+in) })

var failed = cairn.NewWorkflow("failed", func(ctx cairn.Context, in string) (string, error) {
	if _, err := do(ctx, "greet", "hello "+in); err != nil {
		return "", err
	}
	return "", errors.New("it was not meant to be")
})

var asleep = cairn.NewWorkflow("asleep", func(ctx cairn.Context, in string) (string, error) {
	before, err := do(ctx, "before", "before "+in)
	if err != nil {
		return "", err
	}
	if err := cairn.Sleep(ctx, pause); err != nil {
		return "", err
	}
	after, err := do(ctx, "after", "after "+in)
	return before + ", " + after, err
})

func ask(ctx cairn.Context, in string) (string, error) {
	hook, err := cairn.NewHook[string]("question").Token("token-" + in).Open(ctx)
	if err != nil {
		return "", err
	}
	answer, err := hook.Receive(ctx)
	if err != nil {
		return "", err
	}
	return do(ctx, "note", in+" got "+answer)
}

var asks = cairn.NewWorkflow("asks", ask)

var branches = cairn.NewWorkflow("branches", func(ctx cairn.Context, in string) (string, error) {
	sleeps, err := cairn.Go(ctx, "sleeps", func(ctx cairn.Context) (string, error) { return "slept", cairn.Sleep(ctx, pause) })
	if err != nil {
		return "", err
	}
	waits, err := cairn.Go(ctx, "waits", func(ctx cairn.Context) (string, error) { return ask(ctx, in) })
	if err != nil {
		return "", err
	}
	items, err := cairn.Map(ctx, "items", []string{"1", "2", "3"}, 2, func(ctx cairn.Context, item string) (string, error) { return do(ctx, "item", item+".") })
	if err != nil {
		return "", err
	}
	both, err := cairn.All(ctx, sleeps, waits)
	if err != nil {
		return "", err
	}
	return both[0] + ", " + both[1] + ", " + items[0] + items[1] + items[2], nil
})
