package commit_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // to damage a file below the store

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
)

// TestAMessageIsQueuedOnce sends the same message again: a collision that reading does not show must not hold up anybody.
func TestAMessageIsQueuedOnce(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p := start(t, again())
		run := p.newRun()
		message := journal.Message{ID: p.id(), Queue: "q", Payload: journal.Payload("x")}
		for range 2 {
			cmd := outside(run, note("sent"))
			cmd.Messages = []journal.Message{message}
			p.must(cmd)
		}
		list, err := p.store.Messages(t.Context(), namespace, "q", store.ResolveNone, store.Page{})
		require.NoError(t, err)
		require.Len(t, list.Data, 1)
	})
}

func TestNilDataIsRefused(t *testing.T) {
	t.Parallel()
	p := start(t, openSQLite(t, t.TempDir()+"/x.db"))
	run := p.newRun()
	p.refused(p.owned(run, journal.Event{Data: (*journal.StepCompleted)(nil)}), cairnerr.CodeUnknownEvent)
	p.refused(p.owned(run, journal.Event{Data: (*journal.RunResumed)(nil)}), cairnerr.CodeUnknownEvent)
	p.must(p.owned(run, stepDone("a")))
}

func TestCloseTwice(t *testing.T) {
	t.Parallel()
	p := start(t, openSQLite(t, t.TempDir()+"/x.db"))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { _ = p.Close(t.Context()) })
	}
	wg.Wait()
	require.NoError(t, p.Close(t.Context()))
}

// damaged opens a database, and returns a function that executes SQL in it, past the store.
type damaged struct {
	again func() store.Store
	exec  func(query string)
	table func(name string) string
}

// onEveryDamagedStore runs a test on each database, with a way to change it past the store.
func onEveryDamagedStore(t *testing.T, test func(t *testing.T, d damaged)) {
	t.Helper()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := pgtest.URL(t)
		test(t, damaged{
			again: func() store.Store { return openPostgres(t, url) },
			table: func(name string) string { return "cairn." + name },
			exec: func(query string) {
				conn, err := pgx.Connect(t.Context(), url)
				require.NoError(t, err)
				_, err = conn.Exec(t.Context(), query)
				require.NoError(t, err)
				require.NoError(t, conn.Close(t.Context()))
			},
		})
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "x.db")
		test(t, damaged{
			again: func() store.Store { return openSQLite(t, path) },
			table: func(name string) string { return "cairn_" + name },
			exec: func(query string) {
				db, err := sql.Open("sqlite", path)
				require.NoError(t, err)
				_, err = db.ExecContext(t.Context(), query)
				require.NoError(t, err)
				require.NoError(t, db.Close())
			},
		})
	})
}

// TestARunOfANewerProgramIsLeftAlone has an event in a journal that this program does not know.
func TestARunOfANewerProgramIsLeftAlone(t *testing.T) {
	t.Parallel()
	onEveryDamagedStore(t, func(t *testing.T, d damaged) {
		p := start(t, d.again())
		run, other := p.newRun(), p.newRun()
		d.exec(fmt.Sprintf(`insert into %s (run, seq, type, at) select run, 3, 99, 1 from %[1]s where seq = 2 order by run limit 1`, d.table("events")))
		p.refused(p.owned(run, stepDone("a")), cairnerr.CodeUnknownEvent) // remembered, and caught up with
		q := start(t, d.again())
		all := outside(run, note("x"))
		all.Read = journal.Read{Kind: journal.ReadSince}
		q.refused(all, cairnerr.CodeUnknownEvent) // read from the beginning
		p.must(p.owned(other, stepDone("a")))
	})
}

// TestADamagedRunHarmsNoNeighbour has an event in a journal that cannot be read, in one batch with other runs.
func TestADamagedRunHarmsNoNeighbour(t *testing.T) {
	t.Parallel()
	onEveryDamagedStore(t, func(t *testing.T, d damaged) {
		first := start(t, d.again())
		bad, good := first.newRun(), first.newRun()
		broken := `x'ff'`
		if d.table("") == "cairn." {
			broken = `'\xff'`
		}
		d.exec(fmt.Sprintf(`update %s set data = %s where seq = 1 and run = (select min(run) from %[1]s)`, d.table("events"), broken))
		p, release := heldBack(t, d.again())
		readAll := outside(bad, note("x"))
		readAll.Read = journal.Read{Kind: journal.ReadSince}
		tb, err := p.Submit(t.Context(), readAll)
		require.NoError(t, err)
		tg, err := p.Submit(t.Context(), outside(good, note("x")))
		require.NoError(t, err)
		release()
		_, err = tb.Wait(t.Context())
		require.Equal(t, cairnerr.CodeCorrupt, cairnerr.CodeOf(err))
		_, err = tg.Wait(t.Context())
		require.NoError(t, err)
	})
}

// heldBack starts a committer that is busy with a first commit until it is released, so that what is submitted meanwhile shares a batch.
func heldBack(t *testing.T, st store.Store) (p *process, release func()) {
	t.Helper()
	gate, reached := make(chan struct{}), make(chan struct{})
	var held atomic.Bool
	p = withPlan(t, st, func(op faultstore.Op, _ int) faultstore.Fault {
		if op == faultstore.OpCommit && held.CompareAndSwap(false, true) {
			close(reached)
			<-gate
		}
		return faultstore.Fault{}
	})
	first, err := p.Submit(t.Context(), outside(p.id(), world("w")))
	require.NoError(t, err)
	<-reached
	return p, func() {
		close(gate)
		<-first.Done()
	}
}

// TestNoFalseConflict has a run that is refused in the same batch in which another wants the token that it did not get.
func TestNoFalseConflict(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p, other := start(t, again()), start(t, again())
		y, x, z := p.newRun(), p.newRun(), p.newRun()
		other.must(outside(y, journal.Event{Data: &journal.RunCancelled{}})) // p remembers it as running
		tickets := make([]*commit.Ticket, 0, 2000)
		for _, key := range numbered(1000) { // something to be busy with
			ticket, err := p.Submit(t.Context(), p.owned(z, stepDone(key)))
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		}
		ty, err := p.Submit(t.Context(), p.owned(y, hook("T")))
		require.NoError(t, err)
		tx, err := p.Submit(t.Context(), p.owned(x, hook("T")))
		require.NoError(t, err)
		_, err = ty.Wait(t.Context())
		require.Error(t, err)
		res, err := tx.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, journal.EventHookCreated, res.Appended[0].Type)
		for _, ticket := range tickets {
			_, err := ticket.Wait(t.Context())
			require.NoError(t, err)
		}
	})
}

// TestAFullDisk fills a small file system: callers are told so, nothing that was acknowledged is lost, and work goes on when there is space.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=3m"); err != nil {
		t.Skip("SKIPPED: a small file system cannot be mounted here:", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	p := start(t, openSQLite(t, filepath.Join(dir, "x.db")))
	run := p.newRun()
	acknowledged := 2
	var full error
	for full == nil && acknowledged < 1000 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, full = p.Do(ctx, outside(run, note(string(make([]byte, 50_000)))))
		cancel()
		if full == nil {
			acknowledged++
		}
	}
	require.Equal(t, cairnerr.CodeDiskFull, cairnerr.CodeOf(full), "%v", full)
	require.Equal(t, 507, cairnerr.AsError(full).Status())
	require.Less(t, p.Stats().Settled, int64(10))
	require.Len(t, log(t, p.store, run), acknowledged)

	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=30m"))
	p.must(outside(run, note("there is space again")))
	require.Len(t, log(t, p.store, run), acknowledged+1)
}

// TestAParentIsWokenInTheBatchThatGivesItBack ends a child in the very batch in which its parent begins to wait for it.
func TestAParentIsWokenInTheBatchThatGivesItBack(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		st := again()
		hold := make(chan struct{})
		var armed atomic.Bool
		plan := func(op faultstore.Op, _ int) faultstore.Fault {
			if op == faultstore.OpCommit && armed.CompareAndSwap(true, false) { // both gather behind this one
				<-hold
			}
			return faultstore.Fault{}
		}
		p := withPlan(t, st, plan)
		parent := p.newRun()
		child := p.id()
		p.must(p.owned(child, journal.Event{Data: &journal.RunCreated{Workflow: "w", Parent: parent, Root: parent}}, started()))
		armed.Store(true)
		other, err := p.Submit(t.Context(), outside(p.id(), created()))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return !armed.Load() }, 10*time.Second, time.Millisecond)
		release := p.owned(parent)
		release.Lease = journal.LeaseRelease
		var tickets []*commit.Ticket
		for _, cmd := range []*journal.Command{release, p.owned(child, ended())} {
			ticket, err := p.Submit(t.Context(), cmd)
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		}
		close(hold)
		for _, ticket := range append(tickets, other) {
			_, err := ticket.Wait(t.Context())
			require.NoError(t, err)
		}
		run, err := st.Run(t.Context(), namespace, parent, store.ResolveNone)
		require.NoError(t, err)
		require.NotZero(t, run.WakeAt, "it is due")
		p.must(&journal.Command{Namespace: namespace, Run: parent, Lease: journal.LeaseClaim, Guards: journal.Guards{Owner: journal.Ownership{Incarnation: p.self}}})
	})
}
