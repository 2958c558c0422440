package enginesim_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/sim/enginesim"
	"github.com/cairn-workflow/cairn/store"
)

// TestPlantedBugsAreFound puts a bug between the engines and their database, and looks whether the simulation finds it within so many seeds: one that cannot
// fail proves nothing.
func TestPlantedBugsAreFound(t *testing.T) { //nolint:paralleltest // there is one processor, and bubbles do not share it well
	breaks := func(b broken) enginesim.Options {
		return enginesim.Options{Break: func(st store.Store) store.Store {
			b := b
			b.Store = st
			return &b
		}}
	}
	for _, bug := range []struct { //nolint:paralleltest // see above
		name        string
		after, most uint64 // seeds
		enginesim.Options
	}{
		{"the dead may write", 15, 40, breaks(broken{immortal: true})},
		{"the dead may write, in an old epoch", 15, 40, breaks(broken{immortal: true, load: forgetClaims, commit: inOldEpoch})},
		{"a run that its owner left is not freed", 0, 10, breaks(broken{fence: func(context.Context, journal.ID) error { return nil }})},
		{"a wake-up is lost", 0, 20, breaks(broken{commit: func(w *brokenWriter, c *store.Changes) { c.Wake = everyFifth(w, c.Wake) }})},
		{"a commit that was applied is said not to be", 0, 20, breaks(broken{settle: func(*brokenWriter, bool) bool { return false }})},
		{"a completion is applied twice", 0, 20, breaks(broken{settle: unlessCompleted, load: forgetSteps})},
		{"what was received is forgotten, and taken again", 0, 20, breaks(broken{load: forgetReceipts, commit: withoutReceipts})},
		{"a view is not written", 0, 10, breaks(broken{commit: withoutWaits})},
		{"a step that is done is forgotten by who executes the run again", 0, 20, breaks(broken{load: hideOutcomes})},
		{"a pause is acknowledged and not written", 0, 60, breaks(broken{commit: withoutPauses})},
		{"an event is left out", 0, 10, breaks(broken{commit: withoutAnEvent})},
		{"a chunk of a stream is not written", 0, 20, breaks(broken{commit: withoutAChunk})},
		{"what was acknowledged was not synced", 0, 40, enginesim.Options{Unsynced: true}},
	} {
		t.Run(bug.name, func(t *testing.T) {
			for n := range bug.most {
				seed := bug.after + n + 1
				if err := simulate(t, enginesim.NewPlan(seed), bug.Options).Err(); err != nil {
					t.Logf("found with seed %d: %.200v", seed, err)
					return
				}
			}
			require.Fail(t, "not found", "in %d seeds", bug.most)
		})
	}
}

// broken is a store with a planted bug.
type broken struct {
	store.Store
	immortal bool // writers write under another name than the one that is declared dead
	fence    func(context.Context, journal.ID) error
	settle   func(w *brokenWriter, applied bool) bool
	load     func(*brokenWriter, *store.LoadSet, *store.Loaded)
	commit   func(*brokenWriter, *store.Changes)
}

func (b *broken) Fence(ctx context.Context, incarnation journal.ID) error {
	if b.fence != nil {
		return b.fence(ctx, incarnation)
	}
	return b.Store.Fence(ctx, incarnation)
}

func (b *broken) OpenWriter(ctx context.Context, incarnation journal.ID, number int) (store.Writer, error) {
	w, err := b.Store.OpenWriter(ctx, incarnation, number)
	if err == nil && b.immortal {
		if err = w.Close(); err == nil {
			w, err = b.Store.OpenWriter(ctx, journal.DeriveID(incarnation, journal.PrefixIncarnation, "immortal"), number)
		}
	}
	if err != nil {
		return nil, err
	}
	return &brokenWriter{Writer: w, b: b, incarnation: incarnation, owned: map[journal.ID]int64{}, real: map[journal.ID]*journal.Run{}}, nil
}

type brokenWriter struct {
	store.Writer
	b           *broken
	incarnation journal.ID
	commits     int
	completes   bool // the last commit has an outcome of a step

	mu    sync.Mutex
	owned map[journal.ID]int64 // the epochs in which the writer owned runs
	real  map[journal.ID]*journal.Run
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
		applied = w.b.settle(w, applied)
	}
	return applied, err
}

type brokenTx struct {
	store.Tx
	w *brokenWriter
}

func (t brokenTx) Load(ctx context.Context, want *store.LoadSet) (*store.Loaded, error) {
	loaded, err := t.Tx.Load(ctx, want)
	if err == nil && t.w.b.load != nil {
		t.w.mu.Lock()
		defer t.w.mu.Unlock()
		t.w.b.load(t.w, want, loaded)
	}
	return loaded, err
}

func (t brokenTx) Commit(ctx context.Context, changes *store.Changes) error {
	t.w.mu.Lock()
	t.w.commits++
	t.w.completes = completes(changes)
	if t.w.b.commit != nil {
		t.w.b.commit(t.w, changes)
	}
	t.w.mu.Unlock()
	return t.Tx.Commit(ctx, changes)
}

func everyFifth(w *brokenWriter, wake []store.RunKey) []store.RunKey {
	if w.commits%5 == 0 {
		return nil
	}
	return wake
}

// unlessCompleted says that outcomes of steps were not applied.
func unlessCompleted(w *brokenWriter, applied bool) bool { return applied && !w.completes }

func completes(changes *store.Changes) bool {
	for i := range changes.Runs {
		for k := range changes.Runs[i].Events {
			if changes.Runs[i].Events[k].Type == journal.EventStepCompleted {
				return true
			}
		}
	}
	return false
}

// forgetClaims says that a run still belongs to who owned it before.
func forgetClaims(w *brokenWriter, _ *store.LoadSet, loaded *store.Loaded) {
	for i := range loaded.Runs {
		s := loaded.Runs[i].State
		if s == nil || s.Run == nil {
			continue
		}
		delete(w.real, s.Run.ID)
		if epoch, was := w.owned[s.Run.ID]; was && s.Run.Owner != w.incarnation && !s.Run.Owner.IsZero() {
			w.real[s.Run.ID] = s.Run
			mine := *s.Run
			mine.Owner, mine.Epoch = w.incarnation, epoch
			s.Run = &mine
		}
	}
}

// inOldEpoch writes what was not checked.
func inOldEpoch(w *brokenWriter, changes *store.Changes) {
	for i := range changes.Runs {
		c := &changes.Runs[i]
		if run := c.State.Run; run.Owner == w.incarnation {
			w.owned[run.ID] = run.Epoch
		}
		if real := w.real[c.State.Run.ID]; real != nil {
			c.Was = real
		}
	}
}

func forgetSteps(_ *brokenWriter, _ *store.LoadSet, loaded *store.Loaded) {
	for i := range loaded.Runs {
		if s := loaded.Runs[i].State; s != nil && s.Run != nil {
			*s = *withoutSteps(s)
		}
	}
}

// withoutSteps returns a state that knows of no step, not of those without a row either.
func withoutSteps(s *journal.State) *journal.State {
	next := journal.LoadedState(s.Namespace, s.Run, s.Seq, s.Ref)
	next.Complete, next.Hooks, next.Waits, next.Receipts, next.AttrSets, next.HooksMade = s.Complete, s.Hooks, s.Waits, s.Receipts, s.AttrSets, s.HooksMade
	return next
}

func forgetReceipts(_ *brokenWriter, _ *store.LoadSet, loaded *store.Loaded) {
	for i := range loaded.Runs {
		if s := loaded.Runs[i].State; s != nil {
			s.Receipts = nil
		}
	}
}

func withoutReceipts(_ *brokenWriter, changes *store.Changes) {
	for i := range changes.Runs {
		changes.Runs[i].Rows.Receipts = nil
	}
}

func withoutWaits(_ *brokenWriter, changes *store.Changes) {
	for i := range changes.Runs {
		changes.Runs[i].Rows.Waits = nil
	}
}

// hideOutcomes shows something else in the place of the last outcome of a step.
func hideOutcomes(_ *brokenWriter, _ *store.LoadSet, loaded *store.Loaded) {
	for i := range loaded.Runs {
		events := loaded.Runs[i].Events
		for k := len(events) - 1; k >= 0; k-- {
			if e := &events[k]; e.Type == journal.EventStepCompleted {
				e.Type, e.Data = journal.EventAnnotated, &journal.Annotated{Name: "nothing"}
				break
			}
		}
	}
}

func withoutPauses(_ *brokenWriter, changes *store.Changes) {
	for i := range changes.Runs {
		c := &changes.Runs[i]
		if n := len(c.Events); n > 0 && c.Events[n-1].Type == journal.EventRunParked {
			c.Events[n-1].Type, c.Events[n-1].Data = journal.EventAnnotated, &journal.Annotated{Name: "nothing"}
			unparked := *c.State.Run
			unparked.ParkedAt = 0
			c.State.Run = &unparked
		}
	}
}

func withoutAnEvent(w *brokenWriter, changes *store.Changes) {
	for i := range changes.Runs {
		if c := &changes.Runs[i]; len(c.Events) > 1 && w.commits%10 == 0 {
			c.Events = append(c.Events[:1:1], c.Events[2:]...)
		}
	}
}

func withoutAChunk(w *brokenWriter, changes *store.Changes) {
	for i := range changes.Streams {
		if c := &changes.Streams[i]; len(c.Chunks) > 0 && w.commits%10 == 0 {
			c.Chunks = c.Chunks[:len(c.Chunks)-1]
		}
	}
}
