package enginesim

import (
	"fmt"
	"strings"

	"github.com/cairn-workflow/cairn/internal/sim"
)

// reference computes what a run returns, without an engine.
func (w *world) reference(name string) string { return w.referencePart(name, 0) }

func (w *world) referencePart(name string, depth int) string {
	a := sim.NewActor(w.plan.Seed, "workflow "+name)
	var out strings.Builder
	out.WriteString(name + ":")
	for i := range 2 + a.Pick(4) {
		part := Part(a.Pick(int(parts)))
		if !w.has(part) {
			continue
		}
		switch part {
		case partAttributes:
		case partStream:
			a.Pick(4)
		case partChild:
			if depth < 2 {
				out.WriteString(w.referenceChildren(fmt.Sprintf("%s.%d", name, i), i, depth))
			}
		case partRace:
			fmt.Fprintf(&out, "(race %d)", i)
		case partPoll:
			out.Write(pollOutput(i))
		case partMap:
			out.WriteString("(map 01234)")
		case partOnce:
			fmt.Fprintf(&out, "(once %d)", i)
		case partDeadline:
			out.WriteString("(deadline)")
		case partSleep:
			a.Pick(2000)
			out.WriteString("z")
		case partHook:
			token := fmt.Sprintf("%s-%d", name, i)
			var all []string
			for k := range 1 + a.Pick(2) {
				all = append(all, string(payloadOf(token, fmt.Sprintf("k%d", k))))
			}
			out.WriteString("<" + strings.Join(all, " ") + ">")
		case partBranches:
			if depth < 2 {
				out.WriteString("(")
				for k := range 3 {
					out.WriteString(w.referencePart(fmt.Sprintf("%s.%d.%d", name, i, k), depth+1))
				}
				out.WriteString(")")
			}
		case partStep, partSteps:
			fmt.Fprintf(&out, "[%d]", i)
		case parts:
		}
	}
	return out.String()
}

// referenceChildren is what children adds.
func (w *world) referenceChildren(name string, i, depth int) string {
	if i%2 == 0 {
		return "{" + w.referencePart(name, depth+1) + "}"
	}
	return "(twins {" + w.referencePart(name+".t0", depth+1) + "}{" + w.referencePart(name+".t1", depth+1) + "})"
}

// referenceChunks are those that a run's stream has in the end, without what failed; children have streams of their own.
func (w *world) referenceChunks(name string, depth int) []string {
	a := sim.NewActor(w.plan.Seed, "workflow "+name)
	var all []string
	add := func(place, n int) {
		for k := range n {
			all = append(all, string(chunkOf(name, place, k)))
		}
	}
	for i := range 2 + a.Pick(4) {
		part := Part(a.Pick(int(parts)))
		if !w.has(part) {
			continue
		}
		switch part {
		case partSleep:
			a.Pick(2000)
		case partHook:
			a.Pick(2)
		case partBranches:
			if depth < 2 {
				for k := range 3 {
					all = append(all, w.referenceChunks(fmt.Sprintf("%s.%d.%d", name, i, k), depth+1)...)
				}
			}
		case partStream:
			add(i, 1+a.Pick(4))
		case partStep, partSteps:
			add(i, 2)
		case partChild, partRace, partPoll, partDeadline, partAttributes, partMap, partOnce, parts:
		}
	}
	return all
}
