package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

var randomTests = []test{
	{"Commands1", func(b *bench) { randomCommands(b, 1) }},
	{"Commands2", func(b *bench) { randomCommands(b, 2) }},
	{"Commands3", func(b *bench) { randomCommands(b, 3) }},
}

// randomCommands lets two processes do what comes to a die's mind to a few runs, and compares all views with the journals.
func randomCommands(b *bench, seed uint64) {
	b.Logf("seed %d", seed)
	commands := 240
	if testing.Short() {
		commands = 60
	}
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), b: b}
	processes := []*bench{b, b.peer()}
	var runs []journal.ID
	accepted := 0
	for n := range commands {
		p := processes[g.IntN(2)]
		p.now = max(b.now, p.now)
		p.later(time.Duration(g.IntN(3)*400) * time.Millisecond)
		b.now = p.now
		if len(runs) < 6 && n%12 == 0 {
			run := b.mint()
			p.must(p.starting(run, journal.Dialect(g.IntN(3)), func(c *journal.RunCreated) {
				c.Attributes = map[string]string{"a": "0"}
				if len(runs) > 0 {
					c.Parent = runs[0]
				}
			}))
			runs = append(runs, run)
		}
		run := runs[g.IntN(len(runs))]
		before := p.run(run)
		cmd := &journal.Command{Run: run, PerEvent: g.IntN(4) == 0}
		for range 1 + g.IntN(3) {
			cmd.Events = append(cmd.Events, g.event(before.Dialect))
		}
		switch g.IntN(8) {
		case 0: // from outside
		case 1:
			cmd.Lease, cmd.Events = journal.LeaseRelease, nil
			cmd.Guards.Owner = journal.Ownership{Incarnation: before.Owner, Epoch: before.Epoch}
		case 2:
			cmd = p.claim(run)
		default:
			cmd.Guards.Owner = journal.Ownership{Incarnation: before.Owner, Epoch: before.Epoch}
		}
		if _, err := p.try(cmd); err != nil {
			require.NotEqual(b, cairnerr.CodeInternal, cairnerr.CodeOf(err), "%v", err)
			continue
		}
		accepted++
		p.check(run)
	}
	require.Greater(b, accepted, commands/8, "most commands should make sense")
	b.check(runs...)
}

type generator struct {
	*rand.Rand
	b *bench
}

// event makes an event about one of a few entities.
func (g *generator) event(d journal.Dialect) journal.Event {
	n := g.IntN(3)
	value := payload(fmt.Sprint("value ", g.IntN(3)))
	of := func(data journal.Data) journal.Event {
		if d == journal.Engine {
			return keyed(fmt.Sprint("key ", n), data)
		}
		return about(journal.ID{1, 2, 3, byte(data.EventType() / 6), byte(n)}, data)
	}
	failure := &cairnerr.Error{Code: "e", Message: "m"}
	now := g.b.now
	switch g.IntN(20) {
	case 0, 1:
		return of(&journal.StepCreated{Name: "n", Input: value})
	case 2, 3:
		return of(&journal.StepStarted{Name: "n", Lazy: g.IntN(2) == 0, OwnerMessage: "m"})
	case 4:
		return of(&journal.StepRetrying{Error: failure, Value: value, RetryAfter: now + journal.Time(g.IntN(2)*300)})
	case 5, 6:
		return of(&journal.StepCompleted{Name: "n", Input: value, Result: value, Attempt: g.IntN(3)})
	case 7:
		return of(&journal.StepFailed{Error: failure, Value: value})
	case 8, 9, 10:
		return of(&journal.HookCreated{
			Token: fmt.Sprint("token ", g.IntN(4)), SingleUse: g.IntN(2) == 0, Metadata: value, RetainUntil: []journal.Time{0, now + 2000}[g.IntN(2)],
		})
	case 11, 12:
		return of(&journal.HookReceived{Sender: []string{"", "x", "y"}[g.IntN(3)], Payload: value})
	case 13:
		return of(&journal.HookDisposed{})
	case 14:
		return of(&journal.WaitCreated{ResumeAt: now + 500, Kind: "k"})
	case 15:
		return of(&journal.WaitCompleted{Result: value})
	case 16:
		return of(&journal.AttrSet{Changes: []journal.AttrChange{{Key: "a", Value: string(value), Remove: g.IntN(3) == 0}}})
	case 17:
		return plain(&journal.Annotated{Name: "note", Value: value})
	case 18:
		return plain([]journal.Data{&journal.CancelRequested{}, &journal.RunParked{Error: failure}, &journal.RunResumed{}}[n])
	default:
		if g.IntN(3) > 0 {
			return plain(&journal.Annotated{Name: "note"})
		}
		return plain([]journal.Data{&journal.RunCompleted{Output: value}, &journal.RunFailed{Error: failure}, &journal.RunCancelled{}}[n])
	}
}
