package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/url"
	"runtime"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"modernc.org/sqlite"
)

// rawTable is one plain table: an integer key and 200 bytes.
type rawTable interface {
	create(ctx context.Context) error
	// insert adds n rows in one transaction.
	insert(ctx context.Context, n int) error
	// get reads a row by its key.
	get(ctx context.Context, key int64) error
	close() error
}

// rowBytes is the size of a raw row, and of a step's result.
const rowBytes = 200

// rawLoop is the plainest group commit: take what waits, insert it in one transaction, answer.
type rawLoop struct {
	table rawTable
	mu    sync.Mutex
	queue []chan error
	wake  chan struct{}
	stop  chan struct{}
	ended chan struct{}
}

func startRawLoop(ctx context.Context, table rawTable) *rawLoop {
	l := &rawLoop{table: table, wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{})}
	go l.run(ctx)
	return l
}

func (l *rawLoop) close() {
	close(l.stop)
	<-l.ended
}

// insert adds one row and waits until it is durable.
func (l *rawLoop) insert(ctx context.Context) error {
	done := make(chan error, 1)
	l.mu.Lock()
	l.queue = append(l.queue, done)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *rawLoop) run(ctx context.Context) {
	defer close(l.ended)
	for {
		select {
		case <-l.wake:
		case <-l.stop:
			return
		}
		for {
			batch := l.take()
			if len(batch) == 0 {
				break
			}
			err := l.table.insert(ctx, len(batch))
			for _, done := range batch {
				done <- err
			}
		}
	}
}

// take waits a moment for more callers, as the committer does.
func (l *rawLoop) take() []chan error {
	before := -1
	for range 3 {
		l.mu.Lock()
		n := len(l.queue)
		l.mu.Unlock()
		if n == before {
			break
		}
		before = n
		runtime.Gosched()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	batch := l.queue
	l.queue = nil
	return batch
}

// rawSQLite uses the same driver, in the same way, with the same settings as the store.
type rawSQLite struct {
	db   *sql.DB
	conn *sql.Conn
	body []byte

	stmts map[string]execStmt
	ctx   context.Context // never ends, as in the store
}

// execStmt is a statement that takes a context.
type execStmt interface {
	driver.Stmt
	driver.StmtExecContext
}

func openRawSQLite(ctx context.Context, path string) (*rawSQLite, error) {
	q := url.Values{"_pragma": {"journal_mode(wal)", "synchronous(full)", "wal_autocheckpoint(4000)", "cache_size(-65536)", "busy_timeout(1000)"}}
	connector, err := sqlite.NewConnector((&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(5)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &rawSQLite{db: db, conn: conn, body: make([]byte, rowBytes), stmts: map[string]execStmt{}, ctx: context.Background()}, nil
}

func (r *rawSQLite) create(ctx context.Context) error {
	_, err := r.db.ExecContext(ctx, `create table raw (id integer primary key, body blob not null)`)
	return err
}

// close closes the statements, too: with one left, SQLite keeps the connection and its cache.
func (r *rawSQLite) close() error {
	var err error
	for _, stmt := range r.stmts {
		err = errors.Join(err, stmt.Close())
	}
	return errors.Join(err, r.conn.Close(), r.db.Close())
}

func (r *rawSQLite) insert(_ context.Context, n int) error {
	return r.conn.Raw(func(dc any) error {
		prepare, ok := dc.(driver.ConnPrepareContext)
		if !ok {
			return errors.New("the driver cannot prepare statements")
		}
		if err := r.exec(prepare, `begin immediate`, 1, nil); err != nil {
			return err
		}
		if err := r.exec(prepare, `insert into raw (body) values (?)`, n, []driver.NamedValue{{Ordinal: 1, Value: r.body}}); err != nil {
			return err
		}
		return r.exec(prepare, `commit`, 1, nil)
	})
}

// exec runs a statement that is prepared once.
func (r *rawSQLite) exec(conn driver.ConnPrepareContext, query string, times int, args []driver.NamedValue) error {
	stmt := r.stmts[query]
	if stmt == nil {
		prepared, err := conn.PrepareContext(r.ctx, query)
		if err != nil {
			return err
		}
		var ok bool
		if stmt, ok = prepared.(execStmt); !ok {
			return errors.New("the driver's statements take no context")
		}
		r.stmts[query] = stmt
	}
	for range times {
		if _, err := stmt.ExecContext(r.ctx, args); err != nil {
			return err
		}
	}
	return nil
}

func (r *rawSQLite) get(ctx context.Context, key int64) error {
	var body []byte
	return r.db.QueryRowContext(ctx, `select body from raw where id = ?`, key).Scan(&body)
}

// rawPostgres inserts with one statement for each transaction: an array of rows.
type rawPostgres struct {
	conn *pgx.Conn
	pool *pgxpool.Pool
	rows [][]byte
}

func openRawPostgres(ctx context.Context, url string) (*rawPostgres, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	return &rawPostgres{conn: conn, pool: pool}, nil
}

func (r *rawPostgres) create(ctx context.Context) error {
	_, err := r.pool.Exec(ctx, `create table raw (id bigint generated always as identity primary key, body bytea not null)`)
	return err
}

func (r *rawPostgres) close() error {
	r.pool.Close()
	return r.conn.Close(context.Background())
}

func (r *rawPostgres) insert(ctx context.Context, n int) error {
	for len(r.rows) < n {
		r.rows = append(r.rows, make([]byte, rowBytes))
	}
	_, err := r.conn.Exec(ctx, `insert into raw (body) select unnest($1::bytea[])`, r.rows[:n])
	return err
}

func (r *rawPostgres) get(ctx context.Context, key int64) error {
	var body []byte
	return r.pool.QueryRow(ctx, `select body from raw where id = $1`, key).Scan(&body)
}
