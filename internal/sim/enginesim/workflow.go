package enginesim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/sim"
)

// has reports whether workflows do a kind of thing.
func (w *world) has(p Part) bool { return slices.Contains(w.plan.Parts, p) }

// workflow is a random workflow: what it does follows from the seed and the input, so every execution does the same.
func (w *world) workflow(b *engine.Branch, in journal.Payload) (journal.Payload, error) {
	out, err := w.part(b, string(in), 0)
	return journal.Payload(out), err
}

func (w *world) part(b *engine.Branch, name string, depth int) (string, error) {
	a := sim.NewActor(w.plan.Seed, "workflow "+name)
	var out strings.Builder
	out.WriteString(name + ":")
	for i := range 2 + a.Pick(4) {
		part := Part(a.Pick(int(parts)))
		if !w.has(part) {
			continue
		}
		w.wait(name, i)
		text, err := w.do(b, a, part, place{name, i, depth})
		if err != nil {
			return "", err
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// wait is the time that code takes between two things that it does.
func (w *world) wait(branch string, n int) {
	time.Sleep(within(sim.NewActor(w.plan.Seed, fmt.Sprintf("instant %d of %s", n, branch)), time.Millisecond))
}

// place is where in a workflow something is done.
type place struct {
	name     string // of the part
	i, depth int
}

// do does one thing, and returns what it adds to the result.
func (w *world) do(b *engine.Branch, a *sim.Actor, part Part, at place) (string, error) {
	switch part {
	case partAttributes:
		return "", b.SetAttributes("attributes", []journal.AttrChange{{Key: fmt.Sprint("a", at.i), Value: at.name}})
	case partStream:
		return "", w.tell(b, at.name, at.i, 1+a.Pick(4))
	case partRace:
		return w.race(b, at)
	case partPoll:
		return w.poll(b, at)
	case partDeadline:
		return w.deadline(b)
	case partSleep:
		d := time.Duration(1+a.Pick(2000)) * time.Millisecond
		return "z", b.Sleep(engine.TimerSpec{Name: "nap", Until: func(now journal.Time) journal.Time { return now.Add(d) }})
	case partHook:
		return w.receive(b, fmt.Sprintf("%s-%d", at.name, at.i), 1+a.Pick(2))
	case partOnce:
		return w.receiveOne(b, fmt.Sprintf("%s-%d", at.name, at.i), at.i)
	case partMap:
		return w.mapItems(b, at)
	case partChild:
		if at.depth < 2 {
			return w.children(b, at)
		}
	case partBranches:
		if at.depth < 2 {
			return w.branches(b, at.name, at.i, at.depth)
		}
	case partStep, partSteps:
		return w.step(b, at)
	case parts:
	}
	return "", nil
}

// bug stops code that is not fixed yet: it panics, or meets a value that it cannot read.
func (w *world) bug(b *engine.Branch, at place) error {
	if !w.plan.Buggy || w.calm.Load() {
		return nil
	}
	switch at.i % 3 {
	case 0:
		panic("a bug in " + at.name)
	case 1:
		var n int
		return b.Decode("what is recorded", journal.Payload("\x01\x61x"), &n)
	default:
		return nil
	}
}

// step has a body that fails at first where its place is odd.
func (w *world) step(b *engine.Branch, at place) (string, error) {
	if err := w.bug(b, at); err != nil {
		return "", err
	}
	p, err := b.Step(engine.StepSpec{Name: "step", Retry: engine.Retry{Attempts: 3, First: 50 * time.Millisecond}},
		func(ctx context.Context, info engine.StepInfo) (journal.Payload, error) {
			w.bodyBegins(info.Run, info.Key)
			if err := tellStep(ctx, info, at.name, at.i); err != nil {
				return nil, err
			}
			w.wait(at.name, 100+at.i)
			if at.i%2 == 1 && info.Attempt == 1 {
				return nil, cairnerr.Errorf("flaky", "the first attempt fails")
			}
			return journal.Payload(fmt.Sprintf("[%d]", at.i)), nil
		})
	return string(p), err
}

// child is a workflow that others start: its input is the name of its part and how deep that is.
func (w *world) child(b *engine.Branch, in journal.Payload) (journal.Payload, error) {
	depth := int(in[0] - '0')
	out, err := w.part(b, string(in[1:]), depth)
	return journal.Payload(out), err
}

func (w *world) childOf(b *engine.Branch, name string, depth int) (string, error) {
	c, err := b.StartChild(engine.ChildSpec{Workflow: "child", Input: journal.Payload(fmt.Sprint(depth+1) + name)})
	if err != nil {
		return "", err
	}
	out, err := b.AwaitChild(c, nil)
	return "{" + string(out) + "}", err
}

// children starts a child, and where its place is odd another one beside it.
func (w *world) children(b *engine.Branch, at place) (string, error) {
	name := fmt.Sprintf("%s.%d", at.name, at.i)
	if at.i%2 == 0 {
		return w.childOf(b, name, at.depth)
	}
	var futures []*engine.Future
	for k := range 2 {
		f, err := b.Go(engine.BranchSpec{Name: "twin"}, func(b *engine.Branch) (journal.Payload, error) {
			s, err := w.childOf(b, fmt.Sprintf("%s.t%d", name, k), at.depth)
			return journal.Payload(s), err
		})
		if err != nil {
			return "", err
		}
		futures = append(futures, f)
	}
	return joinAll(b, "(twins ", futures)
}

// race has three branches: one that sleeps too long, and two that return the same.
func (w *world) race(b *engine.Branch, at place) (string, error) {
	var futures []*engine.Future
	for k := range 3 {
		f, err := b.Go(engine.BranchSpec{Name: "racer"}, func(b *engine.Branch) (journal.Payload, error) {
			w.wait(fmt.Sprint(at.name, " racer ", k), at.i)
			d := []time.Duration{time.Hour, 30 * time.Millisecond, 50 * time.Millisecond}[k]
			if err := b.Sleep(engine.TimerSpec{Name: "nap", Until: func(now journal.Time) journal.Time { return now.Add(d) }}); err != nil {
				return nil, err
			}
			w.wait(fmt.Sprint(at.name, " racer ", k), 100+at.i)
			return b.Step(engine.StepSpec{Name: "won"}, func(context.Context, engine.StepInfo) (journal.Payload, error) {
				return journal.Payload(fmt.Sprintf("(race %d)", at.i)), nil
			})
		})
		if err != nil {
			return "", err
		}
		futures = append(futures, f)
	}
	ended, err := b.Choose(engine.Choice{Name: "race", Close: true, Enough: func(ended []*engine.Future) bool { return len(ended) > 0 }}, futures)
	if err != nil {
		return "", err
	}
	if _, err := b.Wait(futures[0]); !errors.Is(err, engine.ErrLost) {
		return "", fmt.Errorf("who sleeps an hour has not lost: %w", err)
	}
	out, err := ended[0].Result()
	return string(out), err
}

// mapItems has a step for each of five items, two of them at the same time.
func (w *world) mapItems(b *engine.Branch, at place) (string, error) {
	room := b.Limit(2)
	var futures []*engine.Future
	for k := range 5 {
		if err := room.Enter(); err != nil {
			return "", err
		}
		f, err := b.Go(engine.BranchSpec{Name: "item", Key: fmt.Sprintf("k%d-%d", at.i, k)}, func(b *engine.Branch) (journal.Payload, error) {
			defer room.Leave()
			name := fmt.Sprint(at.name, " item ", k)
			w.wait(name, at.i)
			return b.Step(engine.StepSpec{Name: "item"}, func(_ context.Context, info engine.StepInfo) (journal.Payload, error) {
				w.bodyBegins(info.Run, info.Key)
				w.wait(name, 100+at.i)
				return journal.Payload(fmt.Sprint(k)), nil
			})
		})
		if err != nil {
			return "", err
		}
		futures = append(futures, f)
	}
	return joinAll(b, "(map ", futures)
}

// joinAll waits for branches, and joins what they return in order.
func joinAll(b *engine.Branch, before string, futures []*engine.Future) (string, error) {
	var out strings.Builder
	out.WriteString(before)
	for _, f := range futures {
		p, err := b.Wait(f)
		if err != nil {
			return "", err
		}
		out.Write(p)
	}
	return out.String() + ")", nil
}

// deadline ends a sleep that would last too long.
func (w *world) deadline(b *engine.Branch) (string, error) {
	limited, done, err := b.Deadline(engine.TimerSpec{Name: "limit", Until: func(now journal.Time) journal.Time { return now.Add(40 * time.Millisecond) }})
	if err != nil {
		return "", err
	}
	defer done()
	err = limited.Sleep(engine.TimerSpec{Name: "too long", Until: func(now journal.Time) journal.Time { return now.Add(time.Hour) }})
	if cairnerr.CodeOf(err) != cairnerr.CodeTimeout {
		return "", fmt.Errorf("no timeout: %w", err)
	}
	return "(deadline)", nil
}

// branches runs parts beside each other.
func (w *world) branches(b *engine.Branch, name string, i, depth int) (string, error) {
	var futures []*engine.Future
	for k := range 3 {
		f, err := b.Go(engine.BranchSpec{Name: "branch"}, func(b *engine.Branch) (journal.Payload, error) {
			s, err := w.part(b, fmt.Sprintf("%s.%d.%d", name, i, k), depth+1)
			return journal.Payload(s), err
		})
		if err != nil {
			return "", err
		}
		futures = append(futures, f)
	}
	return joinAll(b, "(", futures)
}
