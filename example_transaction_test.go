package cairn_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// shop has orders in a table of its own, in the file that the engine works on.
type shop struct {
	db   *sql.DB
	eng  *cairn.Engine
	ship *cairn.Workflow[string, string]
}

// order puts an order down and starts its shipment: both, or neither.
func (s *shop) order(ctx context.Context, id string, stock int) (*cairn.Run[string], error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if _, err := tx.ExecContext(ctx, `insert into orders (id) values (?)`, id); err != nil {
		return nil, err
	}
	run, err := s.ship.StartIn(ctx, s.eng, sqlite.InTx(tx), id, cairn.Key(id))
	if err != nil {
		return nil, err
	}
	if stock == 0 {
		return nil, errors.New("sold out")
	}
	return run, tx.Commit()
}

// A run that is started in a transaction of your own is there if that is committed, and never was if it is rolled back.
func ExampleWorkflow_StartIn() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "cairn-example-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "shop.db")
	st, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		panic(err)
	}
	ship := cairn.NewWorkflow("ship", func(ctx cairn.Context, order string) (string, error) {
		return cairn.Do(ctx, "send", func(context.Context) (string, error) { return "sent " + order, nil })
	})
	eng, err := cairn.New(ctx, st, ship)
	if err != nil {
		panic(err)
	}
	defer func() { _ = eng.Stop(ctx) }()
	// Your own connections to the same file. A transaction begins as a writer, and waits for others.
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(full)")
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(ctx, `create table orders (id text primary key)`); err != nil {
		panic(err)
	}

	s := &shop{db: db, eng: eng, ship: ship}
	run, err := s.order(ctx, "o-1", 7)
	if err != nil {
		panic(err)
	}
	fmt.Println(run.Result(ctx))
	_, err = s.order(ctx, "o-2", 0)
	fmt.Println(err)
	page, err := eng.List(ctx, cairn.Filter{})
	if err != nil {
		panic(err)
	}
	fmt.Println("runs:", len(page.Runs))
	// Output:
	// sent o-1 <nil>
	// sold out
	// runs: 1
}
