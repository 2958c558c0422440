package cairntest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
)

// difference is a change of code that does not fit a record, and what is said about it.
type difference struct {
	was, is code
	act     func(*cairntest.Env, *cairn.Run[string])
	want    string
}

// fails is a step that fails.
var fails = cairn.NewStep("fails", func(context.Context, int) (string, error) { return "", errors.New("no") })

// inputs does one step again and again.
func inputs(all ...int) code {
	return func(ctx cairn.Context, _ int) (string, error) {
		for _, n := range all {
			//cairnvet:ignore loopkey the test is about calls that are found by their position
			if _, err := step("a").Do(ctx, n); err != nil {
				return "", err
			}
		}
		return "done", nil
	}
}

// beside does a step in each of several branches, and waits for them in some way.
func beside(wait func(cairn.Context, ...*cairn.Future[string]) (string, error), names ...string) code {
	return func(ctx cairn.Context, _ int) (string, error) {
		var futures []*cairn.Future[string]
		for i, name := range names {
			f, err := cairn.Go(ctx, name, func(ctx cairn.Context) (string, error) {
				return cairn.Do(ctx, "a", func(ctx context.Context) (string, error) {
					select {
					case <-time.After(time.Duration(i+1) * 100 * time.Millisecond): // so they end in this order, and none has its start recorded
						return name, nil
					case <-ctx.Done():
						return "", context.Cause(ctx)
					}
				})
			})
			if err != nil {
				return "", err
			}
			futures = append(futures, f)
		}
		return wait(ctx, futures...)
	}
}

func all(ctx cairn.Context, futures ...*cairn.Future[string]) (string, error) {
	_, err := cairn.All(ctx, futures...)
	return "all", err
}

func race(ctx cairn.Context, futures ...*cairn.Future[string]) (string, error) {
	return cairn.Race(ctx, futures...)
}

// asks opens a hook, and answers what comes.
func asks(reply func(cairn.Context, *cairn.Request[int, int]) error) code {
	return func(ctx cairn.Context, _ int) (string, error) {
		hook, err := cairn.NewRequestHook[int, int]("ask").Token("token").Open(ctx)
		if err != nil {
			return "", err
		}
		request, err := hook.Receive(ctx, cairn.Timeout(time.Hour))
		if err != nil {
			return "", err
		}
		if err := reply(ctx, request); err != nil {
			return "", err
		}
		return "answered", hook.Close(ctx)
	}
}

func double7(ctx cairn.Context, r *cairn.Request[int, int]) error { return r.Reply(ctx, 2*r.Value) }

func send(e *cairntest.Env, run *cairn.Run[string]) {
	e.Sleep(time.Minute) // until the workflow waits
	cairntest.Send(e, "token", "", 21)
	toTheEnd(e, run)
}

func cancel(e *cairntest.Env, run *cairn.Run[string]) {
	e.Sleep(time.Hour)
	_ = run.Cancel(e.Context(), "changed my mind")
	toTheEnd(e, run)
}

// undone sleeps, and does steps when it is cancelled.
func undone(undo ...cairn.Step[int, string]) code {
	return func(ctx cairn.Context, n int) (string, error) {
		err := cairn.Sleep(ctx, 24*time.Hour)
		if err == nil {
			return "slept", nil
		}
		clean, done := cairn.Cleanup(ctx, time.Minute)
		defer done()
		_, undoErr := steps(undo...)(clean, n)
		return "", errors.Join(err, undoErr)
	}
}

var ready = cairn.NewPoll("ready", time.Minute, func(context.Context, int) (string, bool, error) { return "yes", true, nil })

func differences() map[string]difference {
	a, b, c := step("a"), step("b"), step("c")
	return map[string]difference{
		"a step is renamed": {was: steps(a, b, c), is: steps(a, step("bill"), c), want: `
				event 4, "b": the code does something else
				    event 3: step_completed "a"
				  - event 4: step_completed "b"
				  + the code asks for step "bill", which is not recorded`},
		"a step is added in front": {was: steps(a, b), is: steps(c, a, b), want: `
				event 3, "a": the code does something else
				  - event 3: step_completed "a"
				  + the code asks for step "c", which is not recorded`},
		"a step is added at the end": {was: steps(a, b), is: steps(a, b, c), want: `
				event 5: the record has come to its end, and the code goes on
				    event 3: step_completed "a"
				    event 4: step_completed "b"
				  - event 5: run_completed "b 7"
				  + the code asks for step "c", which is not recorded`},
		"a step is removed": {was: steps(a, b, c), is: steps(a, c), want: `
				event 4, "b": the code does not ask for it any more
				    event 3: step_completed "a"
				  - event 4: step_completed "b"
				  + the code ends with run_completed "c 7"`},
		"another input": {was: steps(a, b), is: func(ctx cairn.Context, n int) (string, error) {
			if _, err := a.Do(ctx, n); err != nil {
				return "", err
			}
			return b.Do(ctx, n+1)
		}, want: `
				event 4, "b": another input
				    event 3: step_completed "a"
				  - event 4: step_completed "b", input 7
				  + the code asks for step "b", input 8`},
		"another order of inputs": {was: inputs(1, 2, 3), is: inputs(1, 3, 2), want: `
				event 4, "a#2": another input
				    event 3: step_completed "a"
				  - event 4: step_completed "a#2", input 2
				  + the code asks for step "a#2", input 3`},
		"another kind of thing": {was: steps(step("ready")), is: plain(ready.Wait), want: `
				event 3, "ready": another kind of thing
				  - event 3: step_completed "ready"
				  + the code asks for wait "ready"`},
		"another result": {was: steps(a), is: func(ctx cairn.Context, n int) (string, error) {
			out, err := a.Do(ctx, n)
			return out + "!", err
		}, want: `
				event 4: the code comes to another end
				    event 3: step_completed "a"
				  - event 4: run_completed "a 7"
				  + the code ends with run_completed "a 7!"`},
		"an error is not returned any more": {was: steps(fails), is: func(ctx cairn.Context, n int) (string, error) {
			_, _ = fails.Do(ctx, n)
			return "well", nil
		}, want: `
				event 4: the code comes to another end
				    event 3: step_failed "fails"
				  - event 4: run_failed "no"
				  + the code ends with run_completed "well"`},
		"another error": {was: steps(fails), is: func(ctx cairn.Context, n int) (string, error) {
			_, err := fails.Do(ctx, n)
			return "", fmt.Errorf("it failed: %w", err)
		}, want: `
				event 4: the code comes to another end
				    event 3: step_failed "fails"
				  - event 4: run_failed "no"
				  + the code ends with run_failed "it failed: no"`},
		"a panic": {was: steps(a), is: func(cairn.Context, int) (string, error) { panic("oh") }, want: `
				event 1: the code cannot go on
				  - event 1: run_created
				  + the code stops with "panic: oh"`},
		"a branch is added": {was: beside(all, "x", "y"), is: beside(all, "x", "y", "z"), want: `
				event 5: the record has come to its end, and the code goes on
				  - event 5: run_completed "all"
				  + the code asks for step "z/a", which is not recorded`},
		"a branch does something else": {was: beside(all, "x", "y"), is: func(ctx cairn.Context, n int) (string, error) {
			f, err := cairn.Go(ctx, "x", func(ctx cairn.Context) (string, error) { return b.Do(ctx, n) })
			if err != nil {
				return "", err
			}
			return all(ctx, f)
		}, want: `
				event 3, "x/a": the code does something else
				  - event 3: step_completed "x/a"
				  + the code asks for step "x/b", which is not recorded`},
		"the winner of a race is renamed": {was: beside(race, "x", "y"), is: beside(race, "first", "y"), want: `
				event 3, "x/a": the code does not ask for it any more
				  - event 3: step_completed "x/a"
				  + the code asks for step "first/a", which is not recorded`},
		"the winner of a race does not run": {was: beside(race, "x", "y"), is: beside(race, "y"), want: `
				event 3, "x/a": the code does not ask for it any more
				  - event 3: step_completed "x/a"
				  + the code does not start branch "x"`},
		"all instead of a race": {was: beside(race, "x", "y"), is: beside(all, "x", "y"), want: `
				event 4, "race": the code does not ask for it any more
				  - event 4: step_completed "race"
				  + the code ends with run_failed "lost: another branch was faster"`},
		"another answer": {was: asks(double7), act: send, is: asks(func(ctx cairn.Context, r *cairn.Request[int, int]) error { return r.Reply(ctx, 3*r.Value) }), want: `
				event 7, "ask": another answer
				    event 4: wait_created "ask timeout"
				    event 6: wait_completed "ask timeout"
				  - event 7: hook_replied "ask" 42
				  + the code answers 63`},
		"no answer": {was: asks(double7), act: send, is: asks(func(cairn.Context, *cairn.Request[int, int]) error { return nil }), want: `
				event 7, "ask": the code does not answer any more
				    event 4: wait_created "ask timeout"
				    event 6: wait_completed "ask timeout"
				  - event 7: hook_replied "ask"
				  + the code ends with run_completed "answered"`},
		"an answer where there was none": {was: asks(func(cairn.Context, *cairn.Request[int, int]) error { return nil }), act: send, is: asks(double7), want: `
				event 7, "ask": the code does something else
				    event 4: wait_created "ask timeout"
				    event 6: wait_completed "ask timeout"
				  - event 7: hook_disposed "ask"
				  + the code answers what came through hook "ask", which is not recorded`},
		"a step is added to a clean-up": {was: undone(a), act: cancel, is: undone(a, b), want: `
				event 9: the record has come to its end, and the code goes on
				    event 7: step_completed "a"
				    event 8: wait_completed "cleanup"
				  - event 9: run_cancelled
				  + the code asks for step "b", which is not recorded`},
		"a step of a clean-up is removed": {was: undone(a, b), act: cancel, is: undone(a), want: `
				event 8, "b": the code does not ask for it any more
				    event 6: wait_created "cleanup"
				    event 7: step_completed "a"
				  - event 8: step_completed "b"
				  + the code ends with run_cancelled`},
		"a cancel is ignored": {was: undone(a), act: cancel, is: func(ctx cairn.Context, n int) (string, error) {
			_, err := undone(a)(ctx, n)
			if errors.Is(err, cairn.ErrCancelled) {
				return "who cares", nil
			}
			return "", err
		}, want: `
				event 9: the code comes to another end
				    event 7: step_completed "a"
				    event 8: wait_completed "cleanup"
				  - event 9: run_cancelled
				  + the code ends with run_completed "who cares"`},
		"a child is replaced by a step": {was: func(ctx cairn.Context, n int) (string, error) { v, err := half.Run(ctx, n); return fmt.Sprint(v), err }, is: steps(step("half")), want: `
				event 3, "half": another kind of thing
				  - event 3: step_created "half" (a child)
				  + the code asks for step "half"`},
		"a child is not waited for": {was: func(ctx cairn.Context, n int) (string, error) { v, err := half.Run(ctx, n); return fmt.Sprint(v), err }, is: func(ctx cairn.Context, n int) (string, error) {
			_, err := half.StartChild(ctx, n)
			return "started", err
		}, want: `
				event 5: the code comes to another end
				    event 3: step_created "half" (a child)
				    event 4: step_completed "half"
				  - event 5: run_completed "3"
				  + the code ends with run_completed "started"`},
		"a poll is removed": {was: plain(ready.Wait), is: func(cairn.Context, int) (string, error) { return "yes", nil }, want: `
				event 3, "ready": the code does not ask for it any more
				  - event 3: wait_created "ready"
				  + the code ends with run_completed "yes"`},
		"a hook is not closed": {was: asks(double7), act: send, is: func(ctx cairn.Context, _ int) (string, error) {
			hook, err := cairn.NewRequestHook[int, int]("ask").Token("token").Open(ctx)
			if err != nil {
				return "", err
			}
			request, err := hook.Receive(ctx, cairn.Timeout(time.Hour))
			if err != nil {
				return "", err
			}
			return "answered", double7(ctx, request)
		}, want: `
				event 8, "ask": the code does not close the hook any more
				    event 4: wait_created "ask timeout"
				    event 6: wait_completed "ask timeout"
				  - event 8: hook_disposed "ask"
				  + the code ends with run_completed "answered"`},
		"a second value is waited for": {was: asks(double7), act: send, is: asks(func(ctx cairn.Context, r *cairn.Request[int, int]) error {
			if err := double7(ctx, r); err != nil {
				return err
			}
			_, err := cairn.NewHook[int]("ask").Token("token").Wait(ctx)
			return err
		}), want: `
				event 8, "ask": the code does something else
				    event 4: wait_created "ask timeout"
				    event 6: wait_completed "ask timeout"
				  - event 8: hook_disposed "ask"
				  + the code asks for hook "ask#2", which is not recorded`},
		"a limit is added": {was: steps(a), is: func(ctx cairn.Context, n int) (string, error) {
			limited, stop := cairn.WithTimeout(ctx, time.Hour)
			defer stop()
			return a.Do(limited, n)
		}, want: `
				event 3, "a": the code does something else
				  - event 3: step_completed "a"
				  + the code asks for wait "deadline", which is not recorded`},
		"a step before the wait of a run that waits": {was: sleeps(steps(a)), act: aDay, is: sleeps(steps(a, b)), want: `
				event 4, "sleep": the code does something else
				    event 3: step_completed "a"
				  - event 4: wait_created "sleep"
				  + the code asks for step "b", which is not recorded`},
		"the code hangs": {was: steps(a, b), is: func(ctx cairn.Context, n int) (string, error) {
			if _, err := a.Do(ctx, n); err != nil {
				return "", err
			}
			<-ctx.Done() // which ends when the run is cancelled, and it was not
			return "", context.Cause(ctx)
		}, want: `
				event 4, "b": the code does not ask for it any more
				    event 3: step_completed "a"
				  - event 4: step_completed "b"
				  + the code does not come to anything durable: it waits for something else, or computes`},
	}
}
