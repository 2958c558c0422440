package enginesim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
	out := name + ":"
	for i := range 2 + a.Pick(4) {
		part := Part(a.Pick(int(parts)))
		if !w.has(part) {
			continue
		}
		switch part {
		case partAttributes:
			if err := b.SetAttributes("attributes", []journal.AttrChange{{Key: fmt.Sprint("a", i), Value: name}}); err != nil {
				return "", err
			}
		case partStream:
			if err := w.tell(b, name, i, 1+a.Pick(4)); err != nil {
				return "", err
			}
		case partChild:
			if depth < 2 {
				p, err := w.childOf(b, fmt.Sprintf("%s.%d", name, i), depth)
				if err != nil {
					return "", err
				}
				out += p
			}
		case partRace:
			s, err := w.race(b, i)
			if err != nil {
				return "", err
			}
			out += s
		case partPoll:
			s, err := w.poll(b, i)
			if err != nil {
				return "", err
			}
			out += s
		case partDeadline:
			s, err := w.deadline(b)
			if err != nil {
				return "", err
			}
			out += s
		case partSleep:
			d := time.Duration(1+a.Pick(2000)) * time.Millisecond
			if err := b.Sleep("nap", func(now journal.Time) journal.Time { return now.Add(d) }); err != nil {
				return "", err
			}
			out += "z"
		case partHook:
			s, err := w.receive(b, fmt.Sprintf("%s-%d", name, i), 1+a.Pick(2))
			if err != nil {
				return "", err
			}
			out += s
		case partBranches:
			if depth < 2 {
				s, err := w.branches(b, name, i, depth)
				if err != nil {
					return "", err
				}
				out += s
			}
		case partStep, partSteps:
			p, err := b.Step(engine.StepSpec{Name: "step", Retry: engine.Retry{Attempts: 3, First: 50 * time.Millisecond}},
				func(ctx context.Context, info engine.StepInfo) (journal.Payload, error) {
					w.bodyBegins(info.Run, info.Key)
					if err := tellStep(ctx, info, name, i); err != nil {
						return nil, err
					}
					time.Sleep(time.Millisecond)
					if i%2 == 1 && info.Attempt == 1 {
						return nil, journal.Errorf("flaky", "the first attempt fails")
					}
					return journal.Payload(fmt.Sprintf("[%d]", i)), nil
				})
			if err != nil {
				return "", err
			}
			out += string(p)
		}
	}
	return out, nil
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
	out, err := b.AwaitChild(c)
	return "{" + string(out) + "}", err
}

// race has three branches: one that sleeps too long, and two that return the same.
func (w *world) race(b *engine.Branch, i int) (string, error) {
	var futures []*engine.Future
	for k := range 3 {
		f, err := b.Go("racer", "", func(b *engine.Branch) (journal.Payload, error) {
			d := []time.Duration{time.Hour, 30 * time.Millisecond, 50 * time.Millisecond}[k]
			if err := b.Sleep("nap", func(now journal.Time) journal.Time { return now.Add(d) }); err != nil {
				return nil, err
			}
			return b.Step(engine.StepSpec{Name: "won"}, func(context.Context, engine.StepInfo) (journal.Payload, error) {
				return journal.Payload(fmt.Sprintf("(race %d)", i)), nil
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

// poll is ready some time after the world began.
func (w *world) poll(b *engine.Branch, i int) (string, error) {
	out, err := b.Poll(engine.PollSpec{Name: "poll", Every: 100 * time.Millisecond}, func(context.Context, engine.StepInfo) (journal.Payload, bool, error) {
		return journal.Payload(fmt.Sprintf("(poll %d)", i)), time.Since(w.began) > time.Duration(i)*500*time.Millisecond, nil
	})
	return string(out), err
}

// deadline ends a sleep that would last too long.
func (w *world) deadline(b *engine.Branch) (string, error) {
	limited, done, err := b.Deadline("limit", func(now journal.Time) journal.Time { return now.Add(40 * time.Millisecond) })
	if err != nil {
		return "", err
	}
	defer done()
	err = limited.Sleep("too long", func(now journal.Time) journal.Time { return now.Add(time.Hour) })
	if journal.CodeOf(err) != engine.CodeTimeout {
		return "", fmt.Errorf("no timeout: %w", err)
	}
	return "(deadline)", nil
}

// branches runs parts beside each other, and joins what they return in order.
func (w *world) branches(b *engine.Branch, name string, i, depth int) (string, error) {
	var futures []*engine.Future
	for k := range 3 {
		f, err := b.Go("branch", "", func(b *engine.Branch) (journal.Payload, error) {
			s, err := w.part(b, fmt.Sprintf("%s.%d.%d", name, i, k), depth+1)
			return journal.Payload(s), err
		})
		if err != nil {
			return "", err
		}
		futures = append(futures, f)
	}
	out := "("
	for _, f := range futures {
		p, err := b.Wait(f)
		if err != nil {
			return "", err
		}
		out += string(p)
	}
	return out + ")", nil
}
