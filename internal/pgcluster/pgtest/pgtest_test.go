package pgtest

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/pgcluster"
)

func TestMain(m *testing.M) { Main(m) }

func TestURLIsFreshAndDropped(t *testing.T) {
	t.Parallel()
	var kept string
	t.Run("inner", func(t *testing.T) { // not parallel: the outer test looks at what it leaves
		first, second := URL(t), URL(t)
		require.NotEqual(t, first, second)
		conn, err := pgx.Connect(t.Context(), first)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "CREATE TABLE mine (id int)")
		require.NoError(t, err)

		other, err := pgx.Connect(t.Context(), second)
		require.NoError(t, err)
		var seen bool
		require.NoError(t, other.QueryRow(t.Context(), "SELECT to_regclass('mine') IS NOT NULL").Scan(&seen))
		require.False(t, seen)
		kept = first // both connections stay open: the drop must not wait for them
	})
	if kept == "" {
		t.Skip("the inner test was skipped")
	}
	_, err := pgx.Connect(t.Context(), kept)
	require.ErrorContains(t, err, "does not exist")
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	address, err := withDatabase("postgres://me:secret@db.example:5433/old?sslmode=disable", "new")
	require.NoError(t, err)
	require.Equal(t, "postgres://me:secret@db.example:5433/new?sslmode=disable", address)
	_, err = withDatabase("host=db.example user=me", "new")
	require.ErrorContains(t, err, URLVariable)
}

func TestLazyStopWithoutStart(t *testing.T) {
	t.Parallel()
	unused := lazy{start: func() (*pgcluster.Cluster, error) {
		require.Fail(t, "started at the end of its life")
		return nil, nil
	}}
	require.NoError(t, unused.stop())
	cluster, err := unused.get()
	require.NoError(t, err)
	require.Nil(t, cluster)
}
