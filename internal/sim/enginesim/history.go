package enginesim

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// history is what was asked of runs and hooks from outside, and what came of it: the input of the linearizability check.
type history struct {
	mu     sync.Mutex
	closed bool
	runs   map[string][]porcupine.Operation // by start key
	hooks  map[string][]porcupine.Operation // by token
	keys   map[journal.ID]string            // the start keys of runs
	tokens map[string]journal.ID            // the runs of hooks
	ends   map[journal.ID][]porcupine.Operation
}

func newHistory() *history {
	return &history{
		runs: map[string][]porcupine.Operation{}, hooks: map[string][]porcupine.Operation{}, keys: map[journal.ID]string{}, ends: map[journal.ID][]porcupine.Operation{},
		tokens: map[string]journal.ID{},
	}
}

// answer is how an operation came out.
type answer string

const (
	answerOK    answer = "ok"
	answerMaybe answer = "maybe" // it may have been applied, or be applied later
	answerNot   answer = "not"   // it was not applied, for a reason that has nothing to do with the run
	// Any other is the code of a refusal.
)

// answerOf classifies an error. An operation of several commands may have been applied in part.
func answerOf(err error, several bool) answer {
	switch code := cairnerr.CodeOf(err); {
	case err == nil:
		return answerOK
	case code == cairnerr.CodeUnreachable || code == cairnerr.CodeDiskFull:
		if several {
			return answerMaybe
		}
		return answerNot
	case code == cairnerr.CodeOutcomeUnknown || code == cairnerr.CodeClosed || code == cairnerr.CodeInternal, errors.Is(err, errDead):
		return answerMaybe
	default:
		return answer(code)
	}
}

// never is when an operation returns that may be applied later than its answer.
const never = math.MaxInt64

// clock is the virtual time, for operations. Two at the same instant count as concurrent.
func (w *world) clock() int64 { return time.Since(w.began).Nanoseconds() }

func (h *history) add(to map[string][]porcupine.Operation, key string, op porcupine.Operation, a answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || a == answerNot {
		return
	}
	if a == answerMaybe {
		op.Return = never
	}
	to[key] = append(to[key], op)
}

// runOp is an operation on a run.
type runOp struct {
	kind   string // an askKind, or "end"
	answer answer
	value  string // the id that a start returned, the kind of end
}

func (h *history) run(key string, op runOp, call, ret int64) {
	h.add(h.runs, key, porcupine.Operation{Input: op, Call: call, Return: ret}, op.answer)
}

// started tells which run belongs to a start key.
func (h *history) started(key string, id journal.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys[id] = key
}

// ended adds the end of a run as its owner wrote it. Whose start key it has may be known later only.
func (h *history) ended(run journal.ID, kind string, call, ret int64, died bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	op := porcupine.Operation{Input: runOp{"end", answerOK, kind}, Call: call, Return: ret}
	if died {
		op.Input, op.Return = runOp{"end", answerMaybe, kind}, never
	}
	h.ends[run] = append(h.ends[run], op)
}

// hookOp is an operation on a hook.
type hookOp struct {
	kind   string // open, open once, send, receive, close; end: of its run
	answer answer
	key    string // the sender's; of a receive, the one that was received
	n      int64  // the position that a send was told; the how-manieth receive, from 0
}

func (h *history) hook(token string, op hookOp, call, ret int64) {
	h.add(h.hooks, token, porcupine.Operation{Input: op, Call: call, Return: ret}, op.answer)
}

// belongs tells whose hook a token is: it closes with its run.
func (h *history) belongs(token string, run journal.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.tokens[token] = run
	}
}

// close ends the history: what comes later is not part of it.
func (h *history) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
}

// checkLimit is how long the check of one history may take. One that takes longer says nothing, and is counted.
const checkLimit = 2 * time.Second

// check looks for an order of the operations of each run and each hook that the model allows. It is called outside of virtual time.
func (h *history) check() (all, undecided int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, ops := range h.ends {
		if key, ok := h.keys[id]; ok {
			h.runs[key] = append(h.runs[key], ops...)
		}
	}
	for token, run := range h.tokens {
		for _, op := range h.ends[run] {
			op.Input = hookOp{kind: "end", answer: op.Input.(runOp).answer}
			h.hooks[token] = append(h.hooks[token], op)
		}
	}
	var errs []error
	look := func(what string, model porcupine.Model, all map[string][]porcupine.Operation) {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			ops := all[key]
			for i := range ops {
				ops[i].ClientId = i // who asked does not matter
			}
			switch porcupine.CheckOperationsTimeout(model, ops, checkLimit) {
			case porcupine.Ok:
			case porcupine.Unknown:
				undecided++
			case porcupine.Illegal:
				errs = append(errs, fmt.Errorf("the operations of %s %s have no order that explains them:\n%s", what, key, showOperations(ops)))
			}
		}
	}
	look("run", runModel(), h.runs)
	look("hook", hookModel(), h.hooks)
	return len(h.runs) + len(h.hooks), undecided, errors.Join(errs...)
}

func showOperations(ops []porcupine.Operation) string {
	sorted := slices.Clone(ops)
	slices.SortStableFunc(sorted, func(x, y porcupine.Operation) int { return int(x.Call - y.Call) })
	var b strings.Builder
	for _, op := range sorted {
		ret := fmt.Sprint(time.Duration(op.Return))
		if op.Return == never {
			ret = "…"
		}
		fmt.Fprintf(&b, "  %s to %s: %+v\n", time.Duration(op.Call), ret, op.Input)
	}
	return b.String()
}
