package cairn_test

import (
	"context"
	"fmt"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

var Greet = cairn.NewWorkflow("greet", func(ctx cairn.Context, name string) (string, error) {
	return cairn.Do(ctx, "compose", func(context.Context) (string, error) { return "hello " + name, nil })
})

func Example() {
	ctx := context.Background()
	st, err := sqlite.Memory(ctx, nil)
	if err != nil {
		panic(err)
	}
	eng, err := cairn.New(ctx, st, Greet)
	if err != nil {
		panic(err)
	}
	run, err := Greet.Start(ctx, eng, "world")
	if err != nil {
		panic(err)
	}
	fmt.Println(run.Result(ctx))
	_ = eng.Stop(ctx)
	// Output: hello world <nil>
}
