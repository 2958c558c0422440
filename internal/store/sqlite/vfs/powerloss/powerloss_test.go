package powerloss_test

import (
	"database/sql"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/cairn-workflow/cairn/internal/store/sqlite/vfs/powerloss"
)

// found returns the files after a loss.
func found(t *testing.T, d *powerloss.Disk, loss powerloss.Loss) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, d.Find(dir, loss, rand.New(rand.NewPCG(1, 2))))
	return files(t, dir)
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	all := map[string][]byte{}
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".db-shm" {
			all[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name()))
			require.NoError(t, err)
		}
	}
	return all
}

// The record is what happened: without a loss, the files are found as they are.
func TestTheRecordIsWhole(t *testing.T) {
	t.Parallel()
	name, err := powerloss.Register()
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "before.txt"), []byte("here"), 0o600))
	r, err := powerloss.Record(dir)
	require.NoError(t, err)
	db, err := sql.Open("sqlite", filepath.Join(dir, "x.db")+"?_journal_mode=wal&_pragma=synchronous(full)&vfs="+name)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	for _, statement := range []string{
		`create table x (body blob)`, `insert into x values (zeroblob(100000))`, `pragma wal_checkpoint(restart)`,
		`delete from x`, `insert into x values (randomblob(5000))`, `vacuum`, `pragma wal_checkpoint(truncate)`, `insert into x values (randomblob(70000))`,
	} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	open := r.Now()
	now := files(t, dir)
	require.Contains(t, now, "x.db-wal")
	require.NoError(t, db.Close())
	r.End()
	r.Walk([]int{0, open, r.Now()}, func(position int, d *powerloss.Disk) {
		switch position {
		case 0:
			require.Equal(t, map[string][]byte{"before.txt": []byte("here")}, found(t, d, powerloss.Unsynced))
		case open:
			require.Equal(t, now, found(t, d, powerloss.Nothing))
			require.Equal(t, now, found(t, d, powerloss.Unsynced), "all was committed")
		default:
			require.Equal(t, files(t, dir), found(t, d, powerloss.Nothing))
			require.Contains(t, found(t, d, powerloss.Unsynced), "x.db-wal", "its deletion was not synced")
		}
	})
}
