package cairnotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/cairn-workflow/cairn/internal/metrics"
	"github.com/cairn-workflow/cairn/observe"
)

// meters are the metrics.
type meters struct {
	bound  metrics.Bound
	totals metrics.Totals
	close  func() error

	started, ended, parked, evicted, executions, attempts, looks, received, events, bytes metric.Int64Counter
	runTime, stepTime, lookTime, commitTime                                               metric.Float64Histogram
	commands                                                                              metric.Int64Histogram
}

func newMeters(m metric.Meter) (*meters, error) {
	t := &meters{}
	var errs []error
	counter := func(d metrics.Metric) metric.Int64Counter {
		c, err := m.Int64Counter(d.OTel, metric.WithDescription(d.Help), metric.WithUnit(d.Unit))
		errs = append(errs, err)
		return c
	}
	seconds := func(d metrics.Metric) metric.Float64Histogram {
		h, err := m.Float64Histogram(d.OTel, metric.WithDescription(d.Help), metric.WithUnit(d.Unit), metric.WithExplicitBucketBoundaries(d.Buckets...))
		errs = append(errs, err)
		return h
	}
	t.started, t.ended, t.parked, t.evicted = counter(metrics.RunsStarted), counter(metrics.RunsEnded), counter(metrics.RunsParked), counter(metrics.RunsEvicted)
	t.executions, t.attempts, t.received = counter(metrics.Executions), counter(metrics.StepAttempts), counter(metrics.HooksReceived)
	t.looks, t.lookTime = counter(metrics.PollLooks), seconds(metrics.PollDuration)
	t.events, t.bytes = counter(metrics.CommitEvents), counter(metrics.CommitBytes)
	t.runTime, t.stepTime, t.commitTime = seconds(metrics.RunDuration), seconds(metrics.StepDuration), seconds(metrics.CommitDuration)
	var err error
	d := metrics.CommitCommands
	t.commands, err = m.Int64Histogram(d.OTel, metric.WithDescription(d.Help), metric.WithUnit(d.Unit), metric.WithExplicitBucketBoundaries(d.Buckets...))
	errs = append(errs, err, t.sample(m))
	return t, errors.Join(errs...)
}

// sample lets the engines be asked when somebody looks.
func (t *meters) sample(m metric.Meter) error {
	samples := metrics.Sampled()
	instruments := make([]metric.Int64Observable, len(samples))
	observables := make([]metric.Observable, len(samples))
	for i, s := range samples {
		var err error
		if s.Kind == metrics.Gauge {
			instruments[i], err = m.Int64ObservableGauge(s.OTel, metric.WithDescription(s.Help), metric.WithUnit(s.Unit))
		} else {
			instruments[i], err = m.Int64ObservableCounter(s.OTel, metric.WithDescription(s.Help), metric.WithUnit(s.Unit))
		}
		if err != nil {
			return err
		}
		observables[i] = instruments[i]
	}
	registration, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, stats := range t.totals.Read() {
			namespace := metric.WithAttributes(attribute.String(metrics.Namespace, stats.Namespace))
			for i, s := range samples {
				o.ObserveInt64(instruments[i], s.Value(&stats), namespace)
			}
		}
		return nil
	}, observables...)
	if err == nil {
		t.close = registration.Unregister
	}
	return err
}

// labels returns pairs of labels and values, with a bound.
func (t *meters) labels(pairs ...string) metric.MeasurementOption {
	attrs := make([]attribute.KeyValue, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			attrs = append(attrs, attribute.String(pairs[i], t.bound.Value(pairs[i], pairs[i+1])))
		}
	}
	return metric.WithAttributeSet(attribute.NewSet(attrs...))
}

func (t *meters) hooks() observe.Hooks {
	return observe.Hooks{
		EngineStarted: t.totals.Started,
		EngineStopped: t.totals.Stopped,
		StartRun: func(ctx context.Context, s observe.RunStart) (context.Context, func(observe.RunStarted)) {
			return ctx, func(r observe.RunStarted) {
				if r.Err == nil && !r.Existing {
					t.started.Add(ctx, 1, t.labels(metrics.Workflow, s.Workflow))
				}
			}
		},
		Execute: func(ctx context.Context, e observe.Execution) (context.Context, func(observe.ExecutionEnd)) {
			return ctx, func(observe.ExecutionEnd) {
				t.executions.Add(ctx, 1, t.labels(metrics.Workflow, e.Workflow, metrics.Begin, string(e.Why)))
			}
		},
		Attempt: func(ctx context.Context, a observe.Attempt) (context.Context, func(observe.AttemptEnd)) {
			return ctx, func(end observe.AttemptEnd) {
				t.attempts.Add(ctx, 1, t.labels(metrics.Workflow, a.Workflow, metrics.Step, a.Step, metrics.Outcome, string(end.Outcome), metrics.Code, end.Code))
				t.stepTime.Record(ctx, end.Took.Seconds(), t.labels(metrics.Workflow, a.Workflow, metrics.Step, a.Step, metrics.Outcome, string(end.Outcome)))
			}
		},
		Look: func(ctx context.Context, l observe.Look) (context.Context, func(observe.LookEnd)) {
			return ctx, func(end observe.LookEnd) {
				t.looks.Add(ctx, 1, t.labels(metrics.Workflow, l.Workflow, metrics.Poll, l.Poll, metrics.Found, string(end.Found), metrics.Code, end.Code))
				t.lookTime.Record(ctx, end.Took.Seconds(), t.labels(metrics.Workflow, l.Workflow, metrics.Poll, l.Poll, metrics.Found, string(end.Found)))
			}
		},
		Received: func(ctx context.Context, r observe.Received) {
			t.received.Add(ctx, 1, t.labels(metrics.Workflow, r.Workflow, metrics.Hook, r.Hook))
		},
		RunEnded: func(ctx context.Context, e observe.RunEnd) {
			t.ended.Add(ctx, 1, t.labels(metrics.Workflow, e.Workflow, metrics.Status, e.Status, metrics.Code, e.Code))
			t.runTime.Record(ctx, e.Took.Seconds(), t.labels(metrics.Workflow, e.Workflow, metrics.Status, e.Status))
		},
		RunParked: func(p observe.RunParked) {
			t.parked.Add(context.Background(), 1, t.labels(metrics.Workflow, p.Workflow, metrics.Code, p.Code))
		},
		RunEvicted: func(r observe.Run) { t.evicted.Add(context.Background(), 1, t.labels(metrics.Workflow, r.Workflow)) },
		Committed: func(c observe.Commit) {
			ctx := context.Background()
			t.commitTime.Record(ctx, c.Took.Seconds())
			t.commands.Record(ctx, int64(c.Commands))
			t.events.Add(ctx, int64(c.Events))
			t.bytes.Add(ctx, int64(c.Bytes))
		},
	}
}
