package enginesim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/sim"
)

// receiveOne opens a hook for one payload, which several send: whose it is, is up to them.
func (w *world) receiveOne(b *engine.Branch, token string, i int) (string, error) {
	h, err := w.openHook(b, token, 3, true)
	if err != nil {
		return "", err
	}
	if _, err := w.next(b, h, token, 0); err != nil {
		return "", err
	}
	w.seenBy(b, func() { w.closeMailbox(h.Token()) })
	return fmt.Sprintf("(once %d)", i), nil
}

// receive opens a hook and receives as many payloads as there are keys: each of them once, in whatever order they came.
func (w *world) receive(b *engine.Branch, token string, n int) (string, error) {
	h, err := w.openHook(b, token, n, false)
	if err != nil {
		return "", err
	}
	var all []string
	for i := range n {
		text, err := w.next(b, h, token, int64(i))
		if err != nil {
			return "", err
		}
		all = append(all, text)
	}
	if err := w.onHook(b, token, &hookOp{kind: "close"}, func() error { return h.Close(b) }); err != nil {
		return "", err
	}
	w.seenBy(b, func() { w.closeMailbox(h.Token()) })
	slices.Sort(all)
	return "<" + strings.Join(all, " ") + ">", nil
}

// openHook opens a hook that n keys are sent to.
func (w *world) openHook(b *engine.Branch, token string, n int, once bool) (*engine.Hook, error) {
	w.history.belongs(token, b.Run().ID)
	op := &hookOp{kind: "open"}
	if once {
		op.kind = "open once"
	}
	var h *engine.Hook
	err := w.onHook(b, token, op, func() (err error) {
		h, err = b.OpenHook(engine.HookSpec{Name: "hook", Token: token, Once: once})
		return err
	})
	if err == nil {
		keysOf := b.Run().ID
		if h.Token() != token { // a fork that has kept what came: it came with the keys of the source
			keysOf = b.Run().ForkedFrom
		}
		w.openMailbox(h.Token(), token, n, keysOf)
	}
	return h, err
}

// next receives what came as the n-th.
func (w *world) next(b *engine.Branch, h *engine.Hook, token string, n int64) (text string, err error) {
	op := &hookOp{kind: "receive", n: n}
	err = w.onHook(b, token, op, func() error {
		d, err := h.Receive(b, nil, nil)
		if err == nil {
			text = string(d.Payload)
			op.key = strings.TrimPrefix(text, token+"/")
		}
		return err
	})
	return text, err
}

// onHook notes an operation of the code on its hook. One that the end of the execution cuts short may have been applied, but received nothing.
//
// The code may be given something that never becomes durable, and then is dropped. What it has seen counts when it is: for every other hook the code waits for that, and for the
// others it is noted with what the code does next; what it has closed, it may have closed.
func (w *world) onHook(b *engine.Branch, token string, op *hookOp, do func() error) error {
	call := w.clock()
	op.answer = answerMaybe
	defer func() {
		if op.kind == "receive" && op.answer == answerMaybe {
			op.answer = answerNot
		}
		ret := w.clock()
		note := func() { w.history.hook(token, *op, call, ret) }
		if op.kind == "close" && !b.IsSettled() {
			op.answer = answerMaybe
		}
		if op.answer == answerOK {
			w.seenBy(b, note)
		} else {
			note()
		}
	}()
	err := do()
	if err == nil && sim.NewActor(w.plan.Seed, "sure "+token).Pick(2) == 0 {
		b.Settle()
	}
	if err == nil {
		op.answer = answerOK
		return nil
	}
	return err
}

// seenBy notes what a branch has seen, when that is known to be durable.
func (w *world) seenBy(b *engine.Branch, note func()) {
	notes, _ := w.unsure.LoadAndDelete(b)
	all, _ := notes.([]func())
	if all = append(all, note); !b.IsSettled() {
		w.unsure.Store(b, all)
		return
	}
	for _, note := range all {
		note()
	}
}
