// Package postgres keeps Cairn's journals in PostgreSQL.
//
// All tables live in a schema of their own. Each writer and the notifier have a connection of their own; a small pool
// reads. Nothing needs an extension or an advisory lock, so that databases which only speak PostgreSQL's language and
// poolers in transaction mode can be used too. What is acknowledged is as durable as the server's synchronous_commit says;
// [Store.Info] shows it.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Config tunes a store. The zero value and nil are good for most.
type Config struct {
	// MaxConns is the most connections that read at the same time. Defaults to pool_max_conns of the URL, else to 8.
	// Each writer needs one more, and so does the notifier while somebody listens.
	MaxConns int
	// Schema is where the tables are: small letters, digits and "_". It is made if there is none. Defaults to "cairn".
	//
	// Connections ask for it in search_path when they start. A pooler that does not pass this on (PgBouncer) must be told to
	// ignore it and the other settings of [Open], and the user's search_path must be set in the database.
	Schema string
	// ReadOnly opens the database without changing it: no migration, no writer.
	ReadOnly bool
	// Logger gets what the store has to say. Defaults to nothing.
	Logger *slog.Logger
}

const (
	defaultConns   = 8
	defaultSchema  = "cairn"
	connectTimeout = 10 * time.Second
)

// readerSettings are those of all connections. Each query has its index, which the planner would not use while a table is
// young; what it decided then would stay for a while.
var readerSettings = map[string]string{
	"application_name": "cairn",
	"enable_seqscan":   "off",
	"jit":              "off",
	// Every list has an index in its order. Without statistics the planner may prefer to fetch everything and sort it.
	"enable_sort":       "off",
	"enable_bitmapscan": "off",
}

// Store is a schema in a PostgreSQL database.
type Store struct {
	pool     *pgxpool.Pool
	conn     *pgx.ConnConfig // for connections outside the pool
	cfg      Config
	location string
	names    names
	witness  store.Witness
	notifier *notifier
	closed   atomic.Bool
	// statements counts what writers have executed.
	statements atomic.Int64
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Writer   = (*Writer)(nil)
	_ store.Tx       = (*tx)(nil)
	_ store.Notifier = (*notifier)(nil)
)

// schemaName is short enough for the notifier's channel, and needs no quotes.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)

// Open opens the database that the URL names, and brings the schema up to date. It fails if the database cannot be reached.
func Open(ctx context.Context, url string, cfg *Config) (*Store, error) {
	s := &Store{}
	if cfg != nil {
		s.cfg = *cfg
	}
	if s.cfg.Schema == "" {
		s.cfg.Schema = defaultSchema
	}
	if !schemaName.MatchString(s.cfg.Schema) || strings.HasPrefix(s.cfg.Schema, "pg_") {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "bad schema %.64q: want up to 48 small letters, digits and _", s.cfg.Schema)
	}
	if s.cfg.Logger == nil {
		s.cfg.Logger = slog.New(slog.DiscardHandler)
	}
	conf, err := s.poolConfig(url)
	if err != nil {
		return nil, err
	}
	s.conn = conf.ConnConfig.Copy()
	s.location = location(s.conn)
	s.notifier = newNotifier(s)
	s.pool, err = pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return nil, classify("open", err)
	}
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) poolConfig(url string) (*pgxpool.Config, error) {
	conf, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The driver's message shows the URL, and finds the password in it only if the URL is well formed.
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "bad URL of a PostgreSQL database: want postgres://user:password@host:port/database")
	}
	switch {
	case s.cfg.MaxConns > 0:
		conf.MaxConns = int32(min(s.cfg.MaxConns, 10_000))
	case !strings.Contains(url, "pool_max_conns"):
		conf.MaxConns = defaultConns
	}
	if conf.ConnConfig.ConnectTimeout == 0 {
		conf.ConnConfig.ConnectTimeout = connectTimeout
	}
	params := conf.ConnConfig.RuntimeParams
	params["search_path"] = s.cfg.Schema
	if s.cfg.ReadOnly {
		params["default_transaction_read_only"] = "on"
	}
	setDefault(params, readerSettings)
	return conf, nil
}

// setDefault adds settings that the URL does not have.
func setDefault(params, defaults map[string]string) {
	for name, value := range defaults {
		if _, set := params[name]; !set {
			params[name] = value
		}
	}
}

// connect opens a connection outside the pool.
func (s *Store) connect(ctx context.Context, settings map[string]string) (*pgx.Conn, error) {
	if s.closed.Load() {
		return nil, errClosed()
	}
	conf := s.conn.Copy()
	conf.RuntimeParams = maps.Clone(conf.RuntimeParams)
	setDefault(conf.RuntimeParams, settings)
	return pgx.ConnectConfig(ctx, conf)
}

func errClosed() error { return cairnerr.Errorf(cairnerr.CodeClosed, "the store was closed") }

// location names the database without credentials.
func location(c *pgx.ConnConfig) string {
	host := c.Host
	if !strings.HasPrefix(host, "/") {
		host = net.JoinHostPort(host, strconv.Itoa(int(c.Port)))
	}
	return fmt.Sprintf("%s/%s", host, c.Database)
}

// Close ends all use of the database. Writers end with their next batch.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.notifier.close()
	s.pool.Close()
	return nil
}

const selectInfo = `
	select current_setting('server_version'), current_setting('synchronous_commit'), coalesce(current_setting('fsync', true), 'on'),
	       pg_database_size(current_database()), version
	from schema_version`

// Info describes the database.
func (s *Store) Info(ctx context.Context) (store.Info, error) {
	info := store.Info{Kind: "postgres", Location: s.location}
	var commit, fsync string
	err := s.pool.QueryRow(ctx, selectInfo).Scan(&info.Version, &commit, &fsync, &info.SizeBytes, &info.SchemaVersion)
	info.Durability = "synchronous_commit=" + commit + " fsync=" + fsync
	info.Durable = commit != "off" && commit != "local" && fsync == "on"
	return info, classify("info", err)
}

// Statements returns how many statements the writers have executed, for measurements.
func (s *Store) Statements() int64 { return s.statements.Load() }

// Notifier tells processes of each other's commits with LISTEN and NOTIFY.
func (s *Store) Notifier() store.Notifier { return s.notifier }
