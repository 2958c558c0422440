package enginesim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/sim"
)

func startKey(input int) string { return fmt.Sprint("key ", input) }

// startAll starts the runs of the plan, beside each other.
func (w *world) startAll() {
	w.ids = make([]journal.ID, len(w.plan.Runs))
	var all sync.WaitGroup
	for i, input := range w.plan.Runs {
		all.Go(func() {
			a := sim.NewActor(w.plan.Seed, fmt.Sprint("starter of ", input))
			time.Sleep(within(a, 20*time.Millisecond))
			for {
				id, answer := w.startOnce(fmt.Sprint("starter of ", input), input, a.Pick(w.plan.Slots), 0)
				if answer == answerOK {
					w.ids[i] = id
					return
				}
				time.Sleep(within(a, 20*time.Millisecond))
			}
		})
	}
	all.Wait()
}

// startOnce starts a run, or finds it by its key.
func (w *world) startOnce(who string, input, slot int, limit time.Duration) (journal.ID, answer) {
	key := startKey(input)
	var at journal.Time
	if a := sim.NewActor(w.plan.Seed, "start "+key); a.Pick(3) == 0 { // a third begins later
		at = journal.TimeOf(w.began).Add(time.Duration(a.Pick(4000)) * time.Millisecond)
	}
	request := engine.StartRequest{Workflow: "random", Input: journal.Payload(fmt.Sprint(input)), StartKey: key, At: at}
	return w.start(who, request, fmt.Sprint("run", input), slot, limit)
}

// start starts a run with a key, or finds it. Name is what traces call it.
func (w *world) start(who string, request engine.StartRequest, name string, slot int, limit time.Duration) (journal.ID, answer) {
	p := w.someone(slot)
	if p == nil {
		return journal.ID{}, answerNot
	}
	ctx, cancel := limited(limit)
	defer cancel()
	return w.create(who, p, request.StartKey, name, func() (journal.ID, error) { return p.eng.Start(ctx, request) })
}

// create asks a process for a run with a start key: a new one, or the one that has it.
func (w *world) create(who string, p *process, key, name string, ask func() (journal.ID, error)) (journal.ID, answer) {
	call := w.clock()
	id, err := reach(w, p, who, ask)
	got := p.answer(err, false)
	if got == answer(cairnerr.CodeRunNotFound) || got == answer(cairnerr.CodeStepNotFound) { // what should have been forked was deleted, or has not come so far
		got = answerNot
	}
	op := runOp{string(askStart), got, id.String()}
	if got == answerOK {
		w.name(id, name)
		w.history.started(key, id)
	} else {
		op.value = "?"
	}
	w.asked(p, "start of "+name, got, err)
	w.history.run(key, op, call, w.clock())
	return id, got
}

// reach asks a process for something. If it dies meanwhile, nobody hears what it has to say.
func reach[T any](w *world, p *process, who string, ask func() (T, error)) (value T, err error) {
	answered := make(chan struct{})
	var said T
	var failed error
	w.work.Go(func() {
		defer close(answered)
		said, failed = ask()
	})
	select {
	case <-answered:
	case <-p.died:
	}
	w.turn(who)
	if p.isDead() {
		return value, errDead
	}
	return said, failed
}

func limited(limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		limit = time.Hour // somebody has to give up at some time
	}
	return context.WithTimeout(context.Background(), limit)
}

// answer classifies what an engine said. What one said that is dead, nobody has heard; and who gave up cannot know.
func (p *process) answer(err error, several bool) answer {
	if p.isDead() || errors.Is(err, context.DeadlineExceeded) {
		return answerMaybe
	}
	return answerOf(err, several)
}

func (w *world) asked(p *process, what string, got answer, err error) {
	if err != nil {
		w.trace.Add(p.name, "%s: %s (%v)", what, got, err)
		return
	}
	w.trace.Add(p.name, "%s: %s", what, got)
}

// ask does what a client asks for, when its time has come.
func (w *world) ask(i int, ask Ask) {
	time.Sleep(max(0, ask.At-time.Since(w.began)))
	w.turn(fmt.Sprint("client ", i)) // those who should have asked before there was something to ask for come at once
	if ask.Run >= len(w.plan.Runs) {
		return
	}
	input := w.plan.Runs[ask.Run]
	switch ask.Kind {
	case askDelete:
		w.deleteShort(i, ask)
		return
	case askFork:
		w.forkShort(i, ask)
		return
	case askJoin:
		w.join(i, ask)
		return
	case askStart:
		if id, got := w.startOnce(fmt.Sprint("client ", i), input, ask.Slot, ask.Limit); got == answerOK && id != w.ids[ask.Run] {
			w.fail("run %d was started twice", input)
		}
		return
	default:
	}
	p := w.someone(ask.Slot)
	if p == nil {
		return
	}
	ctx, cancel := limited(ask.Limit)
	defer cancel()
	call := w.clock()
	value, err := reach(w, p, fmt.Sprint("client ", i), func() (string, error) { return w.through(ctx, p.eng, ask.Kind, w.ids[ask.Run]) })
	got := p.answer(err, ask.Kind == askCancel || ask.Kind == askEnd)
	if ask.Kind == askResult && got != answerOK {
		got = answerNot // it reads only
	}
	w.asked(p, fmt.Sprintf("%s of run%d", ask.Kind, input), got, err)
	w.history.run(startKey(input), runOp{string(ask.Kind), got, value}, call, w.clock())
}

func (w *world) through(ctx context.Context, e *engine.Engine, kind askKind, id journal.ID) (value string, err error) {
	switch kind {
	case askCancel:
		return "", e.Cancel(ctx, id, "enough", "client")
	case askPause:
		return "", e.Pause(ctx, id, "look at it", "client")
	case askResume:
		return "", e.Resume(ctx, id, "client")
	case askAnnotate:
		return "", e.Annotate(ctx, id, &journal.Annotated{Name: "seen", Actor: "client"})
	case askSet:
		return "", e.SetAttributes(ctx, id, []journal.AttrChange{{Key: "client", Value: "was here"}})
	case askEnd:
		return "", e.Terminate(ctx, id, "at once", "client")
	case askResult:
		run, err := e.Wait(ctx, id)
		if err != nil {
			return "", err
		}
		return run.Status.String(), nil
	case askStart, askDelete, askFork, askJoin:
	}
	return "", nil
}
