package cairn_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/store/open"
	"github.com/cairn-workflow/cairn/store/postgres"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// place is a database with a table of the user's beside Cairn's.
type place struct {
	t    *testing.T
	kind string
	url  string
	db   *sql.DB // the user's own
}

// ownTx is a transaction of the user's own.
type ownTx struct {
	handle           cairn.Tx
	exec             func(query string, args ...any) error
	commit, rollback func() error
}

// onEachPlace runs a test on each database, with each way to begin a transaction there.
func onEachPlace(t *testing.T, test func(t *testing.T, p *place)) {
	t.Helper()
	for _, kind := range []string{"sqlite", "postgres pgx", "postgres sql"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, newPlace(t, kind))
		})
	}
}

func newPlace(t *testing.T, kind string) *place {
	t.Helper()
	p := &place{t: t, kind: kind}
	var err error
	if kind == "sqlite" {
		path := filepath.Join(t.TempDir(), "x.db")
		p.url = "sqlite:" + path
		p.db, err = sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)")
	} else {
		p.url = pgtest.URL(t)
		p.db, err = sql.Open("pgx", p.url)
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.db.Close() })
	_, err = p.db.ExecContext(t.Context(), `create table orders (id text primary key)`)
	require.NoError(t, err)
	return p
}

func (p *place) begin() *ownTx {
	p.t.Helper()
	ctx := p.t.Context()
	if p.kind == "postgres pgx" {
		conn, err := pgx.Connect(ctx, p.url)
		require.NoError(p.t, err)
		p.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(ctx)) })
		tx, err := conn.Begin(ctx)
		require.NoError(p.t, err)
		return &ownTx{
			handle: postgres.InTx(tx),
			exec:   func(query string, args ...any) error { _, err := tx.Exec(ctx, query, args...); return err },
			commit: func() error { return tx.Commit(ctx) }, rollback: func() error { return tx.Rollback(ctx) },
		}
	}
	tx, err := p.db.BeginTx(ctx, nil)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = tx.Rollback() })
	own := &ownTx{
		handle: sqlite.InTx(tx),
		exec:   func(query string, args ...any) error { _, err := tx.ExecContext(ctx, query, args...); return err },
		commit: tx.Commit, rollback: tx.Rollback,
	}
	if p.kind != "sqlite" {
		own.handle = postgres.InSQLTx(tx)
	}
	return own
}

// order puts an order down.
func (tx *ownTx) order(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, tx.exec(`insert into orders (id) values ($1)`, id))
}

func (p *place) orders() (ids []string) {
	p.t.Helper()
	rows, err := p.db.QueryContext(p.t.Context(), `select id from orders order by id`)
	require.NoError(p.t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		require.NoError(p.t, rows.Scan(&id))
		ids = append(ids, id)
	}
	require.NoError(p.t, rows.Err())
	return ids
}

// engine starts an engine as a process of its own.
func (p *place) engine(cfg cairn.Config, workflows ...cairn.Definition) *cairn.Engine {
	p.t.Helper()
	st, err := open.URL(p.t.Context(), p.url)
	require.NoError(p.t, err)
	e, err := cairn.NewWith(p.t.Context(), st, cfg, workflows...)
	require.NoError(p.t, err)
	p.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = e.Stop(ctx)
		_ = st.Close()
	})
	return e
}

// checkout is a workflow of one step.
func checkout() *cairn.Workflow[string, string] {
	return cairn.NewWorkflow("checkout", func(ctx cairn.Context, id string) (string, error) {
		return cairn.Do(ctx, "charge", func(context.Context) (string, error) { return "charged " + id, nil })
	})
}

// never is a time between two looks for runs that are due, after which no test is still there: what wakes a run is something else.
const never = time.Hour

func TestStartIn(t *testing.T) {
	t.Parallel()
	onEachPlace(t, func(t *testing.T, p *place) {
		wf := checkout()
		e := p.engine(cairn.Config{Poll: never}, wf)

		// Committed: the order and the run are there.
		tx := p.begin()
		tx.order(t, "o-1")
		run, err := wf.StartIn(t.Context(), e, tx.handle, "o-1", cairn.Key("o-1"), cairn.Attributes(map[string]string{"order": "o-1"}))
		require.NoError(t, err)
		_, err = run.Result(within(t))
		require.Equal(t, cairn.Code("run_not_found"), cairnerr.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "was not committed")
		require.Equal(t, cairn.Code("run_not_found"), cairnerr.CodeOf(run.Cancel(t.Context(), "")))
		require.NoError(t, tx.commit())
		out, err := run.Result(within(t))
		require.NoError(t, err)
		require.Equal(t, "charged o-1", out)
		info, err := run.Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[string]string{"order": "o-1"}, info.Attributes)

		// Rolled back: neither is.
		tx = p.begin()
		tx.order(t, "o-2")
		gone, err := wf.StartIn(t.Context(), e, tx.handle, "o-2", cairn.Key("o-2"))
		require.NoError(t, err)
		require.NoError(t, tx.rollback())
		_, err = gone.Result(within(t))
		require.Equal(t, cairn.Code("run_not_found"), cairnerr.CodeOf(err), "%v", err)
		require.Equal(t, []string{"o-1"}, p.orders())

		// The key is free again, for another input.
		again, err := wf.Start(t.Context(), e, "o-2 again", cairn.Key("o-2"))
		require.NoError(t, err)
		require.NotEqual(t, gone.ID(), again.ID())

		// A run that exists is found, and one that begins later waits.
		tx = p.begin()
		same, err := wf.StartIn(t.Context(), e, tx.handle, "o-1", cairn.Key("o-1"))
		require.NoError(t, err)
		require.Equal(t, run.ID(), same.ID())
		_, err = wf.StartIn(t.Context(), e, tx.handle, "another", cairn.Key("o-1"))
		require.Equal(t, cairn.Code("start_key_conflict"), cairnerr.CodeOf(err), "%v", err)
		later, err := wf.StartIn(t.Context(), e, tx.handle, "o-3", cairn.StartAfter(300*time.Millisecond))
		require.NoError(t, err)
		require.NoError(t, tx.commit())
		_, err = later.Result(within(t))
		require.NoError(t, err)
	})
}

// Many transactions and plain starts use one key: one run.
func TestStartInRace(t *testing.T) {
	t.Parallel()
	onEachPlace(t, func(t *testing.T, p *place) {
		const starts = 8
		wf := checkout()
		e := p.engine(cairn.Config{Poll: 50 * time.Millisecond}, wf)
		ids, errs := make([]string, 2*starts), make([]error, 2*starts)
		var all sync.WaitGroup
		for i := range starts {
			tx := func() *ownTx { return p.begin() }
			all.Go(func() {
				own := tx()
				run, err := wf.StartIn(t.Context(), e, own.handle, "o", cairn.Key("o"))
				if err == nil {
					ids[i], err = run.ID(), own.commit()
				}
				errs[i] = err
			})
			all.Go(func() {
				run, err := wf.Start(t.Context(), e, "o", cairn.Key("o"))
				if err == nil {
					ids[starts+i] = run.ID()
				}
				errs[starts+i] = err
			})
		}
		all.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(ids))), 1)
		page, err := e.List(t.Context(), cairn.Filter{})
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
	})
}

// How soon runs begin after the commit. The figures are in docs/benchmarks.md; here it only must be the hint that wakes them.
func TestStartInWakes(t *testing.T) {
	t.Parallel()
	onEachPlace(t, func(t *testing.T, p *place) {
		began := make(chan time.Time, 1)
		wf := cairn.NewWorkflow("now", func(cairn.Context, int) (int, error) {
			at := time.Now() //cairnvet:ignore time the moment is what is measured
			began <- at      //cairnvet:ignore wait it has room
			return 0, nil
		})
		e := p.engine(cairn.Config{Poll: never}, wf)
		var took []time.Duration
		for i := range 9 {
			tx := p.begin()
			tx.order(t, fmt.Sprint(i))
			_, err := wf.StartIn(t.Context(), e, tx.handle, i)
			require.NoError(t, err)
			require.NoError(t, tx.commit())
			committed := time.Now()
			select {
			case at := <-began:
				took = append(took, at.Sub(committed))
			case <-within(t).Done():
				require.Fail(t, "nobody begins the run")
			}
		}
		slices.Sort(took)
		t.Logf("median %v, longest %v", took[len(took)/2], took[len(took)-1])
		require.Less(t, took[len(took)/2], time.Second)
	})
}

func TestMisuseOfStartIn(t *testing.T) {
	t.Parallel()
	onEachPlace(t, func(t *testing.T, p *place) {
		wf, unknown := checkout(), cairn.NewWorkflow("unknown", func(cairn.Context, string) (string, error) { return "", nil })
		var e *cairn.Engine
		nested := cairn.NewWorkflow("nested", func(ctx cairn.Context, _ int) (int, error) {
			_, err := wf.StartIn(ctx, e, nil, "x")
			return 0, err
		})
		e = p.engine(cairn.Config{}, wf, nested)
		_, err := result(t, e, nested, 0)
		requireCode(t, "parked", err)
		require.ErrorContains(t, err, "in_workflow: ")

		expect := func(code cairn.Code, handle cairn.Tx, in string) {
			t.Helper()
			_, err := wf.StartIn(t.Context(), e, handle, in)
			require.Equal(t, code, cairnerr.CodeOf(err), "%v", err)
		}
		expect("foreign_transaction", nil, "")
		expect("foreign_transaction", sqlite.InTx(nil), "")
		expect("foreign_transaction", postgres.InTx(nil), "")
		expect("foreign_transaction", postgres.InTx((*nilTx)(nil)), "")
		expect("foreign_transaction", postgres.InSQLTx(nil), "")
		for _, other := range []string{"sqlite", "postgres sql"} { // another kind, or the same and without tables
			tx := newPlace(t, other).begin()
			expect("foreign_transaction", tx.handle, "")
			require.NoError(t, tx.rollback())
		}
		tx := p.begin()
		_, err = unknown.StartIn(t.Context(), e, tx.handle, "")
		require.Equal(t, cairn.Code("not_registered"), cairnerr.CodeOf(err))
		expect("payload_too_large", tx.handle, string(make([]byte, 70<<20)))
		elsewhere, err := unknown.StartIn(t.Context(), e, tx.handle, "", cairn.Elsewhere())
		require.NoError(t, err)
		require.NoError(t, tx.commit())
		info, err := elsewhere.Describe(t.Context())
		require.NoError(t, err)
		require.Equal(t, "pending", string(info.Status))
		expect("transaction_over", tx.handle, "")
		require.NoError(t, e.Stop(t.Context()))
		tx = p.begin()
		expect("closed", tx.handle, "")
		require.NoError(t, tx.rollback())
	})
}

// nilTx is a type of transaction that somebody may have a nil pointer to.
type nilTx struct{ pgx.Tx }
