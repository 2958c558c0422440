package cairnprom_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/observe/cairnprom"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

func Example() {
	ctx := context.Background()
	metrics := cairnprom.New()
	registry := prometheus.NewRegistry() // or the global one: prometheus.MustRegister(metrics)
	registry.MustRegister(metrics)

	greet := cairn.NewWorkflow("greet", func(ctx cairn.Context, name string) (string, error) {
		return cairn.Do(ctx, "compose", func(context.Context) (string, error) { return "hello " + name, nil })
	})
	st, err := sqlite.Memory(ctx, nil)
	if err != nil {
		panic(err)
	}
	eng, err := cairn.NewWith(ctx, st, cairn.Config{Observe: metrics.Hooks()}, greet)
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"ada", "grace"} {
		run, err := greet.Start(ctx, eng, name)
		if err != nil {
			panic(err)
		}
		fmt.Println(run.Result(ctx))
	}
	_ = eng.Stop(ctx)

	// What Prometheus reads; a real program says http.Handle("/metrics", promhttp.Handler()).
	scrape := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(scrape, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text, err := io.ReadAll(scrape.Body)
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "cairn_runs_ended") || strings.HasPrefix(line, "cairn_step_attempts") {
			fmt.Print(line)
		}
	}
	// Output:
	// hello ada <nil>
	// hello grace <nil>
	// cairn_runs_ended_total{code="",status="completed",workflow="greet"} 2
	// cairn_step_attempts_total{code="",outcome="completed",step="compose",workflow="greet"} 2
}
