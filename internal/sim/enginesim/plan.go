package enginesim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn/internal/sim"
)

// Plan is what happens in one simulation, as far as it is not up to the code under test. Every entry can be left out.
type Plan struct {
	Seed  uint64
	Slots int // engines at the same time
	Chaos time.Duration
	Runs  []int // the inputs of the workflows
	Parts []Part
	// Buggy says that the code of workflows cannot go on at some places until the world is calm: somebody has fixed it then.
	Buggy bool
	Asks  []Ask
	Blows []Blow
	// Faults by the interaction point at which they happen.
	Faults []PointFault
}

// Part is a kind of thing that a workflow does.
type Part int

// The parts of workflows.
const (
	partSleep Part = iota
	partHook
	partBranches
	partStep
	partSteps // a step again: most of what workflows do
	partChild
	partRace
	partPoll
	partDeadline
	partStream
	partAttributes
	partMap
	partOnce
	parts
)

// Ask is what a client asks for.
type Ask struct {
	At   time.Duration
	Kind askKind
	Run  int // an index of Plan.Runs
	Slot int // whose engine is asked
	// Limit is how long the client waits for an answer; 0: as long as it takes.
	Limit time.Duration
}

type askKind string

const (
	askStart    askKind = "start" // once more, with the same key
	askCancel   askKind = "cancel"
	askPause    askKind = "pause"
	askResume   askKind = "resume"
	askResult   askKind = "result"
	askAnnotate askKind = "annotate"
	askSet      askKind = "set attributes"
	askEnd      askKind = "terminate"
	askDelete   askKind = "delete" // of a short run that the client starts and waits for first
	askFork     askKind = "fork"   // of such a run
	askJoin     askKind = "join"   // a start in a transaction of the client's own
)

// Blow is what happens to a whole process.
type Blow struct {
	At   time.Duration
	Kind blowKind
	Slot int
	For  time.Duration // of a freeze; how far a clock jumps
}

type blowKind string

const (
	blowKill   blowKind = "kill"       // kill -9
	blowFreeze blowKind = "freeze"     // stopped for longer than its lease, and then it goes on: a zombie
	blowJump   blowKind = "clock jump" // of the clock on its wall
	blowCut    blowKind = "power cut"  // all processes at once, and the files as they are then
)

// PointFault is what happens at an interaction point of the processes of a slot.
type PointFault struct {
	Slot  int
	Point Point
	N     int // how many interactions of this kind came before
	Kind  faultKind
	For   time.Duration // of a delay, or how late a commit lands
}

// Point is a kind of interaction with the database.
type Point string

// The interaction points.
const (
	pointBegin  Point = "begin"
	pointLoad   Point = "load"
	pointCommit Point = "commit"
	pointSettle Point = "settle"
	pointRead   Point = "read"
	pointDue    Point = "due"
	pointBeat   Point = "beat"
	pointFence  Point = "fence"
	pointHint   Point = "hint"
	pointDelete Point = "delete"
)

type faultKind string

const (
	faultDelay      faultKind = "delay"
	faultFail       faultKind = "fail before"
	faultApplied    faultKind = "applied, then fails"
	faultUnknown    faultKind = "not applied, outcome unknown"
	faultBusy       faultKind = "busy"
	faultFull       faultKind = "disk full"
	faultLate       faultKind = "lands late"
	faultDieBefore  faultKind = "crash before"
	faultDieAfter   faultKind = "crash after"
	faultLost       faultKind = "lost"
	faultDuplicated faultKind = "duplicated"
)

// faultsAt says which faults an interaction point has, how many of a thousand interactions get each, and how many interactions are planned for.
var faultsAt = []struct {
	point Point
	until int
	kinds []oddsOf
}{
	{pointBegin, 400, []oddsOf{{faultDelay, 20}, {faultFail, 20}}},
	{pointLoad, 200, []oddsOf{{faultDelay, 20}, {faultFail, 20}, {faultBusy, 20}}},
	{pointCommit, 400, []oddsOf{
		{faultDelay, 20}, {faultApplied, 40}, {faultUnknown, 30}, {faultBusy, 20}, {faultFull, 20}, {faultLate, 10}, {faultDieBefore, 4}, {faultDieAfter, 4},
	}},
	{pointSettle, 60, []oddsOf{{faultDelay, 50}, {faultFail, 100}}},
	{pointRead, 600, []oddsOf{{faultDelay, 20}, {faultFail, 15}}},
	{pointDue, 200, []oddsOf{{faultDelay, 20}, {faultFail, 30}}},
	{pointBeat, 60, []oddsOf{{faultDelay, 40}, {faultFail, 60}, {faultApplied, 60}}},
	{pointFence, 10, []oddsOf{{faultDelay, 100}, {faultFail, 100}, {faultApplied, 100}}},
	{pointDelete, 20, []oddsOf{{faultDelay, 50}, {faultFail, 100}, {faultApplied, 100}}},
	{pointHint, 200, []oddsOf{{faultDelay, 50}, {faultLost, 200}, {faultDuplicated, 50}}},
}

type oddsOf struct {
	kind faultKind
	odds int
}

// lease is that of all engines; poll is how often they look.
const (
	lease = 2 * time.Second
	poll  = 200 * time.Millisecond
)

// NewPlan returns the plan of a seed.
func NewPlan(seed uint64) *Plan {
	a := sim.NewActor(seed, "plan")
	p := &Plan{Seed: seed, Slots: 2 + a.Pick(2), Chaos: time.Duration(3+a.Pick(6)) * time.Second}
	for i := range 3 + a.Pick(3) {
		p.Runs = append(p.Runs, i)
	}
	for part := range parts {
		p.Parts = append(p.Parts, part)
	}
	p.asks(sim.NewActor(seed, "asks"))
	if p.Buggy = sim.NewActor(seed, "bugs").Pick(8) == 0; p.Buggy {
		// What clients see of a run that is parked by itself depends on when it is: their model knows only what they do to it.
		p.Asks = slices.DeleteFunc(p.Asks, func(a Ask) bool { return a.Kind == askPause || a.Kind == askResume || a.Kind == askResult })
	}
	p.blows(sim.NewActor(seed, "blows"))
	for slot := range p.Slots {
		p.faults(sim.NewActor(seed, fmt.Sprint("faults of ", slot)), slot)
	}
	return p
}

func (p *Plan) asks(a *sim.Actor) {
	kinds := []askKind{
		askStart, askStart, askPause, askPause, askResume, askResume, askResume, askResult, askResult, askAnnotate, askSet, askCancel, askEnd, askDelete, askDelete, askDelete, askFork, askFork, askJoin, askJoin,
	}
	for range 8 + a.Pick(24) {
		ask := Ask{At: within(a, p.Chaos), Kind: kinds[a.Pick(len(kinds))], Run: a.Pick(len(p.Runs)), Slot: a.Pick(p.Slots)}
		if (ask.Kind == askCancel || ask.Kind == askEnd) && ask.Run%3 != 2 { // most runs come to their end
			ask.Kind = askResult
		}
		if a.Pick(3) == 0 {
			ask.Limit = within(a, 50*time.Millisecond)
		}
		if ask.Kind == askResult {
			ask.Limit = within(a, 2*time.Second)
		}
		p.Asks = append(p.Asks, ask)
	}
	slices.SortFunc(p.Asks, func(x, y Ask) int { return int(x.At - y.At) })
}

func (p *Plan) blows(a *sim.Actor) {
	for range 2 + a.Pick(6) {
		b := Blow{At: within(a, p.Chaos), Slot: a.Pick(p.Slots)}
		switch a.Pick(7) {
		case 0, 1, 2:
			b.Kind = blowKill
		case 3, 4, 5:
			b.Kind, b.For = blowFreeze, lease/2+within(a, 2*lease)
		case 6:
			b.Kind, b.For = blowJump, within(a, 20*time.Second)-10*time.Second
		}
		p.Blows = append(p.Blows, b)
	}
	if a.Pick(4) == 0 {
		p.Blows = append(p.Blows, Blow{At: p.Chaos/4 + within(a, p.Chaos/2), Kind: blowCut})
	}
	slices.SortFunc(p.Blows, func(x, y Blow) int { return int(x.At - y.At) })
}

func (p *Plan) faults(a *sim.Actor, slot int) {
	for _, at := range faultsAt {
		for n := range at.until {
			roll := a.Pick(1000)
			for _, k := range at.kinds {
				if roll -= k.odds; roll < 0 {
					p.Faults = append(p.Faults, PointFault{Slot: slot, Point: at.point, N: n, Kind: k.kind, For: within(a, 700*time.Millisecond)})
					break
				}
			}
		}
	}
}

// within returns a duration of at least a nanosecond.
func within(a *sim.Actor, most time.Duration) time.Duration {
	return time.Duration(1 + a.Pick(int(most)))
}

// cuts reports whether the power is cut.
func (p *Plan) cuts() bool {
	return slices.ContainsFunc(p.Blows, func(b Blow) bool { return b.Kind == blowCut })
}

// String shows the plan for people.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d engines, chaos for %s, runs %v, parts %v\n", p.Slots, p.Chaos, p.Runs, p.Parts)
	for _, x := range p.Asks {
		fmt.Fprintf(&b, "  at %-14s client: %s of run %d through engine %d%s\n", x.At, x.Kind, x.Run, x.Slot, within0(x.Limit))
	}
	for _, x := range p.Blows {
		fmt.Fprintf(&b, "  at %-14s %s of engine %d%s\n", x.At, x.Kind, x.Slot, within0(x.For))
	}
	for _, x := range p.Faults {
		fmt.Fprintf(&b, "  engine %d: %s %d: %s%s\n", x.Slot, x.Point, x.N, x.Kind, within0(x.For))
	}
	return b.String()
}

func within0(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s)", d)
}

// String names the part.
func (p Part) String() string {
	return [...]string{"sleep", "hook", "branches", "step", "steps", "child", "race", "poll", "deadline", "stream", "attributes", "map", "once"}[p]
}
