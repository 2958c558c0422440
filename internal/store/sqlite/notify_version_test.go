package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// writes opens a file as a process would, and returns its store and what commits something.
func writes(t *testing.T, path string) (st *sqlite.Store, commit func()) {
	t.Helper()
	st = open(t, path, nil)
	w, err := st.OpenWriter(t.Context(), newID(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return st, func() {
		t.Helper()
		tx, err := w.Begin(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, tx.Commit(t.Context(), &store.Changes{}))
	}
}

// listener counts hints that name nothing.
type listener struct {
	namespaces <-chan string
	runs       <-chan journal.ID
}

func listen(t *testing.T, st *sqlite.Store) *listener {
	t.Helper()
	namespaces, err := st.Notifier().Listen(t.Context())
	require.NoError(t, err)
	runs, err := st.Notifier().ListenRuns(t.Context(), nil)
	require.NoError(t, err)
	return &listener{namespaces, runs}
}

// heard returns how many hints come within a time.
func (l *listener) heard(d time.Duration) (namespaces, runs int) {
	end := time.After(d)
	for {
		select {
		case <-l.namespaces:
			namespaces++
		case <-l.runs:
			runs++
		case <-end:
			return namespaces, runs
		}
	}
}

// every calls f again and again, beside the test, until the function that it returns is called.
func every(t *testing.T, d time.Duration, f func()) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f()
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// within is how soon a process is told of a commit of another one.
const within = 20 * time.Millisecond

func TestNotifier_OtherProcessCommits_HintsWithin20ms(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		st, own := writes(t, path)
		_, other := writes(t, path)
		l := listen(t, st)
		for name, before := range map[string]func(){"idle": func() {}, "after a commit of its own": own} {
			for i := range 20 {
				time.Sleep(time.Duration(i) * time.Millisecond) // at any moment between two looks
				before()
				l.heard(time.Second)
				before()
				other()
				namespaces, runs := l.heard(within)
				require.Positive(t, namespaces, name)
				require.Positive(t, runs, name)
				namespaces, runs = l.heard(time.Second)
				require.LessOrEqual(t, namespaces+runs, 2, "a commit is hinted at once, or twice")
			}
		}
	})
}

// TestNotifier_ThisProcessIsBusy_HintsAtOthersOnly has a process that commits all the time.
func TestNotifier_ThisProcessIsBusy_HintsAtOthersOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		st, own := writes(t, path)
		_, other := writes(t, path)
		l := listen(t, st)
		defer every(t, time.Millisecond, own)()
		l.heard(time.Second)
		namespaces, runs := l.heard(10 * time.Second)
		require.Zero(t, namespaces+runs)
		for range 20 {
			other()
			namespaces, runs = l.heard(within)
			require.Positive(t, namespaces)
			require.Positive(t, runs)
		}
	})
}

// TestNotifier_OthersAreBusy_HintsNowAndThen has another process that commits all the time.
func TestNotifier_OthersAreBusy_HintsNowAndThen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		st, own := writes(t, path)
		_, other := writes(t, path)
		l := listen(t, st)
		defer every(t, 300*time.Microsecond, own)()
		defer every(t, 300*time.Microsecond, other)()
		streams, cancel := context.WithCancel(t.Context())
		for range 2 { // without readers of streams, and with them
			namespaces, runs := l.heard(time.Second)
			require.LessOrEqual(t, namespaces, 101)
			require.LessOrEqual(t, runs, 101)
			require.GreaterOrEqual(t, namespaces, 50)
			_, err := st.Notifier().ListenStreams(streams, nil)
			require.NoError(t, err)
		}
		cancel()
	})
}

func TestNotifier_NobodyListens_LeavesTheFileAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		st, _ := writes(t, path)
		require.False(t, st.WatchesVersion())
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := st.Notifier().Listen(ctx)
			require.NoError(t, err)
			_, err = st.Notifier().ListenRuns(ctx, nil)
			require.NoError(t, err)
			_, err = st.Notifier().ListenStreams(ctx, nil)
			require.NoError(t, err)
			require.True(t, st.WatchesVersion())
			cancel()
			time.Sleep(time.Second)
			require.False(t, st.WatchesVersion())
		}
	})
}

// TestNotifier_AloneOnTheFile_DoesNotLook has a process that learns that it has no peers, and then that one has come.
func TestNotifier_AloneOnTheFile_DoesNotLook(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		st, own := writes(t, path)
		l := listen(t, st)
		lookAround := func() {
			_, err := st.Peers(t.Context())
			require.NoError(t, err)
		}
		own()
		l.heard(time.Second)
		require.Positive(t, st.VersionLooks(), "it is not known to be alone")
		lookAround()
		l.heard(time.Second)
		looks := st.VersionLooks()
		for range 20 {
			own()
			namespaces, runs := l.heard(time.Second)
			require.Zero(t, namespaces+runs)
		}
		require.Equal(t, looks, st.VersionLooks())

		_, other := writes(t, path)
		lookAround()
		l.heard(time.Second)
		for range 20 {
			other()
			namespaces, runs := l.heard(within)
			require.Positive(t, namespaces)
			require.Positive(t, runs)
		}
	})
}

// TestNotifier_TakenForAlone_HintsWhenItWrites has a peer that nobody knows of yet. A process that writes sees its
// commits.
func TestNotifier_TakenForAlone_HintsWhenItWrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
		st, own := writes(t, path)
		l := listen(t, st)
		own()
		_, err := st.Peers(t.Context())
		require.NoError(t, err)
		_, other := writes(t, path)
		for range 20 {
			l.heard(time.Second)
			other()
			own()
			namespaces, runs := l.heard(within)
			require.Positive(t, namespaces)
			require.Positive(t, runs)
		}
	})
}
