package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/bubble"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store/faultstore"
)

// slowLife is a process whose writers take 10 milliseconds to read and to commit.
func slowLife(t *testing.T, path string, wfs ...*engine.Workflow) *engine.Engine {
	t.Helper()
	e, _ := plannedLife(t, path, func(op faultstore.Op, _ int) faultstore.Fault {
		if op == faultstore.OpCommit || op == faultstore.OpLoad {
			return faultstore.Fault{Delay: 10 * time.Millisecond}
		}
		return faultstore.Fault{}
	}, wfs...)
	return e
}

// files has what polls look for. They have no interval, so a push that nobody hears is one for ever.
type files struct {
	arrived sync.Map
	looks   atomic.Int32
}

// poll looks for the file of its run.
func (f *files) poll(b *engine.Branch) (journal.Payload, error) {
	return b.Poll(engine.PollSpec{Name: "file"}, func(_ context.Context, info engine.StepInfo) (journal.Payload, bool, error) {
		_, ready := f.arrived.Load(info.Run)
		f.looks.Add(1)
		time.Sleep(5 * time.Millisecond) // what it has seen takes it a moment to say
		return nil, ready, nil
	})
}

// pollBeside looks for the file of its run while it does something else.
func (f *files) pollBeside(b *engine.Branch, other func() error) (journal.Payload, error) {
	file, err := b.Go(engine.BranchSpec{Name: "file"}, f.poll)
	if err != nil {
		return nil, err
	}
	if err := other(); err != nil {
		return nil, err
	}
	return b.Wait(file)
}

// push lets the file of a run arrive, and pushes the run.
func (f *files) push(t *testing.T, e *engine.Engine, run journal.ID) {
	t.Helper()
	f.arrived.Store(run, true)
	require.NoError(t, e.Push(t.Context(), run))
}

// ends waits for the end of a run.
func ends(t *testing.T, e *engine.Engine, run journal.ID, about string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended, err := e.Wait(ctx, run)
	require.NoError(t, err, "%s", fmt.Sprintf(about, args...))
	require.Equal(t, journal.StatusCompleted, ended.Status)
}

// pushed runs a test in virtual time, with runs that are pushed by the process that executes them, and by another one.
func pushed(t *testing.T, code func(f *files, b *engine.Branch, in journal.Payload) (journal.Payload, error), test func(t *testing.T, f *files, executes, pushes *engine.Engine)) {
	t.Helper()
	for name, elsewhere := range map[string]bool{"by the process that executes it": false, "by another": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir() + "/x.db"
			bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
				f := &files{}
				wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, in journal.Payload) (journal.Payload, error) { return code(f, b, in) }}
				executes := slowLife(t, path, wf)
				pushes := executes
				if elsewhere {
					pushes = slowLife(t, path)
				}
				test(t, f, executes, pushes)
			})
		})
	}
}

func begin(t *testing.T, e *engine.Engine, in string) journal.ID {
	t.Helper()
	run, err := e.Start(t.Context(), engine.StartRequest{Workflow: "w", Input: journal.Payload(in)})
	require.NoError(t, err)
	return run
}

// TestAPushIsNeverLost pushes runs at many moments of a look and of what the database does then: while the poll looks, while its run is given back, and afterwards.
func TestAPushIsNeverLost(t *testing.T) {
	t.Parallel()
	code := func(f *files, b *engine.Branch, _ journal.Payload) (journal.Payload, error) { return f.poll(b) }
	pushed(t, code, func(t *testing.T, f *files, executes, pushes *engine.Engine) {
		t.Helper()
		for after := 0; after < 80; after += 3 { // the database takes longer than that for anything
			run := begin(t, executes, "")
			time.Sleep(time.Duration(after) * time.Millisecond)
			f.push(t, pushes, run)
			ends(t, executes, run, "pushed %d ms after its start", after)
		}
	})
}

// TestAPushBesideADelivery pushes a run that rests, and sends it something at many moments of that: the claim of the one must not take away the mark of the other.
func TestAPushBesideADelivery(t *testing.T) {
	t.Parallel()
	code := func(f *files, b *engine.Branch, token journal.Payload) (journal.Payload, error) {
		return f.pollBeside(b, func() error {
			h, err := b.OpenHook(engine.HookSpec{Name: "hook", Token: string(token)})
			if err == nil {
				_, err = h.Receive(b, nil, nil)
			}
			return err
		})
	}
	pushed(t, code, func(t *testing.T, f *files, executes, pushes *engine.Engine) {
		t.Helper()
		for after := 0; after < 60; after += 2 {
			token := fmt.Sprint("token ", after)
			run := begin(t, executes, token)
			time.Sleep(time.Second) // it rests
			var both errgroup.Group
			both.Go(func() error {
				f.arrived.Store(run, true)
				return pushes.Push(t.Context(), run)
			})
			both.Go(func() error {
				time.Sleep(time.Duration(after) * time.Millisecond)
				_, err := executes.Deliver(t.Context(), engine.Sending{Token: token})
				return err
			})
			require.NoError(t, both.Wait())
			ends(t, executes, run, "something came %d ms after the push", after)
		}
	})
}

// TestAPushBesideATimer pushes a run at many moments around the end of a timer, while the process that executes it has more to commit: a run that is due for its timer is also
// due for its polls.
func TestAPushBesideATimer(t *testing.T) {
	t.Parallel()
	code := func(f *files, b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		return f.pollBeside(b, func() error {
			return b.Sleep(engine.TimerSpec{Name: "nap", Until: func(now journal.Time) journal.Time { return now.Add(200 * time.Millisecond) }})
		})
	}
	pushed(t, code, func(t *testing.T, f *files, executes, pushes *engine.Engine) {
		t.Helper()
		other, err := executes.Start(t.Context(), engine.StartRequest{Workflow: "nobody's", Elsewhere: true})
		require.NoError(t, err)
		for after := 0; after < 40; after += 3 {
			run := begin(t, executes, "")
			time.Sleep(140 * time.Millisecond)
			var busy sync.WaitGroup
			busy.Go(func() {
				for range 100 {
					time.Sleep(time.Millisecond)
					_ = executes.Annotate(t.Context(), other, &journal.Annotated{Name: "note"})
				}
			})
			time.Sleep(time.Duration(40+after) * time.Millisecond)
			f.push(t, pushes, run)
			busy.Wait()
			ends(t, executes, run, "pushed %d ms after its start", 180+after)
		}
	})
}

// TestAPushOfAPausedRun pauses a run from another process than the one that has it in memory, pushes it, and lets it go on there: it looks then.
func TestAPushOfAPausedRun(t *testing.T) {
	t.Parallel()
	code := func(f *files, b *engine.Branch, _ journal.Payload) (journal.Payload, error) { return f.poll(b) }
	for _, first := range []string{"paused", "pushed"} {
		t.Run("first "+first, func(t *testing.T) {
			t.Parallel()
			pushed(t, code, func(t *testing.T, f *files, executes, pushes *engine.Engine) {
				t.Helper()
				run := begin(t, executes, "")
				time.Sleep(time.Second)
				f.arrived.Store(run, true)
				todo := []func() error{func() error { return pushes.Push(t.Context(), run) }, func() error { return pushes.Pause(t.Context(), run, "", "") }}
				if first == "paused" {
					todo[0], todo[1] = todo[1], todo[0]
				}
				for _, do := range todo {
					if err := do(); cairnerr.CodeOf(err) != cairnerr.CodeRunEnded { // it may have looked before it was paused
						require.NoError(t, err)
					}
				}
				time.Sleep(time.Second)
				if err := executes.Resume(t.Context(), run, ""); cairnerr.CodeOf(err) != cairnerr.CodeRunEnded {
					require.NoError(t, err)
				}
				ends(t, executes, run, "first %s", first)
			})
		})
	}
}

// TestAPushOfAnEngineThatStops pushes a run at many moments before its process stops: where that was acknowledged, the next process looks.
func TestAPushOfAnEngineThatStops(t *testing.T) {
	t.Parallel()
	for after := 2; after < 60; after += 3 {
		path := t.TempDir() + "/x.db"
		bubble.Run(t, func(t *testing.T) { //nolint:thelper // it is the test
			f := &files{}
			wf := &engine.Workflow{Name: "w", Run: func(b *engine.Branch, _ journal.Payload) (journal.Payload, error) { return f.poll(b) }}
			first := slowLife(t, path, wf)
			run := begin(t, first, "")
			time.Sleep(time.Duration(after) * time.Millisecond)
			f.arrived.Store(run, true)
			acknowledged := make(chan error, 1)
			go func() { acknowledged <- first.Push(t.Context(), run) }()
			time.Sleep(21 * time.Millisecond)
			require.NoError(t, first.Stop(t.Context()))
			if err := <-acknowledged; err == nil {
				ends(t, slowLife(t, path, wf), run, "pushed %d ms after its start", after)
			}
		})
	}
}

// TestAPushIsOne counts the looks that follow a push. While the run does something else its mark is taken away; a check that takes longer than the engine waits between two looks of
// its own is not made again and again; and what comes for other branches, from another process too, is no push.
func TestAPushIsOne(t *testing.T) {
	t.Parallel()
	const rests, looks = "rests", "looks"
	for name, test := range map[string]struct {
		when string
		what func(t *testing.T, e *engine.Engine, run journal.ID)
		want int32
	}{
		"while it rests": {rests, func(t *testing.T, e *engine.Engine, run journal.ID) {
			t.Helper()
			require.NoError(t, e.Push(t.Context(), run))
		}, 1},
		"while it looks": {looks, func(t *testing.T, e *engine.Engine, run journal.ID) {
			t.Helper()
			require.NoError(t, e.Push(t.Context(), run))
		}, 1},
		"a delivery for another branch": {rests, func(t *testing.T, e *engine.Engine, _ journal.ID) {
			t.Helper()
			_, err := e.Deliver(t.Context(), engine.Sending{Token: "token"})
			require.NoError(t, err)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code := func(f *files, b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
				_, err := b.Go(engine.BranchSpec{Name: "file"}, func(b *engine.Branch) (journal.Payload, error) {
					return b.Poll(engine.PollSpec{Name: "file", Every: 100 * time.Hour}, func(ctx context.Context, _ engine.StepInfo) (journal.Payload, bool, error) {
						f.looks.Add(1)
						select {
						case <-time.After(2 * time.Second):
						case <-ctx.Done():
						}
						return nil, false, nil
					})
				})
				if err != nil {
					return nil, err
				}
				h, err := b.OpenHook(engine.HookSpec{Name: "hook", Token: "token"})
				for err == nil {
					_, err = h.Receive(b, nil, nil)
				}
				return nil, err
			}
			pushed(t, code, func(t *testing.T, f *files, executes, pushes *engine.Engine) {
				t.Helper()
				run := begin(t, executes, "")
				time.Sleep(map[string]time.Duration{looks: time.Second, rests: 10 * time.Second}[test.when])
				require.EqualValues(t, 1, f.looks.Load())
				test.what(t, pushes, run)
				time.Sleep(10 * time.Second)
				require.Equal(t, 1+test.want, f.looks.Load())
			})
		})
	}
}

// TestAPushDuringAStep pushes a run that is not given back for a long time, because of a step: that is one look, and not one each time that the engine looks for due runs.
func TestAPushDuringAStep(t *testing.T) {
	t.Parallel()
	code := func(f *files, b *engine.Branch, _ journal.Payload) (journal.Payload, error) {
		return f.pollBeside(b, func() error {
			_, err := b.Step(engine.StepSpec{Name: "long"}, func(ctx context.Context, _ engine.StepInfo) (journal.Payload, error) {
				select {
				case <-time.After(time.Minute):
				case <-ctx.Done():
				}
				return nil, nil
			})
			return err
		})
	}
	pushed(t, code, func(t *testing.T, f *files, executes, pushes *engine.Engine) {
		t.Helper()
		run := begin(t, executes, "")
		time.Sleep(time.Second)
		require.EqualValues(t, 1, f.looks.Load())
		require.NoError(t, pushes.Push(t.Context(), run))
		time.Sleep(time.Second)
		require.EqualValues(t, 2, f.looks.Load())
	})
}
