package cairn_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/observe/cairnotel"
	"github.com/cairn-workflow/cairn/observe/cairnprom"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// BenchmarkObserving is what a run of ten steps costs, on a database in memory, with and without somebody who looks at it.
func BenchmarkObserving(b *testing.B) {
	traces := func() cairn.Config {
		provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(tracetest.NewNoopExporter()))
		telemetry, err := cairnotel.New(&cairnotel.Config{TracerProvider: provider, MeterProvider: sdkmetric.NewMeterProvider()})
		require.NoError(b, err)
		return cairn.Config{Observe: telemetry.Hooks()}
	}
	for name, config := range map[string]func() cairn.Config{
		"nobody":        func() cairn.Config { return cairn.Config{} },
		"prometheus":    func() cairn.Config { return cairn.Config{Observe: cairnprom.New().Hooks()} },
		"opentelemetry": traces,
		"kept-logs":     func() cairn.Config { return cairn.Config{KeepLogs: &cairn.KeepLogs{}} },
	} {
		b.Run(name, func(b *testing.B) {
			body := func(ctx context.Context) (int, error) {
				if name == "kept-logs" {
					cairn.Logger(ctx).InfoContext(ctx, "x", slog.Int("n", 1))
				}
				return 0, ctx.Err()
			}
			wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
				for range 10 {
					if _, err := cairn.Do(ctx, "s", body); err != nil {
						return 0, err
					}
				}
				return 0, nil
			})
			st, err := sqlite.Memory(b.Context(), nil)
			require.NoError(b, err)
			cfg := config()
			cfg.Logger = slog.New(slog.DiscardHandler)
			e, err := cairn.NewWith(b.Context(), st, cfg, wf)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				run, err := wf.Start(b.Context(), e, 0)
				require.NoError(b, err)
				_, err = run.Result(b.Context())
				require.NoError(b, err)
			}
			b.StopTimer()
			_ = e.Stop(context.Background())
			_ = st.Close()
		})
	}
}
