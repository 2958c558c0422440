package engine_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/postgres"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// node is a process of a test: an engine on a store that counts what it is asked.
type node struct {
	*engine.Engine
	*counting
}

// newNode starts a process on a SQLite file, which looks once a second.
func newNode(t *testing.T, path string, wfs ...*engine.Workflow) *node {
	t.Helper()
	st, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	return nodeOn(t, st, time.Second, wfs...)
}

// nodeOn starts a process on a store of its own. It looks as often as poll says.
func nodeOn(t *testing.T, st store.Store, poll time.Duration, wfs ...*engine.Workflow) *node {
	t.Helper()
	n := &node{counting: &counting{Store: st, calls: map[string]int{}}}
	e, err := engine.New(t.Context(), n.counting, engine.Config{Poll: poll}, wfs...)
	require.NoError(t, err)
	n.Engine = e
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = e.Stop(ctx)
		_ = st.Close()
	})
	return n
}

// silent is a store that hints at nothing.
type silent struct{ store.Store }

func (silent) Notifier() store.Notifier { return silentNotifier{} }

type silentNotifier struct{}

func (silentNotifier) Listen(context.Context) (<-chan string, error) {
	return nil, errors.New("silent")
}

func (silentNotifier) ListenStreams(context.Context, func(journal.ID) bool) (<-chan journal.ID, error) {
	return nil, errors.New("silent")
}

func (silentNotifier) ListenRuns(context.Context, func(journal.ID) bool) (<-chan journal.ID, error) {
	return nil, errors.New("silent")
}

// stepFor returns a workflow "w" with a step that takes so long, or until its context ends.
func stepFor(d time.Duration) *engine.Workflow {
	return &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		return b.Step(engine.StepSpec{Name: "s"}, func(ctx context.Context, _ engine.StepInfo) (journal.Payload, error) {
			select {
			case <-time.After(d):
				return journal.Payload("done"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
	}}
}

// wait waits for a run, for at most a minute.
func wait(t *testing.T, n *node, run journal.ID) (*journal.Run, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return n.Wait(ctx, run)
}

func TestWait_RunOwnedHere_ReadsNothing(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		n := newNode(t, path, stepFor(900*time.Millisecond))
		var callers sync.WaitGroup
		for range 20 {
			run := begin(t, n.Engine, "")
			n.taken()
			callers.Go(func() {
				ended, err := wait(t, n, run)
				if err != nil || string(ended.Output) != "done" {
					t.Errorf("the run ended with %v, %v", ended, err)
				}
			})
		}
		callers.Wait()
		calls := n.taken()
		require.Zero(t, calls["run"])
		require.Zero(t, calls["heads"])
	})
}

// TestWait_OwnedRunTerminatedElsewhere_ReturnsItsEnd has the owner of a run that does nothing for an hour: it does
// not notice by itself.
func TestWait_OwnedRunTerminatedElsewhere_ReturnsItsEnd(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		owner, other := newNode(t, path, stepFor(time.Hour)), newNode(t, path)
		run := begin(t, owner.Engine, "")
		for _, pause := range []time.Duration{10 * time.Millisecond, 5 * time.Second} { // its first look, and a later one
			time.AfterFunc(pause, func() { _ = other.Terminate(t.Context(), run, "enough", "") })
			ended, err := wait(t, owner, run)
			require.NoError(t, err)
			require.Equal(t, journal.StatusCancelled, ended.Status)
			run = begin(t, owner.Engine, "")
		}
	})
}

// TestWait_RunReleasedHereEndsElsewhere_ReturnsItsEnd has a run that waits in the memory of one process. Another one
// gets what it waits for, and executes it.
func TestWait_RunReleasedHereEndsElsewhere_ReturnsItsEnd(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		first, second := newNode(t, path, twice()), newNode(t, path, twice())
		run, err := first.Start(t.Context(), engine.StartRequest{Workflow: "twice"})
		require.NoError(t, err)
		time.AfterFunc(3*time.Second, func() {
			for _, text := range []string{"a", "b"} {
				if _, err := second.Deliver(t.Context(), engine.Sending{Token: "token", Payload: journal.Payload(text)}); err != nil {
					t.Error(err)
				}
			}
		})
		ended, err := wait(t, first, run)
		require.NoError(t, err)
		require.Equal(t, "ab", string(ended.Output))
	})
}

// TestWait_ManyCallersElsewhere_ShareOneRead has callers in a process that does not execute their runs, and hears
// nothing.
func TestWait_ManyCallersElsewhere_ShareOneRead(t *testing.T) {
	t.Parallel()
	const callers, seconds = 50, 10
	path := t.TempDir() + "/x.db"
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		owner := newNode(t, path, stepFor(seconds*time.Second))
		st, err := sqlite.Open(t.Context(), path, nil)
		require.NoError(t, err)
		other := nodeOn(t, silent{st}, time.Second)
		var all sync.WaitGroup
		for range callers {
			run := begin(t, owner.Engine, "")
			all.Go(func() {
				ended, err := wait(t, other, run)
				if err != nil || string(ended.Output) != "done" {
					t.Errorf("the run ended with %v, %v", ended, err)
				}
			})
		}
		all.Wait()
		calls := other.taken()
		require.Equal(t, 2*callers, calls["run"], "each reads its run at first, and when it has ended")
		require.Positive(t, calls["heads"])
		require.LessOrEqual(t, calls["heads"], seconds+2, "one look for all")
	})
}

func TestWait_PausedElsewhere_GoesOnWaiting(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		owner, other := newNode(t, path, twice()), newNode(t, path)
		run, err := owner.Start(t.Context(), engine.StartRequest{Workflow: "twice"})
		require.NoError(t, err)
		time.Sleep(time.Second)
		var pauses, reads atomic.Int64
		time.AfterFunc(3*time.Second, func() {
			pauses.Add(1)
			_ = owner.Pause(t.Context(), run, "", "")
		})
		time.AfterFunc(8*time.Second, func() { other.taken() })
		time.AfterFunc(28*time.Second, func() {
			reads.Store(int64(other.taken()["run"]))
			_ = owner.Resume(t.Context(), run, "")
			for range 2 {
				_, _ = owner.Deliver(t.Context(), engine.Sending{Token: "token", Payload: journal.Payload("a")})
			}
		})
		ended, err := wait(t, other, run)
		require.NoError(t, err)
		require.Equal(t, "aa", string(ended.Output))
		require.EqualValues(t, 1, pauses.Load())
		require.Zero(t, reads.Load(), "what the caller knows it does not read again")
	})
}

// TestWait_ParkedElsewhere_SaysSo has a run that is parked because its code does not fit.
func TestWait_ParkedElsewhere_SaysSo(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		nap := func(now journal.Time) journal.Time { return now.Add(5 * time.Second) }
		var changed atomic.Bool
		wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
			if changed.Load() {
				return b.Step(engine.StepSpec{Name: "nap"}, value("a"))
			}
			return nil, b.Sleep(engine.TimerSpec{Name: "nap", Until: nap})
		}}
		first := newNode(t, path, wf)
		run := begin(t, first.Engine, "")
		time.Sleep(time.Second)
		require.NoError(t, first.Stop(t.Context()))
		changed.Store(true)
		newNode(t, path, wf)
		other := newNode(t, path)
		_, err := wait(t, other, run)
		require.Equal(t, cairnerr.CodeParked, cairnerr.CodeOf(err), "%v", err)
	})
}

// TestTerminate_CallerOfTheSameProcess_IsToldFromMemory ends a run that another process owns. Nobody else tells the
// caller within an hour.
func TestTerminate_CallerOfTheSameProcess_IsToldFromMemory(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		owner := newNode(t, path, stepFor(2*time.Hour))
		st, err := sqlite.Open(t.Context(), path, nil)
		require.NoError(t, err)
		other := nodeOn(t, silent{st}, time.Hour)
		run := begin(t, owner.Engine, "")
		time.AfterFunc(5*time.Second, func() { _ = other.Terminate(t.Context(), run, "enough", "") })
		ended, err := wait(t, other, run)
		require.NoError(t, err)
		require.Equal(t, journal.StatusCancelled, ended.Status)
	})
}

// failingHeads is a store that cannot tell how far runs have come.
type failingHeads struct {
	store.Store
	err   atomic.Pointer[cairnerr.Error]
	fails atomic.Int32
}

func (f *failingHeads) Heads(ctx context.Context, namespace string, ids []journal.ID) ([]store.RunHead, error) {
	if err := f.err.Load(); err != nil {
		f.fails.Add(1)
		return nil, err
	}
	return f.Store.Heads(ctx, namespace, ids)
}

func (f *failingHeads) Run(ctx context.Context, namespace string, id journal.ID, r store.Resolve) (*journal.Run, error) {
	if err := f.err.Load(); err != nil {
		return nil, err
	}
	return f.Store.Run(ctx, namespace, id, r)
}

func TestWait_DatabaseFailsMeanwhile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		code cairnerr.Code
		want cairnerr.Code // of Wait
	}{
		"UnreachableForAWhile_GoesOnWaiting": {cairnerr.CodeUnreachable, ""},
		"Corrupt_ReturnsTheError":            {cairnerr.CodeCorrupt, cairnerr.CodeCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir() + "/x.db"
			bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
				owner := newNode(t, path, stepFor(10*time.Second))
				st, err := sqlite.Open(t.Context(), path, nil)
				require.NoError(t, err)
				failing := &failingHeads{Store: st}
				other := nodeOn(t, failing, time.Second)
				run := begin(t, owner.Engine, "")
				time.AfterFunc(3*time.Second, func() { failing.err.Store(&cairnerr.Error{Code: test.code}) })
				time.AfterFunc(8*time.Second, func() { failing.err.Store(nil) })
				ended, err := wait(t, other, run)
				require.NotZero(t, failing.fails.Load())
				if test.want != "" {
					require.Equal(t, test.want, cairnerr.CodeOf(err), "%v", err)
					return
				}
				require.NoError(t, err)
				require.Equal(t, "done", string(ended.Output))
			})
		})
	}
}

// onEveryStore runs a test with processes on one database. They look by themselves once an hour: what they notice,
// they were told.
func onEveryStore(t *testing.T, test func(t *testing.T, process func(wfs ...*engine.Workflow) *node)) {
	t.Helper()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		test(t, func(wfs ...*engine.Workflow) *node {
			st, err := postgres.Open(t.Context(), url, nil)
			require.NoError(t, err)
			return nodeOn(t, st, time.Hour, wfs...)
		})
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := t.TempDir() + "/x.db"
		test(t, func(wfs ...*engine.Workflow) *node {
			st, err := sqlite.Open(t.Context(), path, nil)
			require.NoError(t, err)
			return nodeOn(t, st, time.Hour, wfs...)
		})
	})
}

func TestWait_EndsElsewhere_IsTold(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, process func(wfs ...*engine.Workflow) *node) {
		t.Helper()
		owner, other := process(stepFor(300*time.Millisecond)), process()
		for range 3 {
			ended, err := wait(t, other, begin(t, owner.Engine, ""))
			require.NoError(t, err)
			require.Equal(t, "done", string(ended.Output))
		}
	})
}

// TestWait_ReleasedHereEndsElsewhere_IsTold is [TestWait_RunReleasedHereEndsElsewhere_ReturnsItsEnd] with hints only.
func TestWait_ReleasedHereEndsElsewhere_IsTold(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, process func(wfs ...*engine.Workflow) *node) {
		t.Helper()
		first, second := process(twice()), process(twice())
		run, err := first.Start(t.Context(), engine.StartRequest{Workflow: "twice"})
		require.NoError(t, err)
		type outcome struct {
			*journal.Run
			error
		}
		ended := make(chan outcome)
		go func() {
			run, err := wait(t, first, run)
			ended <- outcome{run, err}
		}()
		rests(t, first.counting, run, 1)
		for _, text := range []string{"a", "b"} {
			_, err := second.Deliver(t.Context(), engine.Sending{Token: "token", Payload: journal.Payload(text)})
			require.NoError(t, err)
		}
		got := <-ended
		require.NoError(t, got.error)
		require.Equal(t, "ab", string(got.Output))
	})
}
