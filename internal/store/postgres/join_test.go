package postgres

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/store"
)

const joinNamespace = "join"

// joinable is a store with a writer.
func joinable(t *testing.T, cfg *Config) (*Store, *journal.Minter) {
	t.Helper()
	s, err := Open(t.Context(), pgtest.URL(t), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	ids := journal.NewMinter(rand.Reader)
	w, err := s.OpenWriter(t.Context(), mintNow(t, ids), 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return s, ids
}

func mintNow(t *testing.T, ids *journal.Minter) journal.ID {
	t.Helper()
	id, err := ids.Mint(journal.TimeOf(time.Now()))
	require.NoError(t, err)
	return id
}

func joinIn(t *testing.T, s *Store, ids *journal.Minter, tx store.UserTx, key string) (*journal.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	id := mintNow(t, ids)
	created := &journal.RunCreated{Workflow: "w", StartKey: key, Attributes: map[string]string{"a": "b"}}
	cmd := &journal.Command{Namespace: joinNamespace, Run: id, Events: []journal.Event{{Data: created}}}
	return commit.Join(ctx, s, tx, cmd, journal.Env{Now: id.Time()})
}

func beginWith(t *testing.T, s *Store, o pgx.TxOptions) pgx.Tx {
	t.Helper()
	tx, err := connect(t, s).BeginTx(t.Context(), o)
	require.NoError(t, err)
	return tx
}

func requireJoinCode(t *testing.T, code cairnerr.Code, err error) {
	t.Helper()
	require.Equal(t, code, cairnerr.CodeOf(err), "%v", err)
}

// The user's connection may send statements in any way; poolers need some of them.
func TestJoinInEachMode(t *testing.T) {
	t.Parallel()
	s, ids := joinable(t, &Config{Schema: "another"})
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		conf, err := pgx.ParseConfig(s.conn.ConnString())
		require.NoError(t, err)
		conf.DefaultQueryExecMode = mode
		conn, err := pgx.ConnectConfig(t.Context(), conf)
		require.NoError(t, err)
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		first, err := joinIn(t, s, ids, InTx(tx), mode.String())
		require.NoError(t, err, mode)
		again, err := joinIn(t, s, ids, InTx(tx), mode.String())
		require.NoError(t, err, mode)
		require.Equal(t, first.Run.ID, again.Run.ID)
		require.NoError(t, tx.Commit(t.Context()))
		run, err := s.Run(t.Context(), joinNamespace, first.Run.ID, store.ResolveAll)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "b"}, run.Attributes)
		require.NoError(t, conn.Close(t.Context()))
	}
}

func TestJoinMisused(t *testing.T) {
	t.Parallel()
	s, ids := joinable(t, nil)

	readOnly := beginWith(t, s, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	_, err := joinIn(t, s, ids, InTx(readOnly), "")
	requireJoinCode(t, cairnerr.CodeReadOnly, err)
	require.NoError(t, readOnly.Commit(t.Context()), "it was left as it was")

	failed := beginWith(t, s, pgx.TxOptions{})
	_, err = failed.Exec(t.Context(), `select 1 / 0`)
	require.Error(t, err)
	_, err = joinIn(t, s, ids, InTx(failed), "")
	requireJoinCode(t, cairnerr.CodeTxOver, err)

	inUse := beginWith(t, s, pgx.TxOptions{})
	rows, err := inUse.Query(t.Context(), `select generate_series(1, 1000)`)
	require.NoError(t, err)
	_, err = joinIn(t, s, ids, InTx(inUse), "")
	requireJoinCode(t, cairnerr.CodeUnsupported, err)
	rows.Close()
	require.NoError(t, rows.Err())
	_, err = joinIn(t, s, ids, InTx(inUse), "")
	require.NoError(t, err)

	lost := connect(t, s)
	tx, err := lost.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, lost.Close(t.Context()))
	_, err = joinIn(t, s, ids, InTx(tx), "")
	requireJoinCode(t, cairnerr.CodeUnreachable, err)

	reader, err := Open(t.Context(), s.conn.ConnString(), &Config{ReadOnly: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = reader.Close() })
	_, err = joinIn(t, reader, ids, InTx(beginWith(t, s, pgx.TxOptions{})), "")
	requireJoinCode(t, cairnerr.CodeReadOnly, err)
}

// The rights that docs/transactions.md names are enough.
func TestJoinNeedsRights(t *testing.T) {
	t.Parallel()
	s, ids := joinable(t, nil)
	role := pgx.Identifier{"guest_" + rand.Text()}.Sanitize()
	_, err := s.pool.Exec(t.Context(), `create role `+role)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, _ = s.pool.Exec(context.Background(), `drop owned by `+role+`; drop role `+role, pgx.QueryExecModeSimpleProtocol)
	})
	for _, granted := range []bool{false, true} {
		if granted {
			for _, right := range []string{
				`usage on schema cairn`, `usage on sequence cairn.runs_no`, `select on cairn.writers`, `select, insert on cairn.runs, cairn.events, cairn.attributes`,
			} {
				_, err := s.pool.Exec(t.Context(), `grant `+right+` to `+role)
				require.NoError(t, err)
			}
		}
		tx := beginWith(t, s, pgx.TxOptions{})
		_, err := tx.Exec(t.Context(), `set local role `+role)
		require.NoError(t, err)
		_, err = joinIn(t, s, ids, InTx(tx), "k")
		if granted {
			require.NoError(t, err)
			require.NoError(t, tx.Commit(t.Context()))
			continue
		}
		requireJoinCode(t, cairnerr.CodeReadOnly, err)
		require.NoError(t, tx.Rollback(t.Context()))
	}
}

// A transaction that waits for another one with the same key is not broken by what that does, unless it reads from one moment or does not want to wait.
func TestJoinMeetsAnother(t *testing.T) {
	t.Parallel()
	s, ids := joinable(t, nil)
	holder := beginWith(t, s, pgx.TxOptions{})
	first, err := joinIn(t, s, ids, InTx(holder), "k")
	require.NoError(t, err)

	hasty := beginWith(t, s, pgx.TxOptions{})
	_, err = hasty.Exec(t.Context(), `set local lock_timeout = '20ms'`)
	require.NoError(t, err)
	_, err = joinIn(t, s, ids, InTx(hasty), "k")
	requireJoinCode(t, cairnerr.CodeTxConflict, err)
	require.True(t, cairnerr.AsError(err).Retryable)

	snapshot := beginWith(t, s, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	_, err = snapshot.Exec(t.Context(), `select 1`)
	require.NoError(t, err)
	waiting := beginWith(t, s, pgx.TxOptions{})
	answer := make(chan error, 1)
	go func() {
		res, err := commit.Join(t.Context(), s, InTx(waiting), &journal.Command{
			Namespace: joinNamespace, Run: first.Run.ID.At(first.Run.ID.Time() + 1),
			Events: []journal.Event{{Data: &journal.RunCreated{Workflow: "w", StartKey: "k"}}},
		}, journal.Env{Now: first.Run.ID.Time()})
		if err == nil && res.Run.ID != first.Run.ID {
			err = cairnerr.Errorf(cairnerr.CodeInternal, "another run")
		}
		answer <- err
	}()
	select {
	case err := <-answer:
		require.Fail(t, "it did not wait", "%v", err)
	case <-time.After(100 * time.Millisecond):
	}
	require.NoError(t, holder.Commit(t.Context()))
	require.NoError(t, <-answer)
	require.NoError(t, waiting.Commit(t.Context()))
	_, err = joinIn(t, s, ids, InTx(snapshot), "k")
	requireJoinCode(t, cairnerr.CodeTxConflict, err)
}

// A workflow that is used for the first time in a transaction which stays open can be used by others.
func TestJoinKeepsNoNames(t *testing.T) {
	t.Parallel()
	s, ids := joinable(t, nil)
	open := beginWith(t, s, pgx.TxOptions{})
	_, err := joinIn(t, s, ids, InTx(open), "one")
	require.NoError(t, err)
	other, err := Open(t.Context(), s.conn.ConnString(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Close() })
	w, err := other.OpenWriter(t.Context(), mintNow(t, ids), 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	second := beginWith(t, s, pgx.TxOptions{})
	_, err = joinIn(t, other, ids, InTx(second), "two")
	require.NoError(t, err)
	require.NoError(t, second.Commit(t.Context()))
	require.NoError(t, open.Rollback(t.Context()))
}
