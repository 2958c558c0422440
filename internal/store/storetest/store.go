package storetest

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var storeTests = []test{
	{"Closed", storeClosed},
	{"EndedContext", storeEndedContext},
	{"Info", storeInfo},
	{"OpenedAgain", storeAgain},
}

func storeClosed(b *bench) {
	s := b.factory.Open(b.T)
	w, err := s.OpenWriter(b.ctx(), b.mint(), 0)
	require.NoError(b, err)
	require.NoError(b, s.Close())
	require.NoError(b, s.Close(), "twice is the same")
	_, err = w.Begin(b.ctx(), b.now)
	requireCode(b, cairnerr.CodeClosed, err)
	require.NoError(b, w.Close())
	_, err = s.OpenWriter(b.ctx(), b.mint(), 0)
	requireCode(b, cairnerr.CodeClosed, err)
	requireCode(b, cairnerr.CodeClosed, s.Fence(b.ctx(), b.mint()))
	_, err = s.Info(b.ctx())
	requireCode(b, cairnerr.CodeClosed, err)
	for name, err := range readAll(b.ctx(), s, b.ns, b.mint()) {
		require.Equal(b, cairnerr.CodeClosed, cairnerr.CodeOf(err), "%s: %v", name, err)
	}
}

// readAll asks every question once.
func readAll(ctx context.Context, s store.Store, ns string, id journal.ID) map[string]error {
	errs := map[string]error{}
	_, errs["Namespaces"] = s.Namespaces(ctx)
	_, errs["Run"] = s.Run(ctx, ns, id, store.ResolveAll)
	_, errs["Heads"] = s.Heads(ctx, ns, []journal.ID{id})
	_, errs["Runs"] = s.Runs(ctx, ns, store.RunFilter{}, store.Page{})
	_, errs["Journal"] = s.Journal(ctx, ns, id, 0)
	_, errs["Event"] = s.Event(ctx, ns, id, 1, store.ResolveAll)
	_, errs["Events"] = s.Events(ctx, ns, store.EventFilter{Run: id}, store.Page{})
	_, errs["Events of an entity"] = s.Events(ctx, ns, store.EventFilter{Entity: id}, store.Page{})
	_, errs["Step"] = s.Step(ctx, ns, id, id, store.ResolveAll)
	_, errs["Steps"] = s.Steps(ctx, ns, id, store.ResolveAll, store.Page{})
	_, errs["Hook"] = s.Hook(ctx, ns, id, id, store.ResolveAll)
	_, errs["HookByToken"] = s.HookByToken(ctx, ns, "t", store.ResolveAll)
	_, errs["Hooks"] = s.Hooks(ctx, ns, id, store.ResolveAll, store.Page{})
	_, errs["Wait"] = s.Wait(ctx, ns, id, id)
	_, errs["Waits"] = s.Waits(ctx, ns, id, store.Page{})
	_, errs["Message"] = s.Message(ctx, ns, id)
	_, errs["Messages"] = s.Messages(ctx, ns, "q", store.ResolveAll, store.Page{})
	_, errs["Logs"] = s.Logs(ctx, ns, id, store.LogFilter{}, store.Page{})
	errs["AppendLogs"] = s.AppendLogs(ctx, []store.LogLine{{Namespace: ns, Run: id}}, store.LogLimit{})
	_, errs["Outline"] = s.Outline(ctx, ns, id)
	return errs
}

// A caller who gives up gets his own error back, not one of the database.
func storeEndedContext(b *bench) {
	run := b.start(journal.Engine)
	ctx, cancel := context.WithCancel(b.ctx())
	cancel()
	for name, err := range readAll(ctx, b.store, b.ns, run) {
		require.ErrorIs(b, err, context.Canceled, name)
	}
	b.check(run)
}

func storeInfo(b *bench) {
	b.start(journal.Engine)
	info, err := b.store.Info(b.ctx())
	require.NoError(b, err)
	require.NotEmpty(b, info.Kind)
	require.NotEmpty(b, info.Version)
	require.NotEmpty(b, info.Location)
	require.Positive(b, info.SchemaVersion)
	require.Positive(b, info.SizeBytes)
}

// Another process sees what was committed, and goes on with it.
func storeAgain(b *bench) {
	run := b.rich()
	p := b.peer()
	p.check(run)
	require.Equal(b, b.everything(run), p.everything(run))
	p.write(run, plain(&journal.RunCompleted{Output: payload("there")}))
	require.Equal(b, payload("there"), b.run(run).Output)
	b.check(run)
	ours, err := b.store.Info(b.ctx())
	require.NoError(b, err)
	theirs, err := p.store.Info(b.ctx())
	require.NoError(b, err)
	require.Equal(b, ours.SchemaVersion, theirs.SchemaVersion)
	require.Equal(b, ours.Location, theirs.Location)
}
