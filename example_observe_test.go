package cairn_test

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/observe"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// Hooks of one's own: packages cairnprom and cairnotel are made of the same.
func ExampleConfig_observe() {
	ctx := context.Background()
	hooks := observe.Hooks{
		Attempt: func(ctx context.Context, a observe.Attempt) (context.Context, func(observe.AttemptEnd)) {
			return ctx, func(end observe.AttemptEnd) { fmt.Println(a.Step, a.Attempt, end.Outcome) }
		},
		RunEnded: func(_ context.Context, e observe.RunEnd) { fmt.Println(e.Workflow, e.Status, e.Took < time.Minute) },
	}
	st, err := sqlite.Memory(ctx, nil)
	if err != nil {
		panic(err)
	}
	eng, err := cairn.NewWith(ctx, st, cairn.Config{Observe: hooks}, Greet)
	if err != nil {
		panic(err)
	}
	run, err := Greet.Start(ctx, eng, "world")
	if err != nil {
		panic(err)
	}
	if _, err := run.Result(ctx); err != nil {
		panic(err)
	}
	_ = eng.Stop(ctx) // what hooks are told comes a moment later; after Stop all has come
	fmt.Println(eng.Stats().Active, "active")
	// Output:
	// compose 1 completed
	// greet completed true
	// 0 active
}
