package sqlite

import (
	"crypto/rand"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// solo is a writer and what it writes: new runs, one a batch.
type solo struct {
	*testing.T
	st  *Store
	w   *Writer
	ids *journal.Minter
	now journal.Time
}

func newSolo(t *testing.T) *solo {
	t.Helper()
	st, err := Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	s := &solo{T: t, st: st, ids: journal.NewMinter(rand.Reader), now: 1_000_000}
	w, err := st.OpenWriter(t.Context(), s.id(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	s.w = w.(*Writer)
	return s
}

func (s *solo) id() journal.ID {
	s.Helper()
	id, err := s.ids.Mint(s.now)
	require.NoError(s, err)
	return id
}

func (s *solo) change() *store.Changes {
	s.Helper()
	state := journal.NewState("test")
	cmd := &journal.Command{Namespace: "test", Run: s.id(), Events: []journal.Event{{Data: &journal.RunCreated{Workflow: "w"}}}}
	res, err := state.Reduce(cmd, journal.Env{Now: s.now, Self: s.w.incarnation}, journal.NewOutside())
	require.NoError(s, err)
	return &store.Changes{Runs: []store.RunChange{{State: state, New: true, Events: res.Appended, Rows: state.Changed()}}}
}

func (s *solo) commit() error {
	s.Helper()
	tx, err := s.w.Begin(s.Context(), s.now)
	require.NoError(s, err)
	return tx.Commit(s.Context(), s.change())
}

// moves returns how often the writer's row was moved on while f ran.
func (s *solo) moves(f func()) int64 {
	s.Helper()
	peers := func() int64 {
		all, err := s.st.Peers(s.Context())
		require.NoError(s, err)
		for _, p := range all {
			if p.Incarnation == s.w.incarnation {
				return p.Batch
			}
		}
		return 0
	}
	before := peers()
	f()
	return peers() - before
}

// The writer's row is moved on only if somebody else has written, or for a sign of life now and then.
func TestTheRowOfAWriterRests(t *testing.T) {
	t.Parallel()
	s := newSolo(t)
	require.NoError(t, s.commit())
	require.NoError(t, s.commit())
	several := func() {
		for range 5 {
			require.NoError(t, s.commit())
		}
	}
	require.EqualValues(t, 0, s.moves(several))
	require.NoError(t, s.st.Beat(t.Context(), s.w.incarnation))
	require.EqualValues(t, 1, s.moves(several), "somebody has written")
	s.now += moveEvery
	require.EqualValues(t, 1, s.moves(several), "it lives")
	tx, err := s.w.Begin(t.Context(), s.now)
	require.NoError(t, err)
	require.EqualValues(t, 1, s.moves(func() { require.NoError(t, tx.Commit(t.Context(), &store.Changes{})) }), "nothing else would prove the batch")
	require.EqualValues(t, 0, s.moves(several))
}

// A fence holds also for a writer whose row rests.
func TestAFencedWriterWhoseRowRests(t *testing.T) {
	t.Parallel()
	s := newSolo(t)
	for range 3 {
		require.NoError(t, s.commit())
	}
	other, err := Open(t.Context(), s.st.path, nil)
	require.NoError(t, err)
	defer func() { _ = other.Close() }()
	require.NoError(t, other.Fence(t.Context(), s.w.incarnation))
	require.Equal(t, cairnerr.CodeFenced, cairnerr.CodeOf(s.commit()))
	require.Equal(t, cairnerr.CodeFenced, cairnerr.CodeOf(s.commit()))
}

// Whether a batch was applied is known also if the writer's row rested.
func TestABatchIsSettledByItsEvents(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{true, false} {
		s := newSolo(t)
		for range 3 {
			require.NoError(t, s.commit())
		}
		doubtful, err := s.w.Begin(t.Context(), s.now)
		require.NoError(t, err)
		batch := doubtful.(*tx)
		require.NoError(t, batch.begin(t.Context(), true))
		require.False(t, batch.moved)
		_, _, err = batch.write(s.change())
		require.NoError(t, err)
		if applied {
			require.NoError(t, batch.commit(t.Context()))
		} else {
			batch.Rollback()
		}
		s.w.doubt = true
		got, err := s.w.Settle(t.Context())
		require.NoError(t, err)
		require.Equal(t, applied, got)
		require.NoError(t, s.commit())
		require.NoError(t, s.commit())
	}
}
