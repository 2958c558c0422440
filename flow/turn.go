package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// maxItems is how many items one turn may do.
const maxItems = 10_000

// state is everything that a flow has to remember between two turns. A token stands for it, or holds it.
type state struct {
	Flow    string          `json:"flow"`
	Version int             `json:"version,omitempty"`
	At      string          `json:"at,omitempty"` // the Ask that waits; "": the flow has not begun
	Pause   int             `json:"pause"`        // the number of the pause, from 1
	Tries   int             `json:"tries,omitempty"`
	Context json.RawMessage `json:"context"`
	Expires int64           `json:"expires,omitempty"` // of the pause, in milliseconds since 1970; 0: never
	Burn    bool            `json:"burn,omitempty"`    // a failure closes the pause
	Serial  int             `json:"serial,omitempty"`  // of the pause: no two pauses of a handle have the same
	Last    int             `json:"last,omitempty"`    // the last serial that was given
	Key     string          `json:"key,omitempty"`     // the name of the key of a handle's token
}

// outcome is what a turn came to: the flow waits again, has ended, or asks again for what was wrong.
type outcome struct {
	state  state
	ask    *node  // where it waits; nil: it has ended
	result Result // if it has ended
	wrong  Invalid
	swap   string // the strategy for the pause, "": the same
}

// Observed is told of each item that a turn has done.
type Observed struct {
	Flow string
	Kind string // "do", "ask", "if", "while", "break", "continue", "list", "sub", "end"
	Name string // of a Do, an Ask or a Sub, with the names of the Subs that it is in
	Took time.Duration
	Err  error
}

// turning is what the code of a flow can reach through its context while a turn is under way.
type turning struct{ swap string }

type turningKey struct{}

// Swap chooses the strategy, by its name, that keeps the flow from its next pause on. It is for the functions of items.
func Swap(ctx context.Context, strategy string) error {
	t, ok := ctx.Value(turningKey{}).(*turning)
	if !ok {
		return cairnerr.Errorf(cairnerr.CodeUnsupported, "Swap was called outside of a flow")
	}
	if !isStrategyName(strategy) {
		return cairnerr.Errorf(cairnerr.CodeMalformed, "bad name of a strategy: %q", strategy)
	}
	t.swap = strategy
	return nil
}

// engine is what turns need beside the flow.
type turner struct {
	now     func() time.Time
	observe func(context.Context, Observed)
	pure    bool // a turn that would do something fails with errNotPure
}

// errNotPure says that a turn that should only look would have done something.
var errNotPure = cairnerr.Errorf(cairnerr.CodeUnsupported, "the flow does something before it asks")

// failed returns an error of the flow's own code. Its code and message are not for callers: they see that a turn failed.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return cairnerr.Errorf(cairnerr.CodeInternal, "%w", err)
}

// recovered makes a panic in the code of a flow an error. It is deferred.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = &cairnerr.Error{Code: cairnerr.CodePanic, Message: fmt.Sprint(p), Stack: string(debug.Stack())}
	}
}

// read checks what somebody has filled in, and returns it with its defaults.
func (n *node) read(input json.RawMessage) (json.RawMessage, Invalid) {
	if len(bytes.TrimSpace(input)) == 0 {
		input = json.RawMessage("{}")
	}
	parsed, wrong := n.ask.form.Check(input)
	return parsed, Invalid(wrong)
}

// locate finds the way to an Ask: the places in the lists of items.
func locate(items []*node, at, prefix string) []int {
	for i, n := range items {
		inner := prefix
		switch {
		case n.kind == askNode && prefix+n.name == at:
			return []int{i}
		case n.kind == subNode:
			inner += n.name + "/"
		}
		if way := locate(n.items, at, inner); way != nil {
			return append([]int{i}, way...)
		}
	}
	return nil
}

// current returns the state as today's code of the flow has it, and the Ask that waits.
func (d *definition) current(st state) (state, *node, error) {
	if st.Version != d.version && d.upgrade != nil && st.At != "" {
		at, context, err := d.upgrade(st.Version, st.At, slices.Clone(st.Context))
		if err != nil {
			return st, nil, cairnerr.Errorf(cairnerr.CodeFlowChanged, "flow %q cannot be upgraded from version %d to %d: %w", d.name, st.Version, d.version, err)
		}
		st.At, st.Context = at, context
	}
	st.Version = d.version
	if st.At == "" {
		return st, nil, nil
	}
	way := locate(d.items, st.At, "")
	if way == nil {
		return st, nil, cairnerr.Errorf(cairnerr.CodeFlowChanged, "flow %q has no Ask %q any more: bring it back, or give the flow an Upgrade", d.name, st.At)
	}
	return st, nodeAt(d.items, way), nil
}

func nodeAt(items []*node, way []int) *node {
	n := items[way[0]]
	for _, i := range way[1:] {
		n = n.items[i]
	}
	return n
}

// turn is the interpreter: it does what comes before the next pause. The state is current, the input was read.
func (t *turner) turn(ctx context.Context, d *definition, st state, input json.RawMessage) (out outcome, err error) {
	defer recovered(&err)
	s := d.zero()
	if len(st.Context) > 0 {
		if err := json.Unmarshal(st.Context, s); err != nil {
			return out, cairnerr.Errorf(cairnerr.CodeFlowChanged, "the context of flow %q does not fit its type any more: give the flow an Upgrade: %w", d.name, err)
		}
	}
	about := &turning{}
	w := &walker{turner: t, ctx: context.WithValue(ctx, turningKey{}, about), flow: d.name, input: input}
	if st.At != "" {
		w.way = locate(d.items, st.At, "")
	}
	sig, err := w.walk(d.items, s, "")
	wrong, refused := errors.AsType[Invalid](err)
	switch {
	case refused && w.asked:
		out.wrong = wrong
		out.state, out.ask = st, nodeAt(d.items, locate(d.items, st.At, ""))
		out.state.Tries++
		about.swap = "" // the pause stays where it is
	case err != nil:
		return out, err
	case sig == paused:
		out.ask = w.ask
		out.state = state{Flow: d.name, Version: d.version, At: w.at, Pause: st.Pause + 1, Burn: w.ask.ask.burn, Last: st.Last}
		if w.ask.ask.limited {
			out.state.Expires = t.now().Add(w.ask.ask.ttl).UnixMilli()
		}
	default:
		out.result = w.result
		out.state = state{Flow: d.name, Version: d.version, Pause: st.Pause}
		err := w.result.err
		if err == nil && len(w.result.Data) > 0 && !json.Valid(w.result.Data) {
			err = errors.New("its data is not JSON")
		}
		if err != nil {
			return out, cairnerr.Errorf(cairnerr.CodeEncode, "the result of flow %q cannot be written as JSON: %w", d.name, err)
		}
	}
	out.swap = about.swap
	if out.state.Context, err = json.Marshal(s); err != nil {
		return out, cairnerr.Errorf(cairnerr.CodeEncode, "the context of flow %q cannot be written as JSON: %w", d.name, err)
	}
	return out, nil
}

// signal says how a list of items was left.
type signal uint8

const (
	goesOn signal = iota
	broken
	continued
	paused
	ended
)

// walker does items until the flow pauses or ends.
type walker struct {
	*turner
	ctx    context.Context
	flow   string
	way    []int // to the Ask at which the flow goes on
	input  json.RawMessage
	asked  bool // the error is that of the Ask at which the flow went on
	done   int  // items
	at     string
	ask    *node
	result Result
}

func (w *walker) walk(items []*node, s any, prefix string) (signal, error) {
	from, resumed := 0, len(w.way) > 0
	if resumed {
		from, w.way = w.way[0], w.way[1:]
	}
	for _, n := range items[from:] {
		sig, err := w.observed(n, s, prefix, resumed)
		if err != nil || sig != goesOn {
			return sig, err
		}
		resumed = false
	}
	return goesOn, nil
}

func (w *walker) observed(n *node, s any, prefix string, resumed bool) (signal, error) {
	if w.done++; w.done > maxItems {
		return goesOn, cairnerr.Errorf(cairnerr.CodeLoopLimit, "flow %q did %d items without a pause", w.flow, maxItems)
	}
	if w.observe == nil {
		return w.one(n, s, prefix, resumed)
	}
	began := w.now()
	sig, err := w.one(n, s, prefix, resumed)
	name := n.name
	if name != "" {
		name = prefix + name
	}
	w.observe(w.ctx, Observed{Flow: w.flow, Kind: kindNames[n.kind], Name: name, Took: w.now().Sub(began), Err: err})
	return sig, err
}

// one does an item. At one that the flow is resumed in, no condition is evaluated again: the flow goes on exactly where
// it was paused, and the input reaches no other item.
func (w *walker) one(n *node, s any, prefix string, resumed bool) (signal, error) {
	switch n.kind {
	case doNode:
		if w.pure {
			return goesOn, errNotPure
		}
		return goesOn, failed(n.do(w.ctx, s))
	case askNode:
		if !resumed {
			w.at, w.ask = prefix+n.name, n
			return paused, nil
		}
		err := n.ask.take(w.ctx, s, w.input)
		if wrong, ok := errors.AsType[Invalid](err); ok {
			if len(wrong) == 0 { // nothing is wrong
				return goesOn, nil
			}
			w.asked = true
			return goesOn, err
		}
		return goesOn, failed(err)
	case ifNode:
		if resumed || n.cond(s) {
			return w.walk(n.items, s, prefix)
		}
	case whileNode:
		return w.loop(n, s, prefix, resumed)
	case listNode:
		sig, err := w.walk(n.items, s, prefix)
		return leaves(sig, broken), err
	case subNode:
		sig, err := w.walk(n.items, n.part(s), prefix+n.name+"/")
		return leaves(leaves(sig, broken), ended), err
	case breakNode:
		if n.cond(s) {
			return broken, nil
		}
	case continueNode:
		if n.cond(s) {
			return continued, nil
		}
	case endNode:
		w.result = n.end(s)
		return ended, nil
	}
	return goesOn, nil
}

func (w *walker) loop(n *node, s any, prefix string, resumed bool) (signal, error) {
	for resumed || n.cond(s) {
		resumed = false
		sig, err := w.walk(n.items, s, prefix)
		switch {
		case err != nil || sig == paused || sig == ended:
			return sig, err
		case sig == broken:
			return goesOn, nil
		}
		if w.done++; w.done > maxItems {
			return goesOn, cairnerr.Errorf(cairnerr.CodeLoopLimit, "flow %q did %d items without a pause", w.flow, maxItems)
		}
	}
	return goesOn, nil
}

// contextAt returns the part of a context that an Ask works on.
func contextAt(items []*node, way []int, s any) any {
	n := items[way[0]]
	if n.kind == subNode {
		s = n.part(s)
	}
	if len(way) == 1 {
		return s
	}
	return contextAt(n.items, way[1:], s)
}

// leaves ends a signal at the item that it leaves.
func leaves(sig, left signal) signal {
	if sig == left {
		return goesOn
	}
	return sig
}
