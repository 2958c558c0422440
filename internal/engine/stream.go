package engine

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/stream"
)

// runStreams are the streams that a run writes to. The execution's lock guards them.
type runStreams struct {
	known  bool // what was written before this execution is known
	byName map[string]*runStream
}

// runStream is one of them. Everything goes through one pipe, so the stream has what the run wrote in the order in which it wrote it.
type runStream struct {
	name   string
	pipe   *stream.Pipe
	closed bool
	stored map[string]int64 // what each branch has written before this execution, by path
	pens   []*pen           // of branches
}

// pen is who writes to a stream: a branch, or an attempt of a step.
type pen struct {
	stream *runStream
	writer stream.Writer
	n      int64         // operations so far
	closed bool          // it has closed the stream
	turn   chan struct{} // held by who writes: the goroutines of a step may share a pen
}

func newPen(s *runStream) *pen { return &pen{stream: s, turn: make(chan struct{}, 1)} }

// streamOf returns a stream of the run. The lock is held.
func (x *exec) streamOf(name string) *runStream {
	s := x.streams.byName[name]
	if s == nil {
		s = &runStream{name: name, stored: map[string]int64{}}
		s.pipe = stream.NewPipe(x.turns.Of("stream", int64(len(x.streams.byName))), func(ops []commit.StreamOp) ([]int, error) { return x.append(name, ops) })
		if x.streams.byName == nil {
			x.streams.byName = map[string]*runStream{}
		}
		x.streams.byName[name] = s
	}
	return s
}

// knowStreams makes sure that it is known what earlier executions have written. Nobody else writes while this process owns the run.
func (x *exec) knowStreams() {
	for {
		x.mu.Lock()
		known, epoch := x.streams.known, x.epoch
		x.mu.Unlock()
		if known {
			return
		}
		infos, err := x.eng.store.Streams(x.eng.hard, x.key.Namespace, x.key.Run)
		if err != nil {
			if !temporary(cairnerr.CodeOf(err)) || !x.eng.pause() {
				x.leave(err)
			}
			x.check()
			continue
		}
		x.mu.Lock()
		for i := range infos {
			s := x.streamOf(infos[i].Name)
			s.closed = s.closed || infos[i].Head.Closed
			maps.Copy(s.stored, infos[i].Branches)
		}
		x.streams.known = x.epoch == epoch
		x.mu.Unlock()
	}
}

// append writes to a stream, and returns when that is durable. While the database cannot be reached it is tried again. If the run is not ours any
// more, the execution is over.
func (x *exec) append(name string, ops []commit.StreamOp) ([]int, error) {
	a := &commit.Append{StreamKey: store.StreamKey{Namespace: x.key.Namespace, Run: x.key.Run, Name: name}, Ops: ops}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		x.mu.Lock()
		a.Owner = journal.Ownership{Incarnation: x.me.id, Epoch: x.epoch}
		x.mu.Unlock()
		ticket, err := x.me.committer.Append(x.eng.hard, a)
		if err == nil {
			if _, err = ticket.Wait(x.eng.hard); err == nil {
				return ticket.Refused(), nil
			}
		}
		if temporary(cairnerr.CodeOf(err)) && !x.isGone() {
			select {
			case <-time.After(pause):
				continue
			case <-x.gone:
			case <-x.eng.hard.Done():
			}
		}
		x.lostStream(err)
		return nil, err
	}
}

// lostStream ends an execution that can write to its streams no more. If that is nobody's doing, the run is parked for somebody to look at.
func (x *exec) lostStream(err error) {
	switch cairnerr.CodeOf(err) {
	case cairnerr.CodeFenced:
		x.eng.reborn(x.me)
	case cairnerr.CodeStaleEpoch, cairnerr.CodeRunEnded, cairnerr.CodeRunNotFound, cairnerr.CodeClosed, cairnerr.CodeOutcomeUnknown:
	default:
		if x.eng.hard.Err() == nil && !x.isGone() {
			x.refused(&journal.Command{}, err)
		}
	}
	x.leave(err)
}

// drain waits until everything is durable that branches have written to streams: nothing that they do after it may become so before.
func (x *exec) drain() {
	x.mu.Lock()
	pens := x.unclean()
	x.mu.Unlock()
	for _, p := range pens {
		_ = p.stream.pipe.Flush(x.bare, x.gone, &p.writer) // the branch is told of its mistakes when it writes again
	}
}

// undrained reports whether branches have written something that is not durable. The lock is held.
func (x *exec) undrained() bool { return len(x.unclean()) > 0 && x.phase != phaseGone }

// unclean returns the pens of branches with something on its way. The lock is held.
func (x *exec) unclean() []*pen {
	if len(x.streams.byName) == 0 {
		return nil
	}
	var pens []*pen
	for _, s := range x.streams.byName {
		for _, p := range s.pens {
			if !s.pipe.Clean(&p.writer) {
				pens = append(pens, p)
			}
		}
	}
	return pens
}

// checkChunk refuses what cannot be written.
func checkChunk(name string, op *commit.StreamOp) error {
	if name == "" {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "a stream needs a name")
	}
	if err := journal.CheckText("the name of the stream", name, journal.MaxName); err != nil {
		return err
	}
	if n := len(op.Data); n > store.MaxChunk {
		return cairnerr.Errorf(cairnerr.CodePayloadTooLarge, "a chunk of stream %q has %d bytes as it is stored; at most %d are allowed", name, n, store.MaxChunk)
	}
	return nil
}

func streamClosed(name string) error {
	return cairnerr.Errorf(cairnerr.CodeStreamClosed, "stream %q is closed", name)
}

// WriteStream writes a chunk. It returns before that is durable; but nothing that the branch does afterwards becomes durable before it.
func (b *Branch) WriteStream(name string, chunk journal.Payload) error {
	return b.stream(name, commit.StreamOp{Data: chunk})
}

// CloseStream closes a stream: nobody writes to it any more.
func (b *Branch) CloseStream(name string) error {
	return b.stream(name, commit.StreamOp{Close: true})
}

func (b *Branch) stream(name string, op commit.StreamOp) error {
	if err := checkChunk(name, &op); err != nil {
		return err
	}
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	x := b.x
	if x.replay != nil {
		return x.replayStream(name, op.Close)
	}
	x.knowStreams()
	p, stored := b.pen(name)
	p.n++
	if p.n <= stored {
		return nil // it was written when the code was executed before
	}
	if err := b.stopped(); err != nil {
		return err
	}
	x.barrier(b.line) // a chunk is shown only when what led to it is durable
	x.mu.Lock()
	closed := p.stream.closed
	x.mu.Unlock()
	switch {
	case closed && op.Close:
		return nil
	case closed:
		return streamClosed(name)
	}
	op.Key, op.N, op.At = b.path, p.n, x.eng.now()
	// A cancel does not interrupt it: whether a chunk was written must not depend on how fast the database is.
	err := p.stream.pipe.Put(x.bare, x.gone, &p.writer, op)
	x.check()
	if err == nil && op.Close {
		x.mu.Lock()
		p.stream.closed = true
		x.mu.Unlock()
	}
	return err
}

// pen returns the branch's pen for a stream, and what the branch has written with it before this execution.
func (b *Branch) pen(name string) (*pen, int64) {
	b.x.mu.Lock()
	defer b.x.mu.Unlock()
	s := b.x.streamOf(name)
	p := b.pens[name]
	if p == nil {
		p = newPen(s)
		if b.pens == nil {
			b.pens = map[string]*pen{}
		}
		b.pens[name] = p
		s.pens = append(s.pens, p)
	}
	return p, s.stored[b.path]
}

// FlushStream waits until all that the branch has written to a stream is durable.
func (b *Branch) FlushStream(ctx context.Context, name string) error {
	if err := b.enter(); err != nil {
		return err
	}
	defer b.leave()
	if b.x.replay != nil {
		return nil
	}
	p, _ := b.pen(name)
	err := p.stream.pipe.Flush(ctx, b.x.gone, &p.writer)
	b.x.check()
	return err
}

// attempt is what one attempt of a step writes to streams.
type attempt struct {
	step    *step
	number  int
	streams []string // that it has written to, when it is sealed

	mu   sync.Mutex
	over bool
	pens map[string]*pen
}

// CanWrite reports whether there is an attempt that may write to streams.
func (i StepInfo) CanWrite() bool { return i.attempt != nil }

// WriteStream writes a chunk. It is durable before the outcome of the step is.
func (i StepInfo) WriteStream(ctx context.Context, name string, chunk journal.Payload) error {
	return i.attempt.write(ctx, name, commit.StreamOp{Data: chunk})
}

// CloseStream closes a stream, if the attempt ends well. The attempt itself may not write to it any more.
func (i StepInfo) CloseStream(ctx context.Context, name string) error {
	return i.attempt.write(ctx, name, commit.StreamOp{Close: true})
}

// FlushStream waits until all that the attempt has written to a stream is durable.
func (i StepInfo) FlushStream(ctx context.Context, name string) error {
	p, err := i.attempt.pen(name)
	if err != nil {
		return err
	}
	return p.stream.pipe.Flush(ctx, i.attempt.step.b.x.gone, &p.writer)
}

// pen returns the attempt's pen for a stream.
func (a *attempt) pen(name string) (*pen, error) {
	x := a.step.b.x
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return nil, cairnerr.Errorf(cairnerr.CodeContextOver, "attempt %d of step %q has ended, and cannot write to stream %q", a.number, a.step.key, name)
	}
	p := a.pens[name]
	if p == nil {
		if len(a.pens) >= journal.MaxStreams {
			return nil, cairnerr.Errorf(cairnerr.CodeLimitExceeded, "step %q writes to more than %d streams", a.step.key, journal.MaxStreams)
		}
		x.mu.Lock()
		p = newPen(x.streamOf(name))
		x.mu.Unlock()
		if a.pens == nil {
			a.pens = map[string]*pen{}
		}
		a.pens[name] = p
	}
	return p, nil
}

func (a *attempt) write(ctx context.Context, name string, op commit.StreamOp) error {
	if err := checkChunk(name, &op); err != nil {
		return err
	}
	x := a.step.b.x
	p, err := a.pen(name)
	if err != nil {
		return err
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.turn }()
	if !x.streamsKnown() {
		return cairnerr.Errorf(cairnerr.CodeClosed, "the run is not executed here any more")
	}
	if _, err := a.pen(name); err != nil { // it may have ended while this waited
		return err
	}
	x.mu.Lock()
	closed := p.stream.closed || p.closed
	x.mu.Unlock()
	switch {
	case closed && op.Close:
		return nil
	case closed:
		return streamClosed(name)
	}
	op.Key, op.Attempt, op.N, op.At = a.step.key, a.number, p.n+1, x.eng.now()
	if err := p.stream.pipe.Put(ctx, x.gone, &p.writer, op); err != nil {
		return err
	}
	p.n++
	p.closed = op.Close
	return nil
}

// streamsKnown is knowStreams for the code of steps, which does not end with the execution. It reports whether that goes on.
func (x *exec) streamsKnown() (known bool) {
	done := make(chan struct{})
	x.mu.Lock()
	known = x.streams.known
	x.mu.Unlock()
	if known {
		return true
	}
	go func() {
		defer close(done)
		x.knowStreams()
		known = true
	}()
	<-done
	return known
}

// seal ends the attempt: it writes no more, and what it has written is durable. The error is that of a write that failed.
func (a *attempt) seal() error {
	a.mu.Lock()
	a.over = true
	if len(a.pens) == 0 { // the rule
		a.mu.Unlock()
		return nil
	}
	names := slices.Sorted(maps.Keys(a.pens))
	a.mu.Unlock()
	x := a.step.b.x
	var failed error
	for _, name := range names {
		p := a.pens[name]
		select {
		case p.turn <- struct{}{}: // a goroutine that the step has left behind may be writing
		case <-x.gone:
			return failed
		}
		if err := p.stream.pipe.Flush(x.bare, x.gone, &p.writer); err != nil && failed == nil {
			failed = err
		}
		if p.n > 0 {
			a.streams = append(a.streams, name)
		}
		<-p.turn
	}
	return failed
}

// void says that nothing holds that the attempt has written: its branch lost a race, so no event tells.
func (a *attempt) void() {
	x := a.step.b.x
	for _, name := range a.streams {
		p := a.pens[name]
		op := commit.StreamOp{Key: a.step.key, Attempt: a.number, Void: true}
		if p.stream.pipe.Put(x.bare, x.gone, &p.writer, op) == nil {
			_ = p.stream.pipe.Flush(x.bare, x.gone, &p.writer)
		}
	}
}

// outcome records how the attempt ended, and what it noted. With a good end, the streams are closed that it has closed.
func (s *step) outcome(good bool, d journal.Data) {
	var events []journal.Event
	for _, note := range s.notes.take() {
		events = append(events, journal.Event{Data: note})
	}
	if completed, ok := d.(*journal.StepCompleted); ok {
		completed.StreamsClosed = s.now.closed()
	}
	if !s.b.add(append(events, journal.Event{Key: s.key, Data: d})...) {
		s.now.void()
		return
	}
	if !good || len(s.now.streams) == 0 {
		return
	}
	s.b.x.mu.Lock()
	defer s.b.x.mu.Unlock()
	for _, p := range s.now.pens {
		p.stream.closed = p.stream.closed || p.closed
	}
}

// ended reports whether the body has returned.
func (a *attempt) ended() bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.over
}

// closed returns the streams that the attempt has closed. It is sealed.
func (a *attempt) closed() []string {
	var names []string
	for _, name := range a.streams {
		if a.pens[name].closed {
			names = append(names, name)
		}
	}
	return names
}

// ReadStream returns the chunks of a stream of a run.
func (e *Engine) ReadStream(ctx context.Context, run journal.ID, name string, r stream.Request) iter.Seq2[store.Chunk, error] {
	r.Key = store.StreamKey{Namespace: e.namespace, Run: run, Name: name}
	return e.streams.Read(ctx, r)
}
