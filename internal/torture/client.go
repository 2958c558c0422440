package torture

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/store"
)

const (
	// callTime is how long a client waits for one answer before it asks again.
	callTime = 4 * time.Second
	// again is how long it waits before that.
	again = 30 * time.Millisecond
)

// client is a process that wants things from runs. It remembers in its diary what it has asked for, so a client that was killed goes on where it was.
type client struct {
	*member
	diary   *diary
	eng     *cairn.Engine
	ledger  *ledger
	journey *cairn.Workflow[order, string]
	past    past
}

// past is what a client has in its diary from lives before.
type past struct {
	asked   map[string]bool   // orders that were announced
	started map[string]string // runs of orders
	ended   map[string]bool   // orders
	told    map[string]bool   // what was acknowledged
	last    int               // number of the last order
}

// Client is the life of a client: it starts runs until ctx ends, and then takes care of those that it has started.
func Client(ctx context.Context, args []string) error {
	m, err := memberFlags("client", args)
	if err != nil {
		return err
	}
	c := &client{member: m, journey: cairn.Declare[order, string](journeyName)}
	if c.past, err = readPast(m); err != nil {
		return err
	}
	if c.diary, err = openDiary(m.diary, true); err != nil {
		return err
	}
	caring := context.WithoutCancel(ctx)
	eng, st, err := m.engine(caring)
	if err != nil {
		return err
	}
	c.eng = eng
	if c.ledger, err = openLedger(m.url); err != nil {
		return err
	}
	if err := insist(caring, c.ledger.prepare); err != nil {
		return err
	}
	c.all(ctx, caring)
	end, cancel := context.WithTimeout(caring, grace)
	defer cancel()
	return errors.Join(c.ledger.db.Close(), eng.Stop(end), st.Close())
}

func readPast(m *member) (past, error) {
	p := past{asked: map[string]bool{}, started: map[string]string{}, ended: map[string]bool{}, told: map[string]bool{}}
	lines, err := readDiary(m.diary)
	for _, l := range lines {
		switch {
		case l.Says == saysAsk && l.Ask == askStart:
			p.asked[l.Order] = true
			p.last++
		case l.Says == saysTold && l.Ask == askStart:
			p.started[l.Order] = l.Run
		case l.Says == saysTold:
			p.told[l.Ask+l.Order+l.Token+l.Key] = true
		case l.Says == saysEnded:
			p.ended[l.Order] = true
		}
	}
	return p, err
}

// all places orders one after the other, and waits for all of them.
func (c *client) all(ctx, caring context.Context) {
	places, every := make(chan struct{}, c.most), time.Duration(float64(time.Second)/c.rate)
	var orders sync.WaitGroup
	place := func(o order, run string) {
		places <- struct{}{}
		orders.Go(func() {
			defer func() { <-places }()
			c.place(caring, o, run)
		})
	}
	for n := range c.past.last {
		o := orderOf(c.seed, c.client, n)
		run := c.past.started[o.Name]
		if !c.past.ended[o.Name] && (o.Keyed || run != "") {
			place(o, run)
		}
	}
	for n := c.past.last; ctx.Err() == nil; n++ {
		place(orderOf(c.seed, c.client, n), "")
		pause(ctx, every)
	}
	orders.Wait()
}

// place starts a run unless it was started, and does for it what its order wants.
func (c *client) place(ctx context.Context, o order, id string) {
	if id == "" {
		if id = c.start(ctx, &o); id == "" {
			return
		}
	}
	run, err := c.get(ctx, id)
	if err != nil {
		c.diary.write(line{Says: saysWrong, Order: o.Name, Run: id, Code: string(cairnerr.CodeOf(err)), Text: "an acknowledged run is not found: " + err.Error()})
		return
	}
	caring, over := context.WithCancel(ctx)
	var others sync.WaitGroup
	c.answer(caring, &others, &o)
	others.Go(func() { c.meddle(caring, run, &o) })
	if len(o.chunks()) > 0 {
		others.Go(func() { c.read(caring, run, &o) })
	}
	completed := c.await(ctx, run, &o)
	over()
	others.Wait()
	if completed && o.Fork {
		c.fork(ctx, run, &o)
	}
}

func (c *client) get(ctx context.Context, id string) (run *cairn.Run[string], err error) {
	err = insist(ctx, func(ctx context.Context) error {
		run, err = c.journey.Get(ctx, c.eng, id)
		return err
	})
	return run, err
}

// start starts the run of an order. One without a key is asked for once.
func (c *client) start(ctx context.Context, o *order) string {
	opts := []cairn.StartOption{cairn.Elsewhere(), cairn.WithAttributes(nameMark.Value(o.Name))}
	if o.Keyed {
		opts = append(opts, cairn.Key(o.Name))
	}
	if o.Later > 0 {
		opts = append(opts, cairn.StartAfter(time.Duration(o.Later)*time.Millisecond))
	}
	l := line{Ask: askStart, Order: o.Name}
	if !c.past.asked[o.Name] {
		c.say(saysAsk, l)
	}
	call := func(ctx context.Context) error {
		run, err := c.journey.Start(ctx, c.eng, *o, opts...)
		if err == nil {
			l.Run = run.ID()
		}
		return err
	}
	if o.InTx {
		call = func(ctx context.Context) (err error) {
			l.Run, err = c.ledger.enter(ctx, o.Name, func(tx store.UserTx) (string, error) {
				run, err := c.journey.StartIn(ctx, c.eng, tx, *o, opts...)
				if err != nil {
					return "", err
				}
				return run.ID(), nil
			})
			return err
		}
		if o.Undone {
			c.undo(ctx, o)
		}
	}
	var err error
	if o.Keyed {
		err = insist(ctx, call)
	} else {
		err = within(ctx, call)
	}
	if err != nil {
		l.Code, l.Text = string(cairnerr.CodeOf(err)), err.Error()
		c.say(saysRefused, l)
		return ""
	}
	c.say(saysTold, l)
	return l.Run
}

// undo starts a run in a transaction that is taken back. It says nothing of it: nobody has asked for that run.
func (c *client) undo(ctx context.Context, o *order) {
	_ = within(ctx, func(ctx context.Context) error {
		return c.ledger.do(ctx, func(tx *sql.Tx) error {
			never := o.undone()
			_, err := c.journey.StartIn(ctx, c.eng, c.ledger.handle(tx), never, cairn.Key(never.Name))
			return errors.Join(err, errTakeBack)
		})
	})
}

// await waits for the end of a run, notes it, and reports whether it was completed.
func (c *client) await(ctx context.Context, run *cairn.Run[string], o *order) bool {
	for {
		out, err := run.Result(ctx)
		var info *cairn.RunInfo
		if insist(ctx, func(ctx context.Context) (err error) { info, err = run.Describe(ctx); return err }) != nil {
			return false
		}
		switch info.Status {
		case cairn.StatusCompleted, cairn.StatusFailed, cairn.StatusCancelled:
			if info.Status == cairn.StatusCompleted && err != nil {
				continue // the answer was lost, not the run
			}
			c.say(saysEnded, line{Order: o.Name, Run: run.ID(), Code: string(info.Status), Text: out})
			return info.Status == cairn.StatusCompleted
		default: // it is parked, or the database was down
			pause(ctx, again)
		}
	}
}

func (c *client) say(says string, l line) {
	l.Says = says
	c.diary.write(l)
}

// within calls f with the time that one call has.
func within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return f(ctx)
}

// insist calls f until it has an answer, or ctx ends.
func insist(ctx context.Context, f func(context.Context) error) error {
	for {
		err := within(ctx, f)
		if err == nil || ctx.Err() != nil || isAnswer(err) {
			return err
		}
		pause(ctx, again)
	}
}

// isAnswer tells a refusal from a database that cannot be asked now.
func isAnswer(err error) bool {
	switch cairnerr.CodeOf(err) {
	case cairnerr.CodeUnreachable, cairnerr.CodeDiskFull, cairnerr.CodeOutcomeUnknown, cairnerr.CodeFenced, cairnerr.CodeClosed, cairnerr.CodeInternal,
		cairnerr.CodeTxConflict, cairnerr.CodeTxOver: // of a transaction that failed with its connection
		return false
	default:
		return !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
	}
}
