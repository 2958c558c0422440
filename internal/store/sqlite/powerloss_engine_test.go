package sqlite_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/check"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
	"github.com/cairn-workflow/cairn/internal/store/sqlite/vfs/powerloss"
)

// diary is what code outside of the database remembers of runs.
type diary struct {
	now func() int

	mu      sync.Mutex
	started map[string]int // by run: the moment in which its start was acknowledged
	began   map[string]int // by run and step: the moment in which its body began first
	again   []string       // bodies that began
}

func newDiary(now func() int) *diary {
	return &diary{now: now, started: map[string]int{}, began: map[string]int{}}
}

func (d *diary) body(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.began[key]; !ok {
		d.began[key] = d.now()
	}
	d.again = append(d.again, key)
}

const diarySteps = 5

// workflows returns one with steps, a stream, a sleep and a child, all of which write into the diary.
func (d *diary) workflows() (parent, child *cairn.Workflow[string, string]) {
	words := cairn.NewStream[string]("words")
	steps := func(ctx cairn.Context, name string) (string, error) {
		for i := range diarySteps {
			_, err := cairn.Do(ctx, fmt.Sprint("step ", i), func(ctx context.Context) (string, error) {
				d.body(fmt.Sprint(name, " ", i))
				return string(make([]byte, 3000)), words.Write(ctx, name)
			})
			if err != nil {
				return "", err
			}
		}
		return name + " is done", cairn.Sleep(ctx, time.Millisecond)
	}
	child = cairn.NewWorkflow("child", steps)
	parent = cairn.NewWorkflow("parent", func(ctx cairn.Context, name string) (string, error) {
		if _, err := steps(ctx, name); err != nil {
			return "", err
		}
		return child.Run(ctx, name+"'s child")
	})
	return parent, child
}

// play starts some runs, or finds them, and waits for their ends.
func (d *diary) play(ctx context.Context, s *sqlite.Store) error {
	parent, child := d.workflows() //nolint:contextcheck // they get theirs from the engine
	lease := 300 * time.Millisecond
	if bubble.Race {
		lease = 3 * time.Second // all is slower, also the engine's heart
	}
	e, err := cairn.NewWith(ctx, store.NewHandle(s), cairn.Config{Lease: lease, Poll: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}, parent, child)
	if err != nil {
		return err
	}
	defer func() { _ = e.Stop(context.WithoutCancel(ctx)) }()
	var runs []*cairn.Run[string]
	for i := range 3 {
		name := fmt.Sprint("run ", i)
		run, err := parent.Start(ctx, e, name, cairn.Key(name))
		if err != nil {
			return err
		}
		d.mu.Lock()
		d.started[run.ID()] = d.now()
		d.mu.Unlock()
		runs = append(runs, run)
	}
	for i, run := range runs {
		result, err := run.Result(ctx)
		if want := fmt.Sprintf("run %d's child is done", i); err != nil || result != want {
			return fmt.Errorf("%q, not %q: %w", result, want, err)
		}
	}
	return nil
}

// after goes on with what was found after a loss of power in a moment, and says what is wrong.
func (d *diary) after(ctx context.Context, path string, moment int) error {
	s, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	for id, at := range d.started {
		run, err := journal.PrefixRun.Parse(id)
		if err != nil {
			return err
		}
		if _, err := s.Journal(ctx, "default", run, 0); err != nil && at <= moment {
			return fmt.Errorf("%s was started at %d: %w", id, at, err)
		}
	}
	next := newDiary(func() int { return 0 })
	if err := next.play(ctx, s); err != nil {
		return fmt.Errorf("it does not go on: %w", err)
	}
	for _, key := range next.again {
		name, step := key[:len(key)-1], key[len(key)-1] // its digit
		if at, ok := d.began[name+string(step+1)]; ok && at <= moment {
			return fmt.Errorf("%q was executed again, though the next step began at %d", key, at)
		}
	}
	report, err := check.All(ctx, s, check.Options{Now: now})
	if err != nil || report.Found > 0 || report.Runs != 6 {
		return fmt.Errorf("%+v %w", report, err)
	}
	return nil
}

// The power fails under an engine: what it has started is there, goes on to its end, and no step whose result was used is executed again.
func TestPowerLossUnderAnEngine(t *testing.T) {
	t.Parallel()
	below, err := powerloss.Register()
	require.NoError(t, err)
	dir := t.TempDir()
	r, err := powerloss.Record(dir)
	require.NoError(t, err)
	defer r.End()
	s, err := sqlite.OpenOver(t.Context(), filepath.Join(dir, "cairn.db"), sqlite.Over{Below: below, Checkpoint: 60})
	require.NoError(t, err)
	d := newDiary(r.Now)
	opened := r.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, d.play(ctx, s))
	moments := []int{r.Now()}
	require.NoError(t, s.Close())
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, at := range r.Syncs() {
		if at > opened && (!testing.Short() || rnd.IntN(40) == 0) {
			moments = append(moments, at, at+1)
		}
	}
	slices.Sort(moments)
	t.Logf("seed %d, %d moments of %d", seed, len(moments), r.Now())
	losses := powerloss.Losses()
	r.Walk(moments, func(moment int, disk *powerloss.Disk) {
		loss := losses[rnd.IntN(len(losses))]
		found, err := os.MkdirTemp(t.TempDir(), "")
		require.NoError(t, err)
		require.NoError(t, disk.Find(found, loss, rnd))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, d.after(ctx, filepath.Join(found, "cairn.db"), moment), "moment %d, %s was lost", moment, loss)
	})
}
