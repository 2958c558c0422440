package storetest

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var deleteTests = []test{
	{"Everything", deleteEverything},
	{"EveryRow", deleteEveryRow},
	{"NotEnded", deleteNotEnded},
	{"NumbersAreNotUsedAgain", deleteNumbers},
	{"Concurrent", deleteConcurrent},
}

// full makes a run that has rows in every table.
func (b *bench) full(key, token string) journal.ID {
	b.Helper()
	run := b.start(journal.Engine, func(c *journal.RunCreated) {
		c.StartKey, c.Attributes = key, map[string]string{"color": "red"}
	})
	b.write(run,
		keyed("step", &journal.StepStarted{Name: "step", Input: payload("in")}),
		keyed("hook", &journal.HookCreated{Token: token, RetainUntil: b.now.Add(24 * time.Hour)}),
		keyed("nap", &journal.WaitCreated{ResumeAt: b.now + 1000}))
	b.write(run, keyed("hook", &journal.HookReceived{Sender: "me", Payload: payload("p")}))
	b.must(&journal.Command{
		Run: run, Events: []journal.Event{plain(&journal.Annotated{Name: "n"})}, Guards: journal.Guards{Owner: b.owner(run)},
		Messages: []journal.Message{{ID: b.mint(), Queue: "q-" + token, Run: run}},
	})
	p := b.pen(run, "tokens")
	p.append(p.source("step", 1), "a", "b")
	b.appendLogs(roomy, b.line(run, "begins"))
	return run
}

// notOfRuns are the tables whose rows belong to no run.
var notOfRuns = []string{"schema", "schema_version", "namespaces", "workflows", "writers", "beats", "wakes"}

// rows counts the rows of runs, by table.
func (b *bench) rows() map[string]int {
	b.Helper()
	rows := b.factory.Rows(b.T, b.store)
	maps.DeleteFunc(rows, func(table string, _ int) bool { return slices.Contains(notOfRuns, table) })
	return rows
}

// deleteEveryRow deletes one of two runs that are alike: of the rows in each table, half are left.
func deleteEveryRow(shared *bench) {
	if shared.factory.Rows == nil {
		shared.Skip("nobody else can reach the database")
	}
	b := newBench(shared.T, shared.factory, shared.factory.Open(shared.T)) // with rows of nobody else
	run, stays := b.full("key", "token"), b.full("other key", "other token")
	for table, n := range b.rows() {
		require.NotZero(b, n, "this test must fill %s, or it belongs to those that have no rows of runs", table)
	}
	for _, id := range []journal.ID{run, stays} {
		b.write(id, plain(&journal.RunCompleted{Output: payload("out")}))
	}
	half := b.rows()
	for table, n := range half {
		require.Zero(b, n%2, table)
		half[table] = n / 2
	}
	require.NoError(b, b.store.Delete(b.ctx(), b.ns, run))
	require.Equal(b, half, b.rows())
	b.check(stays)
}

func deleteEverything(b *bench) {
	run, stays := b.full("key", "token"), b.full("other key", "other token")
	b.write(run, plain(&journal.RunCompleted{Output: payload("out")}))
	requireCode(b, cairnerr.CodeRunNotFound, b.store.Delete(b.ctx(), b.foreign().ns, run))
	requireCode(b, cairnerr.CodeRunNotFound, b.store.Delete(b.ctx(), "never seen", run))
	require.NoError(b, b.store.Delete(b.ctx(), b.ns, run))
	requireCode(b, cairnerr.CodeRunNotFound, b.store.Delete(b.ctx(), b.ns, run))

	_, err := b.store.Run(b.ctx(), b.ns, run, store.ResolveAll)
	requireCode(b, cairnerr.CodeRunNotFound, err)
	_, err = b.store.Journal(b.ctx(), b.ns, run, 0)
	requireCode(b, cairnerr.CodeRunNotFound, err)
	_, err = b.store.HookByToken(b.ctx(), b.ns, "token", store.ResolveNone)
	requireCode(b, cairnerr.CodeHookNotFound, err)
	require.Empty(b, b.eventsOf(store.EventFilter{Run: run}))
	messages, err := b.store.Messages(b.ctx(), b.ns, "q-token", store.ResolveNone, store.Page{})
	require.NoError(b, err)
	require.Empty(b, messages.Data)
	for _, f := range []store.RunFilter{{}, {Attributes: map[string]string{"color": "red"}}, {Workflow: birth(journal.Engine).Workflow}} {
		list, err := b.store.Runs(b.ctx(), b.ns, f, store.Page{})
		require.NoError(b, err)
		require.Len(b, list.Data, 1)
		require.Equal(b, stays, list.Data[0].ID)
	}
	b.check(stays)
	again := b.full("key", "token") // its start key and its token are free
	require.NotEqual(b, run, again)
	b.check(again, stays)
}

func deleteNotEnded(b *bench) {
	run := b.full("key", "token")
	requireCode(b, cairnerr.CodeIllegalTransition, b.store.Delete(b.ctx(), b.ns, run))
	b.check(run)
	b.write(run, plain(&journal.RunFailed{Error: &cairnerr.Error{Code: "x"}}))
	require.NoError(b, b.store.Delete(b.ctx(), b.ns, run))
}

// deleteNumbers lets a process write to a run that it remembers and that was deleted meanwhile: a run that came later is not touched by that.
func deleteNumbers(b *bench) {
	for range 3 {
		old := b.start(journal.Engine)
		p := b.peer()
		cached := p.cached(old)
		b.write(old, plain(&journal.RunCompleted{}))
		require.NoError(b, b.store.Delete(b.ctx(), b.ns, old))
		next := b.start(journal.Engine)
		changes := p.optimistic(cached, &journal.Command{Run: old, Events: []journal.Event{plain(&journal.CancelRequested{})}})
		require.ErrorIs(b, p.commit(changes), store.ErrConflict)
		b.check(next)
		require.Zero(b, b.run(next).CancelledAt)
		b.write(next, plain(&journal.RunCompleted{}))
		require.NoError(b, b.store.Delete(b.ctx(), b.ns, next))
	}
}

// deleteConcurrent deletes one run from many sides: it succeeds once, and hurts nobody.
func deleteConcurrent(b *bench) {
	run, stays := b.full("key", "token"), b.full("other key", "other token")
	b.write(run, plain(&journal.RunCompleted{}))
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = b.store.Delete(b.ctx(), b.ns, run) })
	}
	all.Wait()
	done := 0
	for _, err := range errs {
		if err == nil {
			done++
			continue
		}
		requireCode(b, cairnerr.CodeRunNotFound, err)
	}
	require.Equal(b, 1, done)
	b.check(stays)
}
