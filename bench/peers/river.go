package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// riverSettings are what River's user chooses. Zero values leave River's defaults.
type riverSettings struct {
	workers  int
	cooldown time.Duration
	conns    int32 // of the pool, on PostgreSQL
}

// riverDefaults is the configuration of River's documentation.
func riverDefaults() riverSettings { return riverSettings{workers: 100, conns: 32} }

// riverTuned lifts the limit that the defaults set: 100 jobs for each tenth of a second.
func riverTuned() riverSettings {
	return riverSettings{workers: 2000, cooldown: time.Millisecond, conns: 32}
}

// tinyArgs is a job's input.
type tinyArgs struct {
	N int `json:"n"`
}

// Kind names the job.
func (tinyArgs) Kind() string { return "step" }

type tinyWorker struct {
	river.WorkerDefaults[tinyArgs]
}

func (*tinyWorker) Work(context.Context, *river.Job[tinyArgs]) error { return nil }

// riverSystem runs jobs. A job is a run of one step.
type riverSystem[Tx any] struct {
	client    *river.Client[Tx]
	completed <-chan *river.Event
	cancel    func()
	count     func(ctx context.Context) (int, error)
	closeDB   func() error
}

func openRiver(ctx context.Context, s setup, how riverSettings) (system, error) {
	if s.store == "postgres" {
		return openRiverPostgres(ctx, s.url, how)
	}
	return openRiverSQLite(ctx, filepath.Join(s.dir, "river.db"), s.sync, how)
}

const countCompleted = `select count(*) from river_job where state = 'completed'`

func openRiverPostgres(ctx context.Context, address string, how riverSettings) (system, error) {
	conf, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	conf.MaxConns = how.conns
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, err
	}
	r, err := newRiver(ctx, riverpgxv5.New(pool), how)
	if err != nil {
		pool.Close()
		return nil, err
	}
	r.count = func(ctx context.Context) (n int, err error) {
		err = pool.QueryRow(ctx, countCompleted).Scan(&n)
		return n, err
	}
	r.closeDB = func() error {
		pool.Close()
		return nil
	}
	return r, nil
}

// openRiverSQLite uses one connection, as the driver's documentation says.
func openRiverSQLite(ctx context.Context, path, sync string, how riverSettings) (system, error) {
	q := url.Values{"_pragma": {"journal_mode(wal)", "synchronous(" + sync + ")", "busy_timeout(5000)"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	r, err := newRiver(ctx, riversqlite.New(db), how)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	r.count = func(ctx context.Context) (n int, err error) {
		err = db.QueryRowContext(ctx, countCompleted).Scan(&n)
		return n, err
	}
	r.closeDB = db.Close
	return r, nil
}

func newRiver[Tx any](ctx context.Context, driver riverdriver.Driver[Tx], how riverSettings) (*riverSystem[Tx], error) {
	logger := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: logger})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &tinyWorker{})
	client, err := river.NewClient(driver, &river.Config{
		FetchCooldown: how.cooldown,
		Logger:        logger,
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: how.workers}},
		Workers:       workers,
	})
	if err != nil {
		return nil, err
	}
	r := &riverSystem[Tx]{client: client}
	// Events that do not fit are dropped: there must be room for all of one turn.
	r.completed, r.cancel = client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 2 * mostSteps, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	return r, client.Start(context.WithoutCancel(ctx))
}

// complete counts River's events, which are sent when the completion is in the database.
func (r *riverSystem[Tx]) complete(ctx context.Context, runs, steps int) error {
	if steps != 1 {
		return errors.New("a job of River is one step")
	}
	err := submit(ctx, runs, func(ctx context.Context, n int) error {
		for i := range n {
			if _, err := r.client.Insert(ctx, tinyArgs{N: i}, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for range runs {
		select {
		case <-r.completed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (r *riverSystem[Tx]) check(ctx context.Context, runs int) error {
	n, err := r.count(ctx)
	if err == nil && n != runs {
		err = fmt.Errorf("%d of %d jobs are complete in the database", n, runs)
	}
	return err
}

func (r *riverSystem[Tx]) close(ctx context.Context) error {
	r.cancel()
	return errors.Join(r.client.Stop(ctx), r.closeDB())
}
