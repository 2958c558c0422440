package main

import (
	"context"
	"database/sql"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/postgres"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// starttxWorkload starts one run after the other in a transaction that also inserts a row of the user's. Beside it: the transaction without the start. A second row
// says how soon after the commit the run begins.
func starttxWorkload(ctx context.Context, db *database, o options, out *report) error {
	s := &txStarts{db: db, began: make(chan time.Time, 1)}
	wf := cairn.NewWorkflow("starttx", func(cairn.Context, int) (int, error) {
		//cairnvet:ignore wait the channel has room
		//cairnvet:ignore time the benchmark measures real time
		s.began <- time.Now()
		return 0, nil
	})
	e, err := cairn.New(ctx, store.NewHandle(db.store), wf)
	if err != nil {
		return err
	}
	defer func() { _ = stopEngine(ctx, e) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	defer s.close()
	start := func(ctx context.Context, tx store.UserTx) error {
		_, err := wf.StartIn(ctx, e, tx, 0)
		return err
	}
	ours, theirs, err := pairs(ctx, o.pairs(), o.slice, s.side(start), s.side(nil))
	if err != nil {
		return err
	}
	r := compareLatency("starttx", db, ours, theirs)
	r.Figure, r.Note = "commit", "begin, insert, start a run, commit; raw: without the start"
	if err := out.add(r); err != nil {
		return err
	}
	w := slice{events: len(s.wakes), latencies: s.wakes}
	return out.add(row{
		Bench: "starttx", Figure: "wake", Store: db.kind, InFlight: 1, Value: w.p50(), Unit: "us", Raw: r.RawP50, Ratio: over(w.p50(), r.RawP50), Pairs: len(ours),
		P50: w.p50(), P99: w.quantile(0.99), RawP50: r.RawP50, Note: "end of the commit to the first line of the workflow",
	})
}

// txStarts are transactions of a user's own.
type txStarts struct {
	db    *database
	began chan time.Time
	wakes []time.Duration
	// transact does something in a transaction after it has inserted a row.
	transact func(ctx context.Context, do func(context.Context, store.UserTx) error) error
	close    func()
}

const insertOrder = `insert into bench_orders (body) values ($1)`

// open connects as the user would.
func (s *txStarts) open(ctx context.Context) error {
	place, body := s.db.place("cairn"), make([]byte, rowBytes)
	if s.db.kind == kindPostgres {
		pool, err := pgxpool.New(ctx, place.Address)
		if err != nil {
			return err
		}
		s.close = pool.Close
		s.transact = func(ctx context.Context, do func(context.Context, store.UserTx) error) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, insertOrder, body); err != nil || do == nil {
					return err
				}
				return do(ctx, postgres.InTx(tx))
			})
		}
		_, err = pool.Exec(ctx, `create table bench_orders (id bigint generated always as identity primary key, body bytea not null)`)
		return err
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(10000)", "synchronous(full)"}}
	pool, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: place.Address, RawQuery: q.Encode()}).String())
	if err != nil {
		return err
	}
	s.close = func() { _ = pool.Close() }
	s.transact = func(ctx context.Context, do func(context.Context, store.UserTx) error) error {
		tx, err := pool.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(ctx, insertOrder, body); err != nil {
			return err
		}
		if do != nil {
			if err := do(ctx, sqlite.InTx(tx)); err != nil {
				return err
			}
		}
		return tx.Commit()
	}
	_, err = pool.ExecContext(ctx, `create table bench_orders (id integer primary key, body blob not null)`)
	return err
}

// side does one transaction after the other. With a start, it waits until the run has begun before it goes on, and that is not part of the time.
func (s *txStarts) side(do func(context.Context, store.UserTx) error) side {
	return func(ctx context.Context, d time.Duration) (slice, error) {
		var out slice
		before, first := s.db.meter(), time.Now()
		for out.events == 0 || time.Since(first) < d {
			at := time.Now()
			if err := s.transact(ctx, do); err != nil {
				return out, err
			}
			committed := time.Now()
			out.events++
			out.latencies = append(out.latencies, committed.Sub(at))
			out.seconds += committed.Sub(at).Seconds()
			if do == nil {
				continue
			}
			select {
			case began := <-s.began:
				s.wakes = append(s.wakes, max(began.Sub(committed), time.Microsecond)) // it may begin before the answer to the commit has come back
			case <-ctx.Done():
				return out, context.Cause(ctx)
			}
		}
		out.use = s.db.meter().minus(before)
		return out, nil
	}
}
