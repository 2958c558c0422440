package check_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

const retention = time.Hour

// world is a database with a committer, to make runs with.
type world struct {
	*testing.T
	store  store.Store
	commit *commit.Committer
	self   journal.ID
	now    journal.Time
	ids    *journal.Minter
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s, err := sqlite.Memory(t.Context(), nil)
	require.NoError(t, err)
	w := &world{T: t, store: s, now: 1_767_225_600_000, ids: journal.NewMinter(rand.NewChaCha8([32]byte{}))}
	w.self = w.mint()
	w.commit, err = commit.New(t.Context(), s, w.self, &commit.Config{Now: w.clock})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, w.commit.Close(context.WithoutCancel(t.Context())))
		require.NoError(t, s.Close())
	})
	return w
}

func (w *world) clock() journal.Time { return w.now }

func (w *world) mint() journal.ID {
	w.Helper()
	id, err := w.ids.Mint(w.now)
	require.NoError(w, err)
	return id
}

func (w *world) do(namespace string, run journal.ID, events ...journal.Event) {
	w.Helper()
	_, err := w.commit.Do(w.Context(), &journal.Command{
		Namespace: namespace, Run: run, Events: events, Guards: journal.Guards{Owner: journal.Ownership{Incarnation: w.self, Epoch: 1}},
	})
	require.NoError(w, err)
}

func (w *world) begin(namespace string) journal.ID {
	w.Helper()
	run := w.mint()
	w.do(namespace, run,
		journal.Event{Data: &journal.RunCreated{Workflow: "w", Input: []byte("in"), Attributes: map[string]string{"color": "blue"}}},
		journal.Event{Data: &journal.RunStarted{}})
	return run
}

// full makes a run that has ended, with a step of each kind: with rows, failed, and inline.
func (w *world) full(namespace string) journal.ID {
	w.Helper()
	run := w.begin(namespace)
	w.do(namespace, run,
		journal.Event{Key: "one", Data: &journal.StepStarted{Name: "one", Input: []byte("x")}},
		journal.Event{Key: "one", Data: &journal.StepRetrying{Error: &cairnerr.Error{Code: "boom", Message: "once"}}},
		journal.Event{Key: "one", Data: &journal.StepStarted{}},
		journal.Event{Key: "one", Data: &journal.StepCompleted{Attempt: 2, Result: []byte("done")}},
		journal.Event{Key: "two", Data: &journal.StepStarted{Name: "two"}},
		journal.Event{Key: "two", Data: &journal.StepFailed{Attempt: 1, Error: &cairnerr.Error{Code: "boom", Message: "it broke"}}},
		journal.Event{Key: "three", Data: &journal.StepCompleted{Name: "three", Attempt: 1, Result: []byte("fine")}},
	)
	w.do(namespace, run, journal.Event{Data: &journal.RunCompleted{Output: []byte("out")}})
	return run
}

// running makes a run with a hook, a wait and a step.
func (w *world) running(namespace string) journal.ID {
	w.Helper()
	run := w.begin(namespace)
	w.do(namespace, run,
		journal.Event{Key: "step", Data: &journal.StepStarted{Name: "step"}},
		journal.Event{Key: "hook", Data: &journal.HookCreated{Token: "token-" + run.String(), Metadata: []byte("meta")}},
		journal.Event{Key: "wait", Data: &journal.WaitCreated{ResumeAt: w.now.Add(time.Minute)}},
		journal.Event{Data: &journal.AttrSet{Changes: []journal.AttrChange{{Key: "color", Remove: true}, {Key: "size", Value: "9"}}}},
	)
	return run
}

// retaining makes a run that has ended and keeps its hook.
func (w *world) retaining(namespace string) journal.ID {
	w.Helper()
	run := w.begin(namespace)
	w.do(namespace, run, journal.Event{Key: "hook", Data: &journal.HookCreated{Token: "token-" + run.String(), RetainUntil: w.now.Add(retention)}})
	w.do(namespace, run, journal.Event{Data: &journal.RunCompleted{}})
	return run
}

func (w *world) cancelled(namespace string) journal.ID {
	w.Helper()
	run := w.begin(namespace)
	w.do(namespace, run, journal.Event{Data: &journal.CancelRequested{Reason: "enough"}})
	w.do(namespace, run, journal.Event{Data: &journal.RunFailed{Error: &cairnerr.Error{Message: "stopped"}}})
	return run
}

// lie is a reader that does not tell the truth.
type lie struct {
	store.Reader
	err     error
	journal func(*store.Journal)
	run     func(*journal.Run)
	steps   func([]*journal.Step) []*journal.Step
	hooks   func([]*store.RunHook) []*store.RunHook
	waits   func([]*journal.Wait) []*journal.Wait
}

func (l *lie) Journal(ctx context.Context, namespace string, id journal.ID, after int64) (*store.Journal, error) {
	if l.err != nil {
		return nil, l.err
	}
	j, err := l.Reader.Journal(ctx, namespace, id, after)
	if err == nil && l.journal != nil && after == 0 {
		l.journal(j)
	}
	return j, err
}

func (l *lie) Run(ctx context.Context, namespace string, id journal.ID, r store.Resolve) (*journal.Run, error) {
	run, err := l.Reader.Run(ctx, namespace, id, r)
	if err == nil && l.run != nil {
		l.run(run)
	}
	return run, err
}

func (l *lie) Steps(ctx context.Context, namespace string, run journal.ID, r store.Resolve, p store.Page) (store.List[*journal.Step], error) {
	list, err := l.Reader.Steps(ctx, namespace, run, r, p)
	if err == nil && l.steps != nil {
		list.Data = l.steps(list.Data)
	}
	return list, err
}

func (l *lie) Hooks(ctx context.Context, namespace string, run journal.ID, r store.Resolve, p store.Page) (store.List[*store.RunHook], error) {
	list, err := l.Reader.Hooks(ctx, namespace, run, r, p)
	if err == nil && l.hooks != nil {
		list.Data = l.hooks(list.Data)
	}
	return list, err
}

func (l *lie) Waits(ctx context.Context, namespace string, run journal.ID, p store.Page) (store.List[*journal.Wait], error) {
	list, err := l.Reader.Waits(ctx, namespace, run, p)
	if err == nil && l.waits != nil {
		list.Data = l.waits(list.Data)
	}
	return list, err
}
