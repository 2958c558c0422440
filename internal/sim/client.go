package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

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
			c.note(cmd, mark, acknowledged, res.Outcomes[0].Seq, fmt.Sprintf("ok at %d", res.Outcomes[0].Seq))
		case journal.CodeOf(err) == journal.CodeOutcomeUnknown:
			c.note(cmd, mark, unknown, 0, "unknown")
		default:
			c.note(cmd, mark, refused, 0, refusal(err))
		}
	}
	return commands
}

// conflict reports whether a hook's token was taken, which is recorded instead of the hook.
func conflict(res *journal.Result) bool {
	return len(res.Appended) == 1 && res.Appended[0].Type == journal.EventHookConflict
}

func refusal(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "withdrawn"
	}
	return string(journal.CodeOf(err))
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
	c.w.claims = append(c.w.claims, claim{mark: mark, run: cmd.Run, incarnation: c.p.incarnation, fate: f, seq: seq})
	c.w.mu.Unlock()
	c.w.trace.Add(c.name, "%s %s: %s", mark, cmd.Events[0].Data.EventType(), text)
}

// command makes up a command. Its mark is in the journal if and only if the command was applied.
func (c *client) command() (*journal.Command, string) {
	c.sent++
	mark := fmt.Sprintf("%s/%d", c.name, c.sent)
	cmd := &journal.Command{Namespace: namespace, Run: c.w.runs[c.Pick(len(c.w.runs))]}
	cmd.Events = []journal.Event{c.event(cmd, mark)}
	return cmd, mark
}

// event makes up an event. Runs are of dialect World, where everybody may write everything; what is legal depends on what
// the others did. The first of the runs is the engine's: there only outside events come through.
func (c *client) event(cmd *journal.Command, mark string) journal.Event {
	entity := func(kind journal.Prefix, n int) journal.ID {
		return journal.DeriveID(cmd.Run, kind, fmt.Sprint(c.Pick(n)))
	}
	value := journal.Payload(mark)
	switch c.Pick(12) {
	case 0, 1, 2:
		d := &journal.RunCreated{Workflow: "w", Dialect: journal.World6, Spec: 7, Input: value}
		if cmd.Run == c.w.runs[0] {
			d.Dialect, d.Spec = journal.Engine, 0
		}
		return journal.Event{Data: d}
	case 3:
		return journal.Event{Entity: entity(journal.PrefixStep, 6), Data: &journal.StepCreated{Name: "s", Input: value}}
	case 4, 5:
		return journal.Event{Entity: entity(journal.PrefixStep, 6), Data: &journal.StepCompleted{Name: "s", Result: value}}
	case 6:
		return journal.Event{Entity: entity(journal.PrefixHook, 3), Data: &journal.HookCreated{Token: fmt.Sprintf("t%d", c.Pick(4)), SingleUse: true, Metadata: value}}
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
		return journal.Event{Data: &journal.Annotated{Name: "note", Value: value}}
	default:
		return journal.Event{Data: &journal.Annotated{Name: "note", Value: value}}
	}
}
