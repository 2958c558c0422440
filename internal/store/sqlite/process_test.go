package sqlite_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

const (
	namespace = "test"
	workflow  = "checkout"

	// helperVariable makes the test binary one of several processes on the file that it names.
	helperVariable = "CAIRN_TEST_SQLITE_HELPER"
	// commitsVariable is how many batches the process commits; 0: until it is killed.
	commitsVariable = "CAIRN_TEST_SQLITE_COMMITS"
	// runVariable is the run that all processes write to.
	runVariable = "CAIRN_TEST_SQLITE_RUN"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(helperVariable); path != "" {
		if err := help(path, os.Getenv(commitsVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var (
	idsMutex sync.Mutex
	ids      = journal.NewMinter(rand.Reader)
	shared   = sharedRun() // the run that all processes write to
)

// sharedRun returns the run that the parent process chose, or chooses one.
func sharedRun() journal.ID {
	if id, err := journal.PrefixRun.Parse(os.Getenv(runVariable)); err == nil {
		return id
	}
	return newID()
}

func now() journal.Time { return journal.TimeOf(time.Now()) }

func newID() journal.ID {
	idsMutex.Lock()
	defer idsMutex.Unlock()
	id, err := ids.Mint(now())
	if err != nil {
		panic(err)
	}
	return id
}

// create commits a new run without Load.
func create(ctx context.Context, w store.Writer, run journal.ID, input journal.Payload, more ...journal.Event) error {
	state := journal.NewState(namespace)
	events := append([]journal.Event{{Data: &journal.RunCreated{Workflow: workflow, Input: input}}, {Data: &journal.RunStarted{}}}, more...)
	return apply(ctx, w, state, &journal.Command{
		Namespace: namespace, Run: run, Events: events, Guards: journal.Guards{Owner: journal.Ownership{Incarnation: run}},
	}, nil)
}

// annotate adds an event to a run that others write to as well.
func annotate(ctx context.Context, w store.Writer, run journal.ID, name string) error {
	tx, err := w.Begin(ctx, now())
	if err != nil {
		return err
	}
	defer tx.Rollback()
	loaded, err := tx.Load(ctx, &store.LoadSet{Runs: []store.LoadRun{{Namespace: namespace, Run: run, EventsAfter: -1}}})
	if err != nil {
		return err
	}
	return apply(ctx, w, loaded.Runs[0].State, &journal.Command{
		Namespace: namespace, Run: run, Events: []journal.Event{{Data: &journal.Annotated{Name: name}}},
	}, tx)
}

func apply(ctx context.Context, w store.Writer, state *journal.State, cmd *journal.Command, tx store.Tx) error {
	was := state.Run
	res, err := state.Reduce(cmd, journal.Env{Now: now()}, journal.NewOutside())
	if err != nil {
		return err
	}
	if tx == nil {
		if tx, err = w.Begin(ctx, now()); err != nil {
			return err
		}
		defer tx.Rollback()
	}
	return tx.Commit(ctx, &store.Changes{Runs: []store.RunChange{{
		State: state, New: was == nil, Events: res.Appended, Rows: state.Changed(), Was: was,
	}}})
}

// help is the other process: it opens the file and commits, and says on its output which run is durable.
func help(path, commits string) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	w, err := s.OpenWriter(ctx, newID(), 0)
	if err != nil {
		return err
	}
	var limit int
	if _, err := fmt.Sscan(commits, &limit); err != nil {
		return err
	}
	for n := 0; limit == 0 || n < limit; n++ {
		run := newID()
		if n%2 == 0 {
			err = create(ctx, w, run, nil)
			fmt.Println(run)
		} else {
			err = annotate(ctx, w, shared, fmt.Sprint(os.Getpid(), " ", n))
		}
		if err != nil {
			return fmt.Errorf("commit %d: %w", n, err)
		}
	}
	return errors.Join(w.Close(), s.Close())
}

// startHelper starts another process on the file.
func startHelper(t *testing.T, path string, commits int) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), program)
	command.Env = append(os.Environ(), helperVariable+"="+path, fmt.Sprint(commitsVariable, "=", commits), runVariable+"="+journal.PrefixRun.Format(shared))
	var problems bytes.Buffer
	command.Stderr = &problems
	return command, &problems
}

func requireAllRuns(t *testing.T, s *sqlite.Store, want int) {
	t.Helper()
	found := 0
	for p := (store.Page{Limit: 1000}); ; {
		l, err := s.Runs(t.Context(), namespace, store.RunFilter{}, p)
		require.NoError(t, err)
		found += len(l.Data)
		if !l.HasMore {
			break
		}
		p.Cursor = l.Cursor
	}
	require.Equal(t, want, found)
}

// Several processes make the file together, write to it at the same time, and never see that it is locked.
func TestProcesses(t *testing.T) {
	t.Parallel()
	const processes = 3
	commits := 200
	if testing.Short() {
		commits = 40
	}
	path := filepath.Join(t.TempDir(), "cairn.db")
	// They open the file that does not exist yet, all at once.
	var opening []*exec.Cmd
	for range processes {
		command, problems := startHelper(t, path, 1)
		require.NoError(t, command.Start())
		opening = append(opening, command)
		t.Cleanup(func() { require.Empty(t, problems.String()) })
	}
	for _, command := range opening {
		require.NoError(t, command.Wait())
	}
	requireMigratedOnce(t, path)

	s := open(t, path, nil)
	w := writing(t, s)
	require.NoError(t, create(t.Context(), w, shared, nil))
	requireAllRuns(t, s, processes+2)
	var wg sync.WaitGroup
	errs, outputs := make([]error, processes), make([]*bytes.Buffer, processes)
	for i := range processes {
		command, problems := startHelper(t, path, commits)
		outputs[i] = problems
		wg.Go(func() { errs[i] = command.Run() })
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for reading := true; reading; { // this process reads all the while
		select {
		case <-done:
			reading = false
		default:
			_, err := s.Journal(t.Context(), namespace, shared, 0)
			require.NoError(t, err)
		}
	}
	for i := range processes {
		require.NoError(t, errs[i], outputs[i].String())
	}
	requireAllRuns(t, s, processes+2+processes*commits/2)
	j, err := s.Journal(t.Context(), namespace, shared, 0)
	require.NoError(t, err)
	require.Len(t, j.Events, 2+processes*commits/2)
	_, err = j.State(namespace)
	require.NoError(t, err)
}

// What a process was told to be durable is there after kill -9 (invariant 5).
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	s := open(t, path, nil)
	require.NoError(t, create(t.Context(), writing(t, s), shared, nil))
	command, problems := startHelper(t, path, 0)
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	var acknowledged []journal.ID
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		id, err := journal.PrefixRun.Parse(string(journal.PrefixRun) + lines.Text())
		require.NoError(t, err)
		acknowledged = append(acknowledged, id)
		if len(acknowledged) == 20 {
			require.NoError(t, command.Process.Kill())
		}
	}
	require.Error(t, command.Wait(), "it was killed")
	require.Empty(t, problems.String())
	require.GreaterOrEqual(t, len(acknowledged), 20)
	again := open(t, path, nil)
	for _, id := range acknowledged {
		j, err := again.Journal(t.Context(), namespace, id, 0)
		require.NoError(t, err)
		require.Len(t, j.Events, 2)
	}
	writing(t, again)
}
