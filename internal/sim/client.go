package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// client sends random commands to the runs that all share, and writes down what it was told.
type client struct {
	*Actor
	w    *world
	p    *process
	sent int
}

// work sends commands until it has sent them all or its process is killed. It returns how many were answered.
func (c *client) work(commands int) int {
	for n := range commands {
		c.Point()
		if c.dead() {
			return n
		}
		cmd, mark := c.command()
		res, err := c.do(cmd)
		c.Point() // several clients are answered at the same instant
		if c.dead() {
			c.note(cmd, mark, unknown, 0, "killed")
			return n
		}
		switch {
		case err == nil && conflict(res):
			c.note(cmd, mark, refused, 0, "conflict") // recorded, but without the mark
		case err == nil:
			c.p.learn(res.Run)
			c.checkRead(cmd, res)
			c.owns(cmd, res)
			c.note(cmd, mark, acknowledged, res.Outcomes[0].Seq, fmt.Sprintf("ok at %d", res.Outcomes[0].Seq))
		case cairnerr.CodeOf(err) == cairnerr.CodeOutcomeUnknown:
			c.note(cmd, mark, unknown, 0, "unknown")
		default:
			c.note(cmd, mark, refused, 0, refusal(err))
		}
	}
	return commands
}

// owns puts the epoch that a claim gave into the command, so that it is noted.
func (c *client) owns(cmd *journal.Command, res *journal.Result) {
	if cmd.Lease == journal.LeaseClaim {
		cmd.Guards.Owner.Epoch = res.Run.Epoch
	}
}

// checkRead checks the answer to a question that came with a command: all events since the position, without a gap, to the last one.
func (c *client) checkRead(cmd *journal.Command, res *journal.Result) {
	if cmd.Read.Kind == journal.ReadNone {
		return
	}
	next := cmd.Read.Since
	for i := range res.Read {
		if next++; res.Read[i].Seq != next {
			c.w.fail("%s: read event %d where %d should be", c.name, res.Read[i].Seq, next)
			return
		}
	}
	if last := res.Seq; next != last && next < last {
		c.w.fail("%s: read up to %d of %d", c.name, next, last)
	}
}

// conflict reports whether a hook's token was taken, which is recorded instead of the hook.
func conflict(res *journal.Result) bool {
	return len(res.Appended) == 1 && res.Appended[0].Type == journal.EventHookConflict
}

func refusal(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "withdrawn"
	}
	return string(cairnerr.CodeOf(err))
}

func (c *client) dead() bool {
	select {
	case <-c.p.killed:
		return true
	default:
		return false
	}
}

// do sends a command and waits for the answer, some of them not for long. A client dies with its process.
func (c *client) do(cmd *journal.Command) (*journal.Result, error) {
	ctx, cancel := context.WithCancel(context.Background())
	if c.Chance(100) {
		ctx, cancel = context.WithTimeout(context.Background(), time.Duration(1+c.Pick(20_000_000)))
	}
	defer cancel()
	t, err := c.p.committer.Submit(ctx, cmd)
	if err != nil {
		return nil, err
	}
	select {
	case <-t.Done():
	case <-ctx.Done():
	case <-c.p.killed:
		cancel()
	}
	return t.Wait(ctx)
}

func (c *client) note(cmd *journal.Command, mark string, f fate, seq int64, text string) {
	c.w.mu.Lock()
	c.w.claims = append(c.w.claims, claim{
		mark: mark, run: cmd.Run, incarnation: c.p.incarnation, fate: f, seq: seq, epoch: cmd.Guards.Owner.Epoch, claims: cmd.Lease == journal.LeaseClaim,
		releases: cmd.Lease == journal.LeaseRelease,
	})
	c.w.mu.Unlock()
	c.w.trace.Add(c.name, "%s %s%s: %s", mark, cmd.Events[0].Data.EventType(), lease(cmd), text)
}

func lease(cmd *journal.Command) string {
	switch {
	case cmd.Lease == journal.LeaseClaim:
		return " with a claim"
	case cmd.Lease == journal.LeaseRelease:
		return " with a release"
	case cmd.Guards.Owner.Epoch > 0:
		return fmt.Sprintf(" in epoch %d", cmd.Guards.Owner.Epoch)
	default:
		return ""
	}
}

// command makes up a command. Its mark is in the journal if and only if the command was applied.
func (c *client) command() (*journal.Command, string) {
	c.sent++
	mark := fmt.Sprintf("%s/%d", c.name, c.sent)
	cmd := &journal.Command{Namespace: namespace, Run: c.w.runs[c.Pick(len(c.w.runs))]}
	if c.w.ownable(cmd.Run) && c.Chance(700) {
		c.owner(cmd, mark)
	} else {
		cmd.Events = []journal.Event{c.event(cmd, mark)}
	}
	if c.Chance(200) {
		cmd.Read = journal.Read{Kind: journal.ReadSince, Since: int64(c.Pick(4))}
	}
	return cmd, mark
}

// owner makes up a command of somebody who owns the run, or thinks so, or wants to. The process remembers the epoch in which it
// claimed the run; others may have claimed it since.
func (c *client) owner(cmd *journal.Command, mark string) {
	cmd.Guards.Owner.Incarnation = c.p.incarnation
	value := journal.Payload(mark)
	known := c.p.claimed(cmd.Run)
	if known == nil { // the note goes along, so that the claim has a mark
		cmd.Lease = journal.LeaseClaim
		cmd.Events = []journal.Event{{Data: &journal.Annotated{Name: "claimed", Value: value}}}
		return
	}
	cmd.Guards.Owner.Epoch = known.Epoch
	if known.Status == journal.StatusPending {
		cmd.Events = []journal.Event{{Data: &journal.Annotated{Name: "started", Value: value}}, {Data: &journal.RunStarted{}}}
		return
	}
	step := fmt.Sprintf("step#%d", c.Pick(12))
	switch c.Pick(8) {
	case 0:
		cmd.Events = []journal.Event{{Key: step, Data: &journal.StepStarted{Name: mark}}}
	case 1:
		cmd.Events = []journal.Event{{Key: step, Data: &journal.StepFailed{Name: "s", Value: value}}}
	case 2:
		cmd.Lease = journal.LeaseRelease
		cmd.Events = []journal.Event{{Key: fmt.Sprintf("wait#%d", c.sent), Data: &journal.WaitCreated{Kind: mark, ResumeAt: now().Add(time.Millisecond)}}}
	case 3:
		cmd.Events = []journal.Event{{Key: step, Data: &journal.HookCreated{Token: mark, Metadata: value}}}
	default:
		cmd.Events = []journal.Event{{Key: step, Data: &journal.StepCompleted{Name: "s", Result: value}}}
	}
}

// event makes up an event from outside. In the World's runs everybody may write everything; what is legal depends on what the
// others did.
func (c *client) event(cmd *journal.Command, mark string) journal.Event {
	entity := func(kind journal.Prefix, n int) journal.ID {
		return journal.DeriveID(cmd.Run, kind, fmt.Sprint(c.Pick(n)))
	}
	value := journal.Payload(mark)
	switch c.Pick(12) {
	case 0, 1, 2:
		d := &journal.RunCreated{Workflow: "w", Dialect: journal.World6, Spec: 7, Input: value}
		if c.w.ownable(cmd.Run) {
			d.Dialect, d.Spec = journal.Engine, 0
		}
		return journal.Event{Data: d}
	case 3:
		return journal.Event{Entity: entity(journal.PrefixStep, 6), Data: &journal.StepCreated{Name: "s", Input: value}}
	case 4, 5:
		return journal.Event{Entity: entity(journal.PrefixStep, 6), Data: &journal.StepCompleted{Name: "s", Result: value}}
	case 6:
		token := fmt.Sprintf("t%d", c.Pick(4))
		return journal.Event{Entity: entity(journal.PrefixHook, 3), Data: &journal.HookCreated{Token: token, SingleUse: true, Metadata: value}}
	case 7:
		return journal.Event{Entity: entity(journal.PrefixHook, 3), Data: &journal.HookReceived{Payload: value}}
	case 8:
		return journal.Event{Entity: entity(journal.PrefixHook, 3), Data: &journal.HookReceived{Payload: value, Sender: mark}}
	case 9:
		return journal.Event{Entity: entity(journal.PrefixWait, 3), Data: &journal.WaitCreated{Kind: mark, ResumeAt: now().Add(time.Second)}}
	case 10:
		if c.Chance(300) {
			return journal.Event{Data: &journal.RunCompleted{Output: value}}
		}
		return journal.Event{Data: &journal.AttrSet{Changes: []journal.AttrChange{{Key: "mark", Value: mark}}}}
	default:
		return journal.Event{Data: &journal.Annotated{Name: "note", Value: value}}
	}
}
