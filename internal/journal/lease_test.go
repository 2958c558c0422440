package journal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// free returns a bench with a run that waits: nobody owns it, and it has two timers.
func free(t *testing.T) *bench {
	t.Helper()
	b := newRun(t, Engine, started(), keyed("long", &WaitCreated{ResumeAt: t0 + 9000}), keyed("short", &WaitCreated{ResumeAt: t0 + 1000}), keyed("never", &WaitCreated{}))
	b.must(t, &Command{Lease: LeaseRelease, Guards: Guards{Owner: b.owner(), Seq: 5}})
	return b
}

func claim(by ID, epoch int64) *Command {
	return &Command{Lease: LeaseClaim, Guards: Guards{Owner: Ownership{Incarnation: by, Epoch: epoch}}}
}

func TestReleaseWakesAtTheFirstTimer(t *testing.T) {
	t.Parallel()
	run := free(t).state(theRun).Run
	require.True(t, run.Owner.IsZero())
	require.Equal(t, t0+1000, run.WakeAt)
	require.Equal(t, int64(1), run.Epoch)

	b := newRun(t, Engine, started(), keyed("nap", &WaitCreated{ResumeAt: t0 + 5}), keyed("nap", &WaitCompleted{}))
	b.must(t, &Command{Lease: LeaseRelease, Guards: Guards{Owner: b.owner()}})
	require.Zero(t, b.state(theRun).Run.WakeAt, "a timer that is over wakes nobody")
}

func TestReleaseWakesWhenTheOwnerWants(t *testing.T) {
	t.Parallel()
	for at, want := range map[Time]Time{0: t0 + 1000, t0 + 300: t0 + 300, t0 + 2000: t0 + 1000} {
		b := newRun(t, Engine, started(), keyed("short", &WaitCreated{ResumeAt: t0 + 1000}))
		b.must(t, &Command{Lease: LeaseRelease, WakeAt: at, Guards: Guards{Owner: b.owner()}})
		require.Equal(t, want, b.state(theRun).Run.WakeAt)
	}
}

func TestPush(t *testing.T) {
	t.Parallel()
	heed := func(b *bench) *Command { return &Command{Lease: LeaseHeed, Guards: Guards{Owner: b.owner()}} }
	push := func(b *bench) *Result { return b.must(t, &Command{Lease: LeasePush}) }
	b := free(t)
	b.now = t0 + 1007 // its timer is due already
	res := push(b)
	require.Equal(t, WakePushed, res.Run.WakeAt, "no timer hides that it was pushed")
	require.Empty(t, res.Appended)
	require.Equal(t, []ID{theRun}, res.Effects.Wake)
	_, err := b.try(&Command{Lease: LeaseHeed})
	require.Equal(t, cairnerr.CodeStaleEpoch, cairnerr.CodeOf(err))
	require.True(t, b.must(t, claim(p1, 1)).Pushed, "who claims it hears of that")
	require.Zero(t, b.state(theRun).Run.WakeAt)
	require.False(t, b.must(t, heed(b)).Pushed)

	push(b) // by its owner's process, too
	res = b.must(t, heed(b))
	require.True(t, res.Pushed)
	require.Zero(t, res.Run.WakeAt)

	push(b)
	b.must(t, &Command{Lease: LeaseRelease, Guards: Guards{Owner: b.owner()}})
	require.Equal(t, WakePushed, b.state(theRun).Run.WakeAt, "given back, it is due")
	come := claim(p1, 2)
	come.Events = []Event{keyed("short", &WaitCompleted{})}
	require.False(t, b.must(t, come).Pushed)
	require.True(t, b.must(t, heed(b)).Pushed, "who claims it for something else hears of that later")

	b.self = p2
	_, err = b.outsider(Event{Data: &CancelRequested{}})
	require.NoError(t, err)
	require.NotZero(t, b.state(theRun).Run.WakeAt)
	res = b.must(t, heed(b))
	require.False(t, res.Pushed, "other marks are no pushes")
	require.Zero(t, res.Run.WakeAt)

	for _, last := range []Event{ended(), {Data: &RunParked{Asked: true}}} {
		b = newRun(t, Engine, started(), last)
		require.Zero(t, push(b).Run.WakeAt, "%s: nothing looks", last.Data.EventType())
	}
}

func TestReleaseKeepsWhatTheOwnerHasNotSeen(t *testing.T) {
	t.Parallel()
	for _, seen := range []int64{0, 4} {
		b := newRun(t, Engine, started(), keyed("approval", &HookCreated{Token: "t"}))
		b.now, b.self = t0+7, p2 // another process takes the delivery
		res, err := b.outsider(keyed("approval", &HookReceived{}))
		require.NoError(t, err)
		require.Equal(t, t0+7, res.Run.WakeAt)
		b.must(t, &Command{Lease: LeaseRelease, Guards: Guards{Owner: b.owner(), Seq: seen}})
		require.Equal(t, t0+7, b.state(theRun).Run.WakeAt)
	}
}

func TestReleaseRefused(t *testing.T) {
	t.Parallel()
	b := newRun(t, Engine, started())
	_, err := b.try(&Command{Lease: LeaseRelease})
	require.Equal(t, cairnerr.CodeStaleEpoch, cairnerr.CodeOf(err))
	_, err = b.try(&Command{Lease: LeaseRelease, Guards: Guards{Owner: Ownership{p2, 1}}})
	require.Equal(t, cairnerr.CodeStaleEpoch, cairnerr.CodeOf(err))
	for _, lease := range []Lease{LeaseClaim, LeaseRelease} {
		_, err = newRun(t, World3).try(&Command{Lease: lease, Guards: Guards{Owner: Ownership{Incarnation: p1}}})
		require.Error(t, err, "World runs have no owner")
	}
}

func TestReleaseOfARunThatIsNoMore(t *testing.T) {
	t.Parallel()
	for _, last := range []Event{ended(), {Data: &RunParked{Error: &cairnerr.Error{Code: "poison"}}}, {Data: &RunParked{Asked: true}}} {
		b := newRun(t, Engine, started(), keyed("nap", &WaitCreated{ResumeAt: t0 + 1000}))
		b.must(t, &Command{Events: []Event{last}, Lease: LeaseRelease, Guards: Guards{Owner: b.owner()}})
		require.Zero(t, b.state(theRun).Run.WakeAt, "%s: nothing wakes it", last.Data.EventType())
		require.True(t, b.state(theRun).Run.Owner.IsZero())
		b.later(1e9)
		_, err := b.try(claim(p2, 0))
		require.Equal(t, cairnerr.CodeNotRunnable, cairnerr.CodeOf(err))
	}
}

func TestClaim(t *testing.T) {
	t.Parallel()
	b := free(t)
	_, err := b.try(claim(p2, 0))
	require.Equal(t, cairnerr.CodeNotRunnable, cairnerr.CodeOf(err), "not due")
	b.now = t0 + 1000
	_, err = b.try(claim(p2, 7))
	require.Equal(t, cairnerr.CodeStaleEpoch, cairnerr.CodeOf(err))
	_, err = b.try(&Command{Lease: LeaseClaim})
	require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err))

	res := b.must(t, claim(p2, 1))
	require.Equal(t, p2, res.Run.Owner)
	require.Equal(t, int64(2), res.Run.Epoch)
	require.Zero(t, res.Run.WakeAt)
	require.False(t, res.Pushed)
	require.Empty(t, res.Appended, "who executes a run is not in the journal")

	_, err = b.try(claim(p1, 0))
	require.Equal(t, cairnerr.CodeNotRunnable, cairnerr.CodeOf(err), "owned")
	_, err = b.try(&Command{Events: []Event{ended()}, Guards: Guards{Owner: Ownership{p1, 1}}})
	require.Equal(t, cairnerr.CodeStaleEpoch, cairnerr.CodeOf(err))

	b.outside.Fenced[p2] = true
	res = b.must(t, claim(p1, 2))
	require.Equal(t, p1, res.Run.Owner, "a fenced owner loses the run")
	require.Equal(t, int64(3), res.Run.Epoch)
	_, err = newBench().try(claim(p1, 0))
	require.Equal(t, cairnerr.CodeRunNotFound, cairnerr.CodeOf(err))
}

// What comes for a run marks it as due. That is a message to its owner, and no reason to take the run from it.
func TestClaim_OwnedRunIsDue_Refused(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]func(*bench) error{
		"a cancel": func(b *bench) error { _, err := b.outsider(Event{Data: &CancelRequested{}}); return err },
		"a push":   func(b *bench) error { _, err := b.try(&Command{Lease: LeasePush}); return err },
	} {
		b := newRun(t, Engine, started())
		b.self = p2
		require.NoError(t, mark(b), name)
		run := b.state(theRun).Run
		require.NotZero(t, run.WakeAt, name)
		require.LessOrEqual(t, run.WakeAt, b.now, name)
		for _, events := range [][]Event{nil, {keyed("charge", &StepCompleted{})}} {
			cmd := claim(p2, 0)
			cmd.Events = events
			_, err := b.try(cmd)
			require.Equal(t, cairnerr.CodeNotRunnable, cairnerr.CodeOf(err), name)
		}
		require.Equal(t, Ownership{p1, 1}, b.owner(), name)
		b.outside.Fenced[p1] = true
		b.must(t, claim(p2, 1))
	}
}

func TestClaimWithEvents(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.must(t, &Command{Events: []Event{{Data: birth(Engine)}}})
	cmd := claim(p2, 0)
	cmd.Events = []Event{started()}
	res := b.must(t, cmd)
	require.Equal(t, StatusRunning, res.Run.Status)
	require.Equal(t, Ownership{p2, 1}, b.owner())

	cmd = claim(p1, 0)
	cmd.Events = []Event{keyed("charge", &StepCompleted{})}
	_, err := b.try(cmd)
	require.Equal(t, cairnerr.CodeNotRunnable, cairnerr.CodeOf(err))
	require.Equal(t, int64(2), b.state(theRun).Seq, "without the claim there are no events")
}

func TestWake(t *testing.T) {
	t.Parallel()
	received := keyed("approval", &HookReceived{})
	hook := keyed("approval", &HookCreated{Token: "t"})

	b := newRun(t, Engine, started(), hook)
	res, err := b.outsider(received)
	require.NoError(t, err)
	require.Equal(t, []ID{theRun}, res.Effects.Wake)
	require.Zero(t, res.Run.WakeAt, "the owner is this process: a call will do")

	for _, self := range []ID{p2, {}} {
		b = newRun(t, Engine, started(), hook)
		b.must(t, &Command{Lease: LeaseRelease, Guards: Guards{Owner: b.owner()}})
		b.self = self
		res, err = b.outsider(received)
		require.NoError(t, err)
		require.Equal(t, t0, res.Run.WakeAt, "nobody owns it: it is due")
	}
	res, err = b.outsider(Event{Data: &Annotated{Name: "n"}})
	require.NoError(t, err)
	require.Empty(t, res.Effects.Wake, "a note wakes nobody")

	child := birth(Engine)
	child.Parent = another
	b = newBench()
	b.must(t, &Command{Events: []Event{{Data: child}}, Guards: Guards{Owner: Ownership{Incarnation: p1}}})
	_, err = b.write(started())
	require.NoError(t, err)
	res, err = b.write(ended())
	require.NoError(t, err)
	require.Equal(t, []ID{another}, res.Effects.Wake, "the end of a child wakes its parent")
}

func TestBornWithOwner(t *testing.T) {
	t.Parallel()
	b := newBench()
	res := b.must(t, &Command{Events: []Event{{Data: birth(Engine)}, started(), keyed("charge", &StepCompleted{}), ended()}, Guards: Guards{Owner: Ownership{p1, 1}}})
	require.Equal(t, StatusCompleted, res.Run.Status, "a short run is one command")
	require.True(t, res.Run.Owner.IsZero())
	require.Zero(t, res.Run.Epoch)
	_, err := newBench().try(&Command{Events: []Event{{Data: birth(Engine)}}, Guards: Guards{Owner: Ownership{p1, 2}}})
	require.Equal(t, cairnerr.CodeRunNotFound, cairnerr.CodeOf(err), "a later epoch belongs to a run that exists")
}
