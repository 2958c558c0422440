package engine

import (
	"context"
	"log/slog"
	"slices"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// source is who says something.
type source struct {
	x       *exec
	line    *line  // of workflow code, which is silent while it repeats what it did before; nil: a step
	step    string // its key, "" in workflow code
	attempt int
	epoch   int64
}

// Logger returns a logger for the code of the workflow. It says nothing while that repeats what it did before.
func (b *Branch) Logger() *slog.Logger {
	s := source{x: b.x, line: b.line}
	return s.logger()
}

// Logger returns a logger for the code of the step; nil outside a step.
func (i StepInfo) Logger() *slog.Logger {
	if i.b == nil {
		return nil
	}
	s := source{x: i.b.x, step: i.Key, attempt: i.Attempt}
	return s.logger()
}

// logger returns a logger for what the engine has to say about the run.
func (x *exec) logger() *slog.Logger { return source{x: x}.logger() }

func (s source) logger() *slog.Logger {
	s.x.mu.Lock()
	s.epoch = s.x.epoch
	s.x.mu.Unlock()
	attrs := []slog.Attr{slog.String("run", journal.PrefixRun.Format(s.x.key.Run)), slog.String("workflow", s.x.wf.Name)}
	if s.step != "" {
		attrs = append(attrs, slog.String("step", s.step), slog.Int("attempt", s.attempt))
	} else if s.line != nil && s.line.path != "" {
		attrs = append(attrs, slog.String("branch", s.line.path))
	}
	attrs = append(attrs, slog.Int64("epoch", s.epoch))
	return slog.New(&handler{source: s, inner: s.x.eng.log.Handler().WithAttrs(attrs)})
}

// handler passes lines on to the program's own handler, and to the keeper where there is one. It forgets those that were said before.
type handler struct {
	source
	inner slog.Handler
	parts []part // what was added for the keeper, who does not need the engine's own attributes
}

// part is a group that was opened, or attributes that were added.
type part struct {
	group string
	attrs []slog.Attr
}

func (h *handler) silent() bool { return h.line != nil && !h.line.isLive() }

// untrue reports whether the code of the workflow was given something that never became durable, so that what it says is about nothing.
func (h *handler) untrue() bool {
	if h.line == nil || h.x.unsettled() == nil {
		return false
	}
	h.x.settle()
	return h.x.unsettled() != nil
}

// Enabled implements [slog.Handler].
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return !h.silent() && (h.x.eng.keeper.wants(level) || h.inner.Enabled(ctx, level))
}

// Handle implements [slog.Handler].
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if h.silent() || h.untrue() {
		return nil
	}
	if k := h.x.eng.keeper; k.wants(r.Level) {
		k.keep(h, &r)
	}
	if h.inner.Enabled(ctx, r.Level) {
		return h.inner.Handle(ctx, r)
	}
	return nil
}

// WithAttrs implements [slog.Handler].
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.inner, next.parts = h.inner.WithAttrs(attrs), append(slices.Clip(h.parts), part{attrs: attrs})
	return &next
}

// WithGroup implements [slog.Handler].
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	next := *h
	next.inner, next.parts = h.inner.WithGroup(name), append(slices.Clip(h.parts), part{group: name})
	return &next
}
