package cairn_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
)

var words = cairn.NewStream[string]("words")

// readAll reads a stream to its end.
func readAll(ctx context.Context, e *cairn.Engine, run string, opts ...cairn.ReadOption) ([]cairn.Chunk[string], error) {
	var all []cairn.Chunk[string]
	for c, err := range words.Read(ctx, e, run, opts...) {
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	return all, nil
}

func collect(t *testing.T, e *cairn.Engine, run string, opts ...cairn.ReadOption) []cairn.Chunk[string] {
	t.Helper()
	all, err := readAll(within(t), e, run, opts...)
	require.NoError(t, err)
	return all
}

// reading is a reader at work.
type reading struct {
	done   chan struct{}
	chunks []cairn.Chunk[string]
	err    error
}

// follow reads a stream beside the test.
func follow(t *testing.T, e *cairn.Engine, run string, opts ...cairn.ReadOption) *reading {
	t.Helper()
	r, ctx := &reading{done: make(chan struct{})}, within(t)
	go func() {
		defer close(r.done)
		r.chunks, r.err = readAll(ctx, e, run, opts...)
	}()
	return r
}

// wait waits until the reader has come to the end.
func (r *reading) wait(t *testing.T) []cairn.Chunk[string] {
	t.Helper()
	<-r.done
	require.NoError(t, r.err)
	return r.chunks
}

// requireWhole checks that chunks follow each other from the first on.
func requireWhole(t *testing.T, chunks []cairn.Chunk[string], first int64) {
	t.Helper()
	for i := range chunks {
		require.Equal(t, first+int64(i), chunks[i].Index)
	}
}

func joined(chunks []cairn.Chunk[string]) string {
	all := make([]string, len(chunks))
	for i := range chunks {
		all[i] = chunks[i].Value
	}
	return strings.Join(all, " ")
}

// teller writes words to the stream, and counts how often it is done.
func teller(counts *sync.Map) cairn.Step[string, string] {
	return cairn.NewStep("tell", func(ctx context.Context, s string) (string, error) {
		n, _ := counts.LoadOrStore(s, new(atomic.Int32))
		n.(*atomic.Int32).Add(1)
		for word := range strings.SplitSeq(s, " ") {
			if err := words.Write(ctx, word); err != nil {
				return "", err
			}
		}
		return s, nil
	})
}

// story writes from the workflow, from steps and from branches, and waits in between.
func story(tell cairn.Step[string, string]) *cairn.Workflow[int, string] {
	return cairn.NewWorkflow("story", func(ctx cairn.Context, _ int) (string, error) {
		if err := words.Write(ctx, "once"); err != nil {
			return "", err
		}
		if _, err := tell.Do(ctx, "upon a time"); err != nil {
			return "", err
		}
		if err := cairn.Sleep(ctx, 10*time.Millisecond); err != nil {
			return "", err
		}
		if err := words.Write(ctx, "there"); err != nil {
			return "", err
		}
		branch, err := cairn.Go(ctx, "side", func(ctx cairn.Context) (string, error) {
			if err := words.Write(ctx, "was"); err != nil {
				return "", err
			}
			if err := cairn.Sleep(ctx, 10*time.Millisecond); err != nil {
				return "", err
			}
			return "side", words.Write(ctx, "a")
		})
		if err != nil {
			return "", err
		}
		if _, err := branch.Wait(ctx); err != nil {
			return "", err
		}
		if _, err := tell.Do(ctx, "little run"); err != nil {
			return "", err
		}
		return "told", words.Close(ctx)
	})
}

const told = "once upon a time there was a little run"

func TestStream(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		var counts sync.Map
		wf := story(teller(&counts))
		e, other := start(wf), start() // another process
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		var readers []*reading
		for i := range 8 { // live, from the beginning, here and there
			readers = append(readers, follow(t, []*cairn.Engine{e, other}[i%2], run.ID()))
		}
		out, err := run.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, "told", out)
		for _, r := range readers {
			require.Equal(t, told, joined(r.wait(t)))
		}
		requireOnce(t, &counts)

		all := collect(t, other, run.ID())
		requireWhole(t, all, 0)
		var writers []string
		for _, c := range all {
			writers = append(writers, fmt.Sprint(c.Writer, c.Attempt))
			require.False(t, c.Boundary)
			require.WithinDuration(t, time.Now(), c.Time, time.Minute)
		}
		require.Equal(t, "0 tell1 tell1 tell1 0 side0 side0 tell#21 tell#21", strings.Join(writers, " "))
		require.Equal(t, told, joined(collect(t, e, run.ID(), cairn.ReadSettled())))
		require.Equal(t, "little run", joined(collect(t, e, run.ID(), cairn.ReadFrom(7))))
		require.Equal(t, "a little run", joined(collect(t, e, run.ID(), cairn.ReadLast(3), cairn.ReadStored())))
		require.Empty(t, collect(t, e, run.ID(), cairn.ReadLast(0)))
		require.Empty(t, collect(t, e, run.ID(), cairn.ReadFrom(100)))
		require.Len(t, collect(t, e, run.ID(), cairn.ReadLast(100)), 9)
		for c, err := range words.Read(t.Context(), e, run.ID()) { // one may stop when one likes
			require.NoError(t, err)
			require.Equal(t, "once", c.Value)
			break
		}
	})
}

// TestStreamAttempts: an attempt that fails leaves its chunks to those who read all; the others see what holds, in order.
func TestStreamAttempts(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		failing := make(chan struct{})
		step := cairn.NewStep("try", func(ctx context.Context, _ int) (int, error) {
			for _, word := range []string{"x", "y"} {
				if err := words.Write(ctx, fmt.Sprint(word, cairn.Attempt(ctx))); err != nil {
					return 0, err
				}
			}
			if cairn.Attempt(ctx) < 3 {
				return 0, errors.New("not yet")
			}
			if err := words.Flush(ctx); err != nil {
				return 0, err
			}
			<-failing
			return 1, nil
		}).Retry(cairn.RetryPolicy{Attempts: 3, First: time.Millisecond})
		lost := cairn.NewStep("lost", func(ctx context.Context, _ int) (int, error) {
			return 0, errors.Join(words.Write(ctx, "nothing"), errors.New("for good"))
		})
		wf := cairn.NewWorkflow("attempts", func(ctx cairn.Context, _ int) (int, error) {
			if err := words.Write(ctx, "begin"); err != nil {
				return 0, err
			}
			if _, err := step.Do(ctx, 0); err != nil {
				return 0, err
			}
			_, _ = lost.Do(ctx, 0)
			if err := words.Write(ctx, "end"); err != nil {
				return 0, err
			}
			return 1, nil
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		for c, err := range words.Read(within(t), e, run.ID()) { // all is shown at once
			require.NoError(t, err)
			if c.Value == "y3" {
				break
			}
		}
		require.Equal(t, "begin", joined(collect(t, e, run.ID(), cairn.ReadSettled(), cairn.ReadStored())), "the third attempt is under way")
		settled := follow(t, e, run.ID(), cairn.ReadSettled())
		close(failing)
		require.Equal(t, "begin x3 y3 end", joined(settled.wait(t)))
		_, err = run.Result(within(t))
		require.NoError(t, err)
		all := collect(t, e, run.ID())
		require.Equal(t, "begin x1 y1 x2 y2 x3 y3 nothing end", joined(all))
		for _, c := range all {
			require.Equal(t, c.Value == "x2" || c.Value == "x3", c.Boundary, c.Value)
		}
	})
}

// TestStreamClose: the close of a step holds when the step has completed; a closed stream takes nothing more.
func TestStreamClose(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		step := cairn.NewStep("close", func(ctx context.Context, _ int) (int, error) {
			if err := words.Write(ctx, "last"); err != nil {
				return 0, err
			}
			if err := words.Close(ctx); err != nil {
				return 0, err
			}
			if err := words.Write(ctx, "too late"); !errors.Is(err, cairn.ErrStreamClosed) {
				return 0, fmt.Errorf("wrote to a stream that this attempt has closed: %w", err)
			}
			if cairn.Attempt(ctx) == 1 {
				return 0, errors.New("nothing is closed by an attempt that fails")
			}
			return 1, words.Close(ctx) // twice is no mistake
		}).Retry(cairn.RetryPolicy{Attempts: 2, First: time.Millisecond})
		late := cairn.NewStep("late", func(ctx context.Context, _ int) (int, error) { return 1, words.Write(ctx, "too late") })
		wf := cairn.NewWorkflow("close", func(ctx cairn.Context, _ int) (string, error) {
			if _, err := step.Do(ctx, 0); err != nil {
				return "", err
			}
			if err := cairn.Sleep(ctx, 20*time.Millisecond); err != nil {
				return "", err
			}
			if err := words.Write(ctx, "too late"); !errors.Is(err, cairn.ErrStreamClosed) {
				return "", fmt.Errorf("wrote to a closed stream: %w", err)
			}
			if _, err := late.Do(ctx, 0); !errors.Is(err, cairn.ErrStreamClosed) {
				return "", fmt.Errorf("a step wrote to a closed stream: %w", err)
			}
			return "done", words.Close(ctx)
		})
		e := start(wf)
		out, err := result(t, e, wf, 0)
		require.NoError(t, err)
		require.Equal(t, "done", out)
	})
}

// TestStreamLostRace: what a step wrote whose branch lost a race does not hold up those who read what is settled.
func TestStreamLostRace(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		slow := cairn.NewStep("slow", func(ctx context.Context, _ int) (string, error) {
			err := words.Write(ctx, "slow")
			<-ctx.Done()
			return "", errors.Join(err, context.Cause(ctx))
		})
		read := make(chan struct{})
		hold := cairn.NewStep("hold", func(context.Context, int) (string, error) {
			<-read // the run goes on, and stays owned
			return "held", nil
		})
		wf := cairn.NewWorkflow("lost race", func(ctx cairn.Context, _ int) (string, error) {
			loser, err := cairn.Go(ctx, "loser", func(ctx cairn.Context) (string, error) { return slow.Do(ctx, 0) })
			if err != nil {
				return "", err
			}
			winner, err := cairn.Go(ctx, "winner", func(ctx cairn.Context) (string, error) {
				return "won", cairn.Sleep(ctx, 50*time.Millisecond)
			})
			if err != nil {
				return "", err
			}
			out, err := cairn.Race(ctx, loser, winner)
			if err != nil {
				return "", err
			}
			if err := words.Write(ctx, "after"); err != nil {
				return "", err
			}
			_, err = hold.Do(ctx, 0)
			return out, err
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		for c, err := range words.Read(within(t), e, run.ID(), cairn.ReadSettled()) { // the run has not ended
			require.NoError(t, err)
			require.Equal(t, "after", c.Value)
			break
		}
		close(read)
		_, err = run.Result(within(t))
		require.NoError(t, err)
	})
}

// TestStreamEndsWithItsRun: nobody closes the stream.
func TestStreamEndsWithItsRun(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		hold := make(chan struct{})
		step := cairn.NewStep("hold", func(ctx context.Context, _ int) (int, error) {
			if err := errors.Join(words.Write(ctx, "a"), words.Flush(ctx)); err != nil {
				return 0, err
			}
			select {
			case <-hold:
				return 0, errors.New("fails")
			case <-ctx.Done(): // the run is over: this comes too late
				return 0, words.Write(context.WithoutCancel(ctx), "late")
			}
		})
		wf := cairn.NewWorkflow("ends", func(ctx cairn.Context, _ int) (int, error) { return step.Do(ctx, 0) })
		e, other := start(wf), start(wf)
		var runs []*cairn.Run[int]
		for range 2 {
			run, err := wf.Start(t.Context(), e, 0)
			require.NoError(t, err)
			runs = append(runs, run)
		}
		var all, settled []*reading
		for _, run := range runs {
			for _, from := range []*cairn.Engine{e, other} {
				all, settled = append(all, follow(t, from, run.ID())), append(settled, follow(t, from, run.ID(), cairn.ReadSettled()))
			}
		}
		for c, err := range words.Read(within(t), e, runs[1].ID()) {
			require.NoError(t, err)
			require.Equal(t, "a", c.Value)
			break
		}
		require.NoError(t, runs[1].Terminate(t.Context(), "enough"))
		close(hold)
		for i := range all {
			require.Equal(t, "a", joined(all[i].wait(t)))
			require.Empty(t, settled[i].wait(t))
		}
	})
}

// TestStreamOfAWorkflowIsWhole: a workflow that writes much and ends, or waits, at once has written all of it.
func TestStreamOfAWorkflowIsWhole(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, start starter) {
		const chunks = 400 // more than may be on their way
		wf := cairn.NewWorkflow("whole", func(ctx cairn.Context, _ int) (int, error) {
			for part := range 3 {
				for i := range chunks {
					if err := words.Write(ctx, fmt.Sprint(part*chunks+i)); err != nil {
						return 0, err
					}
				}
				if part < 2 {
					if err := cairn.Sleep(ctx, time.Millisecond); err != nil {
						return 0, err
					}
				}
			}
			return 0, nil
		})
		e := start(wf)
		run, err := wf.Start(t.Context(), e, 0)
		require.NoError(t, err)
		_, err = run.Result(within(t))
		require.NoError(t, err)
		all := collect(t, e, run.ID())
		require.Len(t, all, 3*chunks)
		for i := range all {
			require.Equal(t, fmt.Sprint(i), all[i].Value)
		}
	})
}
