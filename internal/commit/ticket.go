package commit

import (
	"context"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// Ticket stands for a command that was submitted.
type Ticket struct {
	cmd       *journal.Command
	app       *Append // instead of a command
	earlier   *Ticket // of the same run, on which this one rests; nil: on none
	c         *Committer
	bytes     int
	number    int64     // of all that were put into the queue
	submitted time.Time // for the statistics alone
	held      int       // how often it was set aside, see held.go

	done   chan struct{}
	result *journal.Result
	err    error

	refused []int // operations of app
}

// Done is closed when the command is durable or refused.
func (t *Ticket) Done() <-chan struct{} { return t.done }

// Wait waits until the command is durable or refused; see [Committer.Do].
func (t *Ticket) Wait(ctx context.Context) (*journal.Result, error) {
	select {
	case <-t.done:
		return t.result, t.err
	default:
	}
	select {
	case <-t.done:
	case <-ctx.Done():
	}
	t.c.cfg.Turn.Take("ticket", t.number)
	select {
	case <-t.done:
		return t.result, t.err
	default:
	}
	if t.c.queue.withdraw(t, context.Cause(ctx)) {
		return nil, t.err
	}
	select {
	case <-t.done: // it was answered at the same time
		return t.result, t.err
	default:
		return nil, cairnerr.Errorf(cairnerr.CodeOutcomeUnknown, "gave up waiting while the command was being committed: %w", context.Cause(ctx))
	}
}

// WaitOrLead waits like [Ticket.Wait], and after a while commits what there is, if nobody else has.
func (t *Ticket) WaitOrLead(ctx context.Context, after time.Duration) (*journal.Result, error) {
	patience := time.NewTimer(after)
	select {
	case <-t.done:
	case <-patience.C:
	case <-ctx.Done():
	}
	patience.Stop()
	t.c.cfg.Turn.Take("patience", t.number)
	t.Lead(ctx)
	return t.Wait(ctx)
}

// Lead commits what there is, if the command is not decided and nobody commits just now.
func (t *Ticket) Lead(ctx context.Context) {
	select {
	case <-t.done:
	default:
		t.c.lead(ctx)
	}
}

// lost says that a command on which others rest was not written. Whoever commits asks for it when that was decided: commands of one run keep their order.
func (t *Ticket) lost() error {
	if t == nil || t.err == nil {
		return nil
	}
	return cairnerr.Errorf(cairnerr.CodeStaleEpoch, "a command that this one depends on was not written: %w", t.err)
}

func (t *Ticket) key() store.RunKey {
	if t.app != nil {
		return t.app.RunKey()
	}
	return store.RunKey{Namespace: t.cmd.Namespace, Run: t.cmd.Run}
}

// commandBytes is roughly the size of a command in the database.
func commandBytes(cmd *journal.Command) int {
	n := 0
	for i := range cmd.Events {
		n += 100 + journal.PayloadBytes(cmd.Events[i].Data)
	}
	for i := range cmd.Messages {
		n += 100 + len(cmd.Messages[i].Payload)
	}
	return n
}

// Command returns the command that was submitted.
func (t *Ticket) Command() *journal.Command { return t.cmd }
