package sqlite_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"hash"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/store/sqlite"
	"github.com/cairn-workflow/cairn/internal/store/sqlite/vfs/powerloss"
	"github.com/cairn-workflow/cairn/internal/store/storetest"
)

// recorded is a workload that was executed on a recorded directory.
type recorded struct {
	*powerloss.Recording
	ledger storetest.Ledger
	worked int      // the moment in which all was done
	states []string // of the database after each transaction; none if others cannot read it
}

// record executes a workload over a log that is copied often, and a cache so small that large batches spill into the log early.
func record(t *testing.T, seed uint64, rounds int, start func(dir string) (*powerloss.Recording, error), pragmas ...string) *recorded {
	t.Helper()
	below, err := powerloss.Register()
	require.NoError(t, err)
	dir := t.TempDir()
	r := &recorded{}
	r.Recording, err = start(dir)
	require.NoError(t, err)
	defer r.End()
	r.ledger.Moment = r.Now
	path := filepath.Join(dir, "cairn.db")
	s, err := sqlite.OpenOver(t.Context(), path, sqlite.Over{Below: below, Checkpoint: 60, Pragmas: append(pragmas, "cache_size(5)")})
	require.NoError(t, err)
	work := storetest.Work{Ledger: &r.ledger, Seed: seed, Rounds: rounds}
	if len(pragmas) == 0 {
		look, err := sql.Open("sqlite", path+"?vfs="+below)
		require.NoError(t, err)
		defer func() { require.NoError(t, look.Close()) }()
		look.SetMaxOpenConns(1)
		work.Committed = func() {
			text, err := stateOf(context.Background(), look)
			require.NoError(t, err)
			r.states = append(r.states, text)
		}
		work.Committed()
		work.Enough = r.logBeganAnew
	}
	require.NoError(t, work.Run(t.Context(), s))
	r.worked = r.Now()
	require.NoError(t, s.Close())
	return r
}

// logBeganAnew says whether the log was copied into the database and written from its beginning again, twice.
func (r *recorded) logBeganAnew() bool {
	return r.Begun("cairn.db-wal") > 2
}

// stateOf is the content of all tables but that of the writers, some of whose changes are no batches.
func stateOf(ctx context.Context, db *sql.DB) (string, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback() }()
	var tables []string
	if err := eachRow(ctx, tx, `select name from sqlite_schema where type = 'table' and name not in ('cairn_writers') order by name`, func(row []any) {
		tables = append(tables, fmt.Sprint(row[0]))
	}); err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, table := range tables {
		if err := eachRow(ctx, tx, `select * from `+table, func(row []any) { add(sum, table, row) }); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

func add(sum hash.Hash, table string, row []any) {
	sum.Write([]byte(table))
	for _, v := range row {
		if b, ok := v.([]byte); ok {
			fmt.Fprintf(sum, " %d bytes:", len(b))
			sum.Write(b)
			continue
		}
		fmt.Fprintf(sum, " %v", v)
	}
}

func eachRow(ctx context.Context, tx *sql.Tx, query string, f func(row []any)) error {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	row, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range row {
		into[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		f(row)
	}
	return rows.Err()
}

// audit opens what was found after a loss of power in a moment, and says what is wrong with it.
func (r *recorded) audit(ctx context.Context, dir string, moment int) (err error) {
	path := filepath.Join(dir, "cairn.db")
	s, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	var sound string
	if err := db.QueryRowContext(ctx, `pragma integrity_check`).Scan(&sound); err != nil || sound != "ok" {
		return fmt.Errorf("integrity: %s %w", sound, err)
	}
	if err := r.ledger.Audit(ctx, s, moment); err != nil {
		return err
	}
	state, err := stateOf(ctx, db)
	if err != nil {
		return err
	}
	if !slices.Contains(r.states, state) {
		return fmt.Errorf("the database is as it was after none of the %d transactions", len(r.states)-1)
	}
	more := storetest.Work{Ledger: &storetest.Ledger{}, Seed: uint64(moment), Rounds: 2, Largest: 4 << 10}
	if err := more.Run(ctx, s); err != nil {
		return fmt.Errorf("it does not go on: %w", err)
	}
	return nil
}

// failures loses power in each of the moments, in each of the ways or in one of them, and returns what was wrong.
func (r *recorded) failures(t *testing.T, moments []int, rnd *rand.Rand, one bool, losses ...powerloss.Loss) (failed []error) {
	t.Helper()
	r.Walk(moments, func(moment int, disk *powerloss.Disk) {
		now := losses
		if one {
			now = losses[rnd.IntN(len(losses)):][:1]
		}
		for _, loss := range now {
			dir, err := os.MkdirTemp(t.TempDir(), "")
			require.NoError(t, err)
			require.NoError(t, disk.Find(dir, loss, rnd))
			if err := r.audit(t.Context(), dir, moment); err != nil {
				failed = append(failed, fmt.Errorf("moment %d, %s was lost: %w", moment, loss, err))
			}
			require.NoError(t, os.RemoveAll(dir))
		}
	})
	return failed
}

// aroundSyncs returns the moments before and after each sync, every n-th of them, and the end.
func (r *recorded) aroundSyncs(n int) []int {
	moments := []int{r.worked}
	for i, at := range r.Syncs() {
		if i%n == 0 {
			moments = append(moments, at, at+1)
		}
	}
	slices.Sort(moments)
	return slices.Compact(moments)
}

// The power fails at every sync of a workload, before it takes effect and after: what was acknowledged is there.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	seeds, rounds, every, few := 2, 25, 1, false
	switch {
	case os.Getenv("CAIRN_VERIFY") != "":
		seeds, rounds = 8, 60
	case testing.Short():
		seeds, rounds, every, few = 1, 15, 4, true
	}
	for range seeds {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := record(t, seed, rounds, powerloss.Record)
			rnd := rand.New(rand.NewPCG(seed, 2))
			moments := r.aroundSyncs(every)
			t.Logf("%d transactions, %d syncs, %d moments of %d", len(r.states)-1, len(r.Syncs()), len(moments), r.Now())
			require.Empty(t, r.failures(t, moments, rnd, few, powerloss.Losses()...))
		})
	}
}

// Disks and settings that lie about syncs are found.
func TestPowerLossIsFound(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		start   func(string) (*powerloss.Recording, error)
		pragmas []string
	}{
		{"LyingDisk", powerloss.RecordLyingDisk, nil},
		{"SynchronousNormal", powerloss.Record, []string{"synchronous(normal)"}},
		{"SynchronousOff", powerloss.Record, []string{"synchronous(off)"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := record(t, 1, 6, test.start, test.pragmas...)
			failed := r.failures(t, []int{r.worked}, rand.New(rand.NewPCG(1, 2)), false, powerloss.Unsynced)
			require.Len(t, failed, 1)
			require.ErrorContains(t, failed[0], "is lost")
		})
	}
}
