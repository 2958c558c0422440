package cairn_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/store/open"
)

// noise cannot be compressed.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// readError returns the error with which reading ends.
func readError(ctx context.Context, s cairn.Stream[int], e *cairn.Engine, run string, opts ...cairn.ReadOption) cairnerr.Code {
	for _, err := range s.Read(ctx, e, run, opts...) {
		if err != nil {
			return cairnerr.CodeOf(err)
		}
	}
	return ""
}

func TestStreamMisuse(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		numbers := cairn.NewStream[int]("numbers")
		var kept atomic.Value // the context of a step, beyond its end
		step := cairn.NewStep("step", func(ctx context.Context, _ int) (int, error) {
			kept.Store(ctx)
			derived, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			if err := numbers.Write(derived, 1); err != nil { // a context derived from the step's is as good
				return 0, err
			}
			if err := cairn.NewStream[string]("").Write(ctx, "x"); cairnerr.CodeOf(err) != cairnerr.CodeMalformed {
				return 0, fmt.Errorf("no name: %w", err)
			}
			if err := cairn.NewStream[[]byte]("raw").Write(ctx, noise(store.MaxChunk)); cairnerr.CodeOf(err) != cairnerr.CodePayloadTooLarge {
				return 0, fmt.Errorf("too large: %w", err)
			}
			cancelled, stop := context.WithCancel(ctx)
			stop()
			if err := numbers.Write(cancelled, 2); !errors.Is(err, context.Canceled) {
				return 0, fmt.Errorf("cancelled: %w", err)
			}
			return 1, nil
		})
		many := cairn.NewStep("many", func(ctx context.Context, _ int) (int, error) {
			for i := range journal.MaxStreams + 1 {
				if err := cairn.NewStream[int](fmt.Sprint("many ", i)).Write(ctx, 1); err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		wf := cairn.NewWorkflow("misuse", func(ctx cairn.Context, _ int) (int, error) {
			if _, err := step.Do(ctx, 0); err != nil {
				return 0, err
			}
			if err := cairn.NewStream[[]byte]("raw").Write(ctx, noise(store.MaxChunk)); cairnerr.CodeOf(err) != cairnerr.CodePayloadTooLarge {
				return 0, fmt.Errorf("too large: %w", err)
			}
			if err := numbers.Write(context.WithoutCancel(ctx), 3); cairnerr.CodeOf(err) != "not_in_run" {
				return 0, fmt.Errorf("not the workflow's own context: %w", err)
			}
			if _, err := many.Do(ctx, 0); cairnerr.CodeOf(err) != cairnerr.CodeLimitExceeded {
				return 0, fmt.Errorf("too many streams: %w", err)
			}
			return 1, numbers.Flush(ctx)
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		_, err = run.Result(within(t))
		require.NoError(t, err)

		ctx, ok := kept.Load().(context.Context)
		require.True(t, ok)
		require.Equal(t, cairnerr.Code("context_over"), cairnerr.CodeOf(numbers.Write(context.WithoutCancel(ctx), 4)), "the step has ended")
		require.Equal(t, cairnerr.Code("context_over"), cairnerr.CodeOf(numbers.Close(context.WithoutCancel(ctx))))
		require.Equal(t, cairnerr.Code("not_in_run"), cairnerr.CodeOf(numbers.Write(t.Context(), 5)), "outside")
		require.Equal(t, cairnerr.Code("not_in_run"), cairnerr.CodeOf(numbers.Close(t.Context())))
		require.Equal(t, cairnerr.Code("not_in_run"), cairnerr.CodeOf(numbers.Flush(t.Context())))

		require.Equal(t, cairnerr.CodeMalformed, readError(t.Context(), numbers, e, "nonsense"))
		require.Equal(t, cairnerr.CodeMalformed, readError(t.Context(), numbers, e, run.ID(), cairn.ReadFrom(-1)))
		require.Equal(t, cairnerr.CodeMalformed, readError(t.Context(), numbers, e, run.ID(), cairn.ReadLast(-1)))
		require.Equal(t, cairnerr.CodeRunNotFound, readError(t.Context(), numbers, e, "wrun_01JD0000000000000000000000"))
		require.Equal(t, cairnerr.CodeStreamNotFound, readError(t.Context(), cairn.NewStream[int]("no such"), e, run.ID()))
		require.Equal(t, cairnerr.CodeMalformed, readError(t.Context(), cairn.NewStream[int](words.Name()), e, stringRun(t, e, start)), "another type")
		var values []int
		// A process that a busy machine holds up for too long does the step again: that attempt counts, and no other.
		for c, err := range numbers.Read(within(t), e, run.ID(), cairn.ReadSettled()) {
			require.NoError(t, err)
			values = append(values, c.Value)
		}
		require.Equal(t, []int{1}, values)
	})
}

// stringRun returns a run that has written a text to the stream of words.
func stringRun(t *testing.T, _ *cairn.Engine, start starter) string {
	t.Helper()
	wf := cairn.NewWorkflow("text", func(ctx cairn.Context, _ int) (int, error) { return 0, words.Write(ctx, "text") })
	run, err := wf.Start(t.Context(), start(wf), 0)
	require.NoError(t, err)
	_, err = run.Result(within(t))
	require.NoError(t, err)
	return run.ID()
}

// TestStreamReaderGivesUp: a reader that waits ends with its context.
func TestStreamReaderGivesUp(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		wf := cairn.NewWorkflow("sleeps", func(ctx cairn.Context, _ int) (int, error) { return 0, cairn.Sleep(ctx, time.Hour) })
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = readAll(ctx, e, run.ID())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = readAll(t.Context(), e, run.ID(), cairn.ReadStored())
		require.Equal(t, cairnerr.CodeStreamNotFound, cairnerr.CodeOf(err), "nothing was written yet")
	})
}

// TestStreamBytes: code that wants an io.Writer gets one.
func TestStreamBytes(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		raw := cairn.NewStream[[]byte]("raw")
		large := string(noise(store.MaxChunk + 1000))
		step := cairn.NewStep("write", func(ctx context.Context, _ int) (int, error) {
			w := cairn.StreamWriter(ctx, raw)
			if _, err := fmt.Fprintf(w, "hello %d\n", 1); err != nil {
				return 0, err
			}
			n, err := fmt.Fprint(w, large)
			return n, errors.Join(err, w.Close())
		})
		wf := cairn.NewWorkflow("bytes", func(ctx cairn.Context, _ int) (int, error) { return step.Do(ctx, 0) })
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		var all strings.Builder
		chunks := 0
		for c, err := range raw.Read(within(t), e, run.ID()) {
			require.NoError(t, err)
			all.Write(c.Value)
			chunks++
		}
		require.Equal(t, 3, chunks)
		require.Equal(t, "hello 1\n"+large, all.String())
	})
}

// deaf is a store whose hints are all lost.
type deaf struct{ store.Store }

func (deaf) Notifier() store.Notifier { return silence{} }

type silence struct{}

func (silence) Listen(context.Context) (<-chan string, error) { return make(chan string), nil }
func (silence) ListenStreams(context.Context, func(journal.ID) bool) (<-chan journal.ID, error) {
	return nil, errors.New("lost")
}

func (silence) ListenRuns(context.Context, func(journal.ID) bool) (<-chan journal.ID, error) {
	return nil, errors.New("lost")
}

// TestStreamWithoutHints: who is told nothing sees everything nevertheless.
func TestStreamWithoutHints(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"postgres", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			where := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
			if kind == "postgres" {
				where = pgtest.URL(t)
			}
			wf := story(teller(&sync.Map{}))
			var engines []*cairn.Engine
			for range 2 {
				st, err := open.URL(t.Context(), where)
				require.NoError(t, err)
				e, err := cairn.NewWith(t.Context(), store.NewHandle(deaf{store.Of(st)}), cairn.Config{Poll: 20 * time.Millisecond}, wf)
				require.NoError(t, err)
				t.Cleanup(func() {
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
					defer cancel()
					_ = e.Stop(ctx)
					_ = st.Close()
				})
				engines = append(engines, e)
			}
			run, err := wf.Start(t.Context(), engines[0], 0)
			require.NoError(t, err)
			here, there := follow(t, engines[0], run.ID()), follow(t, engines[1], run.ID())
			require.Equal(t, told, joined(here.wait(t)))
			require.Equal(t, told, joined(there.wait(t)))
		})
	}
}

// TestStreamManyWritersAndReaders: readers that join at any time see the same, without gap or repetition, while many write at the same time.
func TestStreamManyWritersAndReaders(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 60
	everywhere(t, func(t *testing.T, start starter) {
		step := cairn.NewStep("write", func(ctx context.Context, who int) (int, error) {
			for i := range each {
				if err := words.Write(ctx, fmt.Sprintf("%d-%d", who, i)); err != nil {
					return 0, err
				}
				if i%20 == 19 {
					time.Sleep(time.Millisecond) // readers come to the end now and then
				}
			}
			return who, nil
		})
		wf := cairn.NewWorkflow("many", func(ctx cairn.Context, _ int) (int, error) {
			items := make([]int, writers)
			for i := range items {
				items[i] = i
			}
			out, err := cairn.Map(ctx, "writer", items, writers, func(ctx cairn.Context, i int) (int, error) {
				if err := words.Write(ctx, fmt.Sprint("branch ", i)); err != nil {
					return 0, err
				}
				return step.Do(ctx, i)
			})
			return len(out), err
		})
		e, other := start(wf), start()
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		var readers []*reading
		for i := range 6 {
			opts := []cairn.ReadOption{cairn.ReadFrom(int64(i * 10))}
			if i%3 == 2 {
				opts = append(opts, cairn.ReadSettled())
			}
			readers = append(readers, follow(t, []*cairn.Engine{e, other}[i%2], run.ID(), opts...))
		}
		late := 0
		for c, err := range words.Read(within(t), e, run.ID()) {
			require.NoError(t, err)
			if c.Index%100 == 99 { // late joiners
				late++
				readers = append(readers, follow(t, other, run.ID(), cairn.ReadFrom(c.Index-50)))
			}
		}
		require.Positive(t, late)
		all := collect(t, e, run.ID())
		require.Len(t, all, writers*(each+1))
		requireWhole(t, all, 0)
		next := map[string]int{}
		for _, c := range all {
			if c.Attempt > 0 {
				who, n, _ := strings.Cut(c.Value, "-")
				require.Equal(t, fmt.Sprint(next[who]), n, "each writer's chunks are in its order")
				next[who]++
			}
		}
		for i, r := range readers {
			got := r.wait(t)
			requireWhole(t, got, got[0].Index)
			require.Equal(t, all[got[0].Index:], got, "reader %d", i)
		}
	})
}

// TestStreamBackPressure: who writes faster than the database is held up, and a reader that does not read holds up nobody.
func TestStreamBackPressure(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		const chunks = 3000
		step := cairn.NewStep("flood", func(ctx context.Context, _ int) (int, error) {
			for i := range chunks {
				if err := words.Write(ctx, fmt.Sprint(i)); err != nil {
					return i, err
				}
			}
			return chunks, nil
		})
		wf := cairn.NewWorkflow("flood", func(ctx cairn.Context, _ int) (int, error) { return step.Do(ctx, 0) })
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		n := 0
		for c, err := range words.Read(within(t), e, run.ID()) {
			require.NoError(t, err)
			if n == 0 { // it does not go on reading before the run has ended
				_, err := run.Result(within(t))
				require.NoError(t, err)
			}
			require.Equal(t, fmt.Sprint(n), c.Value)
			n++
		}
		require.Equal(t, chunks, n)
	})
}
