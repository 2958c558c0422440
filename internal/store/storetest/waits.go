package storetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var waitTests = []test{
	{"Lifecycle", waitLifecycle},
	{"List", waitList},
	{"NotFound", waitNotFound},
}

func waitLifecycle(b *bench) {
	for _, d := range []journal.Dialect{journal.World3, journal.World6} {
		run := b.start(d)
		timer, signal := b.mint(), b.mint()
		b.write(run, about(timer, &journal.WaitCreated{ResumeAt: b.now + 1000}), about(signal, &journal.WaitCreated{Kind: "child"}))
		w, err := b.store.Wait(b.ctx(), b.ns, run, timer)
		require.NoError(b, err)
		require.Equal(b, &journal.Wait{ID: timer, Status: journal.StatusRunning, ResumeAt: b.now + 1000, CreatedAt: b.now, Seq: 3}, w)
		b.check(run)
		b.later(time.Second)
		b.outsider(run, about(timer, &journal.WaitCompleted{Result: payload("r")}))
		w, err = b.store.Wait(b.ctx(), b.ns, run, timer)
		require.NoError(b, err)
		require.Equal(b, journal.StatusCompleted, w.Status)
		require.Equal(b, b.now, w.CompletedAt)
		w, err = b.store.Wait(b.ctx(), b.ns, run, signal)
		require.NoError(b, err)
		require.Equal(b, "child", w.Kind)
		require.Zero(b, w.ResumeAt)
		b.check(run)
		b.write(run, plain(&journal.RunCompleted{}))
		_, err = b.store.Wait(b.ctx(), b.ns, run, timer)
		requireCode(b, cairnerr.CodeWaitNotFound, err)
		b.check(run)
	}
}

func waitList(b *bench) {
	run := b.start(journal.Engine)
	for i := range 5 {
		b.write(run, keyed(fmt.Sprint("sleep/", 9-i), &journal.WaitCreated{ResumeAt: b.now + journal.Time(1000*(5-i))}))
	}
	l, err := b.store.Waits(b.ctx(), b.ns, run, store.Page{Limit: 2})
	require.NoError(b, err)
	require.True(b, l.HasMore)
	require.Equal(b, "sleep/9", l.Data[0].Key)
	require.Equal(b, "sleep/8", l.Data[1].Key)
	b.check(run)
	b.write(run, keyed("sleep/9", &journal.WaitCompleted{}))
	b.check(run)
}

func waitNotFound(b *bench) {
	run := b.start(journal.World3)
	id := b.mint()
	b.write(run, about(id, &journal.WaitCreated{}))
	_, err := b.store.Wait(b.ctx(), b.ns, run, b.mint())
	requireCode(b, cairnerr.CodeWaitNotFound, err)
	_, err = b.store.Wait(b.ctx(), b.ns, b.mint(), id)
	requireCode(b, cairnerr.CodeRunNotFound, err)
	for _, ns := range []string{b.foreign().ns, "never seen"} {
		_, err := b.store.Wait(b.ctx(), ns, run, id)
		requireCode(b, cairnerr.CodeRunNotFound, err)
		l, err := b.store.Waits(b.ctx(), ns, run, store.Page{})
		require.NoError(b, err)
		require.Empty(b, l.Data)
	}
}
