package storetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/check"
)

// Ledger is what somebody who writes to a database remembers of it: which commands he has sent, and which of them were acknowledged. After the
// database has died, [Ledger.Audit] holds what is found against it.
type Ledger struct {
	// Moment numbers the moments in which commands are acknowledged; nil: all are acknowledged in moment 0.
	Moment func() int

	mu   sync.Mutex
	runs map[store.RunKey][]*sent
}

// sent is a command.
type sent struct {
	events []journal.Event
	acked  bool
	moment int
}

// send notes that a command is about to be sent.
func (l *Ledger) send(cmd *journal.Command) *sent {
	s := &sent{events: cmd.Events}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = map[store.RunKey][]*sent{}
	}
	key := store.RunKey{Namespace: cmd.Namespace, Run: cmd.Run}
	l.runs[key] = append(l.runs[key], s)
	return s
}

// acknowledged notes that a command is durable.
func (l *Ledger) acknowledged(s *sent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.acked = true
	if l.Moment != nil {
		s.moment = l.Moment()
	}
}

// Acknowledged returns how many commands were acknowledged up to a moment.
func (l *Ledger) Acknowledged(moment int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, commands := range l.runs {
		for _, c := range commands {
			if c.acked && c.moment <= moment {
				n++
			}
		}
	}
	return n
}

// Audit says what is wrong with a database that died in a moment: every command that was acknowledged by then must be there, all others whole or not at
// all and not before those that were sent to their run earlier, nothing else, and the views must equal the fold of the journal.
func (l *Ledger) Audit(ctx context.Context, st store.Store, moment int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := 0
	for key, commands := range l.runs {
		there, err := audit(ctx, st, key, commands, moment)
		if err != nil {
			return fmt.Errorf("%s: %w", journal.PrefixRun.Format(key.Run), err)
		}
		if there {
			found++
		}
	}
	report, err := check.All(ctx, st, check.Options{Now: func() journal.Time { return journal.TimeOf(time.Now()) }, Workers: 1})
	switch {
	case err != nil:
		return err
	case report.Found > 0:
		return fmt.Errorf("%d differences, the first: %s", report.Found, report.Differences[0])
	case report.Runs != found:
		return fmt.Errorf("%d runs, of which %d are known", report.Runs, found)
	}
	return nil
}

// audit looks at one run, and reports whether it is there.
func audit(ctx context.Context, st store.Store, key store.RunKey, commands []*sent, moment int) (bool, error) {
	var events []journal.Event
	log, err := st.Journal(ctx, key.Namespace, key.Run, 0)
	if err == nil {
		events = log.Events
	} else if cairnerr.CodeOf(err) != cairnerr.CodeRunNotFound {
		return false, err
	}
	there := len(events) > 0
	for i, c := range commands {
		switch {
		case len(events) >= len(c.events):
			for j := range c.events {
				if err := same(&c.events[j], &events[j]); err != nil {
					return there, fmt.Errorf("command %d, event %d: %w", i, j, err)
				}
			}
			events = events[len(c.events):]
		case len(events) > 0:
			return there, fmt.Errorf("command %d is there by %d of %d events", i, len(events), len(c.events))
		case c.acked && c.moment <= moment:
			return there, fmt.Errorf("command %d of %d was acknowledged at %d, and is lost", i, len(commands), c.moment)
		}
	}
	if len(events) > 0 {
		return there, fmt.Errorf("%d events that nobody has sent", len(events))
	}
	return there, nil
}

// same compares an event that was sent with one that was found.
func same(sent, found *journal.Event) error {
	if sent.Data.EventType() != found.Data.EventType() || sent.Key != found.Key {
		return fmt.Errorf("%s %q was sent, %s %q found", sent.Data.EventType(), sent.Key, found.Data.EventType(), found.Key)
	}
	if !bytes.Equal(value(sent.Data), value(found.Data)) {
		return fmt.Errorf("the value of %s %q is not what was sent", sent.Data.EventType(), sent.Key)
	}
	return nil
}

// value returns the user's value of the events that [Work] writes.
func value(data journal.Data) journal.Payload {
	switch d := data.(type) {
	case *journal.RunCreated:
		return d.Input
	case *journal.StepCompleted:
		return d.Result
	case *journal.HookReceived:
		return d.Payload
	case *journal.Annotated:
		return d.Value
	case *journal.RunCompleted:
		return d.Output
	default:
		return nil
	}
}
