package cairnotel_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/metrics"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/observe/cairnotel"
	"github.com/cairn-workflow/cairn/store/open"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// onEveryStore runs a test on each database. The function opens it, as often as it is called.
func onEveryStore(t *testing.T, test func(t *testing.T, database func() cairn.Store)) {
	t.Helper()
	for name, url := range map[string]func(t *testing.T) string{
		"postgres": func(t *testing.T) string { t.Helper(); return pgtest.URL(t) },
		"sqlite":   func(t *testing.T) string { t.Helper(); return filepath.Join(t.TempDir(), "x.db") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := url(t)
			test(t, func() cairn.Store {
				st, err := open.URL(t.Context(), address)
				require.NoError(t, err)
				t.Cleanup(func() { _ = st.Close() })
				return st
			})
		})
	}
}

// process is a program with an engine, whose spans and metrics are kept in memory.
type process struct {
	*cairn.Engine
	spans   *tracetest.InMemoryExporter
	tracer  trace.Tracer
	metrics *sdkmetric.ManualReader
}

func begin(t *testing.T, st cairn.Store, cfg cairnotel.Config, waiting int, workflows ...cairn.Definition) *process {
	t.Helper()
	p := &process{spans: tracetest.NewInMemoryExporter(), metrics: sdkmetric.NewManualReader()}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(p.spans))
	p.tracer = provider.Tracer("the program")
	cfg.TracerProvider, cfg.MeterProvider = provider, sdkmetric.NewMeterProvider(sdkmetric.WithReader(p.metrics))
	telemetry, err := cairnotel.New(&cfg)
	require.NoError(t, err)
	p.Engine, err = cairn.NewWith(t.Context(), st, cairn.Config{Observe: telemetry.Hooks(), Poll: 20 * time.Millisecond, MaxWaiting: waiting}, workflows...)
	require.NoError(t, err)
	t.Cleanup(func() {
		p.end()
		require.NoError(t, telemetry.Close())
	})
	return p
}

// end stops the engine; then all spans are there.
func (p *process) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = p.Stop(ctx)
}

// last returns when a span ended. The end of a run is known to the millisecond alone.
func last(s tracetest.SpanStub) time.Time {
	if strings.HasPrefix(s.Name, "run ") {
		return s.EndTime.Add(time.Hour)
	}
	return s.EndTime
}

// tree draws spans, of several processes, those that ended first before the others.
func tree(spans tracetest.SpanStubs) string {
	below := map[trace.SpanID]tracetest.SpanStubs{}
	known := map[trace.SpanID]bool{}
	for i := range spans {
		known[spans[i].SpanContext.SpanID()] = true
	}
	for _, s := range spans {
		parent := s.Parent.SpanID()
		if !known[parent] {
			parent = trace.SpanID{}
		}
		below[parent] = append(below[parent], s)
	}
	var out strings.Builder
	var draw func(parent trace.SpanID, depth int)
	draw = func(parent trace.SpanID, depth int) {
		slices.SortStableFunc(below[parent], func(a, b tracetest.SpanStub) int { return last(a).Compare(last(b)) })
		for _, s := range below[parent] {
			out.WriteString(strings.Repeat("  ", depth) + s.Name)
			if s.Status.Code == codes.Error {
				out.WriteString(" !")
			}
			if len(s.Links) > 0 {
				out.WriteString(" linked")
			}
			out.WriteString("\n")
			draw(s.SpanContext.SpanID(), depth+1)
		}
	}
	draw(trace.SpanID{}, 0)
	return out.String()
}

func attr(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

var errDeclined = cairn.NewError("declined", "the card was declined")

// program has the workflows of the picture in the package's comment.
func program() (checkout *cairn.Workflow[int, int], all []cairn.Definition) {
	charge := cairn.NewStep("charge", func(ctx context.Context, n int) (int, error) {
		_, span := trace.SpanFromContext(ctx).TracerProvider().Tracer("http").Start(ctx, "POST api.example.com")
		defer span.End()
		if cairn.Attempt(ctx) == 1 {
			return 0, errDeclined
		}
		return n, nil
	}).Retry(cairn.RetryPolicy{Attempts: 2})
	ship := cairn.NewWorkflow("ship", func(ctx cairn.Context, n int) (int, error) {
		return cairn.Do(ctx, "pack", func(context.Context) (int, error) { return n, nil })
	})
	approved := cairn.NewHook[int]("approved").Token("the token")
	checkout = cairn.NewWorkflow("checkout", func(ctx cairn.Context, n int) (int, error) {
		if _, err := charge.Do(ctx, n); err != nil {
			return 0, err
		}
		if _, err := approved.Wait(ctx); err != nil {
			return 0, err
		}
		if _, err := ship.Run(ctx, n); err != nil {
			return 0, err
		}
		_, err := cairn.Do(ctx, "mail", func(context.Context) (int, error) { return 0, errors.New("no mail server") })
		return 0, err
	})
	return checkout, []cairn.Definition{checkout, ship}
}

// A run is started by one process, waits, is sent to by a second, and ended by that: one trace, in which replay adds nothing.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, database func() cairn.Store) {
		checkout, all := program()
		first := begin(t, database(), cairnotel.Config{}, 0, all...)
		ctx, root := first.tracer.Start(t.Context(), "POST /orders")
		run, err := checkout.Start(ctx, first.Engine, 5)
		require.NoError(t, err)
		root.End()
		require.Eventually(t, func() bool { return first.Stats().Active == 0 }, time.Minute, time.Millisecond)
		first.end()

		second := begin(t, database(), cairnotel.Config{}, 0, all...)
		ctx, click := second.tracer.Start(t.Context(), "GET /approve")
		require.NoError(t, cairn.NewHook[int]("sent").Send(ctx, second.Engine, "the token", 1))
		click.End()
		again, err := checkout.Get(t.Context(), second.Engine, run.ID())
		require.NoError(t, err)
		_, err = again.Result(t.Context())
		require.ErrorContains(t, err, "no mail server")
		second.end()

		spans := append(first.spans.GetSpans(), second.spans.GetSpans()...)
		drawn := tree(spans)
		// How often the parent comes to a wait while its child runs depends on who is faster.
		require.Contains(t, drawn, `POST /orders
  start checkout
    checkout
      charge !
        POST api.example.com
      charge
        POST api.example.com
`)
		require.Contains(t, drawn, " linked\n      start ship\n        ship\n          pack\n        run ship\n")
		require.Contains(t, drawn, "      mail !\n    run checkout !\n")
		require.Contains(t, drawn, "GET /approve\n  send\n")
		require.Equal(t, 2, strings.Count(drawn, "charge"), drawn)
		for _, s := range spans {
			if s.Name != "GET /approve" && s.Name != "send" {
				require.Equal(t, root.SpanContext().TraceID(), s.SpanContext.TraceID(), s.Name)
			}
			for _, l := range s.Links {
				require.Equal(t, click.SpanContext().TraceID(), l.SpanContext.TraceID())
			}
		}
		check(t, spans, run.ID())
	})
}

// check looks at the attributes of the spans.
func check(t *testing.T, spans tracetest.SpanStubs, run string) {
	t.Helper()
	for _, s := range spans {
		switch s.Name {
		case "charge":
			require.Equal(t, run, attr(s, "cairn.run.id"))
			require.Equal(t, map[string]string{"1": "retrying", "2": "completed"}[attr(s, "cairn.step.attempt")], attr(s, "cairn.step.outcome"))
			if attr(s, "cairn.step.attempt") == "1" {
				require.Equal(t, "declined", attr(s, "error.type"))
				require.Equal(t, "declined: the card was declined", s.Status.Description)
			}
		case "checkout":
			require.Equal(t, trace.SpanKindConsumer, s.SpanKind)
			require.NotEmpty(t, attr(s, "cairn.run.epoch"))
			require.NotEmpty(t, attr(s, "cairn.execution.begin"))
			require.NotEmpty(t, attr(s, "cairn.execution.end"))
		case "start checkout", "start ship":
			require.Equal(t, trace.SpanKindProducer, s.SpanKind)
			require.NotEmpty(t, attr(s, "cairn.run.id"))
		case "run checkout":
			require.Equal(t, "failed", attr(s, "cairn.run.status"))
		case "run ship":
			require.Equal(t, run, attr(s, "cairn.run.parent"))
			require.Equal(t, "completed", attr(s, "cairn.run.status"))
		}
		require.False(t, s.EndTime.Before(s.StartTime), s.Name)
	}
}

// The looks of a poll have spans below the execution, and what the check does is below its look.
func TestLooks(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, database func() cairn.Store) {
		var looks atomic.Int32
		poll := cairn.NewPoll("build", time.Millisecond, func(ctx context.Context, _ int) (int, bool, error) {
			_, span := trace.SpanFromContext(ctx).TracerProvider().Tracer("http").Start(ctx, "GET ci.example.com")
			defer span.End()
			if looks.Add(1) == 2 {
				return 0, false, errDeclined
			}
			return 0, false, nil
		})
		wf := cairn.NewWorkflow("release", func(ctx cairn.Context, n int) (int, error) { return poll.Wait(ctx, n) })
		p := begin(t, database(), cairnotel.Config{}, 0, wf)
		run, err := wf.Start(t.Context(), p.Engine, 0)
		require.NoError(t, err)
		_, err = run.Result(t.Context())
		require.ErrorIs(t, err, errDeclined)
		p.end()
		spans := p.spans.GetSpans()
		drawn := tree(spans)
		require.Contains(t, drawn, "    build\n      GET ci.example.com\n")
		require.Contains(t, drawn, "    build !\n      GET ci.example.com\n")
		var found []string
		for _, s := range spans {
			if s.Name == "build" {
				require.Equal(t, run.ID(), attr(s, "cairn.run.id"))
				require.Equal(t, "build", attr(s, "cairn.poll.key"))
				found = append(found, attr(s, "cairn.poll.found"))
			}
		}
		require.Equal(t, []string{"nothing", "error"}, found)
	})
}

// Who keeps traces for less long than runs wait, lets later executions have their own, linked with the start.
func TestSplitAfter(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, database func() cairn.Store) {
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, _ int) (int, error) {
			if err := cairn.Sleep(ctx, 20*time.Millisecond); err != nil {
				return 0, err
			}
			return cairn.Do(ctx, "late", func(context.Context) (int, error) { return 0, nil })
		})
		p := begin(t, database(), cairnotel.Config{SplitAfter: 10 * time.Millisecond}, 0, wf)
		run, err := wf.Start(t.Context(), p.Engine, 0)
		require.NoError(t, err)
		_, err = run.Result(t.Context())
		require.NoError(t, err)
		p.end()
		spans := p.spans.GetSpans()
		var start trace.SpanContext
		for _, s := range spans {
			if s.Name == "start w" {
				start = s.SpanContext
			}
		}
		require.True(t, start.IsValid())
		require.Contains(t, tree(spans), "w linked\n  late\nrun w linked\n", "the second execution")
		for _, s := range spans {
			for _, l := range s.Links {
				require.Equal(t, start.SpanID(), l.SpanContext.SpanID())
				require.NotEqual(t, start.TraceID(), s.SpanContext.TraceID())
			}
		}
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, database func() cairn.Store) {
		checkout, all := program()
		p := begin(t, database(), cairnotel.Config{}, -1, all...)
		run, err := checkout.Start(t.Context(), p.Engine, 5)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			return cairn.NewHook[int]("sent").Send(t.Context(), p.Engine, "the token", 1, cairn.Key("once")) == nil
		}, time.Minute, time.Millisecond)
		_, err = run.Result(t.Context())
		require.Error(t, err)
		require.Positive(t, p.Stats().Batches)
		sums := read(t, p) // while the engine is there
		require.Contains(t, sums, "cairn.runs.active{namespace=default}")
		p.end()

		sums = read(t, p)
		require.EqualValues(t, 1, sums["cairn.runs.started{workflow=checkout}"])
		require.EqualValues(t, 1, sums["cairn.runs.started{workflow=ship}"])
		require.EqualValues(t, 1, sums["cairn.runs.ended{code=error,status=failed,workflow=checkout}"])
		require.EqualValues(t, 1, sums["cairn.runs.ended{status=completed,workflow=ship}"])
		require.EqualValues(t, 1, sums["cairn.run.duration{status=failed,workflow=checkout}"])
		require.EqualValues(t, 1, sums["cairn.step.attempts{code=declined,outcome=retrying,step=charge,workflow=checkout}"])
		require.EqualValues(t, 1, sums["cairn.step.attempts{outcome=completed,step=charge,workflow=checkout}"])
		require.EqualValues(t, 1, sums["cairn.step.duration{outcome=completed,step=pack,workflow=ship}"])
		require.EqualValues(t, 1, sums["cairn.hooks.received{hook=approved,workflow=checkout}"])
		require.EqualValues(t, 1, sums["cairn.executions{begin=started,workflow=ship}"])
		require.Positive(t, sums["cairn.commit.duration{}"])
		require.Positive(t, sums["cairn.commit.commands{}"])
		require.Positive(t, sums["cairn.commit.events{}"])
		require.Positive(t, sums["cairn.commit.bytes{}"])
		require.Contains(t, sums, "cairn.leases.lost{namespace=default}", "a counter stays when its engine is stopped")

		known := map[string]bool{}
		for _, m := range metrics.All() {
			known[m.OTel] = true
		}
		for name := range sums {
			bare, _, _ := strings.Cut(name, "{")
			require.True(t, known[bare], "%s is not in the list", name)
			require.NotContains(t, name, "wrun_")
		}
	})
}

// read returns all metrics: sums and gauges with their values, histograms with their counts.
func read(t *testing.T, p *process) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, p.metrics.Collect(t.Context(), &all))
	got := map[string]int64{}
	name := func(m metricdata.Metrics, set attribute.Set) string {
		return m.Name + "{" + set.Encoded(attribute.DefaultEncoder()) + "}"
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					got[name(m, p.Attributes)] = p.Value
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					got[name(m, p.Attributes)] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					got[name(m, p.Attributes)] = int64(p.Count)
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					got[name(m, p.Attributes)] = int64(p.Count)
				}
			default:
				t.Fatalf("%s is a %T", m.Name, m.Data)
			}
		}
	}
	return got
}

// Without a configuration the global providers are used; without an SDK they do nothing.
func TestDefaults(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, database func() cairn.Store) {
		telemetry, err := cairnotel.New(nil)
		require.NoError(t, err)
		wf := cairn.NewWorkflow("w", func(ctx cairn.Context, n int) (int, error) {
			return cairn.Do(ctx, "s", func(context.Context) (int, error) { return n, nil })
		})
		e, err := cairn.NewWith(t.Context(), database(), cairn.Config{Observe: telemetry.Hooks()}, wf)
		require.NoError(t, err)
		run, err := wf.Start(t.Context(), e, 3)
		require.NoError(t, err)
		out, err := run.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, out)
		require.NoError(t, e.Stop(t.Context()))
	})
}
