package cairn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn"
)

// A step shows what it does while it does it. Its first attempt fails: who reads all sees that it begins again, who reads what is settled sees only
// what holds.
func ExampleStream() {
	ctx := context.Background()
	tokens := cairn.NewStream[string]("tokens")
	write := cairn.NewStep("write", func(ctx context.Context, text string) (int, error) {
		for word := range strings.SplitSeq(text, " ") {
			if err := tokens.Write(ctx, word); err != nil {
				return 0, err
			}
			if word == "upon" && cairn.Attempt(ctx) == 1 {
				return 0, errors.New("the model is busy")
			}
		}
		return len(text), nil
	}).Retry(cairn.RetryPolicy{Attempts: 3, First: time.Millisecond})
	story := cairn.NewWorkflow("story", func(ctx cairn.Context, text string) (int, error) {
		n, err := write.Do(ctx, text)
		if err != nil {
			return 0, err
		}
		return n, tokens.Write(ctx, "(the end)") // a workflow may write, too
	})

	eng := start(story)
	defer func() { _ = eng.Stop(ctx) }()
	run, err := story.Start(ctx, eng, "once upon a time")
	if err != nil {
		panic(err)
	}
	for chunk, err := range tokens.Read(ctx, eng, run.ID()) { // live, until the run has ended
		if err != nil {
			panic(err)
		}
		if chunk.Boundary {
			fmt.Println("- begins again -")
		}
		fmt.Println(chunk.Index, chunk.Value)
	}
	var settled []string
	for chunk, err := range tokens.Read(ctx, eng, run.ID(), cairn.ReadSettled()) {
		if err != nil {
			panic(err)
		}
		settled = append(settled, chunk.Value)
	}
	fmt.Println(strings.Join(settled, " "))
	// Output:
	// 0 once
	// 1 upon
	// - begins again -
	// 2 once
	// 3 upon
	// 4 a
	// 5 time
	// 6 (the end)
	// once upon a time (the end)
}
