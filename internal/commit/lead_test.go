package commit_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
)

// Whoever commits for all does not have to wait for a database that does not answer, and those for whom he did lose nothing.
func TestALeaderGivesUp(t *testing.T) {
	t.Parallel()
	for _, slow := range []faultstore.Op{faultstore.OpBegin, faultstore.OpCommit} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			var asleep atomic.Bool
			p := withPlan(t, openSQLite(t, dir+"/x.db"), func(op faultstore.Op, _ int) faultstore.Fault {
				if op == slow && asleep.Load() {
					return faultstore.Fault{Delay: time.Minute}
				}
				return faultstore.Fault{}
			})
			mine, others := p.newRun(), p.newRun()
			asleep.Store(true)
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var wg sync.WaitGroup
			wg.Go(func() {
				_, err := p.Do(ctx, p.owned(mine, stepDone("a")))
				require.Equal(t, cairnerr.CodeOutcomeUnknown, cairnerr.CodeOf(err), "%v", err)
				require.Less(t, time.Since(began), 2*time.Second)
				asleep.Store(false)
			})
			synctest.Wait()
			p.must(p.owned(others, stepDone("b")))
			wg.Wait()
			time.Sleep(2 * time.Minute)
			require.Equal(t, []string{"a"}, keys(log(t, p.store, mine)), "it was begun, and is brought to its end")
			require.Equal(t, []string{"b"}, keys(log(t, p.store, others)))
			require.NoError(t, p.Close(t.Context()))
			require.NoError(t, p.store.Close())
		})
	}
}

// Who comes while somebody leads is not forgotten.
func TestWhoComesDuringALead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := withPlan(t, openSQLite(t, dir+"/x.db"), func(op faultstore.Op, _ int) faultstore.Fault {
			if op == faultstore.OpCommit {
				return faultstore.Fault{Delay: time.Second}
			}
			return faultstore.Fault{}
		})
		first, second := p.newRun(), p.newRun()
		var wg sync.WaitGroup
		wg.Go(func() { p.must(p.owned(first, stepDone("a"))) })
		synctest.Wait()
		p.must(p.owned(second, stepDone("b")))
		wg.Wait()
		require.NoError(t, p.Close(t.Context()))
		require.NoError(t, p.store.Close())
	})
}

// victim is set where a test is to be the process that crashes.
const victim = "CAIRN_TEST_VICTIM"

// A mistake of the store or of the committer ends the process also if the caller, who may be somebody's workflow, recovers from everything.
func TestAPanicOfALeaderIsNotRecoveredFrom(t *testing.T) {
	t.Parallel()
	if os.Getenv(victim) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), victim+"=1")
		said, err := cmd.CombinedOutput()
		require.Error(t, err, "%s", said)
		require.Contains(t, string(said), "panic: a mistake")
		require.NotContains(t, string(said), "it went on")
		return
	}
	var led atomic.Bool
	p := withPlan(t, openSQLite(t, t.TempDir()+"/x.db"), func(faultstore.Op, int) faultstore.Fault {
		if bytes.Contains(debug.Stack(), []byte("(*Committer).lead(")) { // and not the committer's own goroutine, whose panic nobody could recover from
			led.Store(true)
			panic("a mistake")
		}
		return faultstore.Fault{}
	})
	for !led.Load() {
		func() {
			defer func() { _ = recover() }()
			_, _ = p.Do(t.Context(), p.owned(p.id(), created(), started()))
		}()
	}
	_, _ = os.Stdout.WriteString("it went on")
	os.Exit(0)
}
