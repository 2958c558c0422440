package cairn_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/store/open"
)

// workerURL tells the test's own program to be a worker on a database.
const workerURL = "CAIRN_TEST_WORKER"

const (
	takeoverLease = 2 * time.Second
	takeoverSteps = 60
	perWorker     = 10
)

// ticks is a run of many short steps, each of which says in which process it was done.
var ticks = cairn.NewWorkflow("ticks", func(ctx cairn.Context, n int) ([]int, error) {
	var pids []int
	for range n {
		//cairnvet:ignore loopkey all calls are the same
		pid, err := cairn.Do(ctx, "tick", func(context.Context) (int, error) {
			time.Sleep(100 * time.Millisecond)
			return os.Getpid(), nil
		})
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
})

// work is what a worker does until it is killed.
func work(url string) error {
	ctx := context.Background()
	st, err := open.URL(ctx, url)
	if err != nil {
		return err
	}
	_, err = cairn.NewWith(ctx, st, cairn.Config{Lease: takeoverLease, Poll: 100 * time.Millisecond, MaxActive: perWorker}, ticks)
	if err != nil {
		return err
	}
	select {}
}

// TestKill kills one of three processes with SIGKILL: the others go on with its runs. It logs how long that took.
func TestKill(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"postgres", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
			if kind == "postgres" {
				url = pgtest.URL(t)
			}
			st, err := open.URL(t.Context(), url)
			require.NoError(t, err)
			client, err := cairn.NewWith(t.Context(), st, cairn.Config{Lease: takeoverLease, Poll: 50 * time.Millisecond})
			require.NoError(t, err)
			t.Cleanup(func() { _ = client.Stop(context.Background()); _ = st.Close() })
			var runs []*cairn.Run[[]int]
			for i := range 2 * perWorker { // the two that are left have room for all
				run, err := ticks.Start(t.Context(), client, takeoverSteps, cairn.Elsewhere(), cairn.Key(fmt.Sprint(i)))
				require.NoError(t, err)
				runs = append(runs, run)
			}
			victim := worker(t, url)
			mine := ownedBySomebody(t, st, perWorker)
			for range 2 {
				worker(t, url)
			}
			ownedBySomebody(t, st, 2*perWorker)
			killed := time.Now()
			require.NoError(t, victim.Process.Kill())
			require.Eventually(t, func() bool {
				for id, owner := range owners(t, st) {
					if mine[id] == owner {
						return false
					}
				}
				return true
			}, time.Minute, 10*time.Millisecond)
			t.Logf("%s: the runs of the killed process were taken over after %v; the lease is %v", kind, time.Since(killed).Round(time.Millisecond), takeoverLease)
			for _, run := range runs {
				pids, err := run.Result(t.Context())
				require.NoError(t, err)
				require.Len(t, pids, takeoverSteps)
			}
		})
	}
}

// worker starts a process that executes runs.
func worker(t *testing.T, url string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), workerURL+"="+url)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// owners returns who executes which run.
func owners(t *testing.T, st cairn.Store) map[journal.ID]journal.ID {
	t.Helper()
	list, err := store.Of(st).Runs(t.Context(), "default", store.RunFilter{Workflow: ticks.Name()}, store.Page{})
	require.NoError(t, err)
	out := map[journal.ID]journal.ID{}
	for _, run := range list.Data {
		if !run.Status.Terminal() {
			out[run.ID] = run.Owner
		}
	}
	return out
}

// ownedBySomebody waits until so many runs are executed, and returns those.
func ownedBySomebody(t *testing.T, st cairn.Store, n int) map[journal.ID]journal.ID {
	t.Helper()
	var owned map[journal.ID]journal.ID
	require.Eventually(t, func() bool {
		owned = map[journal.ID]journal.ID{}
		for id, owner := range owners(t, st) {
			if !owner.IsZero() {
				owned[id] = owner
			}
		}
		return len(owned) >= n
	}, time.Minute, 10*time.Millisecond)
	return owned
}
