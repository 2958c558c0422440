package cairn

import (
	"context"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/stream"
)

// Stream is a sequence of values that a run shows while it goes on: the words of a model, log lines, progress. Steps
// and the workflow itself write to it; any number of readers, in this and other processes, read it from its beginning,
// from the middle, or only new values.
type Stream[T any] struct{ name string }

// NewStream defines a stream. Each run has its own under the name.
func NewStream[T any](name string) Stream[T] { return Stream[T]{name} }

// Name returns the name of the stream.
func (s Stream[T]) Name() string { return s.name }

// Write writes a chunk to the stream of the current run. It takes the Context of a workflow or the context of a step.
//
// It returns before the chunk is durable, and blocks only while a few hundred chunks are not durable yet. If writing a
// chunk fails, a later Write or [Stream.Flush] returns the error. A step's chunks are durable before its result is.
// When a workflow is executed again, its chunks are not written again. When a step is done again, its chunks are
// written again, behind a boundary: see [Chunk].
func (s Stream[T]) Write(ctx context.Context, v T) error {
	w, err := s.writer(ctx, "Write")
	if err != nil {
		return err
	}
	var p journal.Payload
	if c, ok := ctx.(Context); ok {
		p, err = c.branch().Encode("a chunk of stream "+s.name, v)
	} else {
		p, err = payload.Encode(v)
	}
	if err != nil {
		return err
	}
	return w.WriteStream(ctx, s.name, p)
}

// Close closes the stream: later writes fail, and readers come to its end. A close in a step takes effect when the step
// completes: an attempt that fails afterwards has closed nothing. All streams end with their run.
func (s Stream[T]) Close(ctx context.Context) error {
	w, err := s.writer(ctx, "Close")
	if err != nil {
		return err
	}
	return w.CloseStream(ctx, s.name)
}

// Flush waits until everything that this step, or this branch of the workflow, has written to the stream is durable.
func (s Stream[T]) Flush(ctx context.Context) error {
	w, err := s.writer(ctx, "Flush")
	if err != nil {
		return err
	}
	return w.FlushStream(ctx, s.name)
}

// streamWriter is who may write to a stream.
type streamWriter interface {
	WriteStream(ctx context.Context, name string, chunk journal.Payload) error
	CloseStream(ctx context.Context, name string) error
	FlushStream(ctx context.Context, name string) error
}

// branchWriter writes as a workflow, whose Context is the branch's own.
type branchWriter struct{ b *engine.Branch }

func (w branchWriter) WriteStream(_ context.Context, name string, chunk journal.Payload) error {
	return w.b.WriteStream(name, chunk)
}

func (w branchWriter) CloseStream(_ context.Context, name string) error { return w.b.CloseStream(name) }

func (w branchWriter) FlushStream(ctx context.Context, name string) error {
	return w.b.FlushStream(ctx, name)
}

// writer finds out who writes.
func (s Stream[T]) writer(ctx context.Context, call string) (streamWriter, error) {
	if c, ok := ctx.(Context); ok {
		return branchWriter{c.branch()}, nil
	}
	if info := engine.InfoOf(ctx); info.CanWrite() {
		return info, nil
	}
	return nil, cairnerr.Errorf(cairnerr.CodeNotInRun, "%s on stream %q was called with a context that is neither the Context of a workflow nor that of a step", call, s.name)
}

// StreamWriter returns an [io.WriteCloser] on a stream of bytes, for code that writes to one. Each Write is one chunk,
// or several if it is larger than a chunk may be. Close closes the stream.
func StreamWriter(ctx context.Context, s Stream[[]byte]) io.WriteCloser { return byteWriter{ctx, s} }

type byteWriter struct {
	ctx context.Context
	s   Stream[[]byte]
}

// byteChunk leaves room for the envelope of the largest chunk.
const byteChunk = store.MaxChunk - 1024

// Write implements [io.Writer].
func (w byteWriter) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		n := min(len(p), byteChunk)
		if err := w.s.Write(w.ctx, p[:n]); err != nil {
			return written, err
		}
		written += n
		p = p[n:]
	}
	return written, nil
}

// Close implements [io.Closer].
func (w byteWriter) Close() error { return w.s.Close(w.ctx) }

// Chunk is one value of a stream.
type Chunk[T any] struct {
	// Index is its place in the stream, from 0 and without gaps. It never changes: to go on after a chunk, use
	// [ReadFrom] with its index plus one.
	Index int64
	Value T
	// Writer is the key of the step that wrote it, or the path of the branch: "" for the workflow's own function.
	Writer string
	// Attempt is the attempt of the step that wrote it, from 1; 0 if the workflow itself wrote it.
	Attempt int
	// Boundary marks the first chunk of a new attempt: what earlier attempts of the same step wrote is no longer valid.
	Boundary bool
	Time     time.Time
}

// ReadOption changes a call of [Stream.Read]: ReadFrom, ReadLast, ReadSettled, ReadStored.
type ReadOption func(*stream.Request)

// ReadFrom reads a stream from an index on, instead of from the beginning.
func ReadFrom(index int64) ReadOption {
	return func(r *stream.Request) { r.From, r.FromEnd = index, false }
}

// ReadLast begins n chunks before the end of the stream as it is now: ReadLast(0) reads only new chunks. Earlier chunks
// are not read from the database.
func ReadLast(n int64) ReadOption {
	return func(r *stream.Request) { r.From, r.FromEnd = n, true }
}

// ReadSettled leaves out chunks of step attempts that did not complete, so that nothing comes twice. The order of the
// stream stays: while an attempt is under way, its chunks, and all chunks behind them, are held back until it has
// ended.
func ReadSettled() ReadOption { return func(r *stream.Request) { r.Settled = true } }

// ReadStored reads the chunks that are stored now, and does not wait for more.
func ReadStored() ReadOption { return func(r *stream.Request) { r.Stored = true } }

// Read returns the chunks of a run's stream: first those that are stored, then new ones, until the stream is closed or
// the run has ended. Each chunk is shown once, when it is durable, in the order of the indices. A slow reader does not
// hold up the run.
//
//	for chunk, err := range Tokens.Read(ctx, eng, run.ID()) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(chunk.Value)
//	}
//
// If nothing was written to the stream yet, Read waits; if the run ends without a write, the error is stream_not_found.
// After an error, reading can go on with [ReadFrom] the next index.
func (s Stream[T]) Read(ctx context.Context, e *Engine, runID string, opts ...ReadOption) iter.Seq2[Chunk[T], error] {
	return func(yield func(Chunk[T], error) bool) {
		var none Chunk[T]
		if err := notInWorkflow(ctx, "Read"); err != nil {
			yield(none, err)
			return
		}
		id, err := journal.PrefixRun.Parse(runID)
		if err != nil {
			yield(none, err)
			return
		}
		var r stream.Request
		for _, o := range opts {
			o(&r)
		}
		for c, err := range e.inner.ReadStream(ctx, id, s.name, r) {
			if err != nil {
				yield(none, err)
				return
			}
			chunk := Chunk[T]{Index: c.Index, Writer: strings.TrimSuffix(c.Key, "/"), Attempt: c.Attempt, Boundary: c.Boundary, Time: c.At.Std()}
			if err := payload.Decode(c.Data, &chunk.Value); err != nil {
				yield(chunk, cairnerr.Errorf(cairnerr.CodeOf(err), "chunk %d of stream %q: %w", c.Index, s.name, err))
				return
			}
			if !yield(chunk, nil) {
				return
			}
		}
	}
}
