package journal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// row is one case of a dialect's law: given a run in which events happened, what becomes of one more.
type row struct {
	name  string
	only  Dialect // Engine: all dialects of the table
	given []Event
	after Time // how long after the given events
	when  Event
	from  func(b *bench, events ...Event) (*Result, error) // who writes; nil: the owner, if there is one
	// Refused with a code and an HTTP status, or accepted.
	code   cairnerr.Code
	status int
	// appends are the types of the events that are appended; nil: the event itself.
	appends []EventType
	nothing bool // accepted, but nothing is appended
	then    func(t *testing.T, s *State, res *Result)
}

func (c *row) check(t *testing.T, d Dialect) {
	t.Helper()
	b := newRun(t, d, c.given...)
	b.now += c.after
	before := viewsOf(b.state(theRun))
	write := (*bench).write
	if c.from != nil {
		write = c.from
	}
	res, err := write(b, c.when)
	s := b.state(theRun)
	if c.code != "" {
		require.Equal(t, c.code, cairnerr.CodeOf(err), "%v", err)
		require.Equal(t, c.status, cairnerr.AsError(err).Status())
		require.Equal(t, before, viewsOf(s))
		return
	}
	require.NoError(t, err)
	want := c.appends
	if want == nil && !c.nothing {
		want = []EventType{c.when.Data.EventType()}
	}
	require.Equal(t, want, types(res.Appended))
	if c.then != nil {
		c.then(t, s, res)
	}
	requireFolds(t, theRun, s, b.logs[theRun])
}

// world is WORLD.md section 5, row by row.
func world() [][]row { return [][]row{worldRuns(), worldSteps(), worldHooks(), worldWaits()} }

func TestWorld(t *testing.T) {
	t.Parallel()
	for _, d := range []Dialect{World3, World6} {
		for _, table := range world() {
			for _, c := range table {
				if c.only != Engine && c.only != d {
					continue
				}
				t.Run(d.String()+"/"+c.when.Data.EventType().String()+"/"+c.name, func(t *testing.T) {
					t.Parallel()
					c.check(t, d)
				})
			}
		}
	}
}

func TestWorldWithoutRun(t *testing.T) {
	t.Parallel()
	for _, d := range []Dialect{World3, World6} {
		b := newBench()
		res := b.must(t, &Command{Events: []Event{{Data: birth(d)}}})
		require.Equal(t, []EventType{EventRunCreated}, types(res.Appended))
		require.Equal(t, int64(1), res.Appended[0].Seq, "slot 1")
		require.Equal(t, StatusPending, res.Run.Status)
		require.Equal(t, specOf(d), res.Run.Spec)
		require.Empty(t, res.Effects.Wake, "the queue starts World runs")

		// Resilient start: run_started often comes before run_created.
		b = newBench()
		create := birth(d)
		create.Input = Payload("in")
		res = b.must(t, &Command{Events: []Event{{Data: &RunStarted{Create: create}}}})
		require.Equal(t, []EventType{EventRunCreated, EventRunStarted}, types(res.Appended))
		require.Equal(t, Payload("in"), res.Appended[0].Data.(*RunCreated).Input)
		require.Equal(t, &RunStarted{}, res.Appended[1].Data, "the creation is not stored twice")
		require.Equal(t, Outcome{Appended: 1, Seq: 2}, res.Outcomes[0])
		require.Equal(t, StatusRunning, res.Run.Status)
		_, err := b.write(Event{Data: birth(d)})
		require.Equal(t, cairnerr.CodeRunExists, cairnerr.CodeOf(err), "the creation that comes late is a 409, which clients take for success")
		require.Equal(t, 409, cairnerr.AsError(err).Status())

		for e := EventType(2); e < eventTypes; e++ {
			_, err := newBench().outsider(about(s1ExceptRun(e), newData[e]()))
			require.Equal(t, cairnerr.CodeRunNotFound, cairnerr.CodeOf(err), "%s: %v", e, err)
			require.Equal(t, 404, cairnerr.AsError(err).Status())
		}
	}
}

// s1ExceptRun is an entity for events that need one.
func s1ExceptRun(e EventType) ID {
	if e.About() == "" {
		return ID{}
	}
	return s1
}

func worldRuns() []row {
	set := func(changes ...AttrChange) Event { return about(a1, &AttrSet{Changes: changes}) }
	hook := about(h1, &HookCreated{Token: "t"})
	wait := about(w1, &WaitCreated{ResumeAt: t0 + 1})
	swept := func(status Status) func(*testing.T, *State, *Result) {
		return func(t *testing.T, s *State, res *Result) {
			t.Helper()
			require.Equal(t, status, s.Run.Status)
			require.Equal(t, t0+5, s.Run.CompletedAt)
			require.Equal(t, s.Seq, s.Run.EndSeq)
			require.Empty(t, s.Hooks)
			require.Empty(t, s.Waits)
			require.Equal(t, []ID{h1}, res.Effects.Disposed)
		}
	}
	return []row{
		{name: "exists", when: Event{Data: birth(World3)}, code: cairnerr.CodeRunExists, status: 409},
		{name: "exists and has ended", given: []Event{ended()}, when: Event{Data: birth(World3)}, code: cairnerr.CodeRunExists, status: 409},

		{name: "pending", after: 3, when: started(), then: func(t *testing.T, s *State, _ *Result) {
			t.Helper()
			require.Equal(t, StatusRunning, s.Run.Status)
			require.Equal(t, t0+3, s.Run.StartedAt)
		}},
		{name: "running", given: []Event{started()}, after: 3, when: started(), nothing: true, then: func(t *testing.T, s *State, res *Result) {
			t.Helper()
			require.Equal(t, t0, s.Run.StartedAt)
			require.Equal(t, s.Run, res.Run, "the run is returned")
			require.Equal(t, -1, res.Outcomes[0].Appended)
		}},
		{name: "running, with creation data", given: []Event{started()}, when: Event{Data: &RunStarted{Create: birth(World3)}}, nothing: true},
		{name: "completed", given: []Event{ended()}, when: started(), code: cairnerr.CodeRunGone, status: 410},
		{name: "cancelled", given: []Event{cancels()}, when: started(), code: cairnerr.CodeRunGone, status: 410},

		{name: "running", given: []Event{started(), hook, wait}, after: 5, when: Event{Data: &RunCompleted{Output: Payload("o")}}, then: swept(StatusCompleted)},
		{name: "pending", when: ended()},
		{name: "completed", given: []Event{ended()}, when: ended(), code: cairnerr.CodeRunEnded, status: 409},
		{name: "running", given: []Event{started(), hook, wait}, after: 5, when: Event{Data: &RunFailed{Error: &cairnerr.Error{Message: "m"}, ErrorCode: "c"}}, then: swept(StatusFailed)},
		{name: "failed", given: []Event{{Data: &RunFailed{}}}, when: Event{Data: &RunFailed{}}, code: cairnerr.CodeRunEnded, status: 409},
		{name: "cancelled", given: []Event{cancels()}, when: Event{Data: &RunFailed{}}, code: cairnerr.CodeRunEnded, status: 409},

		{name: "running", given: []Event{started(), hook, wait}, after: 5, when: Event{Data: &RunCancelled{Reason: "r"}}, then: swept(StatusCancelled)},
		{name: "pending", when: cancels()},
		{name: "cancelled: appended again", given: []Event{started(), cancels()}, after: 5, when: cancels(), then: func(t *testing.T, s *State, res *Result) {
			t.Helper()
			require.Equal(t, t0, s.Run.CompletedAt, "the end does not move")
			require.Equal(t, int64(3), s.Run.EndSeq)
			require.Equal(t, int64(4), res.Seq)
		}},
		{name: "completed", given: []Event{ended()}, when: cancels(), code: cairnerr.CodeRunEnded, status: 409},
		{name: "failed", given: []Event{{Data: &RunFailed{}}}, when: cancels(), code: cairnerr.CodeRunEnded, status: 409},

		{
			name: "merges", given: []Event{set(AttrChange{Key: "a", Value: "1"}, AttrChange{Key: "b", Value: "1"})},
			when: about(testID(52), &AttrSet{Changes: []AttrChange{{Key: "a", Remove: true}, {Key: "c", Value: "2"}}}),
			then: func(t *testing.T, s *State, _ *Result) {
				t.Helper()
				require.Equal(t, map[string]string{"b": "1", "c": "2"}, s.Run.Attributes)
			},
		},
		{name: "the same change of the workflow", given: []Event{set(AttrChange{Key: "a"})}, when: set(AttrChange{Key: "a"}), code: cairnerr.CodeAttributeExists, status: 409},
		{
			name: "the same change of a step", given: []Event{about(a1, &AttrSet{Step: s1, Changes: []AttrChange{{Key: "a"}}})},
			when: about(a1, &AttrSet{Step: s1, Changes: []AttrChange{{Key: "a"}}}),
		},
		{name: "validated before it is claimed", given: []Event{set(AttrChange{Key: "a"})}, when: set(AttrChange{Key: ""}), code: cairnerr.CodeLimitExceeded, status: 400},
		{name: "without a correlation id", when: Event{Data: &AttrSet{Changes: []AttrChange{{Key: "a"}}}}},
		{name: "ended", given: []Event{ended()}, when: set(AttrChange{Key: "a"}), code: cairnerr.CodeRunEnded, status: 409},
		{name: "only we write it", when: about(h1, &HookConflict{Token: "t"}), code: cairnerr.CodeUnsupported, status: 400},
		{name: "not of the World", when: Event{Data: &CancelRequested{}}, code: cairnerr.CodeUnsupported, status: 400},
		{name: "not of the World", when: Event{Data: &RunParked{}}, code: cairnerr.CodeUnsupported, status: 400},
		{name: "not of the World", when: Event{Data: &RunResumed{}}, code: cairnerr.CodeUnsupported, status: 400},
		{name: "ended", given: []Event{ended()}, when: Event{Data: &Annotated{Name: "n"}}},
	}
}
