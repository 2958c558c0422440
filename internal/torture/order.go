package torture

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
)

// The kinds of legs. Each is one primitive of the engine, or what it becomes when something is not in time.
const (
	legStep     = "step"     // a step, which may fail some times before it succeeds
	legDeclined = "declined" // a step that fails for good
	legSleep    = "sleep"
	legHook     = "hook" // several values, each sent with a key
	legOnce     = "once" // a hook for one value, and two senders
	legAsk      = "ask"  // a hook that answers
	legChild    = "child"
	legMap      = "map"
	legStream   = "stream"
	legRace     = "race" // a step against a sleep that would not end
	legPoll     = "poll"
	legDeadline = "deadline" // a sleep that is cut off
	legForever  = "forever"  // waits until somebody ends the run
)

// leg is one part of a journey.
type leg struct {
	Kind   string
	Count  int   // of values, items or chunks
	Fails  int   // attempts that fail before one succeeds
	Millis int   // that a step or a sleep takes
	Timed  bool  // the step has a timeout, and so its start is recorded
	Keyed  bool  // the step has a key of its own
	Legs   []leg // of a child
}

// What a client does to a run beside answering it.
const (
	meddlePause     = "pause"
	meddleCancel    = "cancel"
	meddleTerminate = "terminate"
	meddleNote      = "note" // an annotation and an attribute
)

// order is what a client wants to be done, and the input of its run.
type order struct {
	Name   string // of the client and the number: no two orders have the same
	Legs   []leg
	Keyed  bool   // it is started with a key, and so can be asked for again
	Meddle string // what its client does to it, "": nothing
	After  int    // milliseconds until then
	Later  int    // milliseconds until the run begins
	InTx   bool   // it is started in a transaction of the client's own
	Undone bool   // and another one before it, in a transaction that is taken back
	Fork   bool   // when it is complete, a part of it is done again
}

// stranger returns a generator that belongs to one name and to no other.
func stranger(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // a hash takes everything
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// orderOf returns the n-th order of a client.
func orderOf(seed uint64, client, n int) order {
	name := fmt.Sprintf("%d-%d", client, n)
	r := stranger(seed, name)
	o := order{Name: name, Keyed: r.IntN(4) > 0, After: 20 + r.IntN(900)}
	switch roll := r.IntN(100); {
	case roll < 10:
		o.Meddle = meddlePause
	case roll < 20:
		o.Meddle = meddleCancel
	case roll < 25:
		o.Meddle = meddleTerminate
	case roll < 35:
		o.Meddle = meddleNote
	}
	if r.IntN(8) == 0 {
		o.Later = r.IntN(1500)
	}
	if o.Meddle != "" {
		o.Keyed = true
	}
	// Who started without a key and got no answer does not know his run: nobody would answer its hooks.
	// The end of a terminated run's children is not promised if its client dies in between: it has none.
	o.Legs = someLegs(r, 1+r.IntN(4), o.Keyed, o.Meddle != meddleTerminate)
	if o.Meddle == meddleCancel || o.Meddle == meddleTerminate {
		o.Legs = append(o.Legs, leg{Kind: legForever})
	}
	o.InTx, o.Undone = o.Keyed && r.IntN(5) == 0, r.IntN(2) == 0
	o.Fork = o.Keyed && r.IntN(2) == 0 && !slices.ContainsFunc(o.Legs, isAwaited)
	return o
}

// isAwaited reports whether a leg needs its client, or leaves something under the name of its order that must be there once. Such orders are not forked.
func isAwaited(l leg) bool {
	switch l.Kind {
	case legHook, legOnce, legAsk, legChild, legStream, legForever:
		return true
	default:
		return false
	}
}

// undone is the order that is taken back before this one is placed.
func (o *order) undone() order {
	never := *o
	never.Name += "-undone"
	return never
}

func someLegs(r *rand.Rand, n int, answered, family bool) []leg {
	kinds := []string{legStep, legStep, legStep, legDeclined, legSleep, legSleep, legMap, legStream, legRace, legPoll, legDeadline}
	if answered {
		kinds = append(kinds, legHook, legHook, legOnce, legAsk)
	}
	if family {
		kinds = append(kinds, legChild, legChild)
	}
	legs := make([]leg, n)
	for i := range legs {
		legs[i] = leg{
			Kind: kinds[r.IntN(len(kinds))], Count: 1 + r.IntN(5), Millis: r.IntN(120), Timed: r.IntN(4) == 0, Keyed: r.IntN(2) == 0,
		}
		switch l := &legs[i]; {
		case l.Kind == legChild:
			l.Legs = someLegs(r, 1+r.IntN(3), answered, false)
		case r.IntN(3) == 0:
			l.Fails = 1 + r.IntN(2)
		case r.IntN(12) == 0:
			l.Millis = 1200 // longer than the engine waits before it records the start
		}
	}
	return legs
}

// childOf returns the order of the child that is the i-th leg.
func (o *order) childOf(i int) order {
	return order{Name: fmt.Sprintf("%s.%d", o.Name, i), Legs: o.Legs[i].Legs, Keyed: o.Keyed}
}

// rootOf is the name of the order that a name of an order, or of one of its children, belongs to.
func rootOf(name string) string {
	root, _, _ := strings.Cut(name, ".")
	return root
}

// token is that of the hook that is the i-th leg.
func (o *order) token(i int) string { return fmt.Sprintf("torture-%s-%d", o.Name, i) }

// value is what the j-th part of the i-th leg is worth.
func (o *order) value(i, j int) int64 {
	return stranger(0, fmt.Sprintf("%s/%d/%d", o.Name, i, j)).Int64N(1_000_000)
}

func (o *order) sum(i, n int) (sum int64) {
	for j := range n {
		sum += o.value(i, j)
	}
	return sum
}

// line says what a leg came to. A journey returns the lines of its legs.
func (l *leg) line(v any) string { return fmt.Sprintf("%s %v", l.Kind, v) }

// result is what the journey returns if nobody ends it.
func (o *order) result() string {
	lines := make([]string, len(o.Legs))
	for i := range o.Legs {
		l := &o.Legs[i]
		switch l.Kind {
		case legHook, legMap:
			lines[i] = l.line(o.sum(i, l.Count))
		case legChild:
			child := o.childOf(i)
			lines[i] = l.line("(" + child.result() + ")")
		case legSleep, legDeadline, legDeclined, legStream, legForever:
			lines[i] = l.line(i)
		default:
			lines[i] = l.line(o.value(i, 0))
		}
	}
	return strings.Join(lines, ", ")
}

// chunk is the j-th chunk of the i-th leg; the one behind those of the step is the workflow's own.
func (o *order) chunk(i, j int) string { return fmt.Sprintf("%s/%d/%d", o.Name, i, j) }

// chunks are all that the journey's stream holds at the end.
func (o *order) chunks() (all []string) {
	for i := range o.Legs {
		if o.Legs[i].Kind != legStream {
			continue
		}
		for j := range o.Legs[i].Count + 1 {
			all = append(all, o.chunk(i, j))
		}
	}
	return all
}
