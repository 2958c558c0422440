package cairn_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/store/open"
)

// town is a database with several processes.
type town struct {
	t     *testing.T
	where string
	lease time.Duration
}

// inTowns runs a test on each database.
func inTowns(t *testing.T, lease time.Duration, test func(t *testing.T, w *town)) {
	t.Helper()
	for _, kind := range []string{"postgres", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := &town{t: t, where: "sqlite:" + filepath.Join(t.TempDir(), "x.db"), lease: lease}
			if kind == "postgres" {
				w.where = pgtest.URL(t)
			}
			test(t, w)
		})
	}
}

// process starts an engine, and returns also its inner one, by which it can be killed.
func (w *town) process(workflows ...cairn.Definition) (*cairn.Engine, *engine.Engine, cairn.Store) {
	w.t.Helper()
	st, err := open.URL(w.t.Context(), w.where)
	require.NoError(w.t, err)
	var inner *engine.Engine
	ctx := engine.WithTesting(w.t.Context(), &engine.Testing{Started: func(e *engine.Engine) { inner = e }})
	e, err := cairn.NewWith(ctx, st, cairn.Config{Poll: 20 * time.Millisecond, Lease: w.lease}, workflows...)
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		over, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = e.Stop(over)
		_ = st.Close()
	})
	return e, inner, st
}

// history returns what happened to a run.
func historyOf(t *testing.T, e *cairn.Engine, run string) []*cairn.HistoryEvent {
	t.Helper()
	var events []*cairn.HistoryEvent
	for event, err := range e.Run(run).History(t.Context()) {
		require.NoError(t, err)
		events = append(events, event)
	}
	return events
}

// frozen is a workflow that stands still when it is first executed, before it does a primitive; then it waits until it is let go.
type frozen struct {
	k       *kit
	wf      *cairn.Workflow[string, string]
	reached sync.WaitGroup // by the first executions
	woken   sync.WaitGroup // the first executions have ended
	thaw    chan struct{}

	mu   sync.Mutex
	seen map[string]bool
}

func newFrozen(k *kit) *frozen {
	f := &frozen{k: k, thaw: make(chan struct{}), seen: map[string]bool{}}
	all := primitives()
	f.reached.Add(len(all))
	f.woken.Add(len(all))
	f.wf = cairn.NewWorkflow("frozen", func(ctx cairn.Context, name string) (string, error) {
		if f.isFirst(name) {
			defer f.woken.Done()
			f.reached.Done()
			<-f.thaw //cairnvet:ignore wait the process stands still, which is what is tested
		}
		out, err := all[name](k, ctx, name)
		if err != nil {
			return "", err
		}
		more, err := cairn.NewHook[string]("end").Token("end of " + name).Wait(ctx)
		return out + more, err
	})
	return f
}

func (f *frozen) isFirst(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := !f.seen[name]
	f.seen[name] = true
	return first
}

// TestPromiseZombie has a process that stands still before it does a primitive, is declared dead, and comes back when another one has done it: what
// it records then is refused. Only bodies of steps can have been done twice.
func TestPromiseZombie(t *testing.T) {
	t.Parallel()
	inTowns(t, time.Minute, func(t *testing.T, w *town) {
		k := newKit()
		f := newFrozen(k)
		client, _, _ := w.process()
		k.client = func() *cairn.Engine { return client }
		zombie, _, st := w.process(f.wf, k.child)
		runs := map[string]*cairn.Run[string]{}
		for name := range primitives() {
			run, err := f.wf.Start(t.Context(), zombie, name)
			require.NoError(t, err)
			runs[name] = run
		}
		f.reached.Wait()
		w.process(f.wf, k.child)
		list, err := store.Of(st).Runs(t.Context(), "default", store.RunFilter{Workflow: "frozen"}, store.Page{})
		require.NoError(t, err)
		dead := map[journal.ID]bool{}
		for _, run := range list.Data {
			dead[run.Owner] = true
		}
		require.Len(t, dead, 1)
		for incarnation := range dead {
			require.NoError(t, store.Of(st).Fence(t.Context(), incarnation))
		}
		for name := range runs { // the other process has done the primitive
			require.Eventually(t, func() bool { _, err := client.HookInfo(t.Context(), "end of "+name); return err == nil }, 30*time.Second, 5*time.Millisecond, name)
		}
		close(f.thaw)
		f.woken.Wait()
		for name, run := range runs {
			require.NoError(t, cairn.NewHook[string]("sent").Send(t.Context(), client, "end of "+name, "!"))
			out, err := run.Result(within(t))
			require.NoError(t, err, name)
			require.Contains(t, out, "!", name)
			require.NoError(t, recordedOnce(historyOf(t, client, run.ID())), name)
			for _, body := range bodies(name, name) {
				require.GreaterOrEqual(t, k.done(body), 1, "%s of %s", body, name)
				require.LessOrEqual(t, k.done(body), 2, "%s of %s", body, name)
			}
		}
		children, err := client.List(t.Context(), cairn.Filter{ParentID: runs["child"].ID()})
		require.NoError(t, err)
		require.Len(t, children.Runs, 1, "the zombie has started no child of its own")
		require.Equal(t, []string{"step  noting@annotations annotations", "workflow  annotate annotations"}, noted(t, client, runs["annotations"].ID(), cairn.AnnotationFilter{}))
	})
}

// TestPromiseTakeOver kills a process in the middle of runs that have done each primitive and are to do it again. A peer finds out by itself, and goes on: what is
// recorded is not done again.
func TestPromiseTakeOver(t *testing.T) {
	t.Parallel()
	inTowns(t, 2*time.Second, func(t *testing.T, w *town) {
		k := newKit()
		var reached, tries sync.Map
		killed := make(chan struct{})
		wf := cairn.NewWorkflow("twice", func(ctx cairn.Context, name string) (string, error) {
			if _, err := primitives()[name](k, ctx, "before "+name); err != nil {
				return "", err
			}
			_, err := cairn.Do(ctx, "hold", func(context.Context) (int, error) {
				if _, again := tries.LoadOrStore(name, true); !again {
					reached.Store(name, true)
					<-killed
				}
				return 0, nil
			})
			if err != nil {
				return "", err
			}
			return primitives()[name](k, ctx, "after "+name)
		})
		client, _, _ := w.process()
		k.client = func() *cairn.Engine { return client }
		victim, inner, _ := w.process(wf, k.child)
		runs := map[string]*cairn.Run[string]{}
		for name := range primitives() {
			run, err := wf.Start(t.Context(), victim, name)
			require.NoError(t, err)
			runs[name] = run
		}
		for name := range runs {
			require.Eventually(t, func() bool { _, ok := reached.Load(name); return ok }, 30*time.Second, 5*time.Millisecond, name)
		}
		peer, _, _ := w.process(wf, k.child)
		inner.Kill()
		close(killed)
		for name, run := range runs {
			here, err := wf.Get(t.Context(), peer, run.ID())
			require.NoError(t, err)
			_, err = here.Result(within(t))
			require.NoError(t, err, name)
			require.NoError(t, recordedOnce(historyOf(t, peer, run.ID())), name)
			for _, tag := range []string{"before " + name, "after " + name} {
				for _, body := range bodies(name, tag) {
					require.Equal(t, 1, k.done(body), "%s of %s", body, name)
				}
			}
		}
	})
}
