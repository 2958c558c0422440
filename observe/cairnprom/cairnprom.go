// Package cairnprom exports the metrics of engines to Prometheus.
//
//	metrics := cairnprom.New()
//	prometheus.MustRegister(metrics)
//	eng, err := cairn.NewWith(ctx, st, cairn.Config{Observe: metrics.Hooks()}, Checkout)
//	http.Handle("/metrics", promhttp.Handler())
//
// docs/observability.md has the names. Labels are names of workflows, steps and hooks, states and error codes; never ids. A label with more than a
// thousand values gets the value "other" for the rest.
package cairnprom

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-workflow/cairn/internal/metrics"
	"github.com/cairn-workflow/cairn/observe"
)

// Collector gives the metrics of engines to Prometheus. It is a [prometheus.Collector].
type Collector struct {
	bound  metrics.Bound
	totals metrics.Totals

	started, ended, parked, evicted, executions, attempts, looks, received *prometheus.CounterVec
	runTime, stepTime, lookTime                                            *prometheus.HistogramVec
	commitTime, commands                                                   prometheus.Histogram
	events, bytes                                                          prometheus.Counter

	vectors []prometheus.Collector
	samples []sample
}

type sample struct {
	metrics.Sample
	desc *prometheus.Desc
	kind prometheus.ValueType
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a collector. It can be used for several engines.
func New() *Collector {
	c := &Collector{}
	c.started, c.ended, c.parked, c.evicted = c.counter(metrics.RunsStarted), c.counter(metrics.RunsEnded), c.counter(metrics.RunsParked), c.counter(metrics.RunsEvicted)
	c.executions, c.attempts, c.received = c.counter(metrics.Executions), c.counter(metrics.StepAttempts), c.counter(metrics.HooksReceived)
	c.runTime, c.stepTime = c.histogram(metrics.RunDuration), c.histogram(metrics.StepDuration)
	c.looks, c.lookTime = c.counter(metrics.PollLooks), c.histogram(metrics.PollDuration)
	c.commitTime, c.commands = single(c, metrics.CommitDuration), single(c, metrics.CommitCommands)
	c.events, c.bytes = c.counter(metrics.CommitEvents).WithLabelValues(), c.counter(metrics.CommitBytes).WithLabelValues()
	for _, s := range metrics.Sampled() {
		kind := prometheus.GaugeValue
		if s.Kind == metrics.Counter {
			kind = prometheus.CounterValue
		}
		c.samples = append(c.samples, sample{s, prometheus.NewDesc(s.Prometheus, s.Help, s.Labels, nil), kind})
	}
	return c
}

func (c *Collector) counter(m metrics.Metric) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Prometheus, Help: m.Help}, m.Labels)
	c.vectors = append(c.vectors, v)
	return v
}

func (c *Collector) histogram(m metrics.Metric) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Prometheus, Help: m.Help, Buckets: m.Buckets}, m.Labels)
	c.vectors = append(c.vectors, v)
	return v
}

func single(c *Collector, m metrics.Metric) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: m.Prometheus, Help: m.Help, Buckets: m.Buckets})
	c.vectors = append(c.vectors, h)
	return h
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, v := range c.vectors {
		v.Describe(descs)
	}
	for _, s := range c.samples {
		descs <- s.desc
	}
}

// Collect implements prometheus.Collector. It reads the counters of the engines, and nothing from a database.
func (c *Collector) Collect(all chan<- prometheus.Metric) {
	for _, v := range c.vectors {
		v.Collect(all)
	}
	for _, stats := range c.totals.Read() {
		for _, s := range c.samples {
			all <- prometheus.MustNewConstMetric(s.desc, s.kind, float64(s.Value(&stats)), stats.Namespace)
		}
	}
}

// value returns a value of a label, with a bound, and readable by Prometheus: an error's code may be any bytes.
func (c *Collector) value(label, v string) string {
	return c.bound.Value(label, strings.ToValidUTF8(v, "?"))
}

// Hooks returns the hooks for the configuration of an engine: Config.Observe.
func (c *Collector) Hooks() observe.Hooks {
	return observe.Hooks{
		EngineStarted: c.totals.Started,
		EngineStopped: c.totals.Stopped,
		StartRun: func(ctx context.Context, s observe.RunStart) (context.Context, func(observe.RunStarted)) {
			return ctx, func(r observe.RunStarted) {
				if r.Err == nil && !r.Existing {
					c.started.WithLabelValues(c.value(metrics.Workflow, s.Workflow)).Inc()
				}
			}
		},
		Execute: func(ctx context.Context, e observe.Execution) (context.Context, func(observe.ExecutionEnd)) {
			return ctx, func(observe.ExecutionEnd) {
				c.executions.WithLabelValues(c.value(metrics.Workflow, e.Workflow), string(e.Why)).Inc()
			}
		},
		Attempt: func(ctx context.Context, a observe.Attempt) (context.Context, func(observe.AttemptEnd)) {
			return ctx, func(end observe.AttemptEnd) {
				workflow, step := c.value(metrics.Workflow, a.Workflow), c.value(metrics.Step, a.Step)
				c.attempts.WithLabelValues(workflow, step, string(end.Outcome), c.value(metrics.Code, end.Code)).Inc()
				c.stepTime.WithLabelValues(workflow, step, string(end.Outcome)).Observe(end.Took.Seconds())
			}
		},
		Look: func(ctx context.Context, l observe.Look) (context.Context, func(observe.LookEnd)) {
			return ctx, func(end observe.LookEnd) {
				workflow, poll := c.value(metrics.Workflow, l.Workflow), c.value(metrics.Poll, l.Poll)
				c.looks.WithLabelValues(workflow, poll, string(end.Found), c.value(metrics.Code, end.Code)).Inc()
				c.lookTime.WithLabelValues(workflow, poll, string(end.Found)).Observe(end.Took.Seconds())
			}
		},
		Received: func(_ context.Context, r observe.Received) {
			c.received.WithLabelValues(c.value(metrics.Workflow, r.Workflow), c.value(metrics.Hook, r.Hook)).Inc()
		},
		RunEnded: func(_ context.Context, e observe.RunEnd) {
			workflow := c.value(metrics.Workflow, e.Workflow)
			c.ended.WithLabelValues(workflow, e.Status, c.value(metrics.Code, e.Code)).Inc()
			c.runTime.WithLabelValues(workflow, e.Status).Observe(e.Took.Seconds())
		},
		RunParked: func(p observe.RunParked) {
			c.parked.WithLabelValues(c.value(metrics.Workflow, p.Workflow), c.value(metrics.Code, p.Code)).Inc()
		},
		RunEvicted: func(r observe.Run) { c.evicted.WithLabelValues(c.value(metrics.Workflow, r.Workflow)).Inc() },
		Committed: func(b observe.Commit) {
			c.commitTime.Observe(b.Took.Seconds())
			c.commands.Observe(float64(b.Commands))
			c.events.Add(float64(b.Events))
			c.bytes.Add(float64(b.Bytes))
		},
	}
}
