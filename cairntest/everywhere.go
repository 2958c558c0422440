package cairntest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// Option sets the environment of [CrashEverywhere] and [EvictEverywhere].
type Option func(*plan)

// With adds workflows that the tested one starts as children.
func With(workflows ...cairn.Definition) Option {
	return func(p *plan) { p.workflows = append(p.workflows, workflows...) }
}

// Prepare adds a function that is called before each execution, to set stubs and to reset counters.
func Prepare(f func(*Env)) Option { return func(p *plan) { p.prepare = append(p.prepare, f) } }

// Drive adds a function that is called in parallel with each execution and plays the outside world: it calls [Send],
// for instance.
func Drive(f func(*Env)) Option { return func(p *plan) { p.drive = append(p.drive, f) } }

// plan is what is executed again and again.
type plan struct {
	name      string
	input     any
	decode    func(journal.Payload) (any, error)
	workflows []cairn.Definition
	prepare   []func(*Env)
	drive     []func(*Env)
}

func newPlan[In, Out any](wf *cairn.Workflow[In, Out], in In, options []Option) *plan {
	p := &plan{name: wf.Name(), input: in, workflows: []cairn.Definition{wf}, decode: func(out journal.Payload) (any, error) {
		var v Out
		err := payload.Decode(out, &v)
		return v, err
	}}
	for _, o := range options {
		o(p)
	}
	return p
}

// outcome is how an execution ended.
type outcome struct {
	output any
	err    string
	events []string // type and key, sorted
	steps  []string // completed, sorted
	fell   bool     // the fault was reached
}

// CrashEverywhere executes a workflow once without faults. Then it executes the workflow once more for each place at
// which a process can die: before and after each commit, and after the body of each step. It kills the process there,
// lets another one go on, and checks that the run ends as it did without faults and that no step was completed twice.
// It returns the number of crashes.
func CrashEverywhere[In, Out any](t *testing.T, wf *cairn.Workflow[In, Out], in In, options ...Option) int {
	t.Helper()
	p := newPlan(wf, in, options)
	want := p.execute(t, fault{}, 0)
	crashes := 0
	for _, kind := range []faultKind{beforeCommit, afterCommit, afterBody} {
		for n := 1; ; n++ {
			f := fault{kind: kind, at: n}
			got := p.execute(t, f, 0)
			if !got.fell {
				break
			}
			crashes++
			want.compare(t, got, f.String())
			if t.Failed() {
				return crashes
			}
		}
	}
	return crashes
}

// EvictEverywhere executes a workflow once with its goroutines kept while it waits, and once with the run dropped from
// memory at each wait and executed again from its journal. It checks that both runs end the same, and that the second
// one has the same journal: deferred functions that run when the run is dropped must record nothing.
func EvictEverywhere[In, Out any](t *testing.T, wf *cairn.Workflow[In, Out], in In, options ...Option) {
	t.Helper()
	p := newPlan(wf, in, options)
	want := p.execute(t, fault{}, 0)
	got := p.execute(t, fault{}, -1)
	want.compare(t, got, "evicted at each wait")
	if !slices.Equal(want.events, got.events) {
		t.Errorf("evicted at each wait, the run wrote\n  %q\nand kept in memory\n  %q", got.events, want.events)
	}
}

func (want *outcome) compare(t *testing.T, got *outcome, where string) {
	t.Helper()
	if w, g := fmt.Sprintf("%#v", want.output), fmt.Sprintf("%#v", got.output); w != g || want.err != got.err {
		t.Errorf("%s: the run ended with %s %s, and without faults with %s %s", where, g, got.err, w, want.err)
	}
	if !slices.Equal(want.steps, got.steps) {
		t.Errorf("%s: the run completed the steps %q, and without faults %q", where, got.steps, want.steps)
	}
}

// execute executes the plan once, in a bubble of its own.
func (p *plan) execute(t *testing.T, f fault, waiting int) *outcome {
	t.Helper()
	var out *outcome
	bubble.Run(t, func(t *testing.T) {
		t.Helper()
		e := newEnv(t, p.workflows, waiting)
		e.open(f)
		for _, prepare := range p.prepare {
			prepare(e)
		}
		e.begin()
		defer e.end()
		driven := make(chan struct{})
		go func() {
			defer close(driven)
			for _, drive := range p.drive {
				drive(e)
			}
		}()
		out = p.follow(e)
		close(e.ended)
		<-driven
	})
	return out
}

// follow starts the run, and goes on with it after a crash, until it has ended.
func (p *plan) follow(e *Env) *outcome {
	e.t.Helper()
	ended, crashed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(crashed)
		select {
		case <-e.store.fell:
			e.Crash()
		case <-ended:
		}
	}()
	input, err := payload.Encode(p.input)
	if err != nil {
		e.t.Fatalf("the input cannot be stored: %v", err)
	}
	run := p.await(e, input)
	close(ended)
	<-crashed
	out := &outcome{fell: e.store.hasFallen()}
	if failure := engine.FailureOf(run); failure != nil {
		out.err = failure.Error()
	} else if out.output, err = p.decode(run.Output); err != nil {
		e.t.Fatalf("read the output: %v", err)
	}
	history := e.History(journal.PrefixRun.Format(run.ID))
	lost := lostBranches(history)
	for _, event := range history {
		if slices.ContainsFunc(lost, func(path string) bool { return strings.HasPrefix(event.Key, path) }) {
			continue // how far a branch came that lost a race is left open
		}
		out.events = append(out.events, event.Type+" "+event.Key)
		if event.Type == journal.EventStepCompleted.String() {
			out.steps = append(out.steps, event.Key)
		}
	}
	slices.Sort(out.events)
	slices.Sort(out.steps)
	return out
}

// lostBranches returns the paths of the branches that lost a race.
func lostBranches(history []*cairn.HistoryEvent) []string {
	var lost []string
	for _, event := range history {
		var detail struct{ Closes []string }
		if err := json.Unmarshal(event.Detail, &detail); err == nil {
			lost = append(lost, detail.Closes...)
		}
	}
	return lost
}

// await starts the run and waits for its end, through whichever engine there is. The start key makes sure that there is one run.
func (p *plan) await(e *Env, input journal.Payload) *journal.Run {
	e.t.Helper()
	for life := 1; ; life++ {
		inner, over := e.current()
		ctx, cancel := context.WithCancel(e.ctx)
		stop := context.AfterFunc(over, cancel)
		id, err := inner.Start(ctx, engine.StartRequest{Workflow: p.name, Input: input, StartKey: "the run"})
		var run *journal.Run
		if err == nil {
			run, err = inner.Wait(ctx, id)
		}
		stop()
		cancel()
		switch {
		case err == nil:
			return run
		case life == 1 && e.store.hasFallen():
			<-over.Done() // the next one is about to begin
		default:
			e.t.Fatalf("the run could not be executed: %v", err)
		}
	}
}
