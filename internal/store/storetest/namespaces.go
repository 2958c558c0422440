package storetest

import (
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var namespaceTests = []test{
	{"List", namespaceList},
	{"SameIdsEverywhere", namespaceSameIDs},
	{"StrangeNames", namespaceStrange},
	{"Wake", namespaceWake},
	{"Workflow", namespaceWorkflow},
}

// Two namespaces hold runs, entities, tokens, keys and messages of the same names, and never see each other's (invariant 11).
func namespaceSameIDs(b *bench) {
	run, step, hook, wait, parent := b.mint(), b.mint(), b.mint(), b.mint(), b.mint()
	sides := []*bench{b, b.in(b.ns + "-foreign")}
	for _, s := range sides {
		mark := payload(s.ns)
		s.must(s.starting(run, journal.World3, func(c *journal.RunCreated) {
			c.StartKey, c.Input, c.Attributes, c.Parent = "key", mark, map[string]string{"a": "1"}, parent
		}))
		s.write(run,
			about(step, &journal.StepCreated{Name: "s", Input: mark}), about(hook, &journal.HookCreated{Token: "t", Metadata: mark}),
			about(wait, &journal.WaitCreated{Kind: s.ns}), about(hook, &journal.HookReceived{Sender: "x", Payload: mark}))
		require.NoError(b, s.commit(&store.Changes{Messages: []journal.Message{s.message("q", "k", s.ns)}}))
	}
	for i, s := range sides {
		other := sides[1-i]
		s.check(run)
		require.Equal(b, payload(s.ns), s.run(run).Input)
		require.Equal(b, payload(s.ns), s.step(run, step).Input)
		require.Equal(b, payload(s.ns), s.byToken("t").Metadata)
		w, err := s.store.Wait(b.ctx(), s.ns, run, wait)
		require.NoError(b, err)
		require.Equal(b, s.ns, w.Kind)
		require.Equal(b, []string{s.ns}, s.texts("q"))
		require.Len(b, s.eventsOf(store.EventFilter{Entity: hook}), 2)
		for _, f := range []store.RunFilter{
			{}, {Workflow: "checkout"}, {Parent: parent}, {Attributes: map[string]string{"a": "1"}}, {Statuses: []journal.Status{journal.StatusRunning}},
		} {
			l, err := s.store.Runs(b.ctx(), s.ns, f, store.Page{})
			require.NoError(b, err)
			require.Len(b, l.Data, 1)
		}
		hooks, err := s.store.Hooks(b.ctx(), s.ns, journal.ID{}, store.ResolveAll, store.Page{})
		require.NoError(b, err)
		require.Len(b, hooks.Data, 1)
		tx := s.begin()
		loaded, err := tx.Load(b.ctx(), &store.LoadSet{
			Tokens:    []store.Token{{Namespace: s.ns, Token: "t"}},
			StartKeys: []journal.StartKey{{Namespace: s.ns, Workflow: "checkout", Key: "key"}},
		})
		require.NoError(b, err)
		require.Contains(b, loaded.Outside.Tokens, journal.TokenKey(s.ns, "t"))
		require.Len(b, loaded.Outside.Tokens, 1)
		require.Len(b, loaded.Outside.StartKeys, 1)
		tx.Rollback()
		// What happens here is not felt there.
		s.write(run, plain(&journal.RunCancelled{}))
		require.NoError(b, s.commit(&store.Changes{Wake: []store.RunKey{{Namespace: s.ns, Run: run}}}))
		if i == 0 {
			require.Equal(b, journal.StatusRunning, other.run(run).Status)
			require.Equal(b, run, other.byToken("t").Run)
			other.check(run)
		}
	}
}

func namespaceWake(b *bench) {
	other := b.in(b.ns + "-foreign")
	for _, woken := range []string{b.ns, other.ns} { // the one whose row is older, and the one whose row is younger
		run := b.mint()
		for _, s := range []*bench{b, other} {
			s.must(s.starting(run, journal.Engine))
			s.must(s.release(run))
		}
		require.NoError(b, b.commit(&store.Changes{Wake: []store.RunKey{{Namespace: woken, Run: run}}}))
		for _, s := range []*bench{b, other} {
			if s.ns == woken {
				require.Equal(b, b.now, s.run(run).WakeAt)
			} else {
				require.Zero(b, s.run(run).WakeAt)
			}
		}
	}
}

// A workflow's name belongs to its namespace, also for a process that knows none of them yet.
func namespaceWorkflow(b *bench) {
	foreign := b.foreign()
	theirs := foreign.start(journal.Engine, func(c *journal.RunCreated) { c.Workflow, c.StartKey = "both", "key" })
	foreign.start(journal.Engine, func(c *journal.RunCreated) { c.Workflow = "theirs" })
	ours := b.start(journal.Engine, func(c *journal.RunCreated) { c.Workflow, c.StartKey = "both", "key" })
	for ns, want := range map[string]journal.ID{b.ns: ours, foreign.ns: theirs} {
		cold := b.factory.Again(b.T, b.store)
		l, err := cold.Runs(b.ctx(), ns, store.RunFilter{Workflow: "both"}, store.Page{})
		require.NoError(b, err)
		require.Len(b, l.Data, 1)
		require.Equal(b, want, l.Data[0].ID)
		p := *b
		p.open(b.factory.Again(b.T, b.store))
		tx := p.begin()
		loaded, err := tx.Load(b.ctx(), &store.LoadSet{StartKeys: []journal.StartKey{{Namespace: ns, Workflow: "both", Key: "key"}}})
		require.NoError(b, err)
		tx.Rollback()
		for _, started := range loaded.Outside.StartKeys {
			require.Equal(b, want, started.Run)
		}
		require.Len(b, loaded.Outside.StartKeys, 1)
	}
	l, err := b.factory.Again(b.T, b.store).Runs(b.ctx(), b.ns, store.RunFilter{Workflow: "theirs"}, store.Page{})
	require.NoError(b, err)
	require.Empty(b, l.Data)
}

func namespaceList(b *bench) {
	names := []string{b.ns + " Z", b.ns + " a", b.ns + " ä", b.ns + " \U0001f600"} // by their bytes
	for _, name := range slices.Backward(names) {
		b.in(name).start(journal.Engine)
	}
	tx := b.begin()
	_, _, err := b.load(tx, &journal.Command{Namespace: b.ns + " only asked for", Run: b.mint()})
	require.NoError(b, err)
	tx.Rollback()
	for _, s := range []store.Store{b.store, b.factory.Again(b.T, b.store)} {
		all, err := s.Namespaces(b.ctx())
		require.NoError(b, err)
		require.True(b, slices.IsSorted(all))
		ours := slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, b.ns) })
		require.Equal(b, names, ours)
	}
}

func namespaceStrange(b *bench) {
	names := []string{"a", "A", "a ", " a", "ä", "a\u0308", "'; drop table runs; --", "%", "_", "\\", "\u200b", "\U0001f600", "0"}
	var runs []journal.ID
	for _, name := range names {
		s := b.in(name)
		runs = append(runs, s.start(journal.Engine, func(c *journal.RunCreated) {
			c.Workflow, c.StartKey, c.Attributes = name, name, map[string]string{name: name}
		}))
	}
	for i, name := range names {
		s := b.in(name)
		for _, f := range []store.RunFilter{{}, {Workflow: name}, {Attributes: map[string]string{name: name}}} {
			l, err := s.store.Runs(b.ctx(), name, f, store.Page{})
			require.NoError(b, err)
			require.Len(b, l.Data, 1)
			require.Equal(b, runs[i], l.Data[0].ID)
		}
		s.check(runs[i])
		for _, other := range slices.Delete(slices.Clone(runs), i, i+1) {
			requireNoRun(s, other)
		}
	}
}
