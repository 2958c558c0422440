package torture

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
)

// answer sends what the hooks of an order, and of its children, wait for. It returns at once.
func (c *client) answer(ctx context.Context, deeds *sync.WaitGroup, o *order) {
	for i := range o.Legs {
		l, token := &o.Legs[i], o.token(i)
		switch l.Kind {
		case legHook:
			for j := range l.Count {
				deeds.Go(func() { c.send(ctx, o.Name, token, fmt.Sprint(token, " ", j), o.value(i, j)) })
			}
		case legOnce:
			for j := range 2 {
				deeds.Go(func() { c.send(ctx, o.Name, token, fmt.Sprint(token, " ", j), o.value(i, 0)) })
			}
		case legAsk:
			deeds.Go(func() { c.ask(ctx, o.Name, token, o.value(i, 0)) })
		case legChild:
			child := o.childOf(i)
			c.answer(ctx, deeds, &child)
		}
	}
}

// send sends a value until it was taken, another one was taken in its place, or the run is over.
func (c *client) send(ctx context.Context, name, token, key string, v int64) {
	l := line{Ask: askSend, Order: name, Token: token, Key: key, Value: v}
	c.deed(ctx, l, func(ctx context.Context) error {
		return cairn.NewHook[int64]("sent").Send(ctx, c.eng, token, v, cairn.Key(key))
	})
}

// ask sends a question until there is an answer, or the run is over.
func (c *client) ask(ctx context.Context, name, token string, v int64) {
	l := line{Ask: askAnswer, Order: name, Token: token, Key: token, Value: v}
	c.deed(ctx, l, func(ctx context.Context) error {
		got, err := cairn.NewRequestHook[int64, int64]("asked").Ask(ctx, c.eng, token, v, cairn.Key(token))
		if err == nil && got != 2*v {
			l.Text = fmt.Sprintf("asked %d, and was answered %d", v, got)
			c.say(saysWrong, l)
		}
		return err
	})
}

// deed does something to a hook that may not be open yet, and notes it before and after.
func (c *client) deed(ctx context.Context, l line, f func(context.Context) error) {
	if c.past.told[l.Ask+l.Order+l.Token+l.Key] {
		return
	}
	for announced := false; ; {
		if !c.isOpen(ctx, l.Token) {
			if !pause(ctx, again) {
				return
			}
			continue
		}
		if !announced {
			c.say(saysAsk, l)
			announced = true
		}
		err := insist(ctx, f)
		switch code := cairnerr.CodeOf(err); {
		case err == nil:
			c.say(saysTold, l)
			return
		case ctx.Err() != nil:
			return
		case code == cairnerr.CodeHookConsumed:
			l.Code = string(code)
			c.say(saysRefused, l)
			return
		case code == cairnerr.CodeHookNotFound, code == cairnerr.CodeRunEnded, code == cairnerr.CodeRunGone: // it was closed in the meantime
			pause(ctx, again)
		default:
			l.Code, l.Text = string(code), err.Error()
			c.say(saysWrong, l)
			return
		}
	}
}

// isOpen reports whether a token leads to a hook. Only then something is announced: a diary has one line for each deed, not for each look.
func (c *client) isOpen(ctx context.Context, token string) bool {
	return within(ctx, func(ctx context.Context) error {
		_, err := c.eng.HookInfo(ctx, token)
		return err
	}) == nil
}

// meddle pauses the run and lets it go on, or ends it.
func (c *client) meddle(ctx context.Context, run *cairn.Run[string], o *order) {
	if o.Meddle == "" || !pause(ctx, time.Duration(o.After)*time.Millisecond) {
		return
	}
	switch o.Meddle {
	case meddleCancel:
		c.request(ctx, run, o, askCancel, func(ctx context.Context) error { return run.Cancel(ctx, "torture") })
	case meddleTerminate:
		c.request(ctx, run, o, askTerminate, func(ctx context.Context) error { return run.Terminate(ctx, "torture") })
	case meddlePause:
		c.request(ctx, run, o, askPause, func(ctx context.Context) error { return run.Pause(ctx, "torture") })
		pause(ctx, time.Duration(o.After/2)*time.Millisecond)
		c.request(ctx, run, o, askResume, run.Resume)
	case meddleNote:
		c.request(ctx, run, o, askNote, func(ctx context.Context) error {
			return c.eng.Run(run.ID()).Annotate(ctx, cairn.Annotation{Name: noteName, Actor: "torture", Value: o.Name})
		})
		c.request(ctx, run, o, askMark, func(ctx context.Context) error {
			return c.eng.Run(run.ID()).SetAttributes(ctx, laterMark.Value(o.Name))
		})
	}
}

// What clients note about runs.
var (
	nameMark  = cairn.NewAttribute[string]("torture-name")  // from the start
	laterMark = cairn.NewAttribute[string]("torture-later") // from outside
)

const noteName = "torture.note"

// fork does a part of a completed run again, from one of its steps on, and waits for the end of that.
func (c *client) fork(ctx context.Context, run *cairn.Run[string], o *order) {
	steps, err := c.finishedSteps(ctx, run)
	if err != nil || len(steps) == 0 {
		return
	}
	l := line{Ask: askFork, Order: o.Name, Key: run.ID()}
	c.say(saysAsk, l)
	from := steps[stranger(c.seed, l.Ask+o.Name).IntN(len(steps))]
	var again *cairn.Run[string]
	err = insist(ctx, func(ctx context.Context) (err error) {
		again, err = c.journey.Fork(ctx, c.eng, run.ID(), cairn.Fork{From: from, StartKey: l.Ask + " " + o.Name})
		return err
	})
	if err != nil {
		l.Says, l.Code, l.Text = saysWrong, string(cairnerr.CodeOf(err)), "a completed run cannot be forked from "+from+": "+err.Error()
		c.diary.write(l)
		return
	}
	l.Run = again.ID()
	c.say(saysTold, l)
	c.await(ctx, again, o)
}

// finishedSteps returns the keys of a run's own steps.
func (c *client) finishedSteps(ctx context.Context, run *cairn.Run[string]) (keys []string, err error) {
	err = insist(ctx, func(ctx context.Context) error {
		keys = nil
		for e, err := range c.eng.Run(run.ID()).History(ctx) {
			if err != nil {
				return err
			}
			if e.Type == "step_completed" && isWork(e.Key) {
				keys = append(keys, e.Key)
			}
		}
		return nil
	})
	return keys, err
}

// request asks for something until it was acknowledged or refused, and notes it before and after.
func (c *client) request(ctx context.Context, run *cairn.Run[string], o *order, what string, f func(context.Context) error) {
	l := line{Ask: what, Order: o.Name, Run: run.ID()}
	c.say(saysAsk, l)
	err := insist(ctx, f)
	switch {
	case err == nil:
		c.say(saysTold, l)
	case isAnswer(err):
		l.Code, l.Text = string(cairnerr.CodeOf(err)), err.Error()
		c.say(saysRefused, l)
	}
}

// read follows the stream of a run, and notes if it has a gap or repeats something.
func (c *client) read(ctx context.Context, run *cairn.Run[string], o *order) {
	next := int64(0)
	for ctx.Err() == nil {
		ended := true
		for chunk, err := range words.Read(ctx, c.eng, run.ID(), cairn.ReadFrom(next)) {
			if err != nil {
				ended = false
				break
			}
			if chunk.Index != next {
				c.say(saysWrong, line{Order: o.Name, Run: run.ID(), Text: fmt.Sprintf("a reader of the stream got chunk %d after %d", chunk.Index, next-1)})
				return
			}
			next++
		}
		if ended {
			return
		}
		pause(ctx, again)
	}
}
