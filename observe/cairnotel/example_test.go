package cairnotel_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/observe/cairnotel"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// Traces of a run, here kept in memory; a real program gives its provider an exporter.
func Example() {
	ctx := context.Background()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	telemetry, err := cairnotel.New(&cairnotel.Config{TracerProvider: provider})
	if err != nil {
		panic(err)
	}

	greet := cairn.NewWorkflow("greet", func(ctx cairn.Context, name string) (string, error) {
		return cairn.Do(ctx, "compose", func(context.Context) (string, error) { return "hello " + name, nil })
	})
	st, err := sqlite.Memory(ctx, nil)
	if err != nil {
		panic(err)
	}
	eng, err := cairn.NewWith(ctx, st, cairn.Config{Observe: telemetry.Hooks()}, greet)
	if err != nil {
		panic(err)
	}
	ctx, span := provider.Tracer("my program").Start(ctx, "GET /hello")
	run, err := greet.Start(ctx, eng, "world")
	if err != nil {
		panic(err)
	}
	fmt.Println(run.Result(ctx))
	span.End()
	_ = eng.Stop(ctx) // and with that, all spans are there

	fmt.Print(tree(spans.GetSpans()))
	// Output:
	// hello world <nil>
	// GET /hello
	//   start greet
	//     greet
	//       compose
	//     run greet
}
