package cairn_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/store/open"
	"github.com/cairn-workflow/cairn/store/postgres"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

const (
	// starterURL tells the test's own program to start a run in a transaction on a database, and to kill itself.
	starterURL = "CAIRN_TEST_STARTER"
	// starterEnd says when: before or after the commit.
	starterEnd = "CAIRN_TEST_STARTER_END"
)

// startAndDie starts a run in a transaction with an order, and kills the process as kill -9 would.
func startAndDie(url, end string) error {
	ctx := context.Background()
	st, err := open.URL(ctx, url)
	if err != nil {
		return err
	}
	e, err := cairn.NewWith(ctx, st, cairn.Config{}) // it does not have the workflow: it cannot be the one that executes the run
	if err != nil {
		return err
	}
	driver, address := "pgx", url
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		driver, address = "sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=synchronous(full)"
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `insert into orders (id) values ($1)`, end); err != nil {
		return err
	}
	var handle cairn.Tx = postgres.InSQLTx(tx)
	if driver == "sqlite" {
		handle = sqlite.InTx(tx)
	}
	if _, err := checkout().StartIn(ctx, e, handle, end, cairn.Key(end), cairn.Elsewhere()); err != nil {
		return err
	}
	if end == "after" {
		if err := tx.Commit(); err != nil {
			return err
		}
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	time.Sleep(time.Minute)
	return errors.Join(err, errors.New("still alive"))
}

// A process is killed after the commit, before it can wake anybody: another one finds the run. One is killed before the commit: neither run nor order is
// there, and the key is free.
func TestStartInCrash(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres sql"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, kind)
			wf := checkout()
			e := p.engine(cairn.Config{}, wf)
			for _, end := range []string{"after", "before"} {
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
				cmd.Env = append(os.Environ(), starterURL+"="+p.url, starterEnd+"="+end)
				out, err := cmd.CombinedOutput()
				require.ErrorContains(t, err, "killed", string(out))
			}
			require.Eventually(t, func() bool {
				page, err := e.List(t.Context(), cairn.Filter{Status: []cairn.Status{cairn.StatusCompleted}})
				return err == nil && len(page.Runs) == 1
			}, time.Minute, 20*time.Millisecond)
			page, err := e.List(t.Context(), cairn.Filter{})
			require.NoError(t, err)
			require.Len(t, page.Runs, 1)
			require.Equal(t, []string{"after"}, p.orders())
			run, err := wf.Start(t.Context(), e, "another input", cairn.Key("before"))
			require.NoError(t, err)
			_, err = run.Result(within(t))
			require.NoError(t, err)
		})
	}
}
