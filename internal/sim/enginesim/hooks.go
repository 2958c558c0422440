package enginesim

import (
	"slices"
	"strings"

	"github.com/cairn-workflow/cairn/internal/engine"
)

// receive opens a hook and receives as many payloads as there are keys: each of them once, in whatever order they came.
func (w *world) receive(b *engine.Branch, token string, n int) (string, error) {
	w.history.belongs(token, b.Run().ID)
	var h *engine.Hook
	err := w.onHook(token, &hookOp{kind: "open"}, func() (err error) {
		h, err = b.OpenHook(engine.HookSpec{Name: "hook", Token: token})
		return err
	})
	if err != nil {
		return "", err
	}
	w.openMailbox(h.Token(), token, n)
	var all []string
	for i := range n {
		op := &hookOp{kind: "receive", n: int64(i)}
		err := w.onHook(token, op, func() error {
			d, err := h.Receive(b, nil)
			if err == nil {
				all = append(all, string(d.Payload))
				op.key = strings.TrimPrefix(string(d.Payload), token+"/")
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	if err := w.onHook(token, &hookOp{kind: "close"}, func() error { return h.Close(b) }); err != nil {
		return "", err
	}
	w.closeMailbox(h.Token())
	slices.Sort(all)
	return "<" + strings.Join(all, " ") + ">", nil
}

// onHook notes an operation of the code on its hook. One that the end of the execution cuts short may have been applied, but received nothing.
func (w *world) onHook(token string, op *hookOp, do func() error) error {
	call := w.clock()
	op.answer = answerMaybe
	defer func() {
		if op.kind == "receive" && op.answer == answerMaybe {
			op.answer = answerNot
		}
		w.history.hook(token, *op, call, w.clock())
	}()
	err := do()
	if err == nil {
		op.answer = answerOK
		return nil
	}
	return err
}
