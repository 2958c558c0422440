package engine

import (
	"slices"
	"strings"

	"github.com/cairn-workflow/cairn/internal/journal"
)

// A branch that is executed again repeats what it did before, until it asks for something that the journal did not have when this process took the
// run. From then on it is live: what it says is new. Before that it is silent: it has said it before.

// isLive reports whether what the line does is new.
func (l *line) isLive() bool { return l.live.Load() }

// goLive is called when the line asks for something that the journal does not have.
func (l *line) goLive() {
	if !l.live.Load() {
		l.live.Store(true)
	}
}

// follow is called when the line has waited for others: if what they did is new, so is what it does from now on.
func (l *line) follow(futures ...*Future) {
	if l.live.Load() {
		return
	}
	for _, f := range futures {
		if f.line.isLive() {
			l.goLive()
			return
		}
	}
}

// isNews reports whether the code of the line gets something that came from outside, a delivery or a cancel, for the first time. The journal does not
// say when it was given out: it was if the line has done something afterwards that is recorded.
func (l *line) isNews(seq int64) bool { return l.isLive() || seq > l.x.before[l.path] }

// lastOf returns the last event of each branch that has one, by its path. It is asked for only where something came from outside.
func lastOf(events []journal.Event) map[string]int64 {
	outside := func(e journal.Event) bool {
		return e.Type == journal.EventHookReceived || e.Type == journal.EventCancelRequested
	}
	if !slices.ContainsFunc(events, outside) {
		return nil
	}
	last := map[string]int64{}
	for i := range events {
		if key := events[i].Key; key != "" && events[i].Type != journal.EventHookReceived {
			last[key[:strings.LastIndexByte(key, '/')+1]] = events[i].Seq
		}
	}
	return last
}
