// Package cairnotel exports the traces and metrics of engines to OpenTelemetry.
//
//	telemetry, err := cairnotel.New(nil) // the global providers
//	eng, err := cairn.NewWith(ctx, st, cairn.Config{Observe: telemetry.Hooks()}, Checkout)
//
// It uses only the API of OpenTelemetry: the program chooses the SDK, where spans go and which are sampled.
//
// # Traces
//
// A run can wait for years, and be executed by many processes; no span is open that long. The trace context of the code
// that starts a run is recorded with the run. Everything that happens to the run later, in any process, is traced below
// its start:
//
//	POST /orders                              of the program that starts the run
//	└─ start checkout            producer     the run is recorded
//	   ├─ checkout               consumer     one execution of the run, until it waits
//	   │  ├─ charge                           an attempt of a step: it failed, and is tried again
//	   │  ├─ charge                           the next one
//	   │  │  └─ POST api.example.com          whatever the step does with its context
//	   │  └─ start ship          producer     a child
//	   │     ├─ ship             consumer
//	   │     └─ run ship
//	   ├─ checkout               consumer     after a wait, perhaps in another process; linked with the send to the hook
//	   │  └─ mail
//	   └─ run checkout                        from the creation of the run to its end, written when it ends
//
// Each value that is sent to a hook has a span of its own ("send", in the trace of the sender). The execution that
// receives the value is linked to it.
//
// # Metrics
//
// docs/observability.md has the names. Labels are names of workflows, steps and hooks, states and error codes; never ids.
package cairnotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/cairn-workflow/cairn/internal/version"
	"github.com/cairn-workflow/cairn/observe"
)

// scope is the name under which spans and metrics are found.
const scope = "github.com/cairn-workflow/cairn"

// Config chooses where spans and metrics go. Its zero value and nil suit most programs.
type Config struct {
	// TracerProvider makes spans. Defaults to the global one.
	TracerProvider trace.TracerProvider
	// MeterProvider makes metrics. Defaults to the global one.
	MeterProvider metric.MeterProvider
	// Propagator says what is recorded with runs and deliveries. Defaults to the W3C trace context. What it writes
	// stays in the journal as long as the run does: consider that before you add baggage.
	Propagator propagation.TextMapPropagator
	// SplitAfter gives an execution a trace of its own, linked with the trace of the start, if it begins later than
	// this after the creation of its run. It is for programs that keep traces for days and have runs that wait for
	// months. Defaults to never.
	SplitAfter time.Duration
}

// Telemetry is an adapter to OpenTelemetry.
type Telemetry struct {
	tracer     trace.Tracer
	meters     *meters
	propagator propagation.TextMapPropagator
	splitAfter time.Duration
}

// New returns an adapter. It can be used for several engines.
func New(cfg *Config) (*Telemetry, error) {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	if c.TracerProvider == nil {
		c.TracerProvider = otel.GetTracerProvider()
	}
	if c.MeterProvider == nil {
		c.MeterProvider = otel.GetMeterProvider()
	}
	if c.Propagator == nil {
		c.Propagator = propagation.TraceContext{}
	}
	about := version.Get().Version
	meters, err := newMeters(c.MeterProvider.Meter(scope, metric.WithInstrumentationVersion(about)))
	if err != nil {
		return nil, err
	}
	return &Telemetry{
		tracer: c.TracerProvider.Tracer(scope, trace.WithInstrumentationVersion(about)), meters: meters, propagator: c.Propagator, splitAfter: c.SplitAfter,
	}, nil
}

// Close unregisters the metrics that are read on demand. An engine that is stopped needs no Close.
func (t *Telemetry) Close() error { return t.meters.close() }

// Hooks returns the hooks for the configuration of an engine: Config.Observe.
func (t *Telemetry) Hooks() observe.Hooks {
	spans := observe.Hooks{
		Propagator: carrier{t.propagator},
		StartRun:   t.startRun,
		Execute:    t.execute,
		Attempt:    t.attempt,
		Look:       t.look,
		Send:       t.send,
		Received:   t.received,
		RunEnded:   t.runEnded,
	}
	return observe.Join(spans, t.meters.hooks())
}

// carrier is a propagator of OpenTelemetry as Cairn knows them.
type carrier struct{ propagation.TextMapPropagator }

func (c carrier) Inject(ctx context.Context, headers map[string]string) {
	c.TextMapPropagator.Inject(ctx, propagation.MapCarrier(headers))
}

func (c carrier) Extract(ctx context.Context, headers map[string]string) context.Context {
	return c.TextMapPropagator.Extract(ctx, propagation.MapCarrier(headers))
}
