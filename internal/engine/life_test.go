package engine_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// hearted is a store with a heartbeat of the test's own.
type hearted struct {
	store.Store
	beat func() error // before each heartbeat, and before an incarnation is fenced
}

func (h *hearted) Fence(ctx context.Context, incarnation journal.ID) error {
	if err := h.beat(); err != nil {
		return err
	}
	return h.Store.Fence(ctx, incarnation)
}

func (h *hearted) Beat(ctx context.Context, incarnation journal.ID) error {
	if err := h.beat(); err != nil {
		return err
	}
	return h.Store.Beat(ctx, incarnation)
}

const leaseOfHearted = 6 * time.Second

// startHearted starts an engine whose heartbeats and writers do what a test wants.
func startHearted(t *testing.T, beat func() error, plan faultstore.Plan, wf *engine.Workflow) *engine.Engine {
	t.Helper()
	return startHeartedWith(t, &engine.Testing{}, beat, plan, wf)
}

func startHeartedWith(t *testing.T, look *engine.Testing, beat func() error, plan faultstore.Plan, wf *engine.Workflow) *engine.Engine {
	t.Helper()
	st, err := sqlite.Open(t.Context(), t.TempDir()+"/x.db", nil)
	require.NoError(t, err)
	faulty := faultstore.Wrap(&hearted{Store: st, beat: beat}, func(journal.ID) faultstore.Plan { return plan })
	e, err := engine.New(engine.WithTesting(t.Context(), look), faulty, engine.Config{Lease: leaseOfHearted}, wf)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = e.Stop(context.Background())
		_ = st.Close()
	})
	return e
}

// A body must end before peers may declare its process dead, or two of them do the same work.
func TestHeart_BeatsFail_BodyEndsBeforeLease(t *testing.T) {
	t.Parallel()
	bubble.Run(t, func(t *testing.T) {
		t.Helper()
		var confirmed, ended atomic.Int64 // in nanoseconds
		var failing atomic.Bool
		wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
			return b.Step(engine.StepSpec{Name: "s"}, func(ctx context.Context, _ engine.StepInfo) (journal.Payload, error) {
				if ended.Load() == 0 {
					<-ctx.Done()
					ended.Store(time.Now().UnixNano())
					failing.Store(false)
				}
				return journal.Payload("done"), nil
			})
		}}
		e := startHearted(t, func() error {
			if failing.Load() {
				return cairnerr.Errorf(cairnerr.CodeUnreachable, "simulated")
			}
			confirmed.Store(time.Now().UnixNano())
			return nil
		}, func(faultstore.Op, int) faultstore.Fault { return faultstore.Fault{} }, wf)
		id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w"})
		require.NoError(t, err)
		time.Sleep(10 * leaseOfHearted)
		require.Zero(t, ended.Load(), "it goes on while beats arrive")
		failing.Store(true)
		last := confirmed.Load()
		run, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, "done", string(run.Output))
		require.Less(t, time.Duration(ended.Load()-last), leaseOfHearted)
	})
}

// A process that stood still for longer than its lease may find itself right before the body of a step, and may have
// been declared dead. Its heart has not noticed yet.
func TestStep_ProcessStoodStill_BodyDoesNotBegin(t *testing.T) {
	t.Parallel()
	bubble.Run(t, func(t *testing.T) {
		t.Helper()
		var begun, commits atomic.Int32
		wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
			spec := engine.StepSpec{Name: "s", Timeout: time.Hour} // with a timeout its start is recorded before the body
			return b.Step(spec, func(context.Context, engine.StepInfo) (journal.Payload, error) {
				begun.Add(1)
				return journal.Payload("done"), nil
			})
		}}
		frozen := make(chan struct{})
		thaw := sync.OnceFunc(func() { close(frozen) })
		defer thaw()
		e := startHearted(t, func() error { <-frozen; return nil }, func(op faultstore.Op, _ int) faultstore.Fault {
			if op == faultstore.OpCommit && commits.Add(1) == 2 {
				return faultstore.Fault{Delay: 2 * leaseOfHearted}
			}
			return faultstore.Fault{}
		}, wf)
		id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w"})
		require.NoError(t, err)
		time.Sleep(3 * leaseOfHearted)
		synctest.Wait()
		require.Zero(t, begun.Load())
		require.EqualValues(t, 2, commits.Load(), "the start of the step is recorded")
		thaw()
		run, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, "done", string(run.Output))
		require.EqualValues(t, 1, begun.Load())
	})
}

// The same, and the heart is late: when it beats again, nothing is executed any more. The run is not left behind by that.
func TestStep_ProcessStoodStillAndHeartIsLate_RunGoesOn(t *testing.T) {
	t.Parallel()
	bubble.Run(t, func(t *testing.T) {
		t.Helper()
		var begun, commits atomic.Int32
		wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
			spec := engine.StepSpec{Name: "s", Timeout: time.Hour} // with a timeout its start is recorded before the body
			return b.Step(spec, func(context.Context, engine.StepInfo) (journal.Payload, error) {
				begun.Add(1)
				return journal.Payload("done"), nil
			})
		}}
		const still = 2 * leaseOfHearted
		late := func(who string, _ int64) {
			if who == "heart" && commits.Load() == 2 && begun.Load() == 0 {
				time.Sleep(still + time.Second)
			}
		}
		e := startHeartedWith(t, &engine.Testing{Turn: late}, func() error { return nil }, func(op faultstore.Op, _ int) faultstore.Fault {
			if op == faultstore.OpCommit && commits.Add(1) == 2 {
				return faultstore.Fault{Delay: still}
			}
			return faultstore.Fault{}
		}, wf)
		id, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w"})
		require.NoError(t, err)
		soon, cancel := context.WithTimeout(t.Context(), 10*leaseOfHearted)
		defer cancel()
		run, err := e.Wait(soon, id)
		require.NoError(t, err)
		require.Equal(t, "done", string(run.Output))
		require.EqualValues(t, 1, begun.Load())
	})
}
