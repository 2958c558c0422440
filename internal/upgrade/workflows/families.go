package workflows

import "github.com/cairn-workflow/cairn"

// families are runs with children, where the program has them.
func families() []Scenario {
	return append([]Scenario{
		{Name: "parent", Workflow: parent, Children: []cairn.Definition{child}, Token: "token-parent's child", Result: "parent's child got yes, hello parent"},
	}, streams()...)
}

var child = cairn.NewWorkflow("child", ask)

var parent = cairn.NewWorkflow("parent", func(ctx cairn.Context, in string) (string, error) {
	answer, err := child.Run(ctx, in+"'s child")
	if err != nil {
		return "", err
	}
	greeting, err := do(ctx, "greet", "hello "+in)
	return answer + ", " + greeting, err
})
