package commit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
)

func TestARefusedCommandHarmsNoNeighbour(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p := start(t, again())
		const n = 50
		runs := make([]journal.ID, n)
		for i := range runs {
			runs[i] = p.newRun()
		}
		tickets := make([]*commit.Ticket, 0, 2*n)
		for _, run := range runs { // each run: one good command, one that comes too late
			for range 2 {
				ticket, err := p.Submit(t.Context(), p.owned(run, stepDone("once")))
				require.NoError(t, err)
				tickets = append(tickets, ticket)
			}
		}
		for i, ticket := range tickets {
			_, err := ticket.Wait(t.Context())
			if i%2 == 0 {
				require.NoError(t, err)
			} else {
				require.Equal(t, cairnerr.CodeStepFinished, cairnerr.CodeOf(err))
			}
		}
		for _, run := range runs {
			require.Equal(t, []string{"once"}, keys(log(t, p.store, run)))
		}
	})
}

func TestCommandsOfARunKeepTheirOrder(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p := start(t, again(), func(c *commit.Config) { c.MaxBatch = 7 })
		runs := []journal.ID{p.newRun(), p.newRun(), p.newRun()}
		want := numbered(100)
		var tickets []*commit.Ticket
		for _, key := range want {
			for _, run := range runs {
				ticket, err := p.Submit(t.Context(), p.owned(run, stepDone(key)))
				require.NoError(t, err)
				tickets = append(tickets, ticket)
			}
		}
		for _, ticket := range tickets {
			_, err := ticket.Wait(t.Context())
			require.NoError(t, err)
		}
		for _, run := range runs {
			require.Equal(t, want, keys(log(t, p.store, run)))
		}
	})
}

func TestACommandIsAtomicOrTakenEventByEvent(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p := start(t, again())
		run := p.newRun()
		p.refused(p.owned(run, stepDone("a"), stepDone("a")), cairnerr.CodeStepFinished)
		require.Empty(t, keys(log(t, p.store, run)))

		cmd := p.owned(run, stepDone("a"), stepDone("a"), stepDone("b"))
		cmd.PerEvent = true
		res := p.must(cmd)
		require.Nil(t, res.Outcomes[0].Err)
		require.Equal(t, cairnerr.CodeStepFinished, res.Outcomes[1].Err.Code)
		require.Nil(t, res.Outcomes[2].Err)
		require.Equal(t, []string{"a", "b"}, keys(log(t, p.store, run)))
	})
}

func TestReadsAreAnsweredInTheSameTransaction(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p, other := start(t, again()), start(t, again())
		run := p.id()
		p.must(outside(run, world("w"))) // 1
		p.must(outside(run, started()))  // 2
		other.must(outside(run, note("three")))
		other.must(outside(run, note("four")))

		missed := outside(run, note("five"))
		missed.Read = journal.Read{Kind: journal.ReadMissed, Since: 2}
		require.Equal(t, []int64{3, 4}, seqs(p.must(missed).Read), "bump and report: what others wrote in between")

		since := outside(run, note("six"))
		since.Read = journal.Read{Kind: journal.ReadSince, Since: 3}
		require.Equal(t, []int64{4, 5, 6}, seqs(p.must(since).Read))

		whole := outside(run, started()) // writes nothing, because the run is running
		whole.Read = journal.Read{Kind: journal.ReadSince}
		require.Equal(t, []int64{1, 2, 3, 4, 5, 6}, seqs(p.must(whole).Read))

		nothing := outside(run, note("seven"))
		nothing.Read = journal.Read{Kind: journal.ReadMissed, Since: 6}
		require.Empty(t, p.must(nothing).Read)
	})
}

func seqs(events []journal.Event) []int64 {
	var out []int64
	for i := range events {
		out = append(out, events[i].Seq)
	}
	return out
}

// TestTheOwnerIsOvertaken has another process write to a run that its owner remembers: the owner's next command is reduced
// again on what is there, and not refused.
func TestTheOwnerIsOvertaken(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p, other := start(t, again()), start(t, again())
		run := p.newRun()
		for i, key := range numbered(10) {
			other.must(outside(run, note(key)))
			res := p.must(p.owned(run, stepDone(key)))
			require.EqualValues(t, 2+2*(i+1), res.Seq)
		}
		other.must(outside(run, journal.Event{Data: &journal.RunCancelled{Reason: "enough"}}))
		p.refused(p.owned(run, stepDone("late")), cairnerr.CodeStaleEpoch)
	})
}

// TestARefusalRestsOnTheTruth has another process make a thing that a remembered state does not know of.
func TestARefusalRestsOnTheTruth(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p, other := start(t, again()), start(t, again())
		run, wait := p.id(), p.id()
		p.must(outside(run, world("w")))
		other.must(outside(run, journal.Event{Entity: wait, Data: &journal.WaitCreated{ResumeAt: now()}}))
		p.must(outside(run, journal.Event{Entity: wait, Data: &journal.WaitCompleted{}}))
		other.refused(outside(run, journal.Event{Entity: wait, Data: &journal.WaitCompleted{}}), cairnerr.CodeWaitCompleted)
	})
}

// TestPause_ResumedElsewhere_PausesAgain pauses a run that the process remembers as paused, and that another one has
// resumed since.
func TestPause_ResumedElsewhere_PausesAgain(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p, other := start(t, again()), start(t, again())
		run := p.newRun()
		pause := func() *journal.Command { return outside(run, journal.Event{Data: &journal.RunParked{Asked: true}}) }
		p.must(pause())
		other.must(outside(run, journal.Event{Data: &journal.RunResumed{}}))
		p.must(pause())
		stored, err := p.store.Run(t.Context(), namespace, run, store.ResolveNone)
		require.NoError(t, err)
		require.NotZero(t, stored.ParkedAt)
	})
}

// TestTwoCommittersCollide lets two processes want the same keys, one before the other and the other way round.
func TestTwoCommittersCollide(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		a, b := start(t, again()), start(t, again())
		for _, pair := range [][2]*process{{a, b}, {b, a}} {
			first, second := pair[0], pair[1]
			run := first.id()
			first.must(first.owned(run, created()))
			second.refused(second.owned(run, created()), cairnerr.CodeRunExists)

			token := first.id().String()
			holder, loser := first.newRun(), second.newRun()
			first.must(first.owned(holder, hook(token)))
			res := second.must(second.owned(loser, hook(token)))
			require.Equal(t, &journal.HookConflict{Token: token, Run: holder}, res.Appended[0].Data)

			key := first.id().String()
			one, two, three := first.id(), second.id(), second.id()
			first.must(first.owned(one, withStartKey(key, "same")))
			res = second.must(second.owned(two, withStartKey(key, "same")))
			require.True(t, res.Existing)
			require.Equal(t, one, res.Run.ID)
			second.refused(second.owned(three, withStartKey(key, "other")), cairnerr.CodeStartKeyConflict)
			for _, gone := range []journal.ID{two, three} {
				_, err := second.store.Run(t.Context(), namespace, gone, store.ResolveNone)
				require.Equal(t, cairnerr.CodeRunNotFound, cairnerr.CodeOf(err))
			}
		}
	})
}

func withStartKey(key, input string) journal.Event {
	return journal.Event{Data: &journal.RunCreated{Workflow: "w", StartKey: key, Input: journal.Payload(input)}}
}

// TestCommittersRace lets several processes want the same keys at the same time: one wins, the others get a defined answer,
// and what they wanted besides is not harmed.
func TestCommittersRace(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		const rounds, racers = 20, 3
		processes := make([]*process, racers)
		for i := range processes {
			processes[i] = start(t, again())
		}
		for round := range rounds {
			run, key := processes[0].id(), fmt.Sprint("key", round)
			var wg sync.WaitGroup
			var mu sync.Mutex
			var won, existing int
			for _, p := range processes {
				wg.Go(func() {
					_, err := p.Do(t.Context(), outside(run, world("race")))
					if code := cairnerr.CodeOf(err); err != nil && code != cairnerr.CodeRunExists {
						t.Errorf("create: %v", err)
					}
					res, err2 := p.Do(t.Context(), p.owned(p.id(), withStartKey(key, "x")))
					if err2 != nil {
						t.Errorf("start key: %v", err2)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						won++
					}
					if res.Existing {
						existing++
					}
				})
			}
			wg.Wait()
			require.Equal(t, 1, won)
			require.Equal(t, racers-1, existing)
			require.Len(t, log(t, processes[0].store, run), 1)
		}
	})
}

func TestTenThousandCallers(t *testing.T) {
	t.Parallel()
	callers := 10_000
	if testing.Short() {
		callers = 2_000
	}
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p := start(t, again(), func(c *commit.Config) { c.MaxQueue = 1000 })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				run := p.id()
				for _, events := range [][]journal.Event{{created(), started()}, {stepDone("a")}, {stepDone("b"), ended()}} {
					if _, err := p.Do(ctx, p.owned(run, events...)); err != nil {
						errs[i] = err
						return
					}
				}
			})
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
		stats := p.Stats()
		require.EqualValues(t, 5*callers, stats.Events)
		require.EqualValues(t, 3*callers, stats.Commands)
		require.Zero(t, stats.Refused)
		require.Less(t, stats.Batches, stats.Commands/10, "commands of many callers share a transaction")
	})
}

// gated returns a store whose commits wait until the gate lets them through, and a channel that tells of each that waits.
func gated(t *testing.T) (st store.Store, reached <-chan struct{}, gate chan struct{}) {
	t.Helper()
	at := make(chan struct{}, 1000)
	gate = make(chan struct{})
	st = faultstore.Wrap(openSQLite(t, t.TempDir()+"/x.db"), func(journal.ID) faultstore.Plan {
		return func(op faultstore.Op, _ int) faultstore.Fault {
			if op == faultstore.OpCommit {
				at <- struct{}{}
				<-gate
			}
			return faultstore.Fault{}
		}
	})
	return st, at, gate
}

// TestBackPressure fills the queue behind a commit that hangs.
func TestBackPressure(t *testing.T) {
	t.Parallel()
	st, reached, gate := gated(t)
	p := start(t, st, func(c *commit.Config) { c.MaxQueue = 3 })
	submit := func(ctx context.Context) (*commit.Ticket, error) { return p.Submit(ctx, outside(p.id(), world("w"))) }
	var tickets []*commit.Ticket
	for i := range 3 {
		ticket, err := submit(t.Context())
		require.NoError(t, err)
		tickets = append(tickets, ticket)
		if i == 0 {
			<-reached // it is being committed; the others wait
		}
	}
	over, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := submit(over)
	require.ErrorIs(t, err, context.DeadlineExceeded, "there is no place, and the caller's context is respected")

	_, err = tickets[0].Wait(over)
	require.Equal(t, cairnerr.CodeOutcomeUnknown, cairnerr.CodeOf(err), "what is being committed has an unknown outcome")
	_, err = tickets[2].Wait(over)
	require.Equal(t, context.DeadlineExceeded, err, "what still waits is withdrawn")

	close(gate)
	for _, ticket := range tickets[:2] {
		_, err := ticket.Wait(t.Context())
		require.NoError(t, err)
	}
	ticket, err := submit(t.Context())
	require.NoError(t, err)
	_, err = ticket.Wait(t.Context())
	require.NoError(t, err)
	_, err = p.store.Run(t.Context(), namespace, tickets[2].Command().Run, store.ResolveNone)
	require.Equal(t, cairnerr.CodeRunNotFound, cairnerr.CodeOf(err), "what was withdrawn is not applied")
}

// TestASmallCallerIsNotStarved puts one command behind thousands of another run: it goes into the next batch.
func TestASmallCallerIsNotStarved(t *testing.T) {
	t.Parallel()
	st, reached, gate := gated(t)
	p := start(t, st, func(c *commit.Config) { c.MaxBatch = 100 })
	big := p.id()
	first, err := p.Submit(t.Context(), p.owned(big, created(), started()))
	require.NoError(t, err)
	<-reached
	var flood []*commit.Ticket
	for _, key := range numbered(2000) {
		ticket, err := p.Submit(t.Context(), p.owned(big, stepDone(key)))
		require.NoError(t, err)
		flood = append(flood, ticket)
	}
	small, err := p.Submit(t.Context(), outside(p.id(), world("w")))
	require.NoError(t, err)
	gate <- struct{}{} // the first batch
	<-first.Done()
	gate <- struct{}{} // the second
	_, err = small.Wait(t.Context())
	require.NoError(t, err)
	select {
	case <-flood[len(flood)-1].Done():
		t.Fatal("the flood was committed before the small caller")
	default:
	}
	close(gate)
	_, err = flood[len(flood)-1].Wait(t.Context())
	require.NoError(t, err)
}

func TestCloseCommitsWhatWasSubmitted(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p := start(t, again())
		run := p.newRun()
		var tickets []*commit.Ticket
		for _, key := range numbered(300) {
			ticket, err := p.Submit(t.Context(), p.owned(run, stepDone(key)))
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		}
		require.NoError(t, p.Close(t.Context()))
		for _, ticket := range tickets {
			_, err := ticket.Wait(t.Context())
			require.NoError(t, err)
		}
		require.Len(t, keys(log(t, p.store, run)), 300)
		_, err := p.Submit(t.Context(), outside(run, note("late")))
		require.Equal(t, cairnerr.CodeClosed, cairnerr.CodeOf(err))
	})
}

func TestAFencedCommitterEnds(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p, peer := start(t, again()), start(t, again())
		run := p.newRun()
		require.NoError(t, peer.store.Fence(t.Context(), p.self))
		p.refused(p.owned(run, stepDone("zombie")), cairnerr.CodeFenced)
		p.refused(outside(run, note("zombie")), cairnerr.CodeFenced)
		require.Empty(t, keys(log(t, peer.store, run)))

		// A peer takes the run over: only now, because its owner is fenced.
		claim := outside(run)
		claim.Lease = journal.LeaseClaim
		claim.Guards.Owner.Incarnation = peer.self
		res := peer.must(claim)
		require.EqualValues(t, 2, res.Run.Epoch)
		cmd := outside(run, stepDone("alive"))
		cmd.Guards.Owner = journal.Ownership{Incarnation: peer.self, Epoch: 2}
		peer.must(cmd)
	})
}

func TestALivingOwnerIsNotRobbed(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p, peer := start(t, again()), start(t, again())
		run := p.newRun()
		claim := outside(run)
		claim.Lease = journal.LeaseClaim
		claim.Guards.Owner.Incarnation = peer.self
		peer.refused(claim, cairnerr.CodeNotRunnable)
		stolen := outside(run, stepDone("x"))
		stolen.Guards.Owner = journal.Ownership{Incarnation: peer.self, Epoch: 1}
		peer.refused(stolen, cairnerr.CodeStaleEpoch)
		p.must(p.owned(run, stepDone("x")))
	})
}

// TestForeignNamespace reaches for a run of another namespace.
func TestForeignNamespace(t *testing.T) {
	t.Parallel()
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		p := start(t, again())
		run := p.newRun()
		cmd := outside(run, note("x"))
		cmd.Namespace = "another"
		p.refused(cmd, cairnerr.CodeRunNotFound)
	})
}

// TestRunHints_EndParkAndAnswer_AreHintedAt writes events to runs. Those that callers may wait for are hinted at.
func TestRunHints_EndParkAndAnswer_AreHintedAt(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		event  journal.Event
		hinted bool
	}{
		"a step":   {journal.Event{Key: "s", Data: &journal.StepCompleted{Name: "s"}}, false},
		"a note":   {journal.Event{Data: &journal.Annotated{Name: "n", Actor: "me"}}, false},
		"the end":  {journal.Event{Data: &journal.RunCompleted{}}, true},
		"failure":  {journal.Event{Data: &journal.RunFailed{Error: &cairnerr.Error{Code: "x"}}}, true},
		"a cancel": {journal.Event{Data: &journal.RunCancelled{}}, true},
		"parked":   {journal.Event{Data: &journal.RunParked{Error: &cairnerr.Error{Code: "x"}}}, true},
		"answer":   {journal.Event{Key: "hook", Data: &journal.HookReplied{To: 4}}, true},
		"disposed": {journal.Event{Key: "hook", Data: &journal.HookDisposed{}}, true},
	}
	onEveryStore(t, func(t *testing.T, again func() store.Store) {
		t.Helper()
		st := again()
		p := start(t, st)
		hints, err := st.Notifier().ListenRuns(t.Context(), nil)
		require.NoError(t, err)
		requireHint := func(run journal.ID, name string) {
			var got journal.ID
			for got.IsZero() { // which says that anybody has committed something
				select {
				case got = <-hints:
				case <-time.After(time.Minute):
					require.Fail(t, "no hint", name)
				}
			}
			require.Equal(t, run, got, name)
		}
		for name, test := range tests {
			write := func(run journal.ID, epoch int64, events ...journal.Event) {
				cmd := &journal.Command{Namespace: namespace, Run: run, Events: events}
				if epoch > 0 {
					cmd.Guards.Owner = journal.Ownership{Incarnation: p.self, Epoch: epoch}
				}
				_, err := p.Do(t.Context(), cmd)
				require.NoError(t, err, name)
			}
			run, last := p.id(), p.id()
			for _, id := range []journal.ID{run, last} {
				write(id, 1, journal.Event{Data: &journal.RunCreated{Workflow: "w"}}, journal.Event{Data: &journal.RunStarted{}},
					journal.Event{Key: "hook", Data: &journal.HookCreated{Token: id.String()}})
			}
			hook := journal.DeriveID(run, journal.PrefixHook, "hook")
			write(run, 0, journal.Event{Entity: hook, Data: &journal.HookReceived{Token: run.String()}})
			if _, ok := test.event.Data.(*journal.HookDisposed); ok {
				test.event.Data = &journal.HookDisposed{Token: run.String()}
			}
			write(run, 1, test.event)
			if test.hinted {
				requireHint(run, name)
			}
			write(last, 1, journal.Event{Data: &journal.RunCompleted{}})
			requireHint(last, name)
		}
	})
}
