package enginesim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/stream"
)

// streamName is the stream that random workflows write to.
const streamName = "words"

// chunkOf is what a part of a workflow writes at a place.
func chunkOf(part string, place, k int) journal.Payload {
	return journal.Payload(fmt.Sprintf("%s/%d/%d", part, place, k))
}

// tell writes chunks from the workflow itself.
func (w *world) tell(b *engine.Branch, part string, place, n int) error {
	for k := range n {
		if err := b.WriteStream(streamName, chunkOf(part, place, k)); err != nil {
			return err
		}
	}
	return nil
}

// tellStep writes chunks from an attempt of a step.
func tellStep(ctx context.Context, info engine.StepInfo, part string, place int) error {
	for k := range 2 {
		if err := info.WriteStream(ctx, streamName, chunkOf(part, place, k)); err != nil {
			return err
		}
	}
	return nil
}

// deafStore is a store whose hints are all lost.
type deafStore struct{ store.Store }

func (deafStore) Notifier() store.Notifier { return deafNotifier{} }

type deafNotifier struct{}

func (deafNotifier) Listen(context.Context) (<-chan string, error) { return nil, errors.New("deaf") }

func (deafNotifier) ListenStreams(context.Context, func(journal.ID) bool) (<-chan journal.ID, error) {
	return nil, errors.New("deaf")
}

func (deafNotifier) ListenRuns(context.Context, func(journal.ID) bool) (<-chan journal.ID, error) {
	return nil, errors.New("deaf")
}

// readers follow the stream of a run while processes die.
type readers struct {
	world   *world
	ctx     context.Context
	run     journal.ID
	all     sync.WaitGroup
	mu      sync.Mutex
	failed  []error
	seen    []string // of the first one
	slow    []string
	settled []string
}

// followAll starts readers of the streams of all runs. Where the power will be cut, they come after that.
func (w *world) followAll() *audience {
	ctx, cancel := context.WithCancel(context.Background())
	all := &audience{leave: cancel}
	all.started.Go(func() {
		if w.plan.cuts() {
			<-w.cutOver
		}
		w.turn("readers")
		st, err := w.open() //nolint:contextcheck // the store is closed when all have read, not when they are told to leave
		if err != nil {
			w.fail("readers: %w", err)
			return
		}
		all.st = st
		for _, id := range w.ids {
			all.readers = append(all.readers, w.follow(ctx, st, id))
		}
	})
	return all
}

// audience is the readers of all runs, with a store of their own.
type audience struct {
	started sync.WaitGroup
	leave   context.CancelFunc
	st      store.Store
	readers []*readers
}

// check is called when all runs have ended.
func (all *audience) check(w *world) {
	all.started.Wait()
	defer all.leave()
	if all.st == nil {
		return
	}
	if w.failed() { // a run that does not end has a stream that does not end
		all.leave()
	}
	for i, r := range all.readers {
		r.check(all.st, fmt.Sprint(w.plan.Runs[i]))
	}
	if err := all.st.Close(); err != nil {
		w.fail("readers: %w", err)
	}
}

// follow starts readers of a run's stream: one from the beginning, one of what is settled, one who is slow, and one who joins late, again and again.
func (w *world) follow(ctx context.Context, st store.Store, run journal.ID) *readers {
	if w.plan.Seed%4 != 1 { // looking at the version of the file again and again costs time, though virtual
		st = deafStore{st}
	}
	r := &readers{world: w, ctx: ctx, run: run}
	hub := stream.NewHub(st, 100e6, nil, nil)
	r.all.Go(func() { r.seen = r.read(hub, stream.Request{}) })
	r.all.Go(func() { r.settled = r.read(hub, stream.Request{Settled: true}) })
	r.all.Go(func() { r.slow = r.readSome(hub, stream.Request{}, -1, 300*time.Millisecond) })
	r.all.Go(func() {
		for from := int64(0); ; from++ { // one chunk each
			chunks := r.readSome(hub, stream.Request{From: from}, 1, 0)
			if len(chunks) == 0 {
				return
			}
		}
	})
	return r
}

func (r *readers) read(hub *stream.Hub, q stream.Request) []string { return r.readSome(hub, q, -1, 0) }

// readSome reads at most n chunks, with a pause after each, and checks that they follow each other.
func (r *readers) readSome(hub *stream.Hub, q stream.Request, n int, pause time.Duration) []string {
	q.Key = store.StreamKey{Namespace: namespace, Run: r.run, Name: streamName}
	var got []string
	next := q.From
	for c, err := range hub.Read(r.ctx, q) {
		if err == nil && ((!q.Settled && c.Index != next) || c.Index < next) {
			err = fmt.Errorf("chunk %d came where %d should have", c.Index, next)
		}
		if cairnerr.CodeOf(err) == cairnerr.CodeStreamNotFound {
			return nil // it never wrote anything
		}
		if err != nil {
			r.mu.Lock()
			r.failed = append(r.failed, err)
			r.mu.Unlock()
			return got
		}
		next = c.Index + 1
		if got = append(got, string(c.Data)); len(got) == n {
			break
		}
		time.Sleep(pause)
	}
	return got
}

// check is called when the run has ended. One that was asked to stop has written what it has.
func (r *readers) check(st store.Store, name string) {
	r.all.Wait()
	w := r.world
	if r.ctx.Err() != nil {
		return
	}
	for _, err := range r.failed {
		w.fail("stream of run%s: %w", name, err)
	}
	stored := r.read(stream.NewHub(st, 0, nil, nil), stream.Request{Stored: true})
	if !slices.Equal(stored, r.seen) {
		w.fail("stream of run%s: a reader has seen %q, stored is %q", name, r.seen, stored)
	}
	if !slices.Equal(stored, r.slow) {
		w.fail("stream of run%s: a slow reader has seen %q, stored is %q", name, r.slow, stored)
	}
	if w.audit.runs[r.run].cancelled {
		return
	}
	want := w.referenceChunks(name, 0)
	slices.Sort(want)
	slices.Sort(r.settled)
	if !slices.Equal(want, r.settled) {
		w.fail("stream of run%s: %q holds, it should be %q", name, r.settled, want)
	}
}
