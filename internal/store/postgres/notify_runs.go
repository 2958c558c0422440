package postgres

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

const (
	// runChannel is what the channel for news of runs has behind the name of the other one.
	runChannel = "_r"
	// runHintGap is the least time between two notifications about runs. Most runs end without anybody waiting for them
	// elsewhere, and each notification costs the server and all listening processes about a tenth of a millisecond.
	runHintGap = 10 * time.Millisecond
	// maxHintRuns is how many runs one notification names, so that it stays below the server's limit of 8,000 bytes.
	// More become "any".
	maxHintRuns = 200
)

// ListenRuns implements [store.Notifier].
func (n *notifier) ListenRuns(ctx context.Context, own func(writer journal.ID) bool) (<-chan journal.ID, error) {
	return n.listenFor(ctx, &n.runs, own)
}

// listenFor adds a listener for hints about runs. When it returns, the server is asked for them, see [notifier.Listen].
func (n *notifier) listenFor(
	ctx context.Context, listeners *store.RunListeners, own func(writer journal.ID) bool,
) (<-chan journal.ID, error) {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil, errClosed()
	}
	out := listeners.Listen(ctx, own, n.left)
	ready := n.start(ctx)
	n.mu.Unlock()
	select {
	case <-ready:
		return out, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// left is called when a listener has left.
func (n *notifier) left() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.idle()
}

// wroteRuns hints at news of runs: to this process at once, and to others soon.
func (n *notifier) wroteRuns(ctx context.Context, writer journal.ID, runs []journal.ID) {
	n.runs.Tell(writer, runs...)
	n.runHints.send(ctx, runs)
}

// hintSender tells other processes about runs. The batch that wrote does not wait for that, because the server
// commits those who notify one after the other. While one notification is on its way, further ones are merged. The
// notifier's lock guards it.
type hintSender struct {
	n       *notifier
	channel string
	gap     time.Duration           // the least time between two notifications
	unsent  map[journal.ID]struct{} // runs that other processes were not told of yet
	sending bool
}

func (s *hintSender) send(ctx context.Context, runs []journal.ID) {
	if len(runs) == 0 {
		return
	}
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if s.unsent == nil {
		s.unsent = map[journal.ID]struct{}{}
	}
	for _, run := range runs {
		s.unsent[run] = struct{}{}
	}
	if !s.sending && !s.n.closed {
		s.sending = true
		go s.run(context.WithoutCancel(ctx))
	}
}

// run sends what there is until there is nothing more.
func (s *hintSender) run(ctx context.Context) {
	st := s.n.store
	for hint := s.next(); hint != ""; hint = s.next() {
		// A hint is no reason to wait for the disk.
		_, err := st.pool.Exec(ctx, `select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)`, s.channel, hint)
		if err != nil && !st.closed.Load() {
			st.cfg.Logger.WarnContext(ctx, "hints to other processes were not sent; they will look", slog.Any("error", err))
		}
		if s.gap > 0 {
			_ = sleep(ctx, s.gap)
		}
	}
}

// next returns the text of the next notification: who sends it, and the runs. It is empty if there is nothing to send.
func (s *hintSender) next() string {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	if len(s.unsent) == 0 || s.n.closed {
		s.sending = false
		return ""
	}
	defer clear(s.unsent)
	var b strings.Builder
	b.WriteString(s.n.self)
	if len(s.unsent) > maxHintRuns {
		return b.String() + " *"
	}
	for run := range s.unsent {
		b.WriteByte(' ')
		b.WriteString(journal.PrefixRun.Format(run))
	}
	return b.String()
}

// received takes a notification apart. What this process sent itself it knows already.
func (n *notifier) received(hint string, listeners *store.RunListeners) {
	sender, list, _ := strings.Cut(hint, " ")
	if sender == n.self || listeners.Len() == 0 {
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
	listeners.Tell(journal.ID{}, runs...)
}
