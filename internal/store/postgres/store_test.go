package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const namespace = "default"

// fixture is a store on a fresh database, with one writer.
type fixture struct {
	*Store
	tb     testing.TB
	url    string
	self   journal.ID
	writer *Writer
	now    journal.Time
	mu     sync.Mutex
	minter *journal.Minter
}

func newFixture(tb testing.TB) *fixture {
	tb.Helper()
	return openFixture(tb, pgtest.URL(tb), nil)
}

func openFixture(tb testing.TB, url string, cfg *Config) *fixture {
	tb.Helper()
	s, err := Open(tb.Context(), url, cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	f := &fixture{Store: s, tb: tb, url: url, now: journal.TimeOf(time.Now()), minter: journal.NewMinter(rand.Reader)}
	f.self = f.mint()
	f.writer = f.open(f.self, 0)
	return f
}

func (f *fixture) mint() journal.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	id, err := f.minter.Mint(f.now)
	require.NoError(f.tb, err)
	return id
}

func (f *fixture) open(incarnation journal.ID, number int) *Writer {
	f.tb.Helper()
	w, err := f.OpenWriter(f.tb.Context(), incarnation, number)
	require.NoError(f.tb, err)
	f.tb.Cleanup(func() { require.NoError(f.tb, w.Close()) })
	writer, ok := w.(*Writer)
	require.True(f.tb, ok)
	return writer
}

// sql runs a statement beside the store.
func (f *fixture) sql(statement string, args ...any) {
	f.tb.Helper()
	_, err := f.pool.Exec(f.tb.Context(), statement, args...)
	require.NoError(f.tb, err)
}

// reduce changes a state, and returns what is to be stored.
func (f *fixture) reduce(s *journal.State, run journal.ID, guards journal.Guards, events ...journal.Event) store.RunChange {
	f.tb.Helper()
	was := s.Run
	cmd := &journal.Command{Namespace: s.Namespace, Run: run, Events: events, Guards: guards}
	result, err := s.Reduce(cmd, journal.Env{Now: f.now, Self: f.self}, journal.NewOutside())
	require.NoError(f.tb, err)
	return store.RunChange{State: s, New: was == nil, Events: result.Appended, Rows: s.Changed(), Was: was}
}

// owner is the guard of the fixture's process in a run's first epoch.
func (f *fixture) owner() journal.Guards {
	return journal.Guards{Owner: journal.Ownership{Incarnation: f.self, Epoch: 1}}
}

// commit stores changes without looking first.
func (f *fixture) commit(w *Writer, changes *store.Changes) error {
	f.tb.Helper()
	t, err := w.Begin(f.tb.Context(), f.now)
	require.NoError(f.tb, err)
	err = t.Commit(f.tb.Context(), changes)
	for i := range changes.Runs {
		if err == nil {
			changes.Runs[i].State.Commit()
		}
	}
	return err
}

// start stores a new run that the fixture's process executes.
func (f *fixture) start() *journal.State {
	f.tb.Helper()
	s := journal.NewState(namespace)
	c := f.reduce(s, f.mint(), f.owner(), journal.Event{Data: &journal.RunCreated{Workflow: "w", Input: []byte("in")}},
		journal.Event{Data: &journal.RunStarted{}})
	require.NoError(f.tb, f.commit(f.writer, &store.Changes{Runs: []store.RunChange{c}}))
	return s
}

// step is the change of a run by one inline step.
func (f *fixture) step(s *journal.State, key string) store.RunChange {
	f.tb.Helper()
	return f.reduce(s, s.Run.ID, f.owner(), stepDone(key))
}

func stepDone(key string) journal.Event {
	return journal.Event{Key: key, Data: &journal.StepCompleted{Name: "charge", Attempt: 1, Input: []byte("input of " + key), Result: []byte("result of " + key)}}
}

func (f *fixture) begin(w *Writer) store.Tx {
	f.tb.Helper()
	t, err := w.Begin(f.tb.Context(), f.now)
	require.NoError(f.tb, err)
	return t
}

// pid is the server process of a writer's connection.
func (w *Writer) pid() uint32 { return w.conn.PgConn().PID() }

// terminate ends a server process, and waits until it is gone.
func (f *fixture) terminate(pid uint32) {
	f.tb.Helper()
	f.sql(`select pg_terminate_backend($1)`, int32(pid))
	require.Eventually(f.tb, func() bool {
		var alive bool
		err := f.pool.QueryRow(f.tb.Context(), `select exists (select from pg_stat_activity where pid = $1)`, int32(pid)).Scan(&alive)
		return err == nil && !alive
	}, 5*time.Second, 5*time.Millisecond)
}

// waiting waits until a server process waits for a lock.
func (f *fixture) waiting(query string) {
	f.tb.Helper()
	require.Eventually(f.tb, func() bool { return f.isWaiting(query) }, 5*time.Second, 5*time.Millisecond)
}

// isWaiting reports whether a server process waits for a lock.
func (f *fixture) isWaiting(query string) bool {
	var waiting bool
	err := f.pool.QueryRow(f.tb.Context(), `select exists (select from pg_stat_activity where datname = current_database()
		and wait_event_type = 'Lock' and query like $1)`, query).Scan(&waiting)
	return err == nil && waiting
}

// beside opens a transaction beside the store.
func (f *fixture) beside() pgx.Tx {
	f.tb.Helper()
	t, err := f.pool.Begin(f.tb.Context())
	require.NoError(f.tb, err)
	f.tb.Cleanup(func() { _ = t.Rollback(context.Background()) })
	return t
}

func (f *fixture) seqs(run journal.ID) (seqs []int64) {
	f.tb.Helper()
	j, err := f.Journal(f.tb.Context(), namespace, run, 0)
	require.NoError(f.tb, err)
	for i := range j.Events {
		seqs = append(seqs, j.Events[i].Seq)
	}
	return seqs
}

func code(err error) cairnerr.Code { return cairnerr.CodeOf(err) }

func numbered(word string, n int) string { return fmt.Sprintf("%s-%d", word, n) }
