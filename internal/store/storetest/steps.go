package storetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var stepTests = []test{
	{"EngineAttempts", stepEngineAttempts},
	{"InlineAndStored", stepInlineAndStored},
	{"LateOutcomes", stepLate},
	{"LazyStart", stepLazy},
	{"NotFound", stepNotFound},
	{"ResolveNone", stepResolve},
	{"WorldLifecycle", stepWorldLifecycle},
}

func (b *bench) step(run, id journal.ID) *journal.Step {
	b.Helper()
	s, err := b.store.Step(b.ctx(), b.ns, run, id, store.ResolveAll)
	require.NoError(b, err)
	return s
}

func (b *bench) steps(run journal.ID, p store.Page) store.List[*journal.Step] {
	b.Helper()
	l, err := b.store.Steps(b.ctx(), b.ns, run, store.ResolveAll, p)
	require.NoError(b, err)
	return l
}

func stepEngineAttempts(b *bench) {
	run := b.start(journal.Engine)
	id := journal.DeriveID(run, journal.PrefixStep, "charge/1")
	b.write(run, keyed("charge/1", &journal.StepRetrying{Name: "charge", Error: &cairnerr.Error{Code: "io"}, RetryAfter: b.now + 500}))
	s := b.step(run, id)
	require.Equal(b, 1, s.Attempt)
	require.Equal(b, b.now+500, s.RetryAfter)
	require.Equal(b, cairnerr.Code("io"), s.Error.Code)
	require.False(b, s.Inline)
	b.check(run)
	b.later(time.Second)
	b.write(run, keyed("charge/1", &journal.StepStarted{Input: payload("in"), StartedAt: b.now - 100, OwnerMessage: "m"}))
	s = b.step(run, id)
	require.Equal(b, b.now-100, s.StartedAt)
	require.Equal(b, payload("in"), s.Input)
	b.check(run)
	// A remote worker reports, without owning the run.
	b.outsider(run, keyed("charge/1", &journal.StepCompleted{Result: payload("ok"), Attempt: 2}))
	s = b.step(run, id)
	require.Equal(b, journal.StatusCompleted, s.Status)
	require.Equal(b, payload("ok"), s.Output)
	require.Nil(b, s.Error)
	require.Equal(b, "charge", s.Name)
	b.check(run)
	_, err := b.try(&journal.Command{Run: run, Events: []journal.Event{keyed("charge/1", &journal.StepCompleted{})}})
	requireCode(b, cairnerr.CodeStepFinished, err)
}

func stepInlineAndStored(b *bench) {
	run := b.start(journal.Engine)
	var keys []string
	for i := range 9 {
		key := fmt.Sprintf("step/%d", 9-i) // the order of keys is not that of steps
		keys = append(keys, key)
		if i%3 == 0 {
			b.write(run, keyed(key, &journal.StepStarted{Name: "n", Input: payload(key)}))
			continue
		}
		b.write(run, keyed(key, &journal.StepCompleted{Name: "n", Input: payload(key), Result: payload("r" + key), Attempt: i, StartedAt: b.now - 5, Digest: []byte{1}}))
	}
	b.write(run, keyed(keys[3], &journal.StepFailed{Error: &cairnerr.Error{Code: "late"}}))
	b.check(run)
	for _, limit := range []int{1, 2, 4, 9, 10} {
		for _, desc := range []bool{false, true} {
			got := all(b, func(p store.Page) (store.List[*journal.Step], error) {
				return b.store.Steps(b.ctx(), b.ns, run, store.ResolveAll, p)
			}, store.Page{Limit: limit, Desc: desc})
			require.Len(b, got, 9)
			for i, s := range got {
				if desc {
					i = 8 - i
				}
				require.Equal(b, keys[i], s.Key)
				require.Equal(b, payload(keys[i]), s.Input)
				require.Equal(b, i%3 != 0, s.Inline)
			}
		}
	}
	page := b.steps(run, store.Page{Limit: 4})
	require.True(b, page.HasMore)
	last := b.steps(run, store.Page{Cursor: b.steps(run, store.Page{}).Cursor})
	require.Empty(b, last.Data)
	b.write(run, keyed("more", &journal.StepCompleted{}))
	more := b.steps(run, store.Page{Cursor: b.steps(run, store.Page{Limit: 9}).Cursor})
	require.Len(b, more.Data, 1)
	require.Equal(b, "more", more.Data[0].Key)
}

// In the World's dialects steps report after their run has ended.
func stepLate(b *bench) {
	for _, d := range []journal.Dialect{journal.World3, journal.World6} {
		run := b.start(d)
		done, lost := b.mint(), b.mint()
		b.write(run, about(done, &journal.StepCreated{Name: "a"}), about(lost, &journal.StepCreated{Name: "b"}))
		b.write(run, about(done, &journal.StepStarted{}))
		b.write(run, plain(&journal.RunCancelled{}))
		b.later(time.Second)
		b.write(run, about(done, &journal.StepCompleted{Result: payload("late")}))
		require.Equal(b, payload("late"), b.step(run, done).Output)
		require.Equal(b, journal.StatusPending, b.step(run, lost).Status)
		require.Equal(b, b.now, b.run(run).UpdatedAt)
		b.check(run)
	}
}

func stepLazy(b *bench) {
	run := b.start(journal.World6)
	id := b.mint()
	res := b.write(run, about(id, &journal.StepStarted{Name: "s", Lazy: true, Input: payload("in")}))
	require.Len(b, res.Appended, 2)
	s := b.step(run, id)
	require.Equal(b, payload("in"), s.Input)
	require.Equal(b, int64(3), s.FirstSeq)
	require.Equal(b, 1, s.Attempt)
	b.check(run)
	_, err := b.try(&journal.Command{Run: run, Events: []journal.Event{about(id, &journal.StepStarted{Lazy: true})}})
	requireCode(b, cairnerr.CodeStepExists, err)
}

func stepNotFound(b *bench) {
	run := b.start(journal.Engine)
	b.write(run, keyed("inline", &journal.StepCompleted{}), keyed("stored", &journal.StepStarted{}))
	_, err := b.store.Step(b.ctx(), b.ns, run, b.mint(), store.ResolveAll)
	requireCode(b, cairnerr.CodeStepNotFound, err)
	_, err = b.store.Step(b.ctx(), b.ns, b.mint(), b.mint(), store.ResolveAll)
	requireCode(b, cairnerr.CodeRunNotFound, err)
	require.Empty(b, b.steps(b.mint(), store.Page{}).Data)
	for _, key := range []string{"inline", "stored"} {
		id := journal.DeriveID(run, journal.PrefixStep, key)
		b.step(run, id)
		for _, ns := range []string{b.foreign().ns, "never seen"} {
			_, err := b.store.Step(b.ctx(), ns, run, id, store.ResolveAll)
			requireCode(b, cairnerr.CodeRunNotFound, err)
			l, err := b.store.Steps(b.ctx(), ns, run, store.ResolveAll, store.Page{})
			require.NoError(b, err)
			require.Empty(b, l.Data)
		}
	}
}

func stepResolve(b *bench) {
	run := b.start(journal.Engine)
	failure := &cairnerr.Error{Code: "x", Message: "why"}
	b.write(run, keyed("inline", &journal.StepFailed{Input: payload("in"), Value: payload("out"), Error: failure}))
	b.write(run, keyed("stored", &journal.StepStarted{Input: payload("in")}))
	b.write(run, keyed("stored", &journal.StepRetrying{Value: payload("out"), Error: failure}))
	for _, key := range []string{"inline", "stored"} {
		id := journal.DeriveID(run, journal.PrefixStep, key)
		s := b.step(run, id)
		require.Equal(b, payload("in"), s.Input)
		require.Equal(b, payload("out"), s.Output)
		require.Equal(b, failure, s.Error)
		s, err := b.store.Step(b.ctx(), b.ns, run, id, store.ResolveNone)
		require.NoError(b, err)
		require.Empty(b, s.Input)
		require.Empty(b, s.Output)
		require.Equal(b, failure, s.Error, "errors come along")
	}
	b.check(run)
}

func stepWorldLifecycle(b *bench) {
	for _, d := range []journal.Dialect{journal.World3, journal.World6} {
		run := b.start(d)
		id := b.mint()
		b.write(run, about(id, &journal.StepCreated{Name: "charge", Input: payload("in")}))
		s := b.step(run, id)
		require.Equal(b, journal.StatusPending, s.Status)
		require.Equal(b, "charge", s.Name)
		require.Zero(b, s.StartedAt)
		b.check(run)

		b.later(time.Second)
		first := b.now
		b.write(run, about(id, &journal.StepStarted{OwnerMessage: "msg-1"}))
		s = b.step(run, id)
		require.Equal(b, journal.StatusRunning, s.Status)
		require.Equal(b, 1, s.Attempt)
		require.Equal(b, "msg-1", s.OwnerMessage)
		b.check(run)

		b.later(time.Second)
		b.write(run, about(id, &journal.StepRetrying{Error: &cairnerr.Error{Message: "again"}, RetryAfter: b.now + 1000}))
		s = b.step(run, id)
		require.Equal(b, journal.StatusPending, s.Status)
		require.Equal(b, "again", s.Error.Message)
		require.Equal(b, b.now+1000, s.RetryAfter)
		b.check(run)

		b.later(time.Second)
		b.write(run, about(id, &journal.StepStarted{OwnerMessage: "msg-2"}))
		s = b.step(run, id)
		require.Equal(b, 2, s.Attempt)
		require.Equal(b, first, s.StartedAt, "started once")
		b.check(run)

		b.later(time.Second)
		b.write(run, about(id, &journal.StepCompleted{Result: payload("out")}))
		s = b.step(run, id)
		require.Equal(b, journal.StatusCompleted, s.Status)
		require.Equal(b, payload("out"), s.Output)
		require.Equal(b, payload("in"), s.Input)
		require.Equal(b, b.now, s.CompletedAt)
		require.Nil(b, s.Error)
		b.check(run)
	}
}
