package flow

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// Flow is a definition of a flow, of whatever context. [New] makes one.
type Flow interface {
	// Name returns the permanent name of the flow.
	Name() string
	definition() *definition
}

// Def is a flow over the context S: a struct that JSON can hold, with what the flow has to remember between two pauses.
type Def[S any] struct{ def *definition }

// New defines a flow. The name is permanent. Mistakes in the items are reported by [NewHandler], all at once.
func New[S any](name string, items ...Item[S]) *Def[S] {
	return &Def[S]{&definition{name: name, items: nodes(items), zero: func() any { return new(S) }}}
}

// Name returns the permanent name of the flow.
func (f *Def[S]) Name() string { return f.def.name }

func (f *Def[S]) definition() *definition { return f.def }

// Upgrade returns the flow with a version, and a function for flows that were paused in an older one: it gets their
// version, where they wait and their context, and returns where they go on and with what. Without it, a flow whose place
// is gone cannot be resumed (flow_changed).
func (f *Def[S]) Upgrade(version int, fn func(from int, place string, context json.RawMessage) (string, json.RawMessage, error)) *Def[S] {
	own := *f.def
	own.version, own.upgrade = version, fn
	return &Def[S]{&own}
}

// definition is a flow without its type.
type definition struct {
	name    string
	version int
	items   []*node
	zero    func() any // a pointer to an empty context
	upgrade func(from int, place string, context json.RawMessage) (string, json.RawMessage, error)
}

const (
	maxName  = 128 // bytes of the name of a flow or an item
	maxDepth = 32  // of items in items
)

// check returns all mistakes in the flow.
func (d *definition) check() error {
	c := &checker{flow: d.name, asks: map[string]bool{}}
	if d.name == "" || len(d.name) > maxName || strings.ContainsAny(d.name, ".#@ \t\n") {
		c.mistake("bad name: it must not be empty, longer than %d bytes, or contain spaces or . # @", maxName)
	}
	c.items(d.items, "", 0, false)
	return errors.Join(c.mistakes...)
}

// asks returns the Ask items by their places.
func (d *definition) asks() map[string]*node {
	found := map[string]*node{}
	collect(d.items, "", 0, found)
	return found
}

func collect(items []*node, prefix string, depth int, found map[string]*node) {
	if depth > maxDepth {
		return
	}
	for _, n := range items {
		inner := prefix
		switch n.kind {
		case askNode:
			found[prefix+n.name] = n
		case subNode:
			inner += n.name + "/"
		default:
		}
		collect(n.items, inner, depth+1, found)
	}
}

// checker gathers the mistakes of a flow.
type checker struct {
	flow     string
	asks     map[string]bool
	mistakes []error
}

func (c *checker) mistake(format string, args ...any) {
	c.mistakes = append(c.mistakes, cairnerr.Errorf(cairnerr.CodeMalformed, "flow %q: "+format, append([]any{c.flow}, args...)...))
}

// items checks items, and reports whether one of them can pause.
func (c *checker) items(items []*node, prefix string, depth int, loop bool) (pauses bool) {
	if depth > maxDepth {
		c.mistake("items are nested more than %d deep: does a flow contain itself?", maxDepth)
		return true
	}
	for _, n := range items {
		if n.fault != nil {
			c.mistake("%s %q: %w", kindNames[n.kind], prefix+n.name, n.fault)
		}
		inner := prefix
		switch n.kind {
		case doNode, askNode, subNode:
			if n.name == "" || len(n.name) > maxName || strings.ContainsAny(n.name, "/#@\n") {
				c.mistake("bad name %q: it must not be empty, longer than %d bytes, or contain / # @", prefix+n.name, maxName)
			}
			inner += n.name + "/"
		case continueNode:
			if !loop {
				c.mistake("a Continue is outside of every While")
			}
		default:
		}
		if n.kind == askNode {
			if c.asks[prefix+n.name] {
				c.mistake("two Asks have the name %q: a token could not tell them apart", prefix+n.name)
			}
			c.asks[prefix+n.name] = true
			pauses = true
		}
		if n.kind != subNode {
			inner = prefix
		}
		waits := c.items(n.items, inner, depth+1, n.kind == whileNode || loop && n.kind != subNode)
		if n.kind == whileNode && !waits {
			c.mistake("a While has no Ask, so that it could go on for ever without a pause: use a loop in a Do")
		}
		pauses = pauses || waits
	}
	return pauses
}
