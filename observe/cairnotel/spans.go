package cairnotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/cairn-workflow/cairn/observe"
)

// The attributes of spans.
const (
	attrNamespace = attribute.Key("cairn.namespace")
	attrWorkflow  = attribute.Key("cairn.workflow")
	attrRun       = attribute.Key("cairn.run.id")
	attrParent    = attribute.Key("cairn.run.parent")
	attrEpoch     = attribute.Key("cairn.run.epoch")
	attrStatus    = attribute.Key("cairn.run.status")
	attrExisting  = attribute.Key("cairn.run.existing")
	attrBegin     = attribute.Key("cairn.execution.begin")
	attrEnd       = attribute.Key("cairn.execution.end")
	attrStep      = attribute.Key("cairn.step.name")
	attrKey       = attribute.Key("cairn.step.key")
	attrAttempt   = attribute.Key("cairn.step.attempt")
	attrOutcome   = attribute.Key("cairn.step.outcome")
	attrRetry     = attribute.Key("cairn.step.retry_after_ms")
	attrPoll      = attribute.Key("cairn.poll.name")
	attrPollKey   = attribute.Key("cairn.poll.key")
	attrFound     = attribute.Key("cairn.poll.found")
	attrHook      = attribute.Key("cairn.hook.name")
	attrError     = attribute.Key("error.type")
)

func about(r *observe.Run) []attribute.KeyValue {
	attrs := []attribute.KeyValue{attrNamespace.String(r.Namespace), attrWorkflow.String(r.Workflow), attrRun.String(r.ID), attrEpoch.Int64(r.Epoch)}
	if r.ParentID != "" {
		attrs = append(attrs, attrParent.String(r.ParentID))
	}
	return attrs
}

// fail marks a span as failed.
func fail(span trace.Span, err error, code string) {
	if err == nil {
		return
	}
	if code != "" {
		span.SetAttributes(attrError.String(code))
	}
	span.SetStatus(codes.Error, err.Error())
}

func (t *Telemetry) startRun(ctx context.Context, s observe.RunStart) (context.Context, func(observe.RunStarted)) {
	ctx, span := t.tracer.Start(ctx, "start "+s.Workflow, trace.WithSpanKind(trace.SpanKindProducer), trace.WithTimestamp(s.At),
		trace.WithAttributes(attrNamespace.String(s.Namespace), attrWorkflow.String(s.Workflow)))
	if s.ParentID != "" {
		span.SetAttributes(attrParent.String(s.ParentID))
	}
	return ctx, func(r observe.RunStarted) {
		if r.ID != "" {
			span.SetAttributes(attrRun.String(r.ID))
		}
		if r.Existing {
			span.SetAttributes(attrExisting.Bool(true))
		}
		fail(span, r.Err, "")
		span.End(trace.WithTimestamp(s.At.Add(r.Took)))
	}
}

// below returns how a span begins that hangs below the start of a run: in its trace, or linked with it if that was long ago.
func (t *Telemetry) below(ctx context.Context, created, at time.Time) []trace.SpanStartOption {
	options := []trace.SpanStartOption{trace.WithTimestamp(at)}
	if t.splitAfter > 0 && at.Sub(created) > t.splitAfter {
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.LinkFromContext(ctx)))
	}
	return options
}

func (t *Telemetry) execute(ctx context.Context, e observe.Execution) (context.Context, func(observe.ExecutionEnd)) {
	options := append(t.below(ctx, e.CreatedAt, e.At), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(append(about(&e.Run), attrBegin.String(string(e.Why)))...))
	ctx, span := t.tracer.Start(ctx, e.Workflow, options...)
	return ctx, func(end observe.ExecutionEnd) {
		span.SetAttributes(attrEnd.String(string(end.Why)))
		span.End(trace.WithTimestamp(end.At))
	}
}

func (t *Telemetry) attempt(ctx context.Context, a observe.Attempt) (context.Context, func(observe.AttemptEnd)) {
	ctx, span := t.tracer.Start(ctx, a.Step, trace.WithTimestamp(a.At),
		trace.WithAttributes(append(about(&a.Run), attrStep.String(a.Step), attrKey.String(a.Key), attrAttempt.Int(a.Attempt))...))
	return ctx, func(end observe.AttemptEnd) {
		span.SetAttributes(attrOutcome.String(string(end.Outcome)))
		if end.Outcome == observe.OutcomeRetrying {
			span.SetAttributes(attrRetry.Int64(end.Retry.Milliseconds()))
		}
		fail(span, end.Err, end.Code)
		span.End(trace.WithTimestamp(end.At))
	}
}

func (t *Telemetry) look(ctx context.Context, l observe.Look) (context.Context, func(observe.LookEnd)) {
	ctx, span := t.tracer.Start(ctx, l.Poll, trace.WithTimestamp(l.At), trace.WithAttributes(append(about(&l.Run), attrPoll.String(l.Poll), attrPollKey.String(l.Key))...))
	return ctx, func(end observe.LookEnd) {
		span.SetAttributes(attrFound.String(string(end.Found)))
		fail(span, end.Err, end.Code)
		span.End(trace.WithTimestamp(end.At))
	}
}

func (t *Telemetry) send(ctx context.Context, s observe.Send) (context.Context, func(observe.Sent)) {
	ctx, span := t.tracer.Start(ctx, "send", trace.WithSpanKind(trace.SpanKindProducer), trace.WithTimestamp(s.At),
		trace.WithAttributes(attrNamespace.String(s.Namespace)))
	return ctx, func(end observe.Sent) {
		if end.RunID != "" {
			span.SetAttributes(attrRun.String(end.RunID))
		}
		fail(span, end.Err, "")
		span.End(trace.WithTimestamp(s.At.Add(end.Took)))
	}
}

// received links the execution with who sent.
func (t *Telemetry) received(ctx context.Context, r observe.Received) {
	span := trace.SpanFromContext(ctx)
	hook := attrHook.String(r.Hook)
	span.AddEvent("received", trace.WithTimestamp(r.At), trace.WithAttributes(hook))
	sender := trace.SpanContextFromContext(carrier{t.propagator}.Extract(context.WithoutCancel(ctx), r.Headers))
	if len(r.Headers) > 0 && sender.IsValid() {
		span.AddLink(trace.Link{SpanContext: sender, Attributes: []attribute.KeyValue{hook}})
	}
}

func (t *Telemetry) runEnded(ctx context.Context, e observe.RunEnd) {
	// It begins when the run began: then it is in the run's trace however long the run took, unless that is to be split.
	options := append(t.below(ctx, e.CreatedAt, e.At), trace.WithAttributes(append(about(&e.Run), attrStatus.String(e.Status))...), trace.WithTimestamp(e.CreatedAt))
	_, span := t.tracer.Start(ctx, "run "+e.Workflow, options...)
	fail(span, e.Err, e.Code)
	span.End(trace.WithTimestamp(e.At))
}
