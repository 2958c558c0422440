package commit_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
	"github.com/cairn-workflow/cairn/internal/store/postgres"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const namespace = "test"

// onEveryStore runs a test on each database. again opens the same database as another process would.
func onEveryStore(t *testing.T, test func(t *testing.T, again func() store.Store)) {
	t.Helper()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		test(t, func() store.Store { return openPostgres(t, url) })
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "test.db")
		test(t, func() store.Store { return openSQLite(t, path) })
	})
}

func openPostgres(t *testing.T, url string) store.Store {
	t.Helper()
	st, err := postgres.Open(t.Context(), url, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func openSQLite(t *testing.T, path string) store.Store {
	t.Helper()
	st, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// process is a committer with ids and a clock of its own.
type process struct {
	*commit.Committer
	t     *testing.T
	store store.Store
	self  journal.ID

	mu     sync.Mutex
	minter *journal.Minter
}

func now() journal.Time { return journal.TimeOf(time.Now()) }

// start starts a committer; change may alter its configuration.
func start(t *testing.T, st store.Store, change ...func(*commit.Config)) *process {
	t.Helper()
	p := &process{t: t, store: st, minter: journal.NewMinter(rand.Reader)}
	p.self = p.id()
	cfg := &commit.Config{Now: now}
	for _, f := range change {
		f(cfg)
	}
	c, err := commit.New(t.Context(), st, p.self, cfg)
	require.NoError(t, err)
	p.Committer = c
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return p
}

// withPlan starts a committer whose writer follows a plan of faults.
func withPlan(t *testing.T, st store.Store, plan faultstore.Plan) *process {
	t.Helper()
	return start(t, faultstore.Wrap(st, func(journal.ID) faultstore.Plan { return plan }))
}

func (p *process) id() journal.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, err := p.minter.Mint(now())
	if err != nil {
		panic(err) // rand.Reader does not fail
	}
	return id
}

// outside is a command of somebody who does not own the run.
func outside(run journal.ID, events ...journal.Event) *journal.Command {
	return &journal.Command{Namespace: namespace, Run: run, Events: events}
}

// owned is a command of the process that made the run.
func (p *process) owned(run journal.ID, events ...journal.Event) *journal.Command {
	cmd := outside(run, events...)
	cmd.Guards.Owner = journal.Ownership{Incarnation: p.self, Epoch: 1}
	return cmd
}

func (p *process) must(cmd *journal.Command) *journal.Result {
	p.t.Helper()
	res, err := p.Do(p.t.Context(), cmd)
	require.NoError(p.t, err)
	return res
}

func (p *process) refused(cmd *journal.Command, code cairnerr.Code) {
	p.t.Helper()
	_, err := p.Do(p.t.Context(), cmd)
	require.Equal(p.t, code, cairnerr.CodeOf(err), "%v", err)
}

// newRun makes a run that the process owns and executes.
func (p *process) newRun() journal.ID {
	p.t.Helper()
	run := p.id()
	p.must(p.owned(run, created(), started()))
	return run
}

func created() journal.Event { return journal.Event{Data: &journal.RunCreated{Workflow: "w"}} }
func started() journal.Event { return journal.Event{Data: &journal.RunStarted{}} }
func ended() journal.Event   { return journal.Event{Data: &journal.RunCompleted{}} }

func stepDone(key string) journal.Event {
	return journal.Event{Key: key, Data: &journal.StepCompleted{Name: "s", Result: journal.Payload("result of " + key)}}
}

func note(text string) journal.Event {
	return journal.Event{Data: &journal.Annotated{Name: "note", Value: journal.Payload(text)}}
}

func hook(token string) journal.Event {
	return journal.Event{Key: "h", Data: &journal.HookCreated{Token: token}}
}

func world(workflow string) journal.Event {
	return journal.Event{Data: &journal.RunCreated{Workflow: workflow, Dialect: journal.World6, Spec: 7}}
}

// log reads a run's journal and checks that it is whole.
func log(t *testing.T, st store.Store, run journal.ID) []journal.Event {
	t.Helper()
	j, err := st.Journal(t.Context(), namespace, run, 0)
	require.NoError(t, err)
	_, err = j.State(namespace)
	require.NoError(t, err)
	return j.Events
}

// keys returns the step keys in a journal, in order.
func keys(events []journal.Event) []string {
	var out []string
	for i := range events {
		if events[i].Key != "" {
			out = append(out, events[i].Key)
		}
	}
	return out
}

func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("step#%d", i)
	}
	return out
}
