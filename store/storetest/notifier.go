package storetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/store"
)

var notifierTests = []test{
	{"EndsWithContext", notifierEnds},
	{"Hears", notifierHears},
	{"Merges", notifierMerges},
}

// hear waits for a hint about a namespace.
func hear(b *bench, hints <-chan string, namespace string) (before int) {
	b.Helper()
	deadline := time.After(20 * time.Second)
	for {
		select {
		case got, ok := <-hints:
			require.True(b, ok, "the channel was closed")
			if got == namespace {
				return before
			}
			before++
		case <-deadline:
			require.Fail(b, "no hint", namespace)
		}
	}
}

func notifierEnds(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx())
	hints, err := b.store.Notifier().Listen(ctx)
	require.NoError(b, err)
	cancel()
	deadline := time.After(20 * time.Second)
	for open := true; open; {
		select {
		case _, open = <-hints:
		case <-deadline:
			require.Fail(b, "the channel stays open")
		}
	}
	require.NoError(b, b.commit(&store.Changes{Notify: []string{b.ns}}))
}

func notifierHears(b *bench) {
	one, err := b.store.Notifier().Listen(b.ctx())
	require.NoError(b, err)
	two, err := b.store.Notifier().Listen(b.ctx())
	require.NoError(b, err)
	names := []string{b.ns, b.ns + " ünïcode 'quoted'"}
	for range 2 {
		require.NoError(b, b.commit(&store.Changes{Notify: names}))
		for _, hints := range []<-chan string{one, two} {
			heard := map[string]bool{}
			for len(heard) < len(names) {
				heard[<-hints] = true
			}
		}
	}
	// With the events of a run, too.
	run := b.start(journal.World3)
	hear(b, one, b.ns)
	b.check(run)
}

// Nobody reads: the writer goes on, and the hints become one.
func notifierMerges(b *bench) {
	const commits = 50
	hints, err := b.store.Notifier().Listen(b.ctx())
	require.NoError(b, err)
	for range commits {
		require.NoError(b, b.commit(&store.Changes{Notify: []string{b.ns}}))
	}
	count := 0
	require.NoError(b, b.commit(&store.Changes{Notify: []string{b.ns, b.ns + " last"}}))
	last, some := false, false
	deadline := time.After(20 * time.Second)
	for !last || !some {
		select {
		case got := <-hints:
			count++
			last = last || got == b.ns+" last"
			some = some || got == b.ns
		case <-deadline:
			require.Fail(b, "no hint")
		}
	}
	require.Less(b, count, commits, "merged")
}
