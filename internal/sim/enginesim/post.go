package enginesim

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/sim"
)

// mailbox is a hook that somebody should send to: keys k0, k1, … as many as its run receives.
type mailbox struct {
	token  string
	name   string // the token in the code; that of a fork may be another
	keys   int
	run    journal.ID // a key is used once with a token: a fork needs others than its source
	closed bool
}

// openMailbox tells the senders of a hook.
func (w *world) openMailbox(token, name string, keys int, run journal.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens[token] = &mailbox{token: token, name: name, keys: keys, run: run}
}

func (w *world) closeMailbox(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens[token].closed = true
}

// post sends to the hooks that runs have opened, each key again and again and now and then twice at the same time, until the world ends.
func (w *world) post() {
	a := sim.NewActor(w.plan.Seed, "post")
	var all sync.WaitGroup
	letters := 0
	defer all.Wait()
	for {
		select {
		case <-w.end:
			return
		case <-time.After(90*time.Millisecond + within(a, 90*time.Millisecond)):
		}
		for _, m := range w.mailboxes() {
			key := fmt.Sprintf("k%d", a.Pick(m.keys))
			for range 1 + a.Pick(8)/7 {
				slot, pause := a.Pick(w.plan.Slots), within(a, 5*time.Millisecond)
				letters++
				who := fmt.Sprint("letter ", letters)
				all.Go(func() {
					time.Sleep(pause)
					w.send(who, m, key, slot)
				})
			}
		}
	}
}

// mailboxes returns those that are open, and one of twenty that are not.
func (w *world) mailboxes() []mailbox {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []mailbox
	for i, token := range slices.Sorted(maps.Keys(w.tokens)) {
		if m := w.tokens[token]; !m.closed || i%20 == 0 {
			all = append(all, *m)
		}
	}
	return all
}

func payloadOf(token, key string) journal.Payload { return journal.Payload(token + "/" + key) }

func (w *world) send(who string, m mailbox, key string, slot int) {
	p := w.someone(slot)
	if p == nil {
		return
	}
	ctx, cancel := limited(time.Minute)
	defer cancel()
	call := w.clock()
	receipt, err := reach(w, p, who, func() (engine.Receipt, error) {
		return p.eng.Deliver(ctx, engine.Sending{Token: m.token, Key: key + " of " + m.name + " in " + m.run.String(), Payload: payloadOf(m.name, key)})
	})
	got := p.answer(err, false)
	w.asked(p, "send "+key+" to "+m.name, got, err)
	w.history.hook(m.name, hookOp{"send", got, key, receipt.Seq}, call, w.clock())
}
