package torture

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/postgres"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// ledger is a table of the clients' own, in the database that the engines use. Some starts are entered there in the same transaction.
type ledger struct {
	db     *sql.DB
	handle func(*sql.Tx) store.UserTx
}

const (
	makeLedger  = `create table if not exists torture_ledger (name varchar(100) primary key, run varchar(100) not null)`
	enterLedger = `insert into torture_ledger (name, run) values ($1, $2) on conflict do nothing`
	readLedger  = `select name, run from torture_ledger`
)

// openLedger opens the database of the clients' own accord. It asks nothing of it yet.
func openLedger(url string) (*ledger, error) {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(2000)")
		return &ledger{db, func(tx *sql.Tx) store.UserTx { return sqlite.InTx(tx) }}, err
	}
	url, _, _ = strings.Cut(url, "&pool_max_conns") // which only Cairn knows
	db, err := sql.Open("pgx", url)
	return &ledger{db, func(tx *sql.Tx) store.UserTx { return postgres.InSQLTx(tx) }}, err
}

// enter starts a run and enters it, both or neither.
func (l *ledger) enter(ctx context.Context, name string, start func(store.UserTx) (string, error)) (run string, err error) {
	err = l.do(ctx, func(tx *sql.Tx) error {
		if run, err = start(l.handle(tx)); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, enterLedger, name, run)
		return err
	})
	return run, err
}

// errTakeBack ends a transaction as if it had not been.
var errTakeBack = errors.New("the transaction is taken back")

// do executes f in a transaction, and commits it if f succeeds.
func (l *ledger) do(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// prepare makes the table. Others may do so at the same time.
func (l *ledger) prepare(ctx context.Context) error {
	_, err := l.db.ExecContext(ctx, makeLedger)
	return err
}

// read returns the runs that were entered, by the names of their orders.
func (l *ledger) read(ctx context.Context) (map[string]string, error) {
	rows, err := l.db.QueryContext(ctx, readLedger)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // its error is that of Err
	runs := map[string]string{}
	for rows.Next() {
		var name, run string
		if err := rows.Scan(&name, &run); err != nil {
			return nil, err
		}
		runs[name] = run
	}
	return runs, rows.Err()
}
