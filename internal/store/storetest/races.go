package storetest

import (
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var raceTests = []test{
	{"Append", raceAppend},
	{"ColdReaders", raceColdReaders},
	{"Create", raceCreate},
	{"Fence", raceFence},
	{"FollowedSteps", raceFollowedSteps},
	{"Held", raceHeld},
	{"NewNames", raceNewNames},
	{"PrefixForEver", racePrefix},
	{"ReadersAndWriter", raceReaders},
	{"SingleUse", raceSingleUse},
	{"StartKey", raceStartKey},
	{"Token", raceToken},
}

const racers = 4

// peers returns processes that each have their own clock, ids and writer.
func (b *bench) peers(n int) []*bench {
	b.Helper()
	var peers []*bench
	for i := range n {
		p := b.peer()
		var seed [32]byte
		copy(seed[:], b.ns)
		seed[31] = byte(i + 1)
		p.ids = journal.NewMinter(chacha(seed))
		peers = append(peers, p)
	}
	return peers
}

// together runs f for each process at once, and waits for all.
func (b *bench) together(peers []*bench, f func(i int, p *bench) error) {
	b.Helper()
	errs := make([]error, len(peers))
	var ready, done sync.WaitGroup
	ready.Add(len(peers))
	for i, p := range peers {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			errs[i] = f(i, p)
		})
	}
	done.Wait()
	require.NoError(b, errors.Join(errs...))
}

// All processes append to one run: each event lands once, and none is lost.
func raceAppend(b *bench) {
	const each = 8
	run := b.start(journal.World3)
	b.together(b.peers(racers), func(i int, p *bench) error {
		for n := range each {
			cmd := &journal.Command{Run: run, Events: []journal.Event{plain(&journal.Annotated{Name: fmt.Sprintf("%d/%d", i, n)})}}
			if _, err := p.insist(cmd); err != nil {
				return err
			}
		}
		return nil
	})
	next := make([]int, racers)
	for _, e := range b.eventsOf(store.EventFilter{Run: run})[2:] {
		var i, n int
		_, err := fmt.Sscanf(e.Data.(*journal.Annotated).Name, "%d/%d", &i, &n)
		require.NoError(b, err)
		require.Equal(b, next[i], n, "in order, once")
		next[i]++
	}
	for _, n := range next {
		require.Equal(b, each, n)
	}
	b.check(run)
}

// Many readers on a store that was just opened, and has nothing in memory yet.
func raceColdReaders(b *bench) {
	run := b.start(journal.Engine)
	b.write(run, keyed("a", &journal.StepCompleted{Result: payload("x")}))
	cold := b.factory.Again(b.T, b.store)
	step := journal.DeriveID(run, journal.PrefixStep, "a")
	readers := make([]*bench, 16)
	for i := range readers {
		readers[i] = b
	}
	b.together(readers, func(i int, _ *bench) (err error) {
		switch i % 4 {
		case 0:
			_, err = cold.Journal(b.ctx(), b.ns, run, 0)
		case 1:
			_, err = cold.Run(b.ctx(), b.ns, run, store.ResolveAll)
		case 2:
			_, err = cold.Step(b.ctx(), b.ns, run, step, store.ResolveAll)
		default:
			_, err = cold.Runs(b.ctx(), b.ns, store.RunFilter{Workflow: "checkout"}, store.Page{})
		}
		return err
	})
}

func raceCreate(b *bench) {
	run := b.mint()
	var mu sync.Mutex
	created := 0
	b.together(b.peers(racers), func(_ int, p *bench) error {
		_, err := p.insist(p.starting(run, journal.Engine))
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			created++
		} else if cairnerr.CodeOf(err) == cairnerr.CodeRunExists {
			err = nil
		}
		return err
	})
	require.Equal(b, 1, created)
	b.check(run)
}

// When Fence has returned, nothing of the incarnation is written any more.
func raceFence(b *bench) {
	dead := b.peers(1)[0]
	run := dead.start(journal.World3)
	started, fenced := make(chan struct{}), make(chan struct{})
	finished := make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			last := false
			select {
			case <-fenced:
				last = true
			default:
			}
			_, err := dead.insist(&journal.Command{Run: run, Events: []journal.Event{plain(&journal.Annotated{Name: "alive"})}})
			if n == 0 {
				close(started)
			}
			if err != nil || last {
				finished <- err
				return
			}
		}
	}()
	<-started
	require.NoError(b, b.store.Fence(b.ctx(), dead.self))
	seq := b.cached(run).Seq
	close(fenced)
	requireCode(b, cairnerr.CodeFenced, <-finished)
	require.Equal(b, seq, b.cached(run).Seq)
	require.Greater(b, seq, int64(2))
	b.check(run)
}

// A reader that follows the list of steps while they are written sees each once, stored and inline ones.
func raceFollowedSteps(b *bench) {
	const steps = 120
	writer := b.peers(1)[0]
	run := writer.start(journal.Engine)
	finished := make(chan error, 1)
	state := writer.cached(run)
	go func() {
		for n := 0; n < steps; n += 2 {
			c := writer.optimistic(state, &journal.Command{
				Run: run, Guards: journal.Guards{Owner: journal.Ownership{Incarnation: writer.self, Epoch: 1}},
				Events: []journal.Event{keyed(fmt.Sprint(n), &journal.StepStarted{}), keyed(fmt.Sprint(n+1), &journal.StepCompleted{})},
			})
			tx, err := writer.writer.Begin(b.ctx(), b.now)
			if err == nil {
				err = tx.Commit(b.ctx(), c)
			}
			if err != nil {
				finished <- err
				return
			}
			state.Commit()
		}
		finished <- nil
	}()
	seen, cursor, over := 0, "", false
	for !over || seen < steps {
		select {
		case err := <-finished:
			require.NoError(b, err)
			over = true
		default:
		}
		l := b.steps(run, store.Page{Cursor: cursor, Limit: 7})
		for _, s := range l.Data {
			require.Equal(b, fmt.Sprint(seen), s.Key)
			seen++
		}
		if over && len(l.Data) == 0 {
			break
		}
		if l.Cursor != "" {
			cursor = l.Cursor
		}
	}
	require.Equal(b, steps, seen)
}

// A batch that has loaded a run keeps it until its end: others wait or are told that it is busy, and lose nothing.
func raceHeld(b *bench) {
	run := b.start(journal.World3)
	p := b.peers(1)[0]
	cmd := &journal.Command{Namespace: b.ns, Run: run, Events: []journal.Event{plain(&journal.Annotated{Name: "holder"})}}
	tx := b.begin()
	state, outside, err := b.load(tx, cmd)
	require.NoError(b, err)
	started := make(chan struct{})
	finished := make(chan error, 1)
	go func() {
		close(started)
		_, err := p.insist(&journal.Command{Run: run, Events: []journal.Event{plain(&journal.Annotated{Name: "waiter"})}})
		finished <- err
	}()
	<-started
	was := state.Run
	res, err := state.Reduce(cmd, b.env(), outside)
	require.NoError(b, err)
	require.NoError(b, tx.Commit(b.ctx(), b.change(state, was, res)), "nobody could come between")
	require.NoError(b, <-finished)
	events := b.eventsOf(store.EventFilter{Run: run})
	require.Len(b, events, 4)
	require.Equal(b, "holder", events[2].Data.(*journal.Annotated).Name)
	b.check(run)
}

// Processes that are the first to use a namespace and a workflow agree on them.
func raceNewNames(b *bench) {
	runs := make([]journal.ID, racers)
	b.together(b.peers(racers), func(i int, p *bench) error {
		runs[i] = p.mint()
		_, err := p.insist(p.starting(runs[i], journal.Engine, func(c *journal.RunCreated) { c.Workflow = "brand new" }))
		return err
	})
	l, err := b.store.Runs(b.ctx(), b.ns, store.RunFilter{Workflow: "brand new"}, store.Page{})
	require.NoError(b, err)
	require.Len(b, l.Data, racers)
	b.check(runs...)
}

// What a reader has seen is a prefix for ever (invariant 1).
func racePrefix(b *bench) {
	writer := b.peers(1)[0]
	run := writer.start(journal.World6)
	finished := make(chan error, 1)
	go func() {
		for n := range 30 {
			events := []journal.Event{plain(&journal.Annotated{Name: fmt.Sprint(n)}), plain(&journal.Annotated{Name: "and"})}
			if _, err := writer.insist(&journal.Command{Run: run, Events: events}); err != nil {
				finished <- err
				return
			}
		}
		finished <- nil
	}()
	var seen []journal.Event
	for over := false; !over; {
		select {
		case err := <-finished:
			require.NoError(b, err)
			over = true
		default:
		}
		j, err := b.store.Journal(b.ctx(), b.ns, run, 0)
		require.NoError(b, err)
		require.GreaterOrEqual(b, len(j.Events), len(seen))
		require.Zero(b, len(j.Events)%2, "a batch is seen whole")
		require.Equal(b, int64(len(j.Events)), j.Seq, "from one moment")
		requireRows(b, seen, j.Events[:len(seen)])
		seen = j.Events
	}
	require.Len(b, seen, 62)
}

// While somebody writes, readers get answers and no errors of the database, also about what nobody has heard of.
func raceReaders(b *bench) {
	writer := b.peers(1)[0]
	run := writer.start(journal.World3)
	stop := make(chan struct{})
	finished := make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				finished <- nil
				return
			default:
			}
			if _, err := writer.insist(&journal.Command{Run: run, Events: []journal.Event{plain(&journal.Annotated{Name: "n"})}}); err != nil {
				finished <- err
				return
			}
		}
	}()
	readers := []*bench{b, b, b}
	b.together(readers, func(i int, _ *bench) error {
		for n := range 8 {
			for _, ns := range []string{b.ns, fmt.Sprint("unheard of ", i, n)} {
				for name, err := range readAll(b.ctx(), b.store, ns, run) {
					if err != nil && cairnerr.CodeOf(err).Status() != http.StatusNotFound {
						return fmt.Errorf("%s: %w", name, err)
					}
				}
			}
			if _, err := b.store.Info(b.ctx()); err != nil {
				return err
			}
		}
		return nil
	})
	close(stop)
	require.NoError(b, <-finished)
	b.check(run)
}

// One resume of a single-use token wins (invariant 6).
func raceSingleUse(b *bench) {
	run := b.start(journal.World3)
	hook := b.mint()
	b.write(run, about(hook, &journal.HookCreated{Token: "once", SingleUse: true}))
	var mu sync.Mutex
	won, lost := 0, 0
	b.together(b.peers(racers), func(i int, p *bench) error {
		_, err := p.insist(&journal.Command{Run: run, Events: []journal.Event{about(hook, &journal.HookReceived{Payload: payload(fmt.Sprint(i))})}})
		mu.Lock()
		defer mu.Unlock()
		switch cairnerr.CodeOf(err) {
		case "":
			won++
		case cairnerr.CodeHookConsumed:
			lost++
		default:
			return err
		}
		return nil
	})
	require.Equal(b, 1, won)
	require.Equal(b, racers-1, lost)
	b.check(run)
}

func raceStartKey(b *bench) {
	var mu sync.Mutex
	fresh, winners := 0, map[journal.ID]bool{}
	b.together(b.peers(racers), func(_ int, p *bench) error {
		res, err := p.insist(p.starting(p.mint(), journal.Engine, func(c *journal.RunCreated) { c.StartKey = "one" }))
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		winners[res.Run.ID] = true
		if !res.Existing {
			fresh++
		}
		return nil
	})
	require.Equal(b, 1, fresh)
	require.Len(b, winners, 1)
	l, err := b.store.Runs(b.ctx(), b.ns, store.RunFilter{}, store.Page{})
	require.NoError(b, err)
	require.Len(b, l.Data, 1)
}

func raceToken(b *bench) {
	runs := make([]journal.ID, racers)
	for i := range runs {
		runs[i] = b.start(journal.World3)
	}
	var mu sync.Mutex
	types := map[journal.EventType]int{}
	hooks := []journal.ID{b.mint(), b.mint(), b.mint(), b.mint()}
	b.together(b.peers(racers), func(i int, p *bench) error {
		res, err := p.insist(&journal.Command{Run: runs[i], Events: []journal.Event{about(hooks[i], &journal.HookCreated{Token: "t"})}})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		types[res.Appended[0].Type]++
		return nil
	})
	require.Equal(b, map[journal.EventType]int{journal.EventHookCreated: 1, journal.EventHookConflict: racers - 1}, types)
	b.check(runs...)
}
