// Package sqlite keeps Cairn's journals in a SQLite file, with a driver in pure Go.
//
// The file is in WAL mode with synchronous=FULL: what was acknowledged survives a power cut. One connection
// writes, a small pool reads. Several processes may use one file; they take turns in writing, and nobody ever sees
// "database is locked". The tables begin with "cairn_", so the user's own tables can live in the same file.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"modernc.org/sqlite"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite/vfs"
)

// Config tunes a store. The zero value and nil are good for most.
type Config struct {
	// Readers is the most connections that read at the same time. Defaults to 4.
	Readers int
	// ReadOnly opens the file without changing it: no migration, no writer.
	ReadOnly bool
	// Logger gets what the store has to say. Defaults to nothing.
	Logger *slog.Logger
}

// Store is a SQLite file.
type Store struct {
	path string // "" in memory
	dsn  string
	// writerDSN is that of connections that write.
	writerDSN string
	cfg       Config
	names     names
	hub       *hub
	ckpt      checkpointer
	watcher   watcher
	witness   store.Witness
	asides    asides
	readers   atomic.Pointer[sql.DB]
	// prepared are statements of the readers.
	prepared prepared
	closed   atomic.Bool
	// statements counts what writers have executed.
	statements atomic.Int64

	// anchor keeps a database in memory alive.
	anchor *sql.DB
	turn   turn
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Writer   = (*Writer)(nil)
	_ store.Tx       = (*tx)(nil)
	_ store.Notifier = (*hub)(nil)
)

// pageSize is that of new databases. What a commit costs is the pages that it changes, most of them by a few bytes.
const pageSize = 2048

// memories numbers the databases in memory, so that each has a name of its own.
var memories atomic.Int64

// Open opens the SQLite file at path, and makes it if there is none. It brings the schema up to date.
func Open(ctx context.Context, path string, cfg *Config) (*Store, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "bad path %q for a SQLite file", path)
	}
	if path == ":memory:" {
		return Memory(ctx, cfg)
	}
	return openFile(ctx, path, cfg, files{autocheckpoint: autocheckpointPages, checkpoint: checkpointPages})
}

// files is how a store treats its files. Only tests want it otherwise than [Open].
type files struct {
	below          string // the file system below, "" for SQLite's own
	autocheckpoint int    // after how many pages of the log the writer copies it
	checkpoint     int64  // after how many it is copied beside the writer
	pragmas        []string
}

func openFile(ctx context.Context, path string, cfg *Config, f files) (*Store, error) {
	s := newStore(cfg)
	s.path = path
	s.ckpt.every = f.checkpoint
	name, err := vfs.Gathering(f.below)
	if err != nil {
		return nil, cairnerr.Errorf(cairnerr.CodeInternal, "%w", err)
	}
	q := url.Values{"vfs": {name}}
	if !s.cfg.ReadOnly {
		f.pragmas = append(f.pragmas, fmt.Sprintf("wal_autocheckpoint(%d)", f.autocheckpoint))
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: q.Encode()}
	s.setDSN(u, s.cfg.ReadOnly, f.pragmas...)
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, cairnerr.Errorf(cairnerr.CodeUnreachable, "%s is a directory: name a file in it, such as %s", path, filepath.Join(path, "cairn.db"))
	case s.cfg.ReadOnly && err != nil:
		return nil, cairnerr.Errorf(cairnerr.CodeUnreachable, "open %s: %w", path, err)
	case !s.cfg.ReadOnly && err == nil:
		look, err := s.look(ctx, name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = look.Close() }() // when others are open: the last one copies the log
	}
	return s.start(ctx)
}

// look refuses a database that this program cannot use, before anything is done to the file: the connections of a store change its journal mode.
func (s *Store) look(ctx context.Context, vfs string) (*sql.DB, error) {
	q := url.Values{"vfs": {vfs}, "mode": {"rw"}, "_pragma": {"busy_timeout(0)", "query_only(1)"}}
	db, err := connect((&url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(s.path), RawQuery: q.Encode()}).String(), 1)
	if err != nil {
		return nil, err
	}
	if _, err := pending(ctx, db); err != nil {
		return nil, errorsJoin(err, db.Close())
	}
	return db, nil
}

// Memory opens a database in memory. It is empty, nobody else sees it, and it is gone when it is closed.
func Memory(ctx context.Context, cfg *Config) (*Store, error) {
	s := newStore(cfg)
	s.turn = make(turn, 1)
	name := fmt.Sprintf("cairn-%d", memories.Add(1))
	s.setDSN(url.URL{Scheme: "file", OmitHost: true, Path: "/" + name, RawQuery: "vfs=memdb"}, false)
	anchor, err := s.connect(1)
	if err != nil {
		return nil, err
	}
	s.anchor = anchor
	if err := anchor.PingContext(ctx); err != nil {
		return nil, classify("open", err)
	}
	return s.start(ctx)
}

func newStore(cfg *Config) *Store {
	s := &Store{}
	s.hub = newHub(s)
	s.ckpt.s, s.watcher.s = s, s
	s.asides.init()
	if cfg != nil {
		s.cfg = *cfg
	}
	if s.cfg.Readers <= 0 {
		s.cfg.Readers = 4
	}
	if s.cfg.Logger == nil {
		s.cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return s
}

// writerCache is smaller than that of readers, because many commits walk through the whole cache: profiles show it as
// pcache1TruncateUnsafe. What a batch changes beyond it goes to the log before the commit.
const writerCache = "cache_size(-4096)" // KiB

// setDSN says how the file is opened. Of pragmas with the same name the last one holds.
func (s *Store) setDSN(u url.URL, readOnly bool, pragmas ...string) {
	s.dsn = dsn(u, readOnly, pragmas...)
	s.writerDSN = dsn(u, readOnly, append([]string{writerCache}, pragmas...)...)
}

// dsn adds to a file's URL what every connection needs, and more.
func dsn(u url.URL, readOnly bool, more ...string) string {
	q := u.Query()
	// Nobody waits inside SQLite, see retryBusy.
	pragmas := []string{"busy_timeout(0)", "synchronous(full)", "cache_size(-65536)", "temp_store(memory)"}
	if readOnly {
		q.Set("mode", "ro")
		pragmas = append(pragmas, "query_only(1)")
	} else {
		pragmas = append(pragmas, fmt.Sprintf("page_size(%d)", pageSize))
		q.Add("_journal_mode", "wal") // is set after those above
	}
	for _, pragma := range more { // the driver sorts them, so there must not be two of a name
		name, _, _ := strings.Cut(pragma, "(")
		pragmas = slices.DeleteFunc(pragmas, func(p string) bool { return strings.HasPrefix(p, name+"(") })
		pragmas = append(pragmas, pragma)
	}
	q["_pragma"] = pragmas
	u.RawQuery = q.Encode()
	return u.String()
}

// connect returns a pool of connections to the file.
func (s *Store) connect(limit int) (*sql.DB, error) {
	return connect(s.dsn, limit)
}

func connect(dsn string, limit int) (*sql.DB, error) {
	c, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, classify("open", err)
	}
	db := sql.OpenDB(untilFree{c})
	db.SetMaxOpenConns(limit)
	db.SetMaxIdleConns(limit)
	return db, nil
}

// untilFree opens connections, and waits while another process has the file to itself, as it does for
// a moment when it changes the journal mode or recovers after a crash.
type untilFree struct{ driver.Connector }

func (c untilFree) Connect(ctx context.Context) (driver.Conn, error) {
	var conn driver.Conn
	err := retryBusy(ctx, func() (err error) {
		conn, err = c.Connector.Connect(ctx)
		return err
	})
	return conn, err
}

func (s *Store) start(ctx context.Context) (*Store, error) {
	db, err := s.connect(s.cfg.Readers)
	if err != nil {
		return nil, err
	}
	s.readers.Store(db)
	if err := s.migrate(ctx); err != nil {
		return nil, errorsJoin(err, s.Close())
	}
	return s, nil
}

// Close ends all use of the database. Writers are closed by whoever opened them; until then they refuse to write.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.asides.close()
	var err error
	if db := s.readers.Load(); db != nil {
		err = db.Close()
	}
	if s.anchor != nil {
		err = errorsJoin(err, s.anchor.Close())
	}
	return err
}

// db returns the pool that reads.
func (s *Store) db() *sql.DB { return s.readers.Load() }

// Info describes the database.
func (s *Store) Info(ctx context.Context) (store.Info, error) {
	info := store.Info{Kind: "sqlite", Location: s.path}
	if s.path == "" {
		info.Location = ":memory:"
	}
	var mode string
	var synchronous int
	err := s.one(ctx, []any{&info.Version, &info.SchemaVersion, &info.SizeBytes, &mode, &synchronous}, `
		select sqlite_version(), (select version from cairn_schema),
		       (select page_count from pragma_page_count) * (select page_size from pragma_page_size),
		       (select journal_mode from pragma_journal_mode), (select synchronous from pragma_synchronous)`)
	info.Durability = fmt.Sprintf("journal_mode=%s synchronous=%s", mode, synchronousName(synchronous))
	info.Durable = s.path != "" && mode == "wal" && synchronous >= synchronousFull
	return info, classify("info", err)
}

// synchronousFull is the setting under which a commit waits for the disk.
const synchronousFull = 2

func synchronousName(n int) string {
	if names := []string{"off", "normal", "full", "extra"}; n >= 0 && n < len(names) {
		return names[n]
	}
	return strconv.Itoa(n)
}

// Statements returns how many statements the writers have executed, for measurements.
func (s *Store) Statements() int64 { return s.statements.Load() }

// Notifier tells the parts of this process of each other's commits, and that other processes have committed something.
func (s *Store) Notifier() store.Notifier { return s.hub }
