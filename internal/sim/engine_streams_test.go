package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/sim"
	"github.com/cairn-workflow/cairn/internal/stream"
	"github.com/cairn-workflow/cairn/store"
)

// streamName is the stream that random workflows write to.
const streamName = "words"

// chunkOf is what a part of a workflow writes at a place.
func chunkOf(part string, place, k int) journal.Payload {
	return journal.Payload(fmt.Sprintf("%s/%d/%d", part, place, k))
}

// tell writes chunks from the workflow itself.
func (w *engineWorld) tell(b *engine.Branch, part string, place, n int) error {
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

// referenceChunks are those that a run's stream has in the end, without what failed; children have streams of their own.
func (w *engineWorld) referenceChunks(name string, depth int) []string {
	a := sim.NewActor(w.seed, "workflow "+name)
	var all []string
	add := func(place, n int) {
		for k := range n {
			all = append(all, string(chunkOf(name, place, k)))
		}
	}
	for i := range 2 + a.Pick(4) {
		switch a.Pick(11) {
		case 0:
			a.Pick(2000)
		case 1, 5, 6, 7, 8, 10:
		case 2:
			if depth < 2 {
				for k := range 3 {
					all = append(all, w.referenceChunks(fmt.Sprintf("%s.%d.%d", name, i, k), depth+1)...)
				}
			}
		case 9:
			add(i, 1+a.Pick(4))
		default:
			add(i, 2)
		}
	}
	return all
}

// deafStore is a store whose hints are all lost.
type deafStore struct{ store.Store }

func (deafStore) Notifier() store.Notifier { return deafNotifier{} }

type deafNotifier struct{}

func (deafNotifier) Listen(context.Context) (<-chan string, error) { return nil, errors.New("deaf") }

func (deafNotifier) ListenStreams(context.Context, func(journal.ID) bool) (<-chan journal.ID, error) {
	return nil, errors.New("deaf")
}

// readers follow the stream of a run while processes die.
type readers struct {
	world   *engineWorld
	run     journal.ID
	all     sync.WaitGroup
	mu      sync.Mutex
	failed  []error
	seen    []string // of the first one
	settled []string
}

// follow starts readers of a run's stream: one from the beginning, one of what is settled, and one who joins late, again and again.
func (w *engineWorld) follow(st store.Store, run journal.ID) *readers {
	if w.seed%4 != 1 { // looking at the version of the file again and again costs time, though virtual
		st = deafStore{st}
	}
	r := &readers{world: w, run: run}
	hub := stream.NewHub(st, 100e6, nil)
	r.all.Go(func() { r.seen = r.read(hub, stream.Request{}) })
	r.all.Go(func() { r.settled = r.read(hub, stream.Request{Settled: true}) })
	r.all.Go(func() {
		for from := int64(0); ; from++ { // one chunk each
			chunks := r.readSome(hub, stream.Request{From: from}, 1)
			if len(chunks) == 0 {
				return
			}
		}
	})
	return r
}

func (r *readers) read(hub *stream.Hub, q stream.Request) []string { return r.readSome(hub, q, -1) }

// readSome reads at most n chunks, and checks that they follow each other.
func (r *readers) readSome(hub *stream.Hub, q stream.Request, n int) []string {
	q.Key = store.StreamKey{Namespace: "default", Run: r.run, Name: streamName}
	var got []string
	next := q.From
	for c, err := range hub.Read(r.world.t.Context(), q) {
		if err == nil && ((!q.Settled && c.Index != next) || c.Index < next) {
			err = fmt.Errorf("chunk %d came where %d should have", c.Index, next)
		}
		if journal.CodeOf(err) == journal.CodeStreamNotFound {
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
	}
	return got
}

// check is called when the run has ended.
func (r *readers) check(st store.Store, name string) {
	r.all.Wait()
	t, seed := r.world.t, r.world.seed
	require.Empty(t, r.failed, "seed %d: run %s", seed, name)
	stored := r.read(stream.NewHub(st, 0, nil), stream.Request{Stored: true})
	require.Equal(t, stored, r.seen, "seed %d: run %s: who reads live sees what is stored", seed, name)
	want := r.world.referenceChunks(name, 0)
	slices.Sort(want)
	slices.Sort(r.settled)
	require.Equal(t, want, r.settled, "seed %d: run %s: everything that holds, once", seed, name)
	for _, chunk := range want {
		require.Contains(t, stored, chunk)
	}
}
