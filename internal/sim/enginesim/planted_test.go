package enginesim_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/sim/enginesim"
	"github.com/cairn-workflow/cairn/internal/store"
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
		name  string
		finds string // what the simulation says about it
		most  uint64 // seeds
		enginesim.Options
	}{
		{"the dead may write", "declared dead before", 40, breaks(broken{immortal: true})},
		{"the dead may write, in an old epoch", "declared dead before", 40, breaks(broken{immortal: true, load: forgetClaims, commit: inOldEpoch})},
		{"a run that its owner left is not freed", "does not end", 10, breaks(broken{fence: func(context.Context, journal.ID) error { return nil }})},
		{"a wake-up is lost", "does not end", 20, breaks(broken{commit: func(w *brokenWriter, c *store.Changes) { c.Wake = everyFifth(w, c.Wake) }})},
		{"a commit that was applied is said not to be", "have no order that explains them", 20, breaks(broken{settle: func(*brokenWriter, bool) bool { return false }})},
		{"a completion is applied twice", "has a second outcome", 10, breaks(broken{commit: completedTwice})},
		{"what was received is forgotten, and taken again", "was received twice", 20, breaks(broken{load: forgetReceipts, commit: withoutReceipts})},
		{"a view is not written", "is missing, the journal says it exists", 10, breaks(broken{commit: withoutWaits})},
		{"a step that is done is forgotten by who executes the run again", "runs although its outcome is recorded", 20, breaks(broken{load: hideOutcomes})},
		{"a pause is acknowledged and not written", "have no order that explains them", 60, breaks(broken{commit: withoutPauses})},
		{"an event is left out", "should be", 10, breaks(broken{commit: withoutAnEvent})},
		{"a chunk of a stream is not written", "came where", 20, breaks(broken{commit: withoutAChunk})},
		{"a hook for one payload takes a second", "the operations of hook", 40, breaks(broken{commit: forManyPayloads})},
		{"a deletion is acknowledged and not done", "it was deleted", 20, breaks(broken{lazy: true})},
		{"a start in a transaction is acknowledged and not written", "its transaction was committed: true", 20, breaks(broken{forgetful: true})},
		{"what was acknowledged was not synced", "were read before", 40, enginesim.Options{Unsynced: true}},
	} {
		t.Run(bug.name, func(t *testing.T) {
			for n := range bug.most {
				seed := n + 1
				if err := simulate(t, enginesim.NewPlan(seed), bug.Options).Err(); err != nil && strings.Contains(err.Error(), bug.finds) {
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
	immortal  bool // writers write under another name than the one that is declared dead
	lazy      bool // it deletes nothing
	forgetful bool // it writes nothing in transactions of others
	fence     func(context.Context, journal.ID) error
	settle    func(w *brokenWriter, applied bool) bool
	load      func(*brokenWriter, *store.LoadSet, *store.Loaded)
	commit    func(*brokenWriter, *store.Changes)
}

func (b *broken) Fence(ctx context.Context, incarnation journal.ID) error {
	if b.fence != nil {
		return b.fence(ctx, incarnation)
	}
	return b.Store.Fence(ctx, incarnation)
}

func (b *broken) Delete(ctx context.Context, namespace string, run journal.ID) error {
	if !b.lazy {
		return b.Store.Delete(ctx, namespace, run)
	}
	_, err := b.Run(ctx, namespace, run, store.ResolveNone)
	return err
}

func (b *broken) Join(ctx context.Context, tx store.UserTx, now journal.Time) (store.Joined, error) {
	joined, err := b.Store.Join(ctx, tx, now)
	if err == nil && b.forgetful {
		joined = forgetfulTx{joined}
	}
	return joined, err
}

type forgetfulTx struct{ store.Joined }

func (forgetfulTx) Insert(context.Context, *store.RunChange) (bool, error) { return true, nil }

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

// completedTwice writes what a step returned once more.
func completedTwice(_ *brokenWriter, changes *store.Changes) {
	for i := range changes.Runs {
		c := &changes.Runs[i]
		if n := len(c.Events); n > 0 && c.Events[n-1].Type == journal.EventStepCompleted {
			again := c.Events[n-1]
			again.Seq++
			c.State.Seq++
			c.Events = append(c.Events, again)
		}
	}
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

func forManyPayloads(_ *brokenWriter, changes *store.Changes) {
	for i := range changes.Runs {
		c := &changes.Runs[i]
		for k := range c.Events {
			if d, made := c.Events[k].Data.(*journal.HookCreated); made {
				many := *d
				many.SingleUse = false
				c.Events[k].Data = &many
			}
		}
		for _, h := range c.State.Hooks {
			h.SingleUse = false
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
