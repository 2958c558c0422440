package storetest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var notifierTests = []test{
	{"EndsWithContext", notifierEnds},
	{"Hears", notifierHears},
	{"HearsOfOthers", notifierHearsOfOthers},
	{"HearsOfRuns", notifierHearsOfRuns},
	{"Merges", notifierMerges},
}

// hint returns the next hint at a namespace.
func hint(b *bench, hints <-chan string) string {
	b.Helper()
	for {
		if got := anyHint(b, hints); got != "" {
			return got
		}
	}
}

// anyHint returns the next hint, "" if it names no namespace.
func anyHint(b *bench, hints <-chan string) string {
	b.Helper()
	select {
	case got, ok := <-hints:
		require.True(b, ok, "the channel was closed")
		return got
	case <-b.ctx().Done():
		require.Fail(b, "no hint")
		return ""
	}
}

func notifierEnds(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx())
	hints, err := b.store.Notifier().Listen(ctx)
	require.NoError(b, err)
	cancel()
	for open := true; open; {
		select {
		case _, open = <-hints:
		case <-b.ctx().Done():
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
				heard[hint(b, hints)] = true
			}
		}
	}
	// With the events of a run, too.
	run := b.start(journal.World3)
	for heard := ""; heard != b.ns; {
		heard = hint(b, one)
	}
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
	require.NoError(b, b.commit(&store.Changes{Notify: []string{b.ns, b.ns + " last"}}))
	heard := map[string]int{}
	for heard[b.ns] == 0 || heard[b.ns+" last"] == 0 {
		heard[hint(b, hints)]++
	}
	require.Less(b, heard[b.ns], commits, "merged")
}

func notifierHearsOfRuns(b *bench) {
	ctx, cancel := context.WithCancel(b.ctx())
	all, err := b.store.Notifier().ListenRuns(ctx, nil)
	require.NoError(b, err)
	others, err := b.store.Notifier().ListenRuns(ctx, func(writer journal.ID) bool { return writer == b.self })
	require.NoError(b, err)
	own, other := b.mint(), b.mint()
	require.NoError(b, b.commit(&store.Changes{Notify: []string{b.ns}, RunHints: []journal.ID{own}}))
	awaitHint(b, all, own, false)
	another := *b
	another.open(b.store)
	require.NoError(b, another.commit(&store.Changes{Notify: []string{b.ns}, RunHints: []journal.ID{other}}))
	for _, hints := range []<-chan journal.ID{all, others} {
		for got := (journal.ID{}); got != other; { // other tests of the store give hints, too
			select {
			case got = <-hints:
				require.NotEqual(b, own, got, "a listener is not told of its own writer, and nobody twice")
			case <-b.ctx().Done():
				require.Fail(b, "no hint")
			}
		}
	}
	cancel()
	for _, hints := range []<-chan journal.ID{all, others} {
		for open := true; open; {
			select {
			case _, open = <-hints:
			case <-b.ctx().Done():
				require.Fail(b, "the channel stays open")
			}
		}
	}
}

// notifierHearsOfOthers has another process commit something, again and again, while this one commits, too.
func notifierHearsOfOthers(b *bench) {
	other := b.peer()
	hints, err := b.store.Notifier().Listen(b.ctx())
	require.NoError(b, err)
	runs, err := b.store.Notifier().ListenRuns(b.ctx(), func(writer journal.ID) bool { return writer == b.self })
	require.NoError(b, err)
	for i := range 12 {
		if i%2 == 0 {
			b.start(journal.Engine) // what this process commits hides nothing
		}
		run := other.start(journal.Engine)
		if i%3 == 0 {
			b.start(journal.Engine)
		}
		for there := false; !there; there = len(b.heads(run)) > 0 {
			anyHint(b, hints)
		}
		require.NoError(b, other.commit(&store.Changes{Notify: []string{b.ns}, RunHints: []journal.ID{run}}))
		awaitHint(b, runs, run, true)
	}
}
