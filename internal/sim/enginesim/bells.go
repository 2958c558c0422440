package enginesim

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/sim"
)

// bell is what a poll without an interval waits for. It is rung once, and the run is pushed then until that was acknowledged once: a push that got lost is never made up for.
type bell struct {
	run  journal.ID
	name string
	rung atomic.Bool
}

// bellOf returns the bell of a place in a run. Who asks for it first has somebody ring it, soon enough to come while the run is about to rest.
func (w *world) bellOf(run journal.ID, at place) *bell {
	name := fmt.Sprintf("bell %d of %s in %s", at.i, at.name, run)
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.bells[name]; known != nil {
		return known
	}
	b := &bell{run: run, name: name}
	w.bells[name] = b
	w.work.Go(func() { w.ring(b) })
	return b
}

// look is the check of a poll. What it has seen takes it a moment to say.
func (b *bell) look(w *world, at place) (journal.Payload, bool, error) {
	rung := b.rung.Load()
	w.wait(b.name, at.i)
	return pollOutput(at.i), rung, nil
}

func pollOutput(i int) journal.Payload { return journal.Payload(fmt.Sprintf("(poll %d)", i)) }

func (w *world) ring(b *bell) {
	a := sim.NewActor(w.plan.Seed, b.name)
	w.turn(b.name)
	time.Sleep(within(a, []time.Duration{2 * time.Millisecond, 20 * time.Millisecond, time.Second}[a.Pick(3)]))
	w.turn(b.name)
	b.rung.Store(true)
	for {
		p := w.someone(a.Pick(w.plan.Slots))
		if p == nil {
			return
		}
		switch got := w.push(p, b); got {
		case answerOK, answer(cairnerr.CodeRunNotFound):
			return
		default:
		}
		time.Sleep(within(a, 20*time.Millisecond))
	}
}

func (w *world) push(p *process, b *bell) answer {
	ctx, cancel := limited(time.Minute)
	defer cancel()
	_, err := reach(w, p, b.name, func() (struct{}, error) { return struct{}{}, p.eng.Push(ctx, b.run) })
	got := p.answer(err, false)
	w.asked(p, "push of "+w.nameOf(b.run), got, err)
	return got
}

// poll is ready some time after the world began, or when somebody has rung its bell.
func (w *world) poll(b *engine.Branch, at place) (string, error) {
	spec := engine.PollSpec{Name: "poll", Every: 100 * time.Millisecond}
	check := func(context.Context, engine.StepInfo) (journal.Payload, bool, error) {
		return pollOutput(at.i), time.Since(w.began) > time.Duration(at.i)*500*time.Millisecond, nil
	}
	if sim.NewActor(w.plan.Seed, fmt.Sprintf("poll %d of %s", at.i, at.name)).Pick(2) == 0 {
		spec.Every = 0
		check = func(_ context.Context, info engine.StepInfo) (journal.Payload, bool, error) {
			return w.bellOf(info.Run, at).look(w, at) //nolint:contextcheck // who rings it does so whatever becomes of the look
		}
	}
	out, err := b.Poll(spec, check)
	return string(out), err
}
