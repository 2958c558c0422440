package journal

import (
	"encoding/binary"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// t0 is when every test begins.
const t0 = Time(1_767_225_600_000) // 2026-01-01T00:00:00.000Z

const ns = "test"

// testID returns a different id for each number, made at t0.
func testID(n uint32) ID {
	var id ID
	binary.BigEndian.PutUint64(id[:8], uint64(t0)<<16)
	binary.BigEndian.PutUint32(id[12:], n)
	return id
}

// The cast of the tests.
var (
	theRun  = testID(1)
	another = testID(2) // another run
	p1, p2  = testID(11), testID(12)
	s1, s2  = testID(21), testID(22)
	h1, h2  = testID(31), testID(32)
	w1      = testID(41)
	a1      = testID(51)
	m1      = testID(61)
)

// bench holds runs and what is around them, and plays the committer and the store.
type bench struct {
	now     Time
	self    ID
	outside *Outside
	states  map[ID]*State
	logs    map[ID][]Event
}

func newBench() *bench {
	return &bench{now: t0, self: p1, outside: NewOutside(), states: map[ID]*State{}, logs: map[ID][]Event{}}
}

func (b *bench) env() Env { return Env{Now: b.now, Self: b.self} }

func (b *bench) state(run ID) *State {
	if b.states[run] == nil {
		b.states[run] = NewState(ns)
	}
	return b.states[run]
}

// try reduces a command and commits it if it was accepted.
func (b *bench) try(cmd *Command) (*Result, error) {
	if cmd.Namespace == "" {
		cmd.Namespace = ns
	}
	if cmd.Run.IsZero() {
		cmd.Run = theRun
	}
	s := b.state(cmd.Run)
	res, err := s.Reduce(cmd, b.env(), b.outside)
	if err != nil {
		return nil, err
	}
	s.Commit()
	b.logs[cmd.Run] = append(b.logs[cmd.Run], res.Appended...)
	return res, nil
}

func (b *bench) must(t *testing.T, cmd *Command) *Result {
	t.Helper()
	res, err := b.try(cmd)
	require.NoError(t, err)
	for _, o := range res.Outcomes {
		require.Nil(t, o.Err)
	}
	return res
}

// write writes events about the run that the tests are about: as its owner in dialect Engine, else from outside.
func (b *bench) write(events ...Event) (*Result, error) {
	return b.try(&Command{Events: events, Guards: Guards{Owner: b.owner()}})
}

// owner is who owns the run now.
func (b *bench) owner() Ownership {
	if run := b.state(theRun).Run; run != nil {
		return Ownership{Incarnation: run.Owner, Epoch: run.Epoch}
	}
	return Ownership{}
}

// outsider writes events without owning the run.
func (b *bench) outsider(events ...Event) (*Result, error) { return b.try(&Command{Events: events}) }

func (b *bench) later(d time.Duration) { b.now = b.now.Add(d) }

// birth is how a run of each dialect begins.
func birth(d Dialect) *RunCreated {
	return &RunCreated{Workflow: "checkout", Dialect: d, Spec: specOf(d)}
}

func specOf(d Dialect) int { return [dialects]int{World3: 4, World6: 6}[d] }

// newRun returns a bench with a run of the given dialect in which the events happened. Runs of dialect Engine belong to p1.
func newRun(t *testing.T, d Dialect, events ...Event) *bench {
	t.Helper()
	b := newBench()
	cmd := &Command{Events: []Event{{Data: birth(d)}}}
	if d == Engine {
		cmd.Guards.Owner = Ownership{Incarnation: p1}
	}
	b.must(t, cmd)
	for _, e := range events {
		_, err := b.write(e)
		require.NoError(t, err, "%s", e.Data.EventType())
	}
	return b
}

// about returns an event about an entity.
func about(entity ID, d Data) Event { return Event{Entity: entity, Data: d} }

func started() Event { return Event{Data: &RunStarted{}} }
func ended() Event   { return Event{Data: &RunCompleted{}} }
func cancels() Event { return Event{Data: &RunCancelled{}} }

func types(events []Event) []EventType {
	var list []EventType
	for _, e := range events {
		list = append(list, e.Type)
	}
	return list
}

// views are what follows from the journal alone, as values: what is compared cannot change behind our back.
type views struct {
	Seq       int64
	Run       Run
	Steps     map[ID]Step
	Hooks     map[ID]Hook
	Waits     map[ID]Wait
	Receipts  map[string]Receipt
	AttrSets  map[ID]struct{}
	HooksMade map[ID]struct{}
	Finished  map[ID]Status
}

func viewsOf(s *State) views {
	v := views{
		Seq: s.Seq, Steps: values(s.Steps), Hooks: values(s.Hooks), Waits: values(s.Waits), Receipts: values(s.Receipts),
		AttrSets: map[ID]struct{}{}, HooksMade: map[ID]struct{}{}, Finished: map[ID]Status{},
	}
	maps.Copy(v.AttrSets, s.AttrSets)
	maps.Copy(v.HooksMade, s.HooksMade)
	maps.Copy(v.Finished, s.finished)
	if s.Run != nil {
		v.Run = *s.Run
		v.Run.Owner, v.Run.Epoch, v.Run.WakeAt = ID{}, 0, 0
		v.Run.Attributes = map[string]string{}
		maps.Copy(v.Run.Attributes, s.Run.Attributes)
	}
	return v
}

func values[K comparable, V any](m map[K]*V) map[K]V {
	out := make(map[K]V, len(m))
	for k, v := range m {
		out[k] = *v
	}
	return out
}

// requireFolds checks that the views equal the fold of the journal, also of a journal that was stored and read back.
func requireFolds(t *testing.T, run ID, s *State, log []Event) {
	t.Helper()
	folded, err := Fold(ns, run, log)
	require.NoError(t, err)
	want := viewsOf(s)
	require.Equal(t, want, viewsOf(folded))
	reread, err := Fold(ns, run, stored(t, log))
	require.NoError(t, err)
	require.Equal(t, want, viewsOf(reread))
}

// stored returns the events as a store gives them back: without entities that follow from keys.
func stored(t *testing.T, log []Event) []Event {
	t.Helper()
	back := make([]Event, len(log))
	for i, e := range log {
		enc, err := EncodeData(e.Data)
		require.NoError(t, err)
		e.Data, err = DecodeData(e.Type, enc)
		require.NoError(t, err)
		if e.Key != "" {
			e.Entity = ID{}
		}
		back[i] = e
	}
	return back
}
