package postgres

import (
	"context"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// ListenStreams implements [store.Notifier].
func (n *notifier) ListenStreams(ctx context.Context, own func(writer journal.ID) bool) (<-chan journal.ID, error) {
	return n.listenFor(ctx, &n.streams, own)
}

// streamChannel is what the channel for streams has behind the name of the other one.
const streamChannel = "_s"

// wroteStreams hints to this process at once, and to others beside: see [hintSender].
func (n *notifier) wroteStreams(ctx context.Context, writer journal.ID, runs []journal.ID) {
	n.streams.Tell(writer, runs...)
	n.streamHints.send(ctx, runs)
}
