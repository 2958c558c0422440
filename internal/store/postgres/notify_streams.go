package postgres

import (
	"context"
	"log/slog"
	"strings"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// streamListener is somebody who reads streams.
type streamListener struct {
	own   func(writer journal.ID) bool
	hints *store.Hints[journal.ID]
}

// maxHintRuns is how many runs one notification names, so that it stays below the server's limit of 8,000 bytes. More become "any".
const maxHintRuns = 200

// ListenStreams implements [store.Notifier].
func (n *notifier) ListenStreams(ctx context.Context, own func(writer journal.ID) bool) (<-chan journal.ID, error) {
	l := &streamListener{own: own, hints: store.NewHints[journal.ID]()}
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil, errClosed()
	}
	n.streamListeners[l] = struct{}{}
	n.heard.Add(1)
	ready := n.start(ctx)
	n.mu.Unlock()
	out := make(chan journal.ID)
	go func() {
		defer n.leaveStreams(l)
		l.hints.Deliver(ctx, out)
	}()
	select {
	case <-ready:
		return out, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *notifier) leaveStreams(l *streamListener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.streamListeners, l)
	n.heard.Add(-1)
	n.idle()
}

// tellStreams hints to this process that a writer has written to streams of these runs. It never blocks.
func (n *notifier) tellStreams(writer journal.ID, runs []journal.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for l := range n.streamListeners {
		if l.own != nil && l.own(writer) {
			continue // it knows
		}
		l.hints.Give(runs...)
	}
}

// wroteStreams hints to this process at once, and to others beside: the batch that wrote does not wait for that, because the server
// commits those who notify one after the other. While one notification is on its way, further ones are merged.
func (n *notifier) wroteStreams(ctx context.Context, writer journal.ID, runs []journal.ID) {
	if len(runs) == 0 {
		return
	}
	n.tellStreams(writer, runs)
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, run := range runs {
		n.unsent[run] = struct{}{}
	}
	if !n.sending && !n.closed {
		n.sending = true
		go n.sendHints(context.WithoutCancel(ctx))
	}
}

// sendHints sends what there is until there is nothing more.
func (n *notifier) sendHints(ctx context.Context) {
	for {
		n.mu.Lock()
		if len(n.unsent) == 0 || n.closed {
			n.sending = false
			n.mu.Unlock()
			return
		}
		hint := n.hint()
		clear(n.unsent)
		n.mu.Unlock()
		// A hint is no reason to wait for the disk.
		_, err := n.store.pool.Exec(ctx,
			`select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)`, n.channel+streamChannel, hint)
		if err != nil && !n.store.closed.Load() {
			n.store.cfg.Logger.WarnContext(ctx, "hints to readers of streams were not sent; they will look", slog.Any("error", err))
		}
	}
}

// streamChannel is what the channel for streams has behind the name of the other one.
const streamChannel = "_s"

// hint is the text of a notification: who sends it, and the runs. The lock is held.
func (n *notifier) hint() string {
	var b strings.Builder
	b.WriteString(n.self)
	if len(n.unsent) > maxHintRuns {
		return b.String() + " *"
	}
	for run := range n.unsent {
		b.WriteByte(' ')
		b.WriteString(journal.PrefixRun.Format(run))
	}
	return b.String()
}

// received takes a notification apart. What this process sent itself it knows already.
func (n *notifier) received(hint string) {
	sender, list, _ := strings.Cut(hint, " ")
	if sender == n.self {
		return
	}
	var runs []journal.ID
	for text := range strings.SplitSeq(list, " ") {
		run, err := journal.PrefixRun.Parse(text)
		if err != nil { // "any", or something that a newer program has to say
			run = journal.ID{}
		}
		runs = append(runs, run)
	}
	n.tellStreams(journal.ID{}, runs)
}
