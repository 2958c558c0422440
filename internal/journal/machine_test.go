package journal

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// machine reads bytes as commands to a few runs of all dialects, reduces them, and checks after each what must hold
// always. The fuzzer finds the bytes; TestRandomCommands draws them.
type machine struct {
	t     *testing.T
	bytes []byte
	now   Time
	out   *Outside
	runs  []ID
	state map[ID]*State
	log   map[ID][]Event
	// What the store has: rows written from State.Changed, and the journal up to the last commit.
	rows      map[ID]*rows
	committed map[ID]int
}

// rows are the tables of a store, for one run.
type rows struct {
	run      *Run
	seq      int64
	steps    map[ID]Step
	hooks    map[ID]Hook
	waits    map[ID]Wait
	receipts map[string]Receipt
	attrs    map[string]string
}

func newMachine(t *testing.T, bytes []byte) *machine {
	t.Helper()
	return &machine{
		t: t, bytes: bytes, now: t0, out: NewOutside(), state: map[ID]*State{}, log: map[ID][]Event{},
		runs: []ID{testID(1), testID(2), testID(3), testID(4), testID(5)}, rows: map[ID]*rows{}, committed: map[ID]int{},
	}
}

// next returns the next byte, below n; when all are used up, 0.
func (m *machine) next(n int) int {
	if len(m.bytes) == 0 {
		return 0
	}
	b := m.bytes[0]
	m.bytes = m.bytes[1:]
	return int(b) % n
}

func (m *machine) stateOf(run ID) *State {
	if m.state[run] == nil {
		m.state[run] = NewState(ns)
		m.rows[run] = &rows{steps: map[ID]Step{}, hooks: map[ID]Hook{}, waits: map[ID]Wait{}, receipts: map[string]Receipt{}, attrs: map[string]string{}}
	}
	return m.state[run]
}

func (m *machine) run() {
	for i := 0; len(m.bytes) > 0 && i < 80; i++ {
		switch m.next(16) {
		case 0:
			m.now += []Time{1, 1000, 40_000, 3_600_000}[m.next(4)]
		case 1, 4, 5:
			m.commit()
		case 2:
			m.rollback()
		case 3:
			m.out.Fenced[m.incarnation()] = true
		default:
			m.command()
		}
	}
	m.commit()
	for run, s := range m.state {
		if s.Run != nil {
			requireFolds(m.t, run, s, m.log[run])
		}
	}
}

// command reduces one command and checks what became of it.
func (m *machine) command() {
	run := m.runs[m.next(len(m.runs))]
	s := m.stateOf(run)
	cmd := m.newCommand(run, s)
	before, outsideBefore := m.snapshot(s), cloneOutside(m.out)
	pending, hadRun, wasTerminal := s.Changed(), s.Run != nil, s.Run != nil && s.Run.Status.Terminal()
	partial := m.partial(cmd, s)

	res, err := s.Reduce(cmd, Env{Now: m.now, Self: p1}, m.out)

	partial(res, err)
	if err != nil {
		var e *cairnerr.Error
		require.ErrorAs(m.t, err, &e)
		require.NotEqual(m.t, cairnerr.CodeInternal, e.Code, "%v", err)
		require.True(m.t, e.Code.Known(), "%v", err)
		require.Equal(m.t, before, m.snapshot(s), "a refused command changes nothing")
		require.Equal(m.t, outsideBefore, m.out, "a refused command changes nothing outside")
		require.Equal(m.t, pending, s.Changed(), "a refused command has nothing to store")
		return
	}
	require.Len(m.t, res.Outcomes, len(cmd.Events))
	if res.Existing {
		require.Empty(m.t, res.Appended)
		require.False(m.t, hadRun)
		require.Equal(m.t, before, m.snapshot(s))
		return
	}
	m.log[run] = append(m.log[run], res.Appended...)
	for i, e := range m.log[run] {
		require.Equal(m.t, int64(i+1), e.Seq, "no gap")
	}
	for _, o := range res.Outcomes {
		if o.Appended >= 0 {
			require.Equal(m.t, o.Seq, res.Appended[o.Appended].Seq)
		}
	}
	if wasTerminal {
		m.checkAfterEnd(before.Run, res.Appended)
	}
	folded, err := Fold(ns, run, m.log[run])
	require.NoError(m.t, err)
	require.Equal(m.t, viewsOf(folded), viewsOf(s), "views = fold(journal)")
	changed := s.Changed()
	require.Equal(m.t, changed, s.Changed(), "asking for changes changes nothing")
	m.checkRun(s, m.log[run])
	m.checkTokens()
	if !before.Run.StartedAt.IsZero() {
		require.Equal(m.t, before.Run.StartedAt, s.Run.StartedAt, "startedAt once")
	}
}

// full is everything about a state, also what does not follow from the journal.
type full struct {
	views
	Owner  ID
	Epoch  int64
	WakeAt Time
}

func (m *machine) snapshot(s *State) full {
	f := full{views: viewsOf(s)}
	if s.Run != nil {
		f.Owner, f.Epoch, f.WakeAt = s.Run.Owner, s.Run.Epoch, s.Run.WakeAt
	}
	return f
}

func cloneOutside(o *Outside) *Outside {
	return &Outside{Tokens: maps.Clone(o.Tokens), StartKeys: maps.Clone(o.StartKeys), Deliveries: maps.Clone(o.Deliveries), Fenced: maps.Clone(o.Fenced)}
}

// checkAfterEnd is the law of each dialect for what may follow the end of a run.
func (m *machine) checkAfterEnd(run Run, appended []Event) {
	for _, e := range appended {
		allowed := []EventType{EventAnnotated}
		if run.Dialect != Engine {
			allowed = append(allowed, EventStepRetrying, EventStepCompleted, EventStepFailed)
		}
		if run.Dialect == World3 {
			allowed = append(allowed, EventStepStarted)
		}
		if run.Dialect != Engine && run.Status == StatusCancelled {
			allowed = append(allowed, EventRunCancelled)
		}
		require.Contains(m.t, allowed, e.Type, "%s after a run of dialect %s was %s", e.Type, run.Dialect, run.Status)
	}
}

// checkRun checks what holds in every state of one run.
func (m *machine) checkRun(s *State, log []Event) {
	run := s.Run
	require.Equal(m.t, run.Status.Terminal(), run.CompletedAt != 0, "completedAt exactly at the end")
	require.Equal(m.t, run.Status.Terminal(), run.EndSeq != 0)
	if run.Status.Terminal() || run.ParkedAt != 0 || run.Dialect != Engine {
		require.True(m.t, run.Owner.IsZero(), "nobody executes the run")
		require.Zero(m.t, run.WakeAt, "nothing wakes the run")
	}
	if run.Status.Terminal() {
		require.Empty(m.t, s.Waits)
		for _, h := range s.Hooks {
			require.Equal(m.t, HookRetained, h.Status)
		}
	}
	outcomes, received := map[ID]int{}, map[ID]int{}
	open, single, over := map[ID]bool{}, map[ID]bool{}, false
	for _, e := range log {
		switch d := e.Data.(type) {
		case *StepCompleted, *StepFailed:
			outcomes[e.Entity]++
			require.Equal(m.t, 1, outcomes[e.Entity], "a step finishes once")
		case *HookCreated:
			open[e.Entity], single[e.Entity], received[e.Entity] = true, d.SingleUse, 0
		case *HookDisposed:
			open[e.Entity] = false
		case *HookReceived:
			received[e.Entity]++
			require.True(m.t, open[e.Entity] && !over, "nothing is received after disposal or the end")
			require.True(m.t, !single[e.Entity] || received[e.Entity] == 1, "single use")
		case *RunCompleted, *RunFailed, *RunCancelled:
			over = true
		default:
		}
	}
}

// checkTokens: a token is held by one hook, and what commands see of it is true.
func (m *machine) checkTokens() {
	want := map[string]ID{}
	for run, s := range m.state {
		for _, h := range s.Hooks {
			key := TokenKey(ns, h.Token)
			require.NotContains(m.t, want, key, "a token is held once")
			want[key] = h.ID
			require.Equal(m.t, run, m.out.Tokens[key].Run)
		}
	}
	got := map[string]ID{}
	for key, h := range m.out.Tokens {
		got[key] = h.Hook
	}
	require.Equal(m.t, want, got)
}

// commit stores what changed, as a store would, and compares the rows with the views.
func (m *machine) commit() {
	for run, s := range m.state {
		c, r := s.Changed(), m.rows[run]
		if c.Run {
			r.run = s.Run
		}
		for _, step := range c.Steps {
			r.steps[step.ID] = *step
		}
		for _, h := range c.Hooks {
			r.hooks[h.ID] = *h
		}
		for _, id := range c.HooksGone {
			require.False(m.t, id.IsZero())
			delete(r.hooks, id)
		}
		for _, w := range c.Waits {
			r.waits[w.ID] = *w
		}
		for _, id := range c.WaitsGone {
			require.False(m.t, id.IsZero())
			delete(r.waits, id)
		}
		for _, receipt := range c.Receipts {
			r.receipts[receipt.Sender] = *receipt
		}
		for _, a := range c.Attributes {
			if a.Remove {
				delete(r.attrs, a.Key)
			} else {
				r.attrs[a.Key] = a.Value
			}
		}
		r.seq = s.Seq
		s.Commit()
		require.Empty(m.t, s.Changed())
		m.committed[run] = len(m.log[run])
		m.requireStored(s, r)
	}
}

// requireStored checks that the rows of the store are those of the state.
func (m *machine) requireStored(s *State, r *rows) {
	v := viewsOf(s)
	require.Equal(m.t, v.Steps, r.steps)
	require.Equal(m.t, v.Hooks, r.hooks)
	require.Equal(m.t, v.Waits, r.waits)
	require.Equal(m.t, v.Receipts, r.receipts)
	require.Equal(m.t, v.Seq, r.seq)
	require.Equal(m.t, s.Run, r.run)
	if s.Run != nil {
		require.Equal(m.t, v.Run.Attributes, r.attrs)
	}
}

// rollback takes back all that is not stored. Then the states are those of the last commit.
func (m *machine) rollback() {
	for run, s := range m.state {
		s.Rollback()
		require.Empty(m.t, s.Changed())
		m.requireStored(s, m.rows[run])
		m.log[run] = m.log[run][:m.committed[run]]
	}
	// The committer reads what is outside anew for each batch.
	fenced := m.out.Fenced
	m.out = NewOutside()
	m.out.Fenced = fenced
	for run, s := range m.state {
		for _, h := range s.Hooks {
			m.out.Tokens[TokenKey(ns, h.Token)] = Holder{Run: run, Hook: h.ID, Status: h.Status, RetainUntil: h.RetainUntil}
		}
		if s.Run != nil && s.Run.StartKey != "" {
			m.out.StartKeys[StartKey{ns, s.Run.Workflow, s.Run.StartKey}] = Started{run, s.Run.StartDigest}
		}
	}
}

// partial prepares to reduce the command on a state that has only what it touches. The answer must be the same: that is how a
// store works for commands from outside.
func (m *machine) partial(cmd *Command, s *State) func(*Result, error) {
	steps := func(e Event) bool { return e.Data != nil && e.Data.EventType().About() == PrefixStep }
	if s.Run == nil || cmd.Lease == LeaseRelease || s.Run.Dialect == Engine && slices.ContainsFunc(cmd.Events, steps) {
		return func(*Result, error) {} // an owner has the complete state
	}
	some := LoadedState(ns, s.Run, s.Seq, 1)
	touch := cmd.Touches()
	some.Steps, some.Hooks, some.Waits = pick(s.Steps, touch.Steps), pick(s.Hooks, touch.Hooks), pick(s.Waits, touch.Waits)
	some.Receipts, some.AttrSets = pick(s.Receipts, touch.Senders), maps.Clone(s.AttrSets)
	some.HooksMade = maps.Clone(s.HooksMade)
	partial, err := some.Reduce(cmd, Env{Now: m.now, Self: p1}, cloneOutside(m.out))
	return func(res *Result, fullErr error) {
		require.Equal(m.t, cairnerr.CodeOf(fullErr), cairnerr.CodeOf(err), "a partial state decides as the complete one: %v, %v", fullErr, err)
		if err != nil {
			return
		}
		require.Equal(m.t, types(res.Appended), types(partial.Appended))
		require.Equal(m.t, res.Run, partial.Run)
		require.Equal(m.t, codes(res.Outcomes), codes(partial.Outcomes))
		require.Equal(m.t, res.Effects.Wake, partial.Effects.Wake)
	}
}

func codes(outcomes []Outcome) []cairnerr.Code {
	var list []cairnerr.Code
	for _, o := range outcomes {
		if o.Err == nil {
			list = append(list, "")
		} else {
			list = append(list, o.Err.Code)
		}
	}
	return list
}

func pick[K comparable, V any](from map[K]*V, keys []K) map[K]*V {
	out := map[K]*V{}
	for _, k := range keys {
		if v := from[k]; v != nil {
			out[k] = v
		}
	}
	return out
}

func TestRandomCommands(t *testing.T) {
	t.Parallel()
	seeds := uint64(2000)
	if testing.Short() || raceEnabled() {
		seeds = 200
	}
	seed := uint64(0)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	for ; seed < seeds; seed++ {
		newMachine(t, randomBytes(seed, 400)).run()
	}
}

func randomBytes(seed uint64, n int) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	bytes := make([]byte, n)
	for i := range bytes {
		bytes[i] = byte(random.Uint32())
	}
	return bytes
}

func FuzzReduce(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(seed, 200))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, bytes []byte) { newMachine(t, bytes).run() })
}
