package flow

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"time"

	"github.com/cairn-workflow/cairn/internal/form"
)

// Item is a part of a flow over the context S: [Do], [Ask], [If], [While], [Break], [Continue], [List], [Sub], [End].
type Item[S any] interface {
	// item returns the item. The argument is only there so that the compiler infers S.
	item(*S) *node
}

type nodeKind uint8

const (
	doNode nodeKind = iota
	askNode
	ifNode
	whileNode
	breakNode
	continueNode
	listNode
	subNode
	endNode
)

var kindNames = [...]string{
	doNode: "do", askNode: "ask", ifNode: "if", whileNode: "while", breakNode: "break", continueNode: "continue",
	listNode: "list", subNode: "sub", endNode: "end",
}

// node is an item without its type. Its functions take a pointer to the context of its flow.
type node struct {
	kind  nodeKind
	name  string // of a Do, an Ask or a Sub
	do    func(ctx context.Context, s any) error
	cond  func(s any) bool
	part  func(s any) any // of a Sub: its part of the context
	end   func(s any) Result
	ask   *ask
	items []*node
	fault error // what is wrong with it
}

// ask is what an Ask has beyond its name.
type ask struct {
	form     *form.Form
	take     func(ctx context.Context, s any, input json.RawMessage) error
	prefill  func(s any) (json.RawMessage, error)
	to       func(s any) string // whom the outlet delivers to
	outlet   Outlet             // nil: the caller
	ttl      time.Duration
	limited  bool // ttl is set
	attempts int  // 0: any number
	burn     bool
}

// plain is an item without options.
type plain[S any] struct{ n *node }

func (p plain[S]) item(*S) *node { return p.n }

func nodes[S any](items []Item[S]) []*node {
	list := make([]*node, len(items))
	for i, it := range items {
		if it == nil {
			list[i] = &node{kind: listNode, fault: errors.New("an item is nil")}
			continue
		}
		list[i] = it.item(nil)
	}
	return list
}

// Do runs code that touches the world outside, or changes the context. If it fails, the turn fails, and can be tried
// again: the context is as it was before.
func Do[S any](name string, fn func(context.Context, *S) error) Item[S] {
	return plain[S]{&node{kind: doNode, name: name, do: func(ctx context.Context, s any) error { return fn(ctx, s.(*S)) }}}
}

// DoWith is [Do] with an input that is always the same, for code that several items share.
func DoWith[S, In any](name string, input In, fn func(context.Context, *S, In) error) Item[S] {
	return Do(name, func(ctx context.Context, s *S) error { return fn(ctx, s, input) })
}

// If does items if a condition holds.
func If[S any](cond func(*S) bool, items ...Item[S]) Item[S] {
	return plain[S]{&node{kind: ifNode, cond: condition(cond), items: nodes(items)}}
}

// While does items as long as a condition holds. One of them must be an [Ask], so that the loop pauses.
func While[S any](cond func(*S) bool, items ...Item[S]) Item[S] {
	return plain[S]{&node{kind: whileNode, cond: condition(cond), items: nodes(items)}}
}

// List does items one after the other. A [Break] in it leaves the list.
func List[S any](items ...Item[S]) Item[S] {
	return plain[S]{&node{kind: listNode, items: nodes(items)}}
}

// Break leaves the nearest [While] or [List] if a condition holds; outside of one it ends the flow.
func Break[S any](cond func(*S) bool) Item[S] {
	return plain[S]{&node{kind: breakNode, cond: condition(cond)}}
}

// Continue begins the next pass of the nearest [While] if a condition holds.
func Continue[S any](cond func(*S) bool) Item[S] {
	return plain[S]{&node{kind: continueNode, cond: condition(cond)}}
}

// End ends the flow with a result. In a [Sub] it ends only that, and the result is dropped.
func End[S any](result func(*S) Result) Item[S] {
	return plain[S]{&node{kind: endNode, end: func(s any) Result { return result(s.(*S)) }}}
}

// Sub does another flow over a part of the context. The names of its items get the name and a slash in front.
func Sub[S, T any](name string, f *Def[T], part func(*S) *T) Item[S] {
	n := &node{kind: subNode, name: name, part: func(s any) any { return part(s.(*S)) }}
	if f == nil {
		n.fault = errors.New("it has no flow")
	} else {
		n.items = f.def.items
	}
	return plain[S]{n}
}

func condition[S any](cond func(*S) bool) func(any) bool {
	return func(s any) bool { return cond(s.(*S)) }
}

// AskItem is an [Ask] with its options.
type AskItem[S any] struct {
	name string
	ask  ask
	err  error
}

// Ask pauses the flow until somebody has filled in the form that is made from In, and then calls fn. If fn returns
// [Invalid], the form is shown again, with its messages. Other errors fail the turn, and the pause stays.
//
// In is a struct; see the documentation of package flow for its tags.
func Ask[S, In any](name string, fn func(context.Context, *S, In) error) AskItem[S] {
	form, err := form.Of(reflect.TypeFor[In]())
	return AskItem[S]{name: name, err: err, ask: ask{form: form, take: func(ctx context.Context, s any, input json.RawMessage) error {
		var in In
		if err := json.Unmarshal(input, &in); err != nil {
			return Invalid{"": "cannot be read"}
		}
		if v, ok := any(&in).(interface{ Validate() error }); ok {
			if err := v.Validate(); err != nil {
				return asInvalid(err)
			}
		}
		return fn(ctx, s.(*S), in)
	}}}
}

// asInvalid returns what a Validate method has found as messages of fields.
func asInvalid(err error) error {
	if invalid, ok := errors.AsType[Invalid](err); ok {
		return invalid
	}
	return Invalid{"": err.Error()}
}

func (a AskItem[S]) item(*S) *node {
	own := a.ask
	return &node{kind: askNode, name: a.name, ask: &own, fault: a.err}
}

// TTL limits how long the flow waits here. A limit that is not positive is over at once.
func (a AskItem[S]) TTL(d time.Duration) AskItem[S] {
	a.ask.ttl, a.ask.limited = d, true
	return a
}

// Attempts limits how often the form may be filled in wrongly. After that the pause is over. It needs a strategy that
// counts.
func (a AskItem[S]) Attempts(n int) AskItem[S] {
	a.ask.attempts = n
	return a
}

// Burn closes the pause also if the code behind it fails, so that nobody can try again.
func (a AskItem[S]) Burn() AskItem[S] {
	a.ask.burn = true
	return a
}

// Via delivers the pause through an outlet to somebody else: a mail with a link, for example. The caller gets no token.
func (a AskItem[S]) Via(o Outlet, to func(*S) string) AskItem[S] {
	a.ask.outlet = o
	a.ask.to = func(s any) string { return to(s.(*S)) }
	return a
}

// Prefill fills the form in before it is shown. Values of sensitive fields are left out.
func (a AskItem[S]) Prefill(values func(*S) any) AskItem[S] {
	a.ask.prefill = func(s any) (json.RawMessage, error) { return json.Marshal(values(s.(*S))) }
	return a
}
