package sqlite_test

import (
	"compress/gzip"
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/store/sqlite"
	"github.com/cairn-workflow/cairn/internal/store/sqlite/vfs/powerloss"
)

// oldDatabases returns the databases of earlier programs, see internal/upgrade, and an empty one.
func oldDatabases(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../upgrade/testdata/*.db.gz")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 7)
	all := map[string][]byte{"empty": nil}
	for _, name := range files {
		file, err := os.Open(name)
		require.NoError(t, err)
		r, err := gzip.NewReader(file)
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		all[strings.TrimSuffix(filepath.Base(name), ".db.gz")] = content
	}
	return all
}

// schemaOf returns all tables and indices, and what is in them.
func schemaOf(ctx context.Context, path string) (string, error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return "", err
	}
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback() }()
	var text strings.Builder
	line := func(row []any) { fmt.Fprintln(&text, row...) }
	if err := eachRow(ctx, tx, `select name, sql from sqlite_schema order by name`, line); err != nil {
		return "", err
	}
	for _, query := range []string{`select * from cairn_schema`, `pragma integrity_check`} {
		if err := eachRow(ctx, tx, query, line); err != nil {
			return "", err
		}
	}
	_ = tx.Rollback()
	state, err := stateOf(ctx, db)
	return text.String() + state, err
}

// A migration is interrupted: the process dies at every write, the power fails at every sync. Who opens the file again ends where
// one does who was not interrupted.
func TestInterruptedMigrations(t *testing.T) {
	t.Parallel()
	below, err := powerloss.Register()
	require.NoError(t, err)
	for name, content := range oldDatabases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "cairn.db")
			if content != nil {
				require.NoError(t, os.WriteFile(path, content, 0o600))
			}
			r, err := powerloss.Record(dir)
			require.NoError(t, err)
			defer r.End()
			s, err := sqlite.OpenOver(t.Context(), path, sqlite.Over{Below: below, Checkpoint: 20})
			require.NoError(t, err)
			require.NoError(t, s.Close())
			want, err := schemaOf(t.Context(), path)
			require.NoError(t, err)
			seed := rand.Uint64()
			t.Logf("seed %d, %d writes, %d syncs", seed, r.Now(), len(r.Syncs()))
			rnd := rand.New(rand.NewPCG(seed, 0))
			synced := map[int]bool{}
			for _, at := range r.Syncs() {
				synced[at], synced[at+1] = true, true
			}
			var moments []int
			for at := range r.Now() + 1 {
				moments = append(moments, at)
			}
			r.Walk(moments, func(moment int, disk *powerloss.Disk) {
				for _, loss := range lossesAt(synced[moment], rnd) {
					require.Equal(t, want, resumed(t, disk, loss, rnd), "moment %d, %s was lost", moment, loss)
				}
			})
		})
	}
}

// lossesAt returns what to lose: nothing, or, at a sync, all there is; in a hurry one of them, now and then.
func lossesAt(sync bool, rnd *rand.Rand) []powerloss.Loss {
	all := powerloss.Losses()
	switch {
	case testing.Short() && rnd.IntN(4) > 0:
		return nil
	case sync && testing.Short():
		return all[rnd.IntN(len(all)):][:1]
	case sync:
		return all
	default:
		return []powerloss.Loss{powerloss.Nothing}
	}
}

// resumed opens what was found, and returns the schema that it then has.
func resumed(t *testing.T, disk *powerloss.Disk, loss powerloss.Loss, rnd *rand.Rand) string {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	require.NoError(t, err)
	require.NoError(t, disk.Find(dir, loss, rnd))
	path := filepath.Join(dir, "cairn.db")
	s, err := sqlite.Open(t.Context(), path, nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	got, err := schemaOf(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	return got
}
