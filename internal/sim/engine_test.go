package sim_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/sim"
	"github.com/cairn-workflow/cairn/store"
	"github.com/cairn-workflow/cairn/store/check"
	"github.com/cairn-workflow/cairn/store/faultstore"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// TestEngineSeeds executes random workflows on engines that are killed again and again, over a store that loses answers: every run must
// end with the result that it has without faults.
func TestEngineSeeds(t *testing.T) {
	t.Parallel()
	seeds := 20
	if n, _ := strconv.Atoi(os.Getenv("SEEDS")); n > 0 {
		seeds = max(seeds, n/20)
	}
	for seed := range uint64(seeds) {
		dir := t.TempDir()
		bubble.Run(t, func(t *testing.T) {
			t.Helper()
			w := &engineWorld{t: t, seed: seed + 1, path: dir + "/sim.db", tokens: map[string]bool{}, began: time.Now()}
			w.run()
		})
	}
}

// engineWorld is a database on which engines come and go.
type engineWorld struct {
	t     *testing.T
	seed  uint64
	path  string
	began time.Time

	mu     sync.Mutex
	tokens map[string]bool // hooks that somebody should send to
}

const engineRuns = 6

func (w *engineWorld) run() {
	ctx := w.t.Context()
	god := sim.NewActor(w.seed, "god")
	st := w.open()
	eng := w.life(0, st)
	ids := make([]journal.ID, engineRuns)
	for i := range ids {
		id, err := w.start(eng, fmt.Sprint(i))
		require.NoError(w.t, err, "seed %d", w.seed)
		ids[i] = id
	}
	readers := make([]*readers, engineRuns)
	for i, id := range ids {
		readers[i] = w.follow(st, id)
	}
	stop, calm := make(chan struct{}), make(chan struct{})
	var sender, meddler sync.WaitGroup
	sender.Go(func() { w.send(stop, st) })
	meddler.Go(func() { w.meddle(calm, st, ids) })
	for n := 1; n < 6; n++ { // processes die and others come
		time.Sleep(time.Duration(1+god.Pick(3000)) * time.Millisecond)
		next := w.life(n, w.open())
		time.Sleep(time.Duration(1+god.Pick(500)) * time.Millisecond)
		eng.Kill()
		eng = next
	}
	close(calm)
	meddler.Wait()
	for i, id := range ids {
		wait, cancel := context.WithTimeout(ctx, time.Hour)
		run, err := eng.Wait(wait, id)
		cancel()
		require.NoError(w.t, err, "seed %d: run %d", w.seed, i)
		if run.Error != nil {
			require.NoError(w.t, run.Error.Error, "seed %d: run %d", w.seed, i)
		}
		require.Equal(w.t, w.reference(fmt.Sprint(i)), string(run.Output), "seed %d: run %d", w.seed, i)
		differences, err := check.Views(ctx, st, "default", id, journal.TimeOf(time.Now()))
		require.NoError(w.t, err)
		require.Empty(w.t, differences, "seed %d: run %d", w.seed, i)
		readers[i].check(st, fmt.Sprint(i))
	}
	w.forkAll(eng, st, ids)
	close(stop)
	sender.Wait()
	w.replayAll(eng, st)
	require.NoError(w.t, eng.Stop(ctx))
	require.NoError(w.t, st.Close())
}

// replayAll holds the code against the journals of all runs, as they are and as they were after each event: whatever happened to the processes, the
// code does what was recorded, and goes on from wherever a record stops.
func (w *engineWorld) replayAll(eng *engine.Engine, st store.Store) {
	ctx := w.t.Context()
	runs, err := st.Runs(ctx, "default", store.RunFilter{}, store.Page{Limit: store.MaxLimit})
	require.NoError(w.t, err)
	require.GreaterOrEqual(w.t, len(runs.Data), engineRuns)
	for _, run := range runs.Data {
		j, err := st.Journal(ctx, "default", run.ID, 0)
		require.NoError(w.t, err)
		for n := range j.Events {
			wait, cancel := context.WithTimeout(ctx, time.Hour)
			difference, err := eng.ReplayEvents(wait, "default", run.ID, j.Events[:n+1])
			cancel()
			require.NoError(w.t, err, "seed %d: %s after event %d", w.seed, run.ID, n+1)
			require.Nil(w.t, difference, "seed %d: %s after event %d: %v", w.seed, run.ID, n+1, difference)
		}
	}
}

// start starts a run; the key makes sure that a start whose answer was lost is not done twice.
func (w *engineWorld) start(e *engine.Engine, input string) (journal.ID, error) {
	var at journal.Time
	if a := sim.NewActor(w.seed, "start "+input); a.Pick(3) == 0 { // a third begins later
		at = journal.TimeOf(time.Now()).Add(time.Duration(a.Pick(4000)) * time.Millisecond)
	}
	for {
		id, err := e.Start(w.t.Context(), engine.StartRequest{Workflow: "random", Input: journal.Payload(input), StartKey: input, At: at})
		if journal.CodeOf(err) != journal.CodeDiskFull {
			return id, err
		}
		time.Sleep(time.Millisecond)
	}
}

func (w *engineWorld) open() store.Store {
	st, err := sqlite.Open(w.t.Context(), w.path, &sqlite.Config{Readers: 2})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = st.Close() })
	return st
}

// life starts an engine whose writer loses answers.
func (w *engineWorld) life(n int, st store.Store) *engine.Engine {
	faults := sim.NewActor(w.seed, fmt.Sprintf("faults of %d", n))
	plan := func(op faultstore.Op, _ int) faultstore.Fault {
		f := faultstore.Fault{Delay: time.Duration(1 + faults.Pick(2_000_000))}
		if op == faultstore.OpCommit {
			switch roll := faults.Pick(1000); {
			case roll < 40:
				f.AfterCommit = true
			case roll < 70:
				f.Before = store.ErrUnknownOutcome
			case roll < 90:
				f.Before = store.ErrBusy
			case roll < 110:
				f.Before = journal.Errorf(journal.CodeDiskFull, "simulated")
			case roll < 120:
				f.Late = time.Second
			}
		}
		return f
	}
	e, err := engine.New(w.t.Context(), faultstore.Wrap(st, func(journal.ID) faultstore.Plan { return plan }), engine.Config{
		Lease: 2 * time.Second, Poll: 200 * time.Millisecond, Entropy: sim.NewActor(w.seed, fmt.Sprintf("ids of %d", n)),
		MaxWaiting: []int{0, -1, 2}[faults.Pick(3)],
	}, &engine.Workflow{Name: "random", Run: w.workflow}, &engine.Workflow{Name: "child", Run: w.child})
	require.NoError(w.t, err)
	return e
}

// send sends to the hooks that runs have opened, until it is stopped.
func (w *engineWorld) send(stop chan struct{}, st store.Store) {
	e, err := engine.New(w.t.Context(), st, engine.Config{Namespace: "default", Entropy: sim.NewActor(w.seed, "sender")})
	require.NoError(w.t, err)
	for {
		select {
		case <-stop:
			require.NoError(w.t, e.Stop(w.t.Context()))
			return
		case <-time.After(137 * time.Millisecond):
		}
		w.mu.Lock()
		tokens := make([]string, 0, len(w.tokens))
		for token := range w.tokens {
			tokens = append(tokens, token)
		}
		w.mu.Unlock()
		for _, token := range tokens {
			_, _ = e.Deliver(w.t.Context(), token, "key of "+token, journal.Payload("<"+token+">"))
		}
	}
}

// workflow is a random workflow: what it does follows from the seed and the input, so every execution does the same.
func (w *engineWorld) workflow(b *engine.Branch, in journal.Payload) (journal.Payload, error) {
	out, err := w.part(b, string(in), 0)
	return journal.Payload(out), err
}

func (w *engineWorld) part(b *engine.Branch, name string, depth int) (string, error) {
	a := sim.NewActor(w.seed, "workflow "+name)
	out := name + ":"
	for i := range 2 + a.Pick(4) {
		switch a.Pick(11) {
		case 10:
			if err := b.SetAttributes("attributes", []journal.AttrChange{{Key: fmt.Sprint("a", i), Value: name}}); err != nil {
				return "", err
			}
		case 9:
			if err := w.tell(b, name, i, 1+a.Pick(4)); err != nil {
				return "", err
			}
		case 5:
			if depth < 2 {
				p, err := w.childOf(b, fmt.Sprintf("%s.%d", name, i), depth)
				if err != nil {
					return "", err
				}
				out += p
			}
		case 6:
			s, err := w.race(b, i)
			if err != nil {
				return "", err
			}
			out += s
		case 7:
			s, err := w.poll(b, i)
			if err != nil {
				return "", err
			}
			out += s
		case 8:
			s, err := w.deadline(b)
			if err != nil {
				return "", err
			}
			out += s
		case 0:
			d := time.Duration(1+a.Pick(2000)) * time.Millisecond
			if err := b.Sleep("nap", func(now journal.Time) journal.Time { return now.Add(d) }); err != nil {
				return "", err
			}
			out += "z"
		case 1:
			token := fmt.Sprintf("%s-%d", name, i)
			h, err := b.OpenHook(engine.HookSpec{Name: "hook", Token: token})
			if err != nil {
				return "", err
			}
			w.mu.Lock()
			w.tokens[token] = true
			w.mu.Unlock()
			p, err := h.Receive(b, nil)
			if err != nil {
				return "", err
			}
			if err := h.Close(b); err != nil {
				return "", err
			}
			out += string(p.Payload)
		case 2:
			if depth < 2 {
				s, err := w.branches(b, name, i, depth)
				if err != nil {
					return "", err
				}
				out += s
			}
		default:
			p, err := b.Step(engine.StepSpec{Name: "step", Retry: engine.Retry{Attempts: 3, First: 50 * time.Millisecond}},
				func(ctx context.Context, info engine.StepInfo) (journal.Payload, error) {
					if err := tellStep(ctx, info, name, i); err != nil {
						return nil, err
					}
					time.Sleep(time.Millisecond)
					if i%2 == 1 && info.Attempt == 1 {
						return nil, journal.Errorf("flaky", "the first attempt fails")
					}
					return journal.Payload(fmt.Sprintf("[%d]", i)), nil
				})
			if err != nil {
				return "", err
			}
			out += string(p)
		}
	}
	return out, nil
}

// child is a workflow that others start: its input is the name of its part and how deep that is.
func (w *engineWorld) child(b *engine.Branch, in journal.Payload) (journal.Payload, error) {
	depth := int(in[0] - '0')
	out, err := w.part(b, string(in[1:]), depth)
	return journal.Payload(out), err
}

func (w *engineWorld) childOf(b *engine.Branch, name string, depth int) (string, error) {
	c, err := b.StartChild(engine.ChildSpec{Workflow: "child", Input: journal.Payload(fmt.Sprint(depth+1) + name)})
	if err != nil {
		return "", err
	}
	out, err := b.AwaitChild(c)
	return "{" + string(out) + "}", err
}

// race has three branches: one that sleeps too long, and two that return the same.
func (w *engineWorld) race(b *engine.Branch, i int) (string, error) {
	var futures []*engine.Future
	for k := range 3 {
		f, err := b.Go("racer", "", func(b *engine.Branch) (journal.Payload, error) {
			d := []time.Duration{time.Hour, 30 * time.Millisecond, 50 * time.Millisecond}[k]
			if err := b.Sleep("nap", func(now journal.Time) journal.Time { return now.Add(d) }); err != nil {
				return nil, err
			}
			return b.Step(engine.StepSpec{Name: "won"}, func(context.Context, engine.StepInfo) (journal.Payload, error) {
				return journal.Payload(fmt.Sprintf("(race %d)", i)), nil
			})
		})
		if err != nil {
			return "", err
		}
		futures = append(futures, f)
	}
	ended, err := b.Choose(engine.Choice{Name: "race", Close: true, Enough: func(ended []*engine.Future) bool { return len(ended) > 0 }}, futures)
	if err != nil {
		return "", err
	}
	if _, err := b.Wait(futures[0]); !errors.Is(err, engine.ErrLost) {
		return "", fmt.Errorf("who sleeps an hour has not lost: %w", err)
	}
	out, err := ended[0].Result()
	return string(out), err
}

// poll is ready some time after the world began.
func (w *engineWorld) poll(b *engine.Branch, i int) (string, error) {
	out, err := b.Poll(engine.PollSpec{Name: "poll", Every: 100 * time.Millisecond}, func(context.Context, engine.StepInfo) (journal.Payload, bool, error) {
		return journal.Payload(fmt.Sprintf("(poll %d)", i)), time.Since(w.began) > time.Duration(i)*500*time.Millisecond, nil
	})
	return string(out), err
}

// deadline ends a sleep that would last too long.
func (w *engineWorld) deadline(b *engine.Branch) (string, error) {
	limited, done, err := b.Deadline("limit", func(now journal.Time) journal.Time { return now.Add(40 * time.Millisecond) })
	if err != nil {
		return "", err
	}
	defer done()
	err = limited.Sleep("too long", func(now journal.Time) journal.Time { return now.Add(time.Hour) })
	if journal.CodeOf(err) != engine.CodeTimeout {
		return "", fmt.Errorf("no timeout: %w", err)
	}
	return "(deadline)", nil
}

// branches runs parts beside each other, and joins what they return in order.
func (w *engineWorld) branches(b *engine.Branch, name string, i, depth int) (string, error) {
	var futures []*engine.Future
	for k := range 3 {
		f, err := b.Go("branch", "", func(b *engine.Branch) (journal.Payload, error) {
			s, err := w.part(b, fmt.Sprintf("%s.%d.%d", name, i, k), depth+1)
			return journal.Payload(s), err
		})
		if err != nil {
			return "", err
		}
		futures = append(futures, f)
	}
	out := "("
	for _, f := range futures {
		p, err := b.Wait(f)
		if err != nil {
			return "", err
		}
		out += string(p)
	}
	return out + ")", nil
}

// reference computes what a run returns, without an engine.
func (w *engineWorld) reference(name string) string { return w.referencePart(name, 0) }

func (w *engineWorld) referencePart(name string, depth int) string {
	a := sim.NewActor(w.seed, "workflow "+name)
	out := name + ":"
	for i := range 2 + a.Pick(4) {
		switch a.Pick(11) {
		case 10:
		case 9:
			a.Pick(4)
		case 5:
			if depth < 2 {
				out += "{" + w.referencePart(fmt.Sprintf("%s.%d", name, i), depth+1) + "}"
			}
		case 6:
			out += fmt.Sprintf("(race %d)", i)
		case 7:
			out += fmt.Sprintf("(poll %d)", i)
		case 8:
			out += "(deadline)"
		case 0:
			a.Pick(2000)
			out += "z"
		case 1:
			out += fmt.Sprintf("<%s-%d>", name, i)
		case 2:
			if depth < 2 {
				out += "("
				for k := range 3 {
					out += w.referencePart(fmt.Sprintf("%s.%d.%d", name, i, k), depth+1)
				}
				out += ")"
			}
		default:
			out += fmt.Sprintf("[%d]", i)
		}
	}
	return out
}
