package enginesim

import (
	"slices"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// runState is a run as its clients know it.
type runState struct {
	id        string // "": it does not exist
	parked    bool
	cancelled bool // it was asked to stop
	ended     string
	unseen    bool // somebody has terminated it, and the commit that says so was not seen yet
}

// runModel is what operations on one start key may do. What may have been applied has both outcomes.
func runModel() porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{runState{}} },
		Step: func(state, input, _ any) []any {
			s, op := state.(runState), input.(runOp)
			next, ok := s.step(op)
			return outcomes(op.answer, s, next, ok)
		},
		Equal: func(x, y any) bool { return x == y },
	}).ToModel()
}

// outcomes returns the states after an operation that leads from one to the next, if it can have been answered so.
func outcomes(a answer, from, next any, ok bool) []any {
	switch {
	case a == answerMaybe && ok:
		return []any{from, next}
	case a == answerMaybe:
		return []any{from}
	case ok:
		return []any{next}
	default:
		return nil
	}
}

// step returns the state after an operation, and whether it can have been answered so.
func (s runState) step(op runOp) (runState, bool) {
	applied := op.answer == answerOK || op.answer == answerMaybe
	live := s.id != "" && s.ended == ""
	switch op.kind {
	case string(askStart): // a start whose answer was lost: its id is not known
		ok := applied && (s.id == "" || s.id == op.value || s.id == "?" || op.value == "?")
		if s.id == "" || s.id == "?" {
			s.id = op.value
		}
		return s, ok
	case string(askCancel):
		if op.answer == answer(cairnerr.CodeRunEnded) {
			return s, s.ended != ""
		}
		s.cancelled, s.parked = true, false
		return s, applied && live
	case string(askEnd):
		if op.answer == answer(cairnerr.CodeRunEnded) {
			return s, s.ended != ""
		}
		s.ended, s.unseen = "cancelled", true
		return s, applied && live
	case string(askDelete):
		if op.answer == answer(cairnerr.CodeRunNotFound) {
			return s, s.id != op.value
		}
		if op.answer == answer(cairnerr.CodeIllegalTransition) {
			return s, live
		}
		return runState{}, applied && s.ended != "" && s.id == op.value
	case string(askPause):
		if op.answer == answer(cairnerr.CodeRunEnded) {
			return s, s.ended != ""
		}
		s.parked = true
		return s, applied && live
	case string(askResume):
		if op.answer == answer(cairnerr.CodeRunEnded) {
			return s, s.ended != ""
		}
		if op.answer == answer(cairnerr.CodeIllegalTransition) {
			return s, live && !s.parked
		}
		ok := applied && live && s.parked
		s.parked = false
		return s, ok
	case string(askSet):
		if op.answer == answer(cairnerr.CodeRunEnded) {
			return s, s.ended != ""
		}
		return s, applied && live
	case string(askAnnotate):
		return s, applied && s.id != ""
	case string(askResult):
		return s, applied && s.ended == op.value
	case "end":
		if s.unseen && op.value == s.ended {
			s.unseen = false
			return s, applied
		}
		ok := applied && live && (op.value != "cancelled" || s.cancelled)
		s.ended = op.value
		return s, ok
	default:
		return s, false
	}
}

// hookState is a hook as its senders and its receiver know it.
type hookState struct {
	open, closed bool
	once         bool   // it takes one payload
	taken        string // the senders' keys in their order, each followed by a space
	at           string // and their positions
}

// hookModel is what operations on one token may do.
func hookModel() porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{hookState{}} },
		Step: func(state, input, _ any) []any {
			s, op := state.(hookState), input.(hookOp)
			next, ok := s.step(op)
			return outcomes(op.answer, s, next, ok)
		},
		Equal: func(x, y any) bool { return x == y },
	}).ToModel()
}

// step returns the state after an operation, and whether it can have been answered so. Code that is executed again opens, receives and closes again.
func (s hookState) step(op hookOp) (hookState, bool) {
	applied := op.answer == answerOK || op.answer == answerMaybe
	keys := strings.Fields(s.taken)
	switch op.kind {
	case "open", "open once":
		s.open, s.once = true, op.kind == "open once"
		return s, applied
	case "close":
		ok := applied && s.open
		s.closed = true
		return s, ok
	case "end":
		s.closed = true
		return s, applied
	case "receive":
		return s, applied && int(op.n) < len(keys) && keys[op.n] == op.key
	case "send":
		return s.send(op, keys)
	default:
		return s, false
	}
}

// send takes a payload, once for each key, while the hook is open. A key that was taken before gives the same receipt.
func (s hookState) send(op hookOp, keys []string) (hookState, bool) {
	i := slices.Index(keys, op.key)
	takes := s.open && !s.closed && (!s.once || len(keys) == 0)
	switch {
	case op.answer != answerOK && op.answer != answerMaybe:
		return s, !takes
	case i >= 0:
		at := strings.Fields(s.at)
		if op.answer == answerMaybe || at[i] == position(op) {
			return s, true
		}
		ok := at[i] == "?"
		at[i] = position(op)
		s.at = strings.Join(at, " ") + " "
		return s, ok
	case !takes:
		return s, false
	}
	s.taken += op.key + " "
	s.at += position(op) + " "
	return s, true
}

// position is where a send was told to be, "?" if it was told nothing.
func position(op hookOp) string {
	if op.answer == answerMaybe {
		return "?"
	}
	return strconv.FormatInt(op.n, 10)
}
