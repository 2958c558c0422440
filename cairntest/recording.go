package cairntest

import (
	"context"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/export"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// recording is a store that has one run, in memory, and takes nothing: what a replay would write has nowhere to go. Of the questions that a store
// answers it has those that an engine asks.
type recording struct {
	store.Store
	run *export.Run
}

// Journal implements [store.Reader].
func (r *recording) Journal(_ context.Context, namespace string, id journal.ID, after int64) (*store.Journal, error) {
	if id != r.run.ID || namespace != r.run.Header.Namespace {
		return nil, cairnerr.Errorf(cairnerr.CodeRunNotFound, "no run %s in this record", journal.PrefixRun.Format(id))
	}
	last := int64(len(r.run.Events))
	return &store.Journal{Run: r.run.State.Run, Seq: last, Events: r.run.Events[min(max(after, 0), last):]}, nil
}

// Due implements [store.Reader]: the run is executed by the replay alone.
func (r *recording) Due(context.Context, store.DueFilter) ([]store.DueRun, error) { return nil, nil }

// Parked implements [store.Reader].
func (r *recording) Parked(context.Context, store.Scope, store.RunKey, int) ([]store.ParkedRun, error) {
	return nil, nil
}

// NextDue implements [store.Reader].
func (r *recording) NextDue(context.Context, journal.Time) (journal.Time, error) { return 0, nil }

// Peers implements [store.Reader].
func (r *recording) Peers(context.Context) ([]store.Peer, error) { return nil, nil }

// OpenWriter implements [store.Store].
func (r *recording) OpenWriter(context.Context, journal.ID, int) (store.Writer, error) {
	return noWriter{}, nil
}

// Fence implements [store.Store].
func (r *recording) Fence(context.Context, journal.ID) error { return nil }

// Notifier implements [store.Store].
func (r *recording) Notifier() store.Notifier { return r }

// Listen implements [store.Notifier].
func (r *recording) Listen(context.Context) (<-chan string, error) {
	return nil, nil //nolint:nilnil // nothing is ever said
}

// ListenStreams implements [store.Notifier].
func (r *recording) ListenStreams(context.Context, func(journal.ID) bool) (<-chan journal.ID, error) {
	return nil, nil //nolint:nilnil // nothing is ever said
}

// ListenRuns implements [store.Notifier].
func (r *recording) ListenRuns(context.Context, func(journal.ID) bool) (<-chan journal.ID, error) {
	return nil, nil //nolint:nilnil // nothing is ever said
}

// noWriter is a writer that writes nothing.
type noWriter struct{}

// Begin implements [store.Writer].
func (noWriter) Begin(context.Context, journal.Time) (store.Tx, error) {
	return nil, cairnerr.Errorf(cairnerr.CodeUnsupported, "a replay writes nothing")
}

// Settle implements [store.Writer].
func (noWriter) Settle(context.Context) (bool, error) { return false, nil }

// Close implements [store.Writer].
func (noWriter) Close() error { return nil }
