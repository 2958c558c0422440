package sim_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/sim"
	"github.com/cairn-workflow/cairn/internal/store"
)

// TestPlantedBugsAreFound puts a bug into the store and looks whether the simulation finds it: one that cannot fail proves nothing.
func TestPlantedBugsAreFound(t *testing.T) {
	t.Parallel()
	bugs := map[string]func(store.Store) store.Store{
		"a commit that was applied is said not to be": func(st store.Store) store.Store {
			return broken{Store: st, settle: func(bool) bool { return false }}
		},
		"a commit that was not applied is said to be": func(st store.Store) store.Store {
			return broken{Store: st, commit: func(n int, tx store.Tx, _ *store.Changes) (bool, error) {
				if n%10 != 9 {
					return false, nil
				}
				tx.Rollback()
				return true, nil
			}}
		},
		"a view is not written": func(st store.Store) store.Store {
			return broken{Store: st, commit: func(_ int, _ store.Tx, changes *store.Changes) (bool, error) {
				for i := range changes.Runs {
					changes.Runs[i].Rows.Waits = nil
				}
				return false, nil
			}}
		},
		"a hook is not remembered as used": func(st store.Store) store.Store {
			return broken{Store: st, commit: func(_ int, _ store.Tx, changes *store.Changes) (bool, error) {
				for i := range changes.Runs {
					for _, h := range changes.Runs[i].Rows.Hooks {
						h.Status = journal.HookOpen
					}
				}
				return false, nil
			}}
		},
	}
	for name, plant := range bugs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most = 60
			for seed := range uint64(most) {
				if _, err := simulate(t, seed+1, sim.Options{Break: plant}); err != nil {
					t.Logf("found with seed %d", seed+1)
					return
				}
			}
			require.Fail(t, "not found", "in %d seeds", most)
		})
	}
}

// broken is a store with a planted bug.
type broken struct {
	store.Store
	settle func(applied bool) bool
	// commit may change what is committed, or say that all is done.
	commit func(n int, tx store.Tx, changes *store.Changes) (done bool, err error)
}

func (b broken) OpenWriter(ctx context.Context, incarnation journal.ID, number int) (store.Writer, error) {
	w, err := b.Store.OpenWriter(ctx, incarnation, number)
	if err != nil {
		return nil, err
	}
	return &brokenWriter{Writer: w, b: b}, nil
}

type brokenWriter struct {
	store.Writer
	b broken
	n int
}

func (w *brokenWriter) Begin(ctx context.Context, now journal.Time) (store.Tx, error) {
	tx, err := w.Writer.Begin(ctx, now)
	if err != nil {
		return nil, err
	}
	return brokenTx{Tx: tx, w: w}, nil
}

func (w *brokenWriter) Settle(ctx context.Context) (bool, error) {
	applied, err := w.Writer.Settle(ctx)
	if w.b.settle != nil && err == nil {
		applied = w.b.settle(applied)
	}
	return applied, err
}

type brokenTx struct {
	store.Tx
	w *brokenWriter
}

func (t brokenTx) Commit(ctx context.Context, changes *store.Changes) error {
	t.w.n++
	if t.w.b.commit != nil {
		if done, err := t.w.b.commit(t.w.n, t.Tx, changes); done || err != nil {
			return err
		}
	}
	return t.Tx.Commit(ctx, changes)
}
