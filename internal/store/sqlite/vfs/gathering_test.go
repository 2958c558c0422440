package vfs_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/cairn-workflow/cairn/internal/store/sqlite/vfs"
)

func open(t *testing.T, path, vfs, synchronous string) *sql.DB {
	t.Helper()
	dsn := "file:" + path + "?_pragma=synchronous(" + synchronous + ")&_pragma=cache_size(10)&_pragma=wal_autocheckpoint(200)&_journal_mode=wal"
	if vfs != "" {
		dsn += "&vfs=" + vfs
	}
	db, err := sql.Open("sqlite", dsn)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func contents(t *testing.T, db *sql.DB) map[int]int {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `select id, length(body) from x`)
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	all := map[int]int{}
	for rows.Next() {
		var id, n int
		require.NoError(t, rows.Scan(&id, &n))
		all[id] = n
	}
	require.NoError(t, rows.Err())
	return all
}

func requireSound(t *testing.T, db *sql.DB) {
	t.Helper()
	var sound string
	require.NoError(t, db.QueryRowContext(t.Context(), `pragma integrity_check`).Scan(&sound))
	require.Equal(t, "ok", sound)
}

// change is one row's new size, 0: it goes.
type change struct{ id, size int }

func apply(t *testing.T, tx *sql.Tx, changes []change) {
	t.Helper()
	for _, c := range changes {
		if c.size == 0 {
			_, err := tx.ExecContext(t.Context(), `delete from x where id = ?`, c.id)
			require.NoError(t, err)
			continue
		}
		_, err := tx.ExecContext(t.Context(), `insert or replace into x values (?, zeroblob(?))`, c.id, c.size)
		require.NoError(t, err)
	}
}

// Transactions of every size, many larger than the cache and than what is gathered, are seen by other connections when they are committed, not before,
// and by other file systems; and what is taken back never is.
func TestOthersSeeWhatIsCommitted(t *testing.T) {
	t.Parallel()
	for _, synchronous := range []string{"full", "normal", "off"} {
		t.Run(synchronous, func(t *testing.T) {
			t.Parallel()
			othersSeeWhatIsCommitted(t, synchronous)
		})
	}
}

func othersSeeWhatIsCommitted(t *testing.T, synchronous string) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	name, err := vfs.Gathering("")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "x.db")
	writer := open(t, path, name, synchronous)
	_, err = writer.ExecContext(t.Context(), `create table x (id integer primary key, body blob)`)
	require.NoError(t, err)
	readers := []*sql.DB{open(t, path, name, synchronous), open(t, path, "", synchronous)}
	model := map[int]int{}
	for round := range 150 {
		changes := make([]change, 1+rnd.IntN(20))
		for i := range changes {
			changes[i] = change{id: rnd.IntN(30), size: rnd.IntN(2) * (1 + rnd.IntN(1<<(1+rnd.IntN(17))))}
		}
		tx, err := writer.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		apply(t, tx, changes)
		for i, r := range readers {
			require.Equal(t, model, contents(t, r), "reader %d before the end of round %d", i, round)
		}
		if rnd.IntN(4) == 0 {
			require.NoError(t, tx.Rollback())
		} else {
			require.NoError(t, tx.Commit())
			for _, c := range changes {
				if model[c.id] = c.size; c.size == 0 {
					delete(model, c.id)
				}
			}
		}
		for i, r := range readers {
			require.Equal(t, model, contents(t, r), "reader %d after round %d", i, round)
		}
	}
	requireSound(t, readers[1])
}

// TestRoom lets connections with and without room of their own write to one log in turns. The log is longer than it needs to be, grows seldom, and has what each has written;
// opened after it was left as a process leaves it that is killed, it is whole.
func TestRoom(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	name, err := vfs.Gathering("")
	require.NoError(t, err)
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	writers := []*sql.DB{open(t, path, name, "full"), open(t, path, name, "full"), open(t, path, "", "full")}
	_, err = writers[0].ExecContext(t.Context(), `create table x (id integer primary key, body blob)`)
	require.NoError(t, err)
	long := func() int64 {
		info, err := os.Stat(path + "-wal")
		require.NoError(t, err)
		return info.Size()
	}
	grown, last := 0, int64(0)
	for i := range 400 {
		w := writers[0]
		if i >= 100 { // before, one alone writes
			w = writers[rnd.IntN(len(writers))]
		}
		_, err := w.ExecContext(t.Context(), `insert into x values (?, zeroblob(?))`, i, 1+rnd.IntN(2000))
		require.NoError(t, err)
		if now := long(); now > last {
			last = now
			if i < 100 {
				grown++
			}
		}
	}
	require.Less(t, grown, 10, "a commit seldom makes the log longer")
	require.Positive(t, grown)

	left := filepath.Join(dir, "left.db")
	for _, end := range []string{"", "-wal"} { // without its index, which is made of the log then
		content, err := os.ReadFile(path + end)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(left+end, content, 0o600))
	}
	for _, vfs := range []string{name, ""} {
		db := open(t, left, vfs, "full")
		require.Len(t, contents(t, db), 400)
		requireSound(t, db)
	}
}

// TestWhatIsTakenBackIsForgotten rolls transactions back that were larger than the cache, so that some of their pages were on the way to the log. What another connection then commits comes to
// the same place, and stays.
func TestWhatIsTakenBackIsForgotten(t *testing.T) {
	t.Parallel()
	name, err := vfs.Gathering("")
	require.NoError(t, err)
	for _, checkpoint := range []string{"passive", "truncate"} {
		for pages := 4; pages < 60; pages += 20 {
			t.Run(fmt.Sprint(checkpoint, pages), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "x.db")
				one, two := open(t, path, name, "full"), open(t, path, "", "full")
				exec := func(db *sql.DB, query string, args ...any) {
					_, err := db.ExecContext(t.Context(), query, args...)
					require.NoError(t, err)
				}
				exec(one, `create table x (id integer primary key, body blob)`)
				exec(one, `pragma cache_size = 1`)
				exec(one, `insert into x values (1, zeroblob(10))`)
				exec(one, `pragma wal_checkpoint(`+checkpoint+`)`)
				exec(one, `begin immediate`)
				for i := range pages {
					exec(one, `insert into x values (?, randomblob(3500))`, i+10)
				}
				exec(one, `rollback`)
				for i := range 80 {
					exec(two, `insert into x values (?, randomblob(3500))`, i+1000)
				}
				require.Len(t, contents(t, one), 81) // it reads the log
				fresh := open(t, path, "", "full")
				require.Len(t, contents(t, fresh), 81)
				requireSound(t, fresh)
			})
		}
	}
}

func TestGatheringIsRegisteredOnce(t *testing.T) {
	t.Parallel()
	first, err := vfs.Gathering("")
	require.NoError(t, err)
	second, err := vfs.Gathering("")
	require.NoError(t, err)
	require.Equal(t, first, second)
	over, err := vfs.Gathering(first)
	require.NoError(t, err)
	require.Equal(t, first, over, "once is enough")
	_, err = vfs.Gathering("no such file system")
	require.ErrorContains(t, err, "there is none below it")
	require.NotPanics(t, func() { _, _ = vfs.Gathering(fmt.Sprintf("a%cb", 0)) })
}
