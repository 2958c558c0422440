package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"sync"

	_ "modernc.org/sqlite" // the driver
)

// target is where the rows go: a database that knows nothing of Cairn. A real one would be a server.
type target struct {
	path string
	mu   sync.Mutex // one writes at a time
}

// A row is known by its file and its id, so writing it again changes nothing but the number of writes, by which the tests see how often that was.
const (
	schema = `create table if not exists customers (
		file text not null, id integer not null, name text not null, email text not null, cents integer not null, writes integer not null,
		primary key (file, id)) without rowid`
	upsert = `insert into customers values (?, ?, ?, ?, ?, 1)
		on conflict do update set name = excluded.name, email = excluded.email, cents = excluded.cents, writes = writes + 1`
)

// with opens the target, and closes it when f is done.
func (t *target) with(ctx context.Context, f func(*sql.DB) error) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	where := url.URL{Scheme: "file", Opaque: url.PathEscape(t.path), RawQuery: "_pragma=busy_timeout(10000)&_pragma=synchronous(full)&_txlock=immediate"}
	db, err := sql.Open("sqlite", where.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return err
	}
	return f(db)
}

// write writes rows: all of them, or none.
func (t *target) write(ctx context.Context, file string, rows []Customer) error {
	return t.with(ctx, func(db *sql.DB) (err error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // after the commit there is nothing to undo
		for _, r := range rows {
			if _, err := tx.ExecContext(ctx, upsert, file, r.ID, r.Name, r.Email, r.Cents); err != nil {
				return err
			}
		}
		return tx.Commit()
	})
}

// sum returns how many rows of a file there are, and how much they come to.
func (t *target) sum(ctx context.Context, file string) (rows int, cents int64, err error) {
	err = t.with(ctx, func(db *sql.DB) error {
		return db.QueryRowContext(ctx, `select count(*), coalesce(sum(cents), 0) from customers where file = ?`, file).Scan(&rows, &cents)
	})
	return rows, cents, err
}

// writes returns how often each row of a file was written, by its id.
func (t *target) writes(ctx context.Context, file string) (map[int]int, error) {
	found := map[int]int{}
	err := t.with(ctx, func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `select id, writes from customers where file = ?`, file)
		if err != nil {
			return err
		}
		defer rows.Close() //nolint:errcheck // Err tells
		for rows.Next() {
			var id, n int
			if err := rows.Scan(&id, &n); err != nil {
				return err
			}
			found[id] = n
		}
		return rows.Err()
	})
	return found, err
}
