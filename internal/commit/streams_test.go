package commit_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
)

// chunks are operations of one source: "." closes the stream.
func chunks(key string, attempt int, first int64, texts ...string) []commit.StreamOp {
	var ops []commit.StreamOp
	for i, text := range texts {
		op := commit.StreamOp{Key: key, Attempt: attempt, N: first + int64(i), At: now(), Data: journal.Payload(text)}
		if text == "." {
			op.Data, op.Close = nil, true
		}
		ops = append(ops, op)
	}
	return ops
}

func (p *process) streamKey(run journal.ID) store.StreamKey {
	return store.StreamKey{Namespace: namespace, Run: run, Name: "s"}
}

// append writes to a stream of a run, in an epoch, and returns what was refused.
func (p *process) append(run journal.ID, epoch int64, ops ...commit.StreamOp) ([]int, error) {
	p.t.Helper()
	ticket, err := p.Append(p.t.Context(), &commit.Append{
		StreamKey: p.streamKey(run), Owner: journal.Ownership{Incarnation: p.self, Epoch: epoch}, Ops: ops,
	})
	require.NoError(p.t, err)
	_, err = ticket.Wait(p.t.Context())
	return ticket.Refused(), err
}

func (p *process) mustAppend(run journal.ID, ops ...commit.StreamOp) {
	p.t.Helper()
	refused, err := p.append(run, 1, ops...)
	require.NoError(p.t, err)
	require.Empty(p.t, refused)
}

// page reads the whole stream, and checks that its indices are without gap.
func (p *process) page(run journal.ID) *store.StreamPage {
	p.t.Helper()
	page, err := p.store.Stream(p.t.Context(), p.streamKey(run), store.StreamQuery{Limit: 1000})
	require.NoError(p.t, err)
	for i := range page.Chunks {
		require.EqualValues(p.t, i, page.Chunks[i].Index)
	}
	return page
}

func text(page *store.StreamPage) string {
	var all []string
	for i := range page.Chunks {
		all = append(all, string(page.Chunks[i].Data))
	}
	return strings.Join(all, " ")
}

// done is the outcome of a step that has written to the stream.
func done(key string) journal.Event {
	return journal.Event{Key: key, Data: &journal.StepCompleted{Name: key, Attempt: 1, Streams: []string{"s"}}}
}

func TestAppend(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p := start(t, again())
		run := p.newRun()
		loads := p.Stats().Loads
		p.mustAppend(run, append(chunks("a", 1, 1, "a1", "a2"), chunks("", 0, 1, "w1")...)...)
		p.mustAppend(run, chunks("a", 1, 3, "a3")...)
		p.mustAppend(run, chunks("", 0, 2, "w2")...)
		require.Equal(t, loads+1, p.Stats().Loads, "the stream is read once, the run never")
		require.Equal(t, "a1 a2 w1 a3 w2", text(p.page(run)))
		require.EqualValues(t, 5, p.Stats().Chunks)

		p.mustAppend(run, chunks("a", 1, 2, "a2", "a3", "a4")...) // what is stored is not stored again
		p.mustAppend(run, chunks("", 0, 1, "w1", "w2", "w3")...)
		require.Equal(t, "a1 a2 w1 a3 w2 a4 w3", text(p.page(run)))

		other := start(t, again()) // also by somebody who remembers nothing
		_, err := other.append(run, 1, chunks("a", 1, 5, "x")...)
		require.Equal(t, cairnerr.CodeStaleEpoch, cairnerr.CodeOf(err))
		_, err = other.append(other.id(), 1, chunks("a", 1, 1, "x")...)
		require.Equal(t, cairnerr.CodeRunNotFound, cairnerr.CodeOf(err))
		_, err = p.append(run, 2, chunks("a", 1, 5, "x")...)
		require.Equal(t, cairnerr.CodeStaleEpoch, cairnerr.CodeOf(err))
		_, err = p.append(run, 2, chunks("a", 1, 1, "x")...)
		require.Equal(t, cairnerr.CodeStaleEpoch, cairnerr.CodeOf(err))
		p.mustAppend(run, chunks("a", 1, 5, "a5")...)
		p.must(p.owned(run, ended()))
		_, err = p.append(run, 1, chunks("a", 1, 6, "x")...)
		require.Equal(t, cairnerr.CodeRunEnded, cairnerr.CodeOf(err))
		require.Equal(t, "a1 a2 w1 a3 w2 a4 w3 a5", text(p.page(run)))
	})
}

func TestAppendChecks(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p := start(t, again())
		good := commit.Append{StreamKey: p.streamKey(p.id()), Owner: journal.Ownership{Incarnation: p.self, Epoch: 1}, Ops: chunks("a", 1, 1, "x")}
		for code, change := range map[cairnerr.Code]func(*commit.Append){
			cairnerr.CodeMalformed:       func(a *commit.Append) { a.Ops = nil },
			cairnerr.CodePayloadTooLarge: func(a *commit.Append) { a.Ops = chunks("a", 1, 1, strings.Repeat("x", store.MaxChunk+1)) },
			cairnerr.CodeLimitExceeded:   func(a *commit.Append) { a.Name = strings.Repeat("x", journal.MaxName+1) },
		} {
			bad := good
			change(&bad)
			_, err := p.Append(t.Context(), &bad)
			require.Equal(t, code, cairnerr.CodeOf(err), "%v", err)
		}
	})
}

func TestAppendClosed(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p := start(t, again())
		run := p.newRun()
		// A step's wish to close the stream holds when the step has ended well.
		p.mustAppend(run, chunks("a", 1, 1, "a1", ".")...)
		refused, err := p.append(run, 1, chunks("a", 1, 3, "late")...)
		require.NoError(t, err)
		require.Equal(t, []int{0}, refused)
		p.mustAppend(run, chunks("b", 1, 1, "b1")...)
		require.False(t, p.page(run).Head.Closed)
		p.must(p.owned(run, done("a")))
		require.True(t, p.page(run).Head.Closed)
		refused, err = p.append(run, 1, append(chunks("b", 1, 2, "b2", "."), chunks("", 0, 1, "w1")...)...)
		require.NoError(t, err)
		require.Equal(t, []int{0, 2}, refused, "closing twice is no mistake")
		require.Equal(t, "a1 b1", text(p.page(run)))

		// What a branch closes is closed at once.
		run = p.newRun()
		refused, err = p.append(run, 1, chunks("", 0, 1, "w1", ".", "w3")...)
		require.NoError(t, err)
		require.Equal(t, []int{2}, refused)
		require.True(t, p.page(run).Head.Closed)
		p.mustAppend(run, chunks("", 0, 1, "w1", ".")...)
		require.Equal(t, "w1", text(p.page(run)))
	})
}

// TestOutcomesOfAttempts: what becomes of an attempt is noted in the same transaction as its outcome, for the sources that it has.
func TestOutcomesOfAttempts(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p := start(t, again())
		run := p.newRun()
		states := func() string {
			var all []string
			page := p.page(run)
			for i := range page.Chunks {
				all = append(all, fmt.Sprintf("%s=%d", page.Chunks[i].Data, page.Chunks[i].State))
			}
			return strings.Join(all, " ")
		}
		p.mustAppend(run, append(chunks("a", 1, 1, "a1", "."), chunks("b", 1, 1, "b1")...)...)
		p.must(p.owned(run, journal.Event{Key: "a", Data: &journal.StepRetrying{Name: "a", Streams: []string{"s"}}}))
		require.Equal(t, "a1=3 b1=0", states(), "void")
		require.False(t, p.page(run).Head.Closed)
		p.mustAppend(run, chunks("a", 2, 1, "a2")...)
		require.Equal(t, "a1=3 b1=0 a2=0", states())
		require.True(t, p.page(run).Chunks[2].Boundary)
		p.must(p.owned(run, done("a"), journal.Event{Key: "b", Data: &journal.StepFailed{Name: "b", Error: &cairnerr.Error{Code: "x"}, Streams: []string{"s", "never written"}}}))
		require.Equal(t, "a1=3 b1=3 a2=2", states())
	})
}

// TestAppendLostAnswers loses the answer of an append in each way: each chunk must be stored once.
func TestAppendLostAnswers(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faultstore.Fault{
		"applied, then lost":       {AfterCommit: true},
		"deadlock":                 {Before: store.ErrBusy},
		"never sent":               {Before: store.ErrUnknownOutcome},
		"somebody else was faster": {Before: store.ErrConflict},
	} {
		for _, at := range []int32{2, 3} { // a new stream, and one that is there
			t.Run(fmt.Sprint(name, at), func(t *testing.T) {
				t.Parallel()
				onEveryStore(t, func(t *testing.T, again func() store.Store) {
					p := withPlan(t, again(), once(at, fault))
					run := p.newRun()
					for i := range int64(4) {
						p.mustAppend(run, append(chunks("a", 1, 2*i+1, fmt.Sprint(4*i), fmt.Sprint(4*i+1)), chunks("", 0, 2*i+1, fmt.Sprint(4*i+2), fmt.Sprint(4*i+3))...)...)
					}
					require.Equal(t, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15", text(p.page(run)))
				})
			})
		}
	}
}

// TestAppendsShareCommits: many streams of many runs, with commands between, in few transactions; and each stream is whole.
func TestAppendsShareCommits(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p := start(t, again())
		const writers, rounds = 16, 20
		runs := make([]journal.ID, writers)
		for i := range runs {
			runs[i] = p.newRun()
		}
		var all sync.WaitGroup
		for i := range runs {
			all.Go(func() {
				for k := range int64(rounds) {
					p.mustAppend(runs[i], chunks("a", 1, k+1, fmt.Sprint(k))...)
				}
				p.must(p.owned(runs[i], done("a"), ended()))
			})
		}
		all.Wait()
		require.Less(t, p.Stats().Batches, int64(writers*rounds))
		for _, run := range runs {
			page := p.page(run)
			require.Len(t, page.Chunks, rounds)
			require.Equal(t, store.SourceSettled, page.Chunks[0].State)
		}
	})
}

// TestZombieAppends: a process that was declared dead writes nothing more to streams.
func TestZombieAppends(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p, peer := start(t, again()), start(t, again())
		run := p.newRun()
		p.mustAppend(run, chunks("a", 1, 1, "a1")...)
		require.NoError(t, peer.store.Fence(t.Context(), p.self))
		_, err := p.append(run, 1, chunks("a", 1, 2, "a2")...)
		require.Equal(t, cairnerr.CodeFenced, cairnerr.CodeOf(err))
		claim := &journal.Command{Namespace: namespace, Run: run, Lease: journal.LeaseClaim, Guards: journal.Guards{Owner: journal.Ownership{Incarnation: peer.self}}}
		peer.must(claim)
		refused, err := peer.append(run, 2, chunks("a", 1, 1, "again")...)
		require.NoError(t, err)
		require.Empty(t, refused)
		page := p.page(run)
		require.Equal(t, "a1 again", text(page), "another epoch is another attempt")
		require.True(t, page.Chunks[1].Boundary)
		require.True(t, page.Run.Void(page.Chunks[0].Epoch))
		require.False(t, page.Run.Void(page.Chunks[1].Epoch))
	})
}
