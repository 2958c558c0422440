package workflows

import (
	"context"

	"github.com/cairn-workflow/cairn"
)

// Words is the stream that the run "streams" writes to.
var Words = cairn.NewStream[string]("words")

// streams are runs with streams, where the program has them.
func streams() []Scenario {
	return []Scenario{{Name: "streams", Workflow: writes, Token: "token-streams", Result: "streams got yes"}}
}

var writes = cairn.NewWorkflow("streams", func(ctx cairn.Context, in string) (string, error) {
	_, err := cairn.Do(ctx, "say", func(ctx context.Context) (string, error) {
		for _, word := range []string{"one", "two", "three"} {
			if err := Words.Write(ctx, word); err != nil {
				return "", err
			}
		}
		return "said", nil
	})
	if err != nil {
		return "", err
	}
	return ask(ctx, in)
})
