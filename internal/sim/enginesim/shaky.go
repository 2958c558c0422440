package enginesim

import (
	"context"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// shaky is a store as a process sees it over a bad connection: reads, heartbeats, fences and hints. What happens to writers is up to faultstore.
type shaky struct {
	store.Store
	p *process
}

// lateBeat is how much later than everything else the heartbeat of a process that was frozen goes on.
const lateBeat = 150 * time.Millisecond

// meet is an interaction: it takes its time, and then it may fail, before or after it has been applied.
func (s *shaky) meet(ctx context.Context, point Point, apply func() error) error {
	if s.p.isDead() {
		return errDead
	}
	f, pace := s.p.slot.next(point)
	if f.Kind == faultDelay {
		pace += f.For
	}
	select {
	case <-time.After(pace):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if f.Kind == faultFail {
		return cairnerr.Errorf(cairnerr.CodeUnreachable, "simulated")
	}
	held := s.p.isFrozen()
	if err := s.p.gate(); err != nil {
		return err
	}
	if held && point == pointBeat { // that this process was declared dead, it learns last
		time.Sleep(lateBeat)
	}
	err := apply()
	if gone := s.p.gate(); gone != nil {
		return gone
	}
	if err == nil && f.Kind == faultApplied {
		return cairnerr.Errorf(cairnerr.CodeUnreachable, "simulated, after it was applied")
	}
	return err
}

func met[T any](ctx context.Context, s *shaky, point Point, read func() (T, error)) (v T, err error) {
	err = s.meet(ctx, point, func() error {
		var err error
		v, err = read()
		return err
	})
	return v, err
}

// Run implements [store.Reader].
func (s *shaky) Run(ctx context.Context, namespace string, id journal.ID, r store.Resolve) (*journal.Run, error) {
	return met(ctx, s, pointRead, func() (*journal.Run, error) { return s.Store.Run(ctx, namespace, id, r) })
}

// Heads implements [store.Reader].
func (s *shaky) Heads(ctx context.Context, namespace string, ids []journal.ID) ([]store.RunHead, error) {
	return met(ctx, s, pointRead, func() ([]store.RunHead, error) { return s.Store.Heads(ctx, namespace, ids) })
}

// Runs implements [store.Reader].
func (s *shaky) Runs(ctx context.Context, namespace string, f store.RunFilter, p store.Page) (store.List[*journal.Run], error) {
	return met(ctx, s, pointRead, func() (store.List[*journal.Run], error) { return s.Store.Runs(ctx, namespace, f, p) })
}

// Journal implements [store.Reader].
func (s *shaky) Journal(ctx context.Context, namespace string, id journal.ID, after int64) (*store.Journal, error) {
	return met(ctx, s, pointRead, func() (*store.Journal, error) { return s.Store.Journal(ctx, namespace, id, after) })
}

// Outline implements [store.Reader].
func (s *shaky) Outline(ctx context.Context, namespace string, id journal.ID) (*store.Journal, error) {
	return met(ctx, s, pointRead, func() (*store.Journal, error) { return s.Store.Outline(ctx, namespace, id) })
}

// Events implements [store.Reader].
func (s *shaky) Events(ctx context.Context, namespace string, f store.EventFilter, p store.Page) (store.List[store.RunEvent], error) {
	return met(ctx, s, pointRead, func() (store.List[store.RunEvent], error) { return s.Store.Events(ctx, namespace, f, p) })
}

// HookByToken implements [store.Reader].
func (s *shaky) HookByToken(ctx context.Context, namespace, token string, r store.Resolve) (*store.RunHook, error) {
	return met(ctx, s, pointRead, func() (*store.RunHook, error) { return s.Store.HookByToken(ctx, namespace, token, r) })
}

// Stream implements [store.Reader].
func (s *shaky) Stream(ctx context.Context, key store.StreamKey, q store.StreamQuery) (*store.StreamPage, error) {
	return met(ctx, s, pointRead, func() (*store.StreamPage, error) { return s.Store.Stream(ctx, key, q) })
}

// Due implements [store.Reader].
func (s *shaky) Due(ctx context.Context, f store.DueFilter) ([]store.DueRun, error) {
	return met(ctx, s, pointDue, func() ([]store.DueRun, error) { return s.Store.Due(ctx, f) })
}

// Parked implements [store.Reader].
func (s *shaky) Parked(ctx context.Context, scope store.Scope, after store.RunKey, limit int) ([]store.ParkedRun, error) {
	return met(ctx, s, pointRead, func() ([]store.ParkedRun, error) { return s.Store.Parked(ctx, scope, after, limit) })
}

// NextDue implements [store.Reader].
func (s *shaky) NextDue(ctx context.Context, after journal.Time) (journal.Time, error) {
	return met(ctx, s, pointDue, func() (journal.Time, error) { return s.Store.NextDue(ctx, after) })
}

// Peers implements [store.Reader].
func (s *shaky) Peers(ctx context.Context) ([]store.Peer, error) {
	return met(ctx, s, pointRead, func() ([]store.Peer, error) { return s.Store.Peers(ctx) })
}

// Owns implements [store.Reader].
func (s *shaky) Owns(ctx context.Context, incarnation journal.ID) (bool, error) {
	return met(ctx, s, pointRead, func() (bool, error) { return s.Store.Owns(ctx, incarnation) })
}

// Beat implements [store.Store].
func (s *shaky) Beat(ctx context.Context, incarnation journal.ID) error {
	return s.meet(ctx, pointBeat, func() error { return s.Store.Beat(ctx, incarnation) })
}

// Fence implements [store.Store].
func (s *shaky) Fence(ctx context.Context, incarnation journal.ID) error {
	return s.meet(ctx, pointFence, func() error { return s.Store.Fence(ctx, incarnation) })
}

// Delete implements [store.Store].
func (s *shaky) Delete(ctx context.Context, namespace string, run journal.ID) error {
	return s.meet(ctx, pointDelete, func() error { return s.Store.Delete(ctx, namespace, run) })
}

// OpenWriter implements [store.Store].
func (s *shaky) OpenWriter(ctx context.Context, incarnation journal.ID, number int) (store.Writer, error) {
	if err := s.p.gate(); err != nil {
		return nil, err
	}
	return s.Store.OpenWriter(ctx, incarnation, number)
}

// Notifier implements [store.Store].
func (s *shaky) Notifier() store.Notifier { return &shakyNotifier{s.Store.Notifier(), s} }

type shakyNotifier struct {
	store.Notifier
	s *shaky
}

// Listen implements [store.Notifier]: hints are lost, come late, or come twice.
func (n *shakyNotifier) Listen(ctx context.Context) (<-chan string, error) {
	in, err := n.Notifier.Listen(ctx)
	if err != nil {
		return nil, err
	}
	return shake(n.s, "hint", in), nil
}

// ListenRuns implements [store.Notifier] in the same way.
func (n *shakyNotifier) ListenRuns(ctx context.Context, own func(journal.ID) bool) (<-chan journal.ID, error) {
	in, err := n.Notifier.ListenRuns(ctx, own)
	if err != nil {
		return nil, err
	}
	return shake(n.s, "hint at a run", in), nil
}

// shake passes hints on, most of them.
func shake[T any](s *shaky, who string, in <-chan T) <-chan T {
	out := make(chan T, 1)
	s.p.slot.w.work.Go(func() {
		defer close(out)
		for hint := range in {
			if s.p.turn(who, 0); !s.p.isDead() {
				pass(s, hint, out)
			}
		}
	})
	return out
}

func pass[T any](s *shaky, hint T, out chan<- T) {
	give := func() {
		select {
		case out <- hint:
		default: // one is there that nobody has taken
		}
	}
	f, pace := s.p.slot.next(pointHint)
	if f.Kind == faultDelay {
		pace += f.For
	}
	time.Sleep(pace)
	if f.Kind != faultLost {
		give()
	}
	if f.Kind == faultDuplicated {
		time.Sleep(s.p.slot.pause(pace))
		give()
	}
}
