package cairn_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
)

// streamChecks reads the stream of each execution while it goes on, through whichever engine there is, and checks it.
type streamChecks struct {
	t  *testing.T
	mu sync.Mutex
	n  int
}

// drive is a reader that survives crashes: it goes on behind the last chunk that it has seen.
func (s *streamChecks) drive(e *cairntest.Env) {
	var all []cairn.Chunk[string]
	for id := ""; ; {
		if id == "" {
			if id = firstRun(e); id == "" {
				e.Sleep(time.Microsecond)
			}
			continue
		}
		seen, err := readAll(e.Context(), e.Engine(), id, cairn.ReadFrom(int64(len(all))))
		all = append(all, seen...)
		if err == nil {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	for i := range all { // invariant 10
		if all[i].Index != int64(i) {
			s.t.Errorf("chunk %d has index %d", i, all[i].Index)
		}
	}
	if got := joined(settledOf(all)); got != told {
		s.t.Errorf("the stream says %q, of which holds %q", joined(all), got)
	}
	settled, err := readAll(e.Context(), e.Engine(), firstRun(e), cairn.ReadSettled())
	if err != nil || joined(settled) != told {
		s.t.Errorf("settled: %q %v", joined(settled), err)
	}
}

// firstRun returns the id of the run that is tested, "" if it was not started yet.
func firstRun(e *cairntest.Env) string {
	page, err := e.Engine().List(e.Context(), cairn.Filter{})
	if err != nil || len(page.Runs) == 0 {
		return ""
	}
	return page.Runs[0].ID
}

// settledOf returns what holds of a stream that was read whole: of each step the last attempt.
func settledOf(all []cairn.Chunk[string]) []cairn.Chunk[string] {
	begins := map[string]int64{}
	for _, c := range all {
		if c.Boundary {
			begins[c.Writer] = c.Index
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(c cairn.Chunk[string]) bool { return c.Index < begins[c.Writer] })
}

// TestStreamCrashEverywhere kills the process at each place: what the stream says in the end is what it says without crashes, once.
func TestStreamCrashEverywhere(t *testing.T) {
	t.Parallel()
	checks := &streamChecks{t: t}
	wf := story(teller(&sync.Map{}))
	crashes := cairntest.CrashEverywhere(t, wf, 0, cairntest.Drive(checks.drive))
	require.Greater(t, crashes, 10)
	require.GreaterOrEqual(t, checks.n, crashes)
}

func TestStreamEvictEverywhere(t *testing.T) {
	t.Parallel()
	checks := &streamChecks{t: t}
	cairntest.EvictEverywhere(t, story(teller(&sync.Map{})), 0, cairntest.Drive(checks.drive))
	require.Equal(t, 2, checks.n)
}

// TestStreamInVirtualTime: a reader that waits keeps no clock busy.
func TestStreamInVirtualTime(t *testing.T) {
	t.Parallel()
	wf := cairn.NewWorkflow("year", func(ctx cairn.Context, _ int) (int, error) {
		for i := range 3 {
			if err := words.Write(ctx, fmt.Sprint(i)); err != nil {
				return 0, err
			}
			if err := cairn.Sleep(ctx, 365*24*3600e9); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	tell := teller(&sync.Map{})
	stubbed := cairn.NewWorkflow("stubbed", func(ctx cairn.Context, _ int) (string, error) { return tell.Do(ctx, "x") })
	cairntest.Run(t, func(e *cairntest.Env) {
		run, err := wf.Start(e.Context(), e.Engine(), 0)
		require.NoError(t, err)
		all, err := readAll(e.Context(), e.Engine(), run.ID())
		require.NoError(t, err)
		require.Equal(t, "0 1 2", joined(all))

		cairntest.Stub(e, tell, func(ctx context.Context, s string) (string, error) { return s, words.Write(ctx, "stub") })
		other, err := stubbed.Start(e.Context(), e.Engine(), 0)
		require.NoError(t, err)
		all, err = readAll(e.Context(), e.Engine(), other.ID())
		require.NoError(t, err)
		require.Equal(t, "stub", joined(all))
	}, wf, stubbed)
}
