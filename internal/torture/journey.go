package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
)

const (
	journeyName = "journey"
	// forever is longer than any torture.
	forever = 1000 * time.Hour
	// cleanUpKey is the key of the step that a cancelled journey does at its end.
	cleanUpKey = "clean-up"
)

var (
	errFlaky    = cairn.NewError("flaky", "this attempt is to fail")
	errDeclined = cairn.NewError("declined", "this step is to fail")
	words       = cairn.NewStream[string]("words")
)

// task is the input of a step.
type task struct {
	Order    string
	Leg      int
	Value    int64
	Fails    int
	Millis   int
	Declined bool
	Chunks   []string
}

// guide executes journeys in one worker.
type guide struct {
	diary   *diary
	journey *cairn.Workflow[order, string]
	work    cairn.Step[task, int64]
	wrong   cairn.Step[task, unreadable] // the same step, as a program with a mistake has it
	buggy   time.Time                    // until then this program has that mistake
	look    cairn.Poll[int64, int64]
}

// buggyFor is how long a program has a mistake, if it has one. Then somebody has fixed it.
const buggyFor = 2 * time.Second

// unreadable is a result that can be written and not be read.
type unreadable int64

// UnmarshalCBOR refuses to read.
func (*unreadable) UnmarshalCBOR([]byte) error {
	return errors.New("this program has another type for it")
}

// mistake stops the journey now and then, as a mistake in its code would: with a panic, or because it cannot read what it wrote.
// It returns what keeps the journey from making it: a cancel.
func (g *guide) mistake(ctx cairn.Context, o *order, i int) error {
	if !time.Now().Before(g.buggy) { //cairnvet:ignore time how long a program has its mistake is not part of the journey
		return nil
	}
	if i%2 == 0 {
		panic("a mistake in the code of " + o.Name)
	}
	_, err := g.wrong.Do(ctx, g.task(o, i, 0), g.optionsOf(&o.Legs[i], i)...)
	return err
}

// newGuide returns a guide. One that is mistaken has a mistake in its code for a while: its runs are parked.
func newGuide(d *diary, mistaken bool) *guide {
	g := &guide{diary: d, journey: cairn.Declare[order, string](journeyName)}
	// A kill can cost an attempt, and a journey must not fail for want of them.
	patient := cairn.RetryPolicy{Attempts: 10_000, First: 5 * time.Millisecond, Max: 50 * time.Millisecond, Never: []cairn.Code{errDeclined.Code}}
	g.work = cairn.NewStep("work", g.do).Retry(patient)
	g.wrong = cairn.NewStep("work", func(ctx context.Context, t task) (unreadable, error) {
		v, err := g.do(ctx, t)
		return unreadable(v), err
	}).Retry(patient)
	if mistaken {
		g.buggy = time.Now().Add(buggyFor)
	}
	g.look = cairn.NewPoll("look", 20*time.Millisecond, func(_ context.Context, v int64) (int64, bool, error) {
		return v, rand.IntN(3) == 0, nil // the answer is always the same; when it comes is not
	})
	g.journey.Bind(g.travel)
	return g
}

// do is the body of all steps: it notes that it begins, takes its time, and notes its effect.
func (g *guide) do(ctx context.Context, t task) (int64, error) {
	info := engine.InfoOf(ctx)
	l := line{
		Says: saysBegin, Run: journal.PrefixRun.Format(info.Run), Key: info.Key, Attempt: info.Attempt, Idem: cairn.IdempotencyKey(ctx), Order: t.Order,
	}
	g.diary.write(l)
	for _, chunk := range t.Chunks {
		if err := words.Write(ctx, chunk); err != nil {
			return 0, err
		}
	}
	select {
	case <-time.After(time.Duration(t.Millis) * time.Millisecond):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if t.Declined {
		return 0, errDeclined
	}
	if info.Attempt <= t.Fails {
		return 0, errFlaky
	}
	l.Says = saysEnd
	g.diary.write(l)
	return t.Value, nil
}

// travel is the workflow.
func (g *guide) travel(ctx cairn.Context, o order) (string, error) {
	lines := make([]string, len(o.Legs))
	for i := range o.Legs {
		v, err := g.leg(ctx, &o, i)
		if errors.Is(err, cairn.ErrCancelled) {
			return "", errors.Join(err, g.cleanUp(ctx, &o))
		}
		if err != nil {
			return "", fmt.Errorf("leg %d: %w", i, err)
		}
		lines[i] = o.Legs[i].line(v)
	}
	return strings.Join(lines, ", "), nil
}

func (g *guide) cleanUp(ctx cairn.Context, o *order) error {
	clean, done := cairn.Cleanup(ctx, forever)
	defer done()
	_, err := g.work.Do(clean, task{Order: o.Name, Leg: len(o.Legs), Millis: 5}, cairn.Key(cleanUpKey))
	return err
}

// leg does one leg, and returns what it came to: see order.result.
func (g *guide) leg(ctx cairn.Context, o *order, i int) (any, error) {
	l := &o.Legs[i]
	switch l.Kind {
	case legStep:
		if err := g.mistake(ctx, o, i); err != nil {
			return nil, err
		}
		return g.step(ctx, o, i, 0)
	case legDeclined:
		t := g.task(o, i, 0)
		t.Declined = true
		if _, err := g.work.Do(ctx, t, g.optionsOf(l, i)...); !errors.Is(err, errDeclined) {
			return nil, errors.Join(errors.New("the step was not declined"), err)
		}
		return i, nil
	case legSleep:
		return i, cairn.Sleep(ctx, time.Duration(l.Millis)*time.Millisecond)
	case legDeadline:
		return i, g.deadline(ctx, l)
	case legForever:
		return i, cairn.Sleep(ctx, forever)
	case legHook, legOnce, legAsk:
		return g.receive(ctx, o, i)
	case legChild:
		text, err := g.journey.Run(ctx, o.childOf(i))
		return "(" + text + ")", err
	case legMap:
		return g.each(ctx, o, i)
	case legStream:
		t := g.task(o, i, 0)
		for j := range l.Count {
			t.Chunks = append(t.Chunks, o.chunk(i, j))
		}
		if _, err := g.work.Do(ctx, t, g.optionsOf(l, i)...); err != nil {
			return nil, err
		}
		return i, words.Write(ctx, o.chunk(i, l.Count))
	case legRace:
		return g.race(ctx, o, i)
	case legPoll:
		return g.look.Wait(ctx, o.value(i, 0))
	}
	return nil, fmt.Errorf("no such leg: %q", l.Kind)
}

func (g *guide) task(o *order, i, j int) task {
	l := &o.Legs[i]
	return task{Order: o.Name, Leg: i, Value: o.value(i, j), Fails: l.Fails, Millis: l.Millis}
}

func (g *guide) optionsOf(l *leg, i int) (opts []cairn.StepOption) {
	if l.Timed {
		opts = append(opts, cairn.Timeout(time.Minute))
	}
	if l.Keyed {
		opts = append(opts, cairn.Key(fmt.Sprint("leg ", i)))
	}
	return opts
}

func (g *guide) step(ctx cairn.Context, o *order, i, j int) (int64, error) {
	return g.work.Do(ctx, g.task(o, i, j), g.optionsOf(&o.Legs[i], i)...)
}

// deadline sleeps for longer than there is time.
func (g *guide) deadline(ctx cairn.Context, l *leg) error {
	limited, done := cairn.WithTimeout(ctx, time.Duration(l.Millis)*time.Millisecond)
	defer done()
	if err := cairn.Sleep(limited, forever); !errors.Is(err, cairn.ErrTimeout) {
		return errors.Join(errors.New("the sleep was not cut off"), err)
	}
	return nil
}

// receive opens the hook of a leg, takes what is sent, and answers it if that is asked for.
func (g *guide) receive(ctx cairn.Context, o *order, i int) (any, error) {
	l, sum := &o.Legs[i], int64(0)
	h := cairn.NewHook[int64]("mail").Token(o.token(i))
	if l.Kind == legOnce {
		return h.Once().Wait(ctx)
	}
	if l.Kind == legAsk {
		open, err := cairn.NewRequestHook[int64, int64]("mail").Token(o.token(i)).Open(ctx)
		if err != nil {
			return nil, err
		}
		asked, err := open.Receive(ctx)
		if err != nil {
			return nil, err
		}
		if err := asked.Reply(ctx, 2*asked.Value); err != nil {
			return nil, err
		}
		return asked.Value, open.Close(ctx)
	}
	open, err := h.Open(ctx)
	if err != nil {
		return nil, err
	}
	for range l.Count {
		v, err := open.Receive(ctx)
		if err != nil {
			return nil, err
		}
		sum += v
	}
	return sum, open.Close(ctx)
}

// each does a step for each item, some at a time.
func (g *guide) each(ctx cairn.Context, o *order, i int) (any, error) {
	items := make([]int, o.Legs[i].Count)
	for j := range items {
		items[j] = j
	}
	values, err := cairn.Map(ctx, "item", items, 3, func(ctx cairn.Context, j int) (int64, error) { return g.step(ctx, o, i, j) })
	sum := int64(0)
	for _, v := range values {
		sum += v
	}
	return sum, err
}

// race lets a step win against a sleep that would not end.
func (g *guide) race(ctx cairn.Context, o *order, i int) (any, error) {
	fast, err := cairn.Go(ctx, "fast", func(ctx cairn.Context) (int64, error) { return g.step(ctx, o, i, 0) })
	if err != nil {
		return nil, err
	}
	slow, err := cairn.Go(ctx, "slow", func(ctx cairn.Context) (int64, error) { return 0, cairn.Sleep(ctx, forever) })
	if err != nil {
		return nil, err
	}
	return cairn.Race(ctx, fast, slow)
}
