package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
	"github.com/cairn-workflow/cairn/observe"
)

// silent is a step on an engine without hooks.
func silent() *step {
	e := &Engine{shared: &shared{obs: newObserver(context.Background(), observe.Hooks{}, nil)}}
	x := newExec(&Engine{shared: &shared{hard: context.Background()}}, nil, store.RunKey{}, &Workflow{}, &journal.Run{})
	x.eng = e
	return &step{b: &Branch{line: newLine(x, nil, "", 0), ctx: context.Background()}}
}

// everyPoint passes all places at which hooks could be called while a run does something.
func everyPoint(s *step, err error) context.Context {
	x := s.b.x
	x.segmentBegins(observe.BeginResumed)
	ctx := s.observe(x.with(s.b.ctx))
	s.observed(observe.OutcomeCompleted, err, 0)
	s.abandoned()
	x.observeReceived("hook", nil)
	look := poll{b: s.b}
	_, looked := look.observe(ctx)
	looked(false, err)
	_ = s.b.Value(nil)
	x.segmentEnds(observe.EndWaiting)
	x.eng.observeEnd(x.key, x.run, nil, nil)
	_ = x.eng.obs.inject(ctx)
	_ = x.eng.committed()
	return ctx
}

func TestWithoutHooksNothingIsAllocated(t *testing.T) { //nolint:paralleltest // it counts allocations
	s := silent()
	require.Nil(t, s.b.x.eng.obs)
	require.Zero(t, testing.AllocsPerRun(100, func() { everyPoint(s, nil) }))
	require.Equal(t, s.b.ctx, everyPoint(s, nil), "the body gets the same context")
}

// BenchmarkWithoutHooks is what all the places cost together at which a run without hooks asks whether there are any.
func BenchmarkWithoutHooks(b *testing.B) {
	s := silent()
	b.ReportAllocs()
	for b.Loop() {
		everyPoint(s, nil)
	}
}

// What slow hooks leave is dropped and counted; the order of the rest is kept.
func TestSlowHooksMissSome(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []int
	o := newObserver(t.Context(), observe.Hooks{Committed: func(observe.Commit) {}}, slog.New(slog.DiscardHandler))
	hold, held := make(chan struct{}), make(chan struct{})
	o.tell("x", func() { close(held); <-hold })
	<-held
	for i := range maxObservations + 100 {
		o.tell("x", func() {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, i)
		})
	}
	require.EqualValues(t, 100, o.dropped.Load())
	close(hold)
	o.close()
	require.Len(t, got, maxObservations)
	for i := range got {
		require.Equal(t, i, got[i])
	}
	o.tell("x", func() { panic("nobody calls it") })
	o.close()
}

// large is a propagator with more to say than can be recorded.
type large struct{}

func (large) Inject(_ context.Context, headers map[string]string) {
	headers["k"] = string(make([]byte, journal.MaxHeaders))
}

func (large) Extract(ctx context.Context, _ map[string]string) context.Context { return ctx }

func TestHeadersThatAreTooLargeAreLeftOut(t *testing.T) {
	t.Parallel()
	o := newObserver(t.Context(), observe.Hooks{Propagator: large{}}, slog.New(slog.DiscardHandler))
	defer o.close()
	require.Nil(t, o.inject(t.Context()))
}

func TestCodesForThoseWhoCount(t *testing.T) {
	t.Parallel()
	require.Empty(t, codeOf(nil))
	require.Equal(t, observe.CodeNone, codeOf(errors.New("x")))
	require.Equal(t, "timeout", codeOf(cairnerr.Errorf(cairnerr.CodeTimeout, "late")))
}

// A process dies; another one declares it dead and takes its run over: that is told once, by the other one.
func TestTakeOverIsTold(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/x.db"
	begun, told := make(chan struct{}, 2), make(chan string, 100)
	wf := &Workflow{Name: "w", Run: func(b *Branch, _ journal.Payload) (journal.Payload, error) {
		return b.Step(StepSpec{Name: "s"}, func(ctx context.Context, _ StepInfo) (journal.Payload, error) {
			if begun <- struct{}{}; len(begun) == 2 {
				return journal.Payload("done"), nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
	}}
	open := func(hooks observe.Hooks) *Engine {
		st, err := sqlite.Open(t.Context(), path, nil)
		require.NoError(t, err)
		e, err := New(t.Context(), st, Config{Poll: 20 * time.Millisecond, Lease: 3 * time.Second, Hooks: hooks}, wf)
		require.NoError(t, err)
		t.Cleanup(func() { _ = st.Close() })
		return e
	}
	first := open(observe.Hooks{})
	id, err := first.Start(t.Context(), StartRequest{Workflow: "w"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(begun) == 1 }, time.Minute, time.Millisecond)
	second := open(observe.Hooks{
		PeerDied: func(observe.Lease) { told <- "peer died" },
		Execute: func(ctx context.Context, e observe.Execution) (context.Context, func(observe.ExecutionEnd)) {
			return ctx, func(end observe.ExecutionEnd) { told <- string(e.Why) + " " + string(end.Why) }
		},
	})
	defer func() { _ = second.Stop(context.Background()) }()
	first.Kill()
	run, err := second.Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "done", string(run.Output))
	require.Equal(t, "peer died", <-told)
	require.Equal(t, "taken_over over", <-told)
	require.EqualValues(t, 1, second.Stats().PeersDied)
}

// A process that was declared dead goes on as a new incarnation, says so, and its numbers go on.
func TestALostLeaseIsTold(t *testing.T) {
	t.Parallel()
	lost := make(chan string, 10)
	wf := &Workflow{Name: "w", Run: func(b *Branch, _ journal.Payload) (journal.Payload, error) {
		return b.Step(StepSpec{Name: "s"}, func(context.Context, StepInfo) (journal.Payload, error) { return nil, nil })
	}}
	st, err := sqlite.Memory(t.Context(), nil)
	require.NoError(t, err)
	e, err := New(t.Context(), st, Config{Hooks: observe.Hooks{LeaseLost: func(l observe.Lease) { lost <- l.Incarnation }}}, wf)
	require.NoError(t, err)
	defer func() { _ = e.Stop(context.Background()) }()
	do := func() {
		id, err := e.Start(t.Context(), StartRequest{Workflow: "w"})
		require.NoError(t, err)
		_, err = e.Wait(t.Context(), id)
		require.NoError(t, err)
	}
	do()
	me := e.self()
	before := e.Stats()
	require.NoError(t, st.Fence(t.Context(), me.id))
	do()
	require.Equal(t, journal.PrefixIncarnation.Format(me.id), <-lost)
	after := e.Stats()
	require.EqualValues(t, 1, after.LeasesLost)
	require.Greater(t, after.Commands, before.Commands)
}
