package postgres

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
)

// oldDatabases returns the dumps of the databases of earlier programs, see internal/upgrade, and an empty one.
func oldDatabases(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../upgrade/testdata/*.sql.gz")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 7)
	all := map[string]string{"empty": ""}
	for _, name := range files {
		file, err := os.Open(name)
		require.NoError(t, err)
		r, err := gzip.NewReader(file)
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		all[strings.TrimSuffix(filepath.Base(name), ".sql.gz")] = string(content)
	}
	return all
}

// meddler has a database of its own, in which it does what no store does.
type meddler struct {
	*testing.T
	url  string
	conn *pgx.Conn
}

func newMeddler(t *testing.T) *meddler {
	t.Helper()
	m := &meddler{T: t, url: pgtest.URL(t)}
	conn, err := pgx.Connect(t.Context(), m.url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	m.conn = conn
	return m
}

func (m *meddler) exec(statements string) {
	m.Helper()
	_, err := m.conn.PgConn().Exec(m.Context(), statements).ReadAll()
	require.NoError(m, err)
}

// reset makes the database what it was.
func (m *meddler) reset(dump string) {
	m.Helper()
	m.exec(`drop schema if exists cairn cascade`)
	m.exec(dump + `; reset all`)
}

func (m *meddler) rows(query string) string {
	m.Helper()
	rows, err := m.conn.Query(m.Context(), query)
	require.NoError(m, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(m, err)
	return strings.Join(lines, "\n") + "\n"
}

// schema returns all tables, columns, constraints and indices, and what is in the tables.
func (m *meddler) schema() string {
	m.Helper()
	text := m.rows(`select concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default) from information_schema.columns where table_schema = 'cairn' order by 1`) +
		m.rows(`select conrelid::regclass || ' ' || pg_get_constraintdef(oid) from pg_constraint where connamespace = 'cairn'::regnamespace order by 1`) +
		m.rows(`select indexdef from pg_indexes where schemaname = 'cairn' order by 1`)
	for table := range strings.FieldsSeq(m.rows(`select tablename::text from pg_tables where schemaname = 'cairn' order by 1`)) {
		text += m.rows(fmt.Sprintf(`select '%[1]s ' || x::text from cairn.%[1]s x order by 1`, table))
	}
	return text
}

func (m *meddler) migrated() string {
	m.Helper()
	s, err := Open(m.Context(), m.url, nil)
	require.NoError(m, err)
	require.NoError(m, s.Close())
	return m.schema()
}

// dieAt ends the backend that executes the n-th statement that changes a schema.
const dieAt = `
create schema if not exists meddle;
drop event trigger if exists die;
drop sequence if exists meddle.n;
create sequence meddle.n;
create or replace function meddle.die() returns event_trigger language plpgsql as $$
begin
	if nextval('meddle.n') = %d then
		perform pg_terminate_backend(pg_backend_pid());
		perform pg_sleep(60);
	end if;
end $$;
create event trigger die on ddl_command_end execute function meddle.die();`

// The backend dies at every statement of a migration. Who opens the database again ends where one does who was not interrupted.
func TestInterruptedMigrations(t *testing.T) {
	t.Parallel()
	step := 1
	if testing.Short() {
		step = 3
	}
	for name, dump := range oldDatabases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMeddler(t)
			m.reset(dump)
			want := m.migrated()
			for n := 1; ; n += step {
				m.reset(dump)
				m.exec(fmt.Sprintf(dieAt, n))
				s, err := Open(t.Context(), m.url, nil)
				m.exec(`drop event trigger die`)
				if err == nil {
					t.Logf("fewer than %d statements", n)
					require.NoError(t, s.Close())
					require.Equal(t, want, m.schema())
					return
				}
				require.Equal(t, want, m.migrated(), "died at statement %d", n)
			}
		})
	}
}

// cutter is a network that is cut at the n-th message of the clients: the server gets it or does not, and nobody hears an answer.
type cutter struct {
	url, server string
	at          int64
	delivered   bool
	messages    atomic.Int64
	group       sync.WaitGroup
}

func newCutter(t *testing.T, address string, at int64, delivered bool) *cutter {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cutter{server: u.Host, at: at, delivered: delivered}
	u.Host = listener.Addr().String()
	c.url = u.String()
	c.group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			c.group.Go(func() { c.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		c.group.Wait()
	})
	return c
}

func (c *cutter) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	c.group.Go(func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	})
	from := bufio.NewReader(client)
	for header := 4; ; header = 5 { // the first message has no type
		message, err := readMessage(from, header)
		if err != nil {
			return
		}
		n := c.messages.Add(1)
		if n >= c.at && !c.delivered || n > c.at {
			return
		}
		if n == c.at {
			_ = client.Close()
		}
		if _, err := server.Write(message); err != nil {
			return
		}
	}
}

func readMessage(from io.Reader, header int) ([]byte, error) {
	message := make([]byte, header)
	if _, err := io.ReadFull(from, message); err != nil {
		return nil, err
	}
	message = append(message, make([]byte, binary.BigEndian.Uint32(message[header-4:])-4)...)
	_, err := io.ReadFull(from, message[header:])
	return message, err
}

// The network is cut at every message of a migration, before and after it arrives.
func TestMigrationsOverABadNetwork(t *testing.T) {
	t.Parallel()
	step := int64(1)
	if testing.Short() {
		step = 4
	}
	for _, delivered := range []bool{false, true} {
		t.Run(fmt.Sprint("delivered=", delivered), func(t *testing.T) {
			t.Parallel()
			m := newMeddler(t)
			want := m.migrated()
			for at := int64(1); ; at += step {
				m.reset("")
				c := newCutter(t, m.url, at, delivered)
				s, err := Open(t.Context(), c.url, &Config{MaxConns: 2})
				if err == nil {
					_ = s.Close()
				}
				require.Equal(t, want, m.migrated(), "cut at message %d", at)
				if err == nil && c.messages.Load() < at {
					t.Logf("%d messages", c.messages.Load())
					return
				}
			}
		})
	}
}

// A database that is refused stays as it is.
func TestRefusedSchemasStay(t *testing.T) {
	t.Parallel()
	for name, meddle := range map[string]struct {
		sql  string
		code cairnerr.Code
	}{
		"newer":         {`update cairn.schema_version set version = 99, oldest = 99`, cairnerr.CodeSchemaTooNew},
		"just newer":    {fmt.Sprintf(`update cairn.schema_version set version = %[1]d, oldest = %[1]d`, newestSchema(t)+1), cairnerr.CodeSchemaTooNew},
		"another table": {`drop table cairn.schema_version; create table cairn.schema_version (v text); insert into cairn.schema_version values ('mine')`, cairnerr.CodeSchemaForeign},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMeddler(t)
			m.reset(oldDatabases(t)["v5-7a9e6cf"])
			m.migrated()
			m.exec(meddle.sql)
			before := m.schema()
			for _, readOnly := range []bool{false, true} {
				_, err := Open(t.Context(), m.url, &Config{ReadOnly: readOnly})
				require.Equal(t, meddle.code, code(err), err)
				require.Equal(t, before, m.schema())
			}
		})
	}
}
