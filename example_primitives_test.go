package cairn_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// start starts an engine on a database in memory, for the examples.
func start(workflows ...cairn.Definition) *cairn.Engine {
	ctx := context.Background()
	st, err := sqlite.Memory(ctx, nil)
	if err != nil {
		panic(err)
	}
	eng, err := cairn.New(ctx, st, workflows...)
	if err != nil {
		panic(err)
	}
	return eng
}

// run runs a workflow and prints what it returned.
func run[In, Out any](wf *cairn.Workflow[In, Out], in In, others ...cairn.Definition) {
	ctx := context.Background()
	eng := start(append(others, wf)...)
	defer func() { _ = eng.Stop(ctx) }()
	r, err := wf.Start(ctx, eng, in)
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Result(ctx))
}

// A step with a retry policy and an error that is not worth trying again.
func ExampleStep_Retry() {
	ErrDeclined := cairn.NewError("card_declined", "the card was declined")
	charge := cairn.NewStep("charge", func(ctx context.Context, cents int) (string, error) {
		if cents > 100_00 {
			return "", ErrDeclined
		}
		if cairn.Attempt(ctx) == 1 {
			return "", errors.New("the network is down")
		}
		return fmt.Sprintf("charged %d at attempt %d", cents, cairn.Attempt(ctx)), nil
	}).Retry(cairn.RetryPolicy{Attempts: 5, First: time.Millisecond, Never: []cairn.Code{"card_declined"}}).Timeout(time.Minute)
	pay := cairn.NewWorkflow("pay", func(ctx cairn.Context, cents int) (string, error) {
		out, err := charge.Do(ctx, cents)
		if errors.Is(err, ErrDeclined) { // also after a crash
			return "asked for another card", nil
		}
		return out, err
	})
	run(pay, 1_00)
	run(pay, 500_00)
	// Output:
	// charged 100 at attempt 2 <nil>
	// asked for another card <nil>
}

// A call of a step is identified by its key, or by being the n-th use of the name.
func ExampleKey() {
	send := cairn.NewStep("send", func(_ context.Context, to string) (string, error) { return "sent to " + to, nil })
	run(cairn.NewWorkflow("mails", func(ctx cairn.Context, to []string) (int, error) {
		for _, address := range to {
			if _, err := send.Do(ctx, address, cairn.Key(address)); err != nil {
				return 0, err
			}
		}
		return len(to), nil
	}), []string{"ada", "grace"})
	// Output: 2 <nil>
}

func ExampleSleep() {
	run(cairn.NewWorkflow("sleeper", func(ctx cairn.Context, d time.Duration) (bool, error) {
		before := cairn.Now(ctx)
		err := cairn.Sleep(ctx, d) // a year is as good: the run costs a row meanwhile
		return cairn.Now(ctx).Sub(before) >= d, err
	}), 5*time.Millisecond)
	// Output: true <nil>
}

// Somebody outside answers through a hook.
func ExampleHook() {
	ctx := context.Background()
	approved := cairn.NewHook[bool]("approved").Once()
	tokens := make(chan string, 1)
	ask := cairn.NewWorkflow("ask", func(ctx cairn.Context, what string) (string, error) {
		h, err := approved.Metadata(what).Open(ctx)
		if err != nil {
			return "", err
		}
		mail := func(context.Context) (bool, error) { tokens <- h.Token(); return true, nil } // a real one sends a mail
		if _, err := cairn.Do(ctx, "mail the token", mail); err != nil {
			return "", err
		}
		switch yes, err := h.Receive(ctx, cairn.Timeout(48*time.Hour)); {
		case errors.Is(err, cairn.ErrTimeout):
			return "nobody answered", nil
		case err != nil:
			return "", err
		case !yes:
			return "refused: " + what, nil
		default:
			return "approved: " + what, nil
		}
	})
	eng := start(ask)
	r, err := ask.Start(ctx, eng, "a new chair")
	if err != nil {
		panic(err)
	}
	if err := cairn.NewHook[bool]("sent").Send(ctx, eng, <-tokens, true); err != nil {
		panic(err)
	}
	fmt.Println(r.Result(ctx))
	// Output: approved: a new chair <nil>
}

// A workflow answers those who send to it, durably.
func ExampleRequestHook() {
	ctx := context.Background()
	add := cairn.NewRequestHook[int, int]("add").Token("the counter")
	counter := cairn.NewWorkflow("counter", func(ctx cairn.Context, sum int) (int, error) {
		h, err := add.Open(ctx)
		if err != nil {
			return 0, err
		}
		for sum < 10 {
			r, err := h.Receive(ctx)
			if err != nil {
				return 0, err
			}
			sum += r.Value
			if err := r.Reply(ctx, sum); err != nil {
				return 0, err
			}
		}
		return sum, nil
	})
	eng := start(counter)
	r, err := counter.Start(ctx, eng, 0)
	if err != nil {
		panic(err)
	}
	for i, n := range []int{3, 4, 5} {
		for {
			sum, err := add.Ask(ctx, eng, "the counter", n, cairn.Key(fmt.Sprint("request ", i)))
			if errors.Is(err, cairn.NewError("hook_not_found", "")) {
				continue // it is not open yet
			}
			fmt.Println(sum, err)
			break
		}
	}
	fmt.Println(r.Result(ctx))
	// Output:
	// 3 <nil>
	// 7 <nil>
	// 12 <nil>
	// 12 <nil>
}

// A workflow starts others as its children.
func ExampleWorkflow_Run() {
	ship := cairn.NewWorkflow("ship", func(ctx cairn.Context, item string) (string, error) {
		return cairn.Do(ctx, "pack", func(context.Context) (string, error) { return "packed " + item, nil })
	})
	run(cairn.NewWorkflow("order", func(ctx cairn.Context, items []string) ([]string, error) {
		return cairn.Map(ctx, "item", items, 10, func(ctx cairn.Context, item string) (string, error) { return ship.Run(ctx, item) })
	}), []string{"book", "lamp"}, ship)
	// Output: [packed book packed lamp] <nil>
}

// A workflow that calls itself is declared first.
func ExampleDeclare() {
	factorial := cairn.Declare[int, int]("factorial")
	factorial.Bind(func(ctx cairn.Context, n int) (int, error) {
		if n <= 1 {
			return 1, nil
		}
		rest, err := factorial.Run(ctx, n-1)
		return n * rest, err
	})
	run(factorial, 5)
	// Output: 120 <nil>
}

// The first of several wins; the others are closed.
func ExampleRace() {
	run(cairn.NewWorkflow("quote", func(ctx cairn.Context, _ int) (string, error) {
		asks := map[string]time.Duration{"slow": time.Hour, "fast": time.Millisecond}
		var quotes []*cairn.Future[string]
		for _, name := range []string{"slow", "fast"} {
			f, err := cairn.Go(ctx, name, func(ctx cairn.Context) (string, error) { return name, cairn.Sleep(ctx, asks[name]) })
			if err != nil {
				return "", err
			}
			quotes = append(quotes, f)
		}
		return cairn.Race(ctx, quotes...)
	}), 0)
	// Output: fast <nil>
}

// Two of three are enough.
func ExampleFirstN() {
	run(cairn.NewWorkflow("quorum", func(ctx cairn.Context, _ int) (int, error) {
		var votes []*cairn.Future[int]
		for i := range 3 {
			f, err := cairn.Go(ctx, "voter", func(ctx cairn.Context) (int, error) {
				return cairn.Do(ctx, "vote", func(context.Context) (int, error) {
					if i == 0 {
						return 0, errors.New("away")
					}
					return i, nil
				})
			})
			if err != nil {
				return 0, err
			}
			votes = append(votes, f)
		}
		got, err := cairn.FirstN(ctx, 2, votes...)
		return len(got), err
	}), 0)
	// Output: 2 <nil>
}

func ExampleAsCompleted() {
	run(cairn.NewWorkflow("first come", func(ctx cairn.Context, naps []time.Duration) ([]int, error) {
		var futures []*cairn.Future[int]
		for i, d := range naps {
			nap := func(ctx cairn.Context) (int, error) { return i, cairn.Sleep(ctx, d) }
			f, err := cairn.Go(ctx, "nap", nap, cairn.Key(d.String()))
			if err != nil {
				return nil, err
			}
			futures = append(futures, f)
		}
		var order []int
		for i := range cairn.AsCompleted(ctx, futures...) {
			order = append(order, i)
		}
		return order, nil
	}), []time.Duration{300 * time.Millisecond, time.Millisecond})
	// Output: [1 0] <nil>
}

// A bounded map over many items, with a key for each.
func ExampleKeyBy() {
	count := cairn.NewStep("count", func(_ context.Context, word string) (int, error) { return len(word), nil })
	run(cairn.NewWorkflow("lengths", func(ctx cairn.Context, words []string) ([]int, error) {
		return cairn.Map(ctx, "word", words, 2, func(ctx cairn.Context, word string) (int, error) {
			return count.Do(ctx, word)
		}, cairn.KeyBy(func(word string) string { return word }))
	}), []string{"one", "three", "seventeen"})
	// Output: [3 5 9] <nil>
}

// A check is repeated until it succeeds.
func ExamplePoll() {
	looks := 0
	ready := cairn.NewPoll("build", time.Millisecond, func(_ context.Context, id string) (string, bool, error) {
		looks++
		return id + " is done", looks == 3, nil
	}).Timeout(time.Hour)
	run(cairn.NewWorkflow("wait for a build", func(ctx cairn.Context, id string) (string, error) { return ready.Wait(ctx, id) }), "build 7")
	// Output: build 7 is done <nil>
}

// A limit on the time of several things together.
func ExampleWithTimeout() {
	run(cairn.NewWorkflow("hurry", func(ctx cairn.Context, _ int) (string, error) {
		within, cancel := cairn.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		if err := cairn.Sleep(within, time.Hour); errors.Is(err, cairn.ErrTimeout) {
			return "too late", nil
		}
		return "in time", nil
	}), 0)
	// Output: too late <nil>
}

// What must be done also when the run is cancelled is done under a Context of its own.
func ExampleCleanup() {
	ctx := context.Background()
	refunded := make(chan string, 1)
	refund := cairn.NewStep("refund", func(_ context.Context, order string) (bool, error) { refunded <- order; return true, nil })
	wf := cairn.NewWorkflow("order", func(ctx cairn.Context, order string) (string, error) {
		if err := cairn.Sleep(ctx, time.Hour); err != nil {
			clean, done := cairn.Cleanup(ctx, time.Minute)
			defer done()
			_, refundErr := refund.Do(clean, order)
			return "", errors.Join(err, refundErr)
		}
		return "delivered", nil
	})
	eng := start(wf)
	r, err := wf.Start(ctx, eng, "o-42")
	if err != nil {
		panic(err)
	}
	if err := r.Cancel(ctx, "the customer changed his mind"); err != nil {
		panic(err)
	}
	_, err = r.Result(ctx)
	fmt.Println(errors.Is(err, cairn.ErrCancelled), "refunded", <-refunded)
	// Output: true refunded o-42
}

// The same key and input give the same run.
func ExampleKey_start() {
	ctx := context.Background()
	wf := cairn.NewWorkflow("order", func(cairn.Context, int) (string, error) { return "done", nil })
	eng := start(wf)
	first, err := wf.Start(ctx, eng, 1, cairn.Key("o-42"))
	if err != nil {
		panic(err)
	}
	second, err := wf.Start(ctx, eng, 1, cairn.Key("o-42"))
	if err != nil {
		panic(err)
	}
	_, err = wf.Start(ctx, eng, 2, cairn.Key("o-42"))
	fmt.Println(first.ID() == second.ID(), errors.Is(err, cairn.NewError("start_key_conflict", "")))
	// Output: true true
}

// What a run waits for, and what has happened to it.
func ExampleRunHandle_Describe() {
	ctx := context.Background()
	wf := cairn.NewWorkflow("patient", func(ctx cairn.Context, _ int) (string, error) {
		if _, err := cairn.Do(ctx, "begin", func(context.Context) (int, error) { return 1, nil }); err != nil {
			return "", err
		}
		return "", cairn.Sleep(ctx, time.Hour)
	})
	eng := start(wf)
	r, err := wf.Start(ctx, eng, 0)
	if err != nil {
		panic(err)
	}
	for {
		info, err := eng.Run(r.ID()).Describe(ctx)
		if err != nil {
			panic(err)
		}
		if len(info.Waits) > 0 {
			fmt.Println(info.Status, "waits for", info.Waits[0].Kind)
			break
		}
	}
	for event, err := range eng.Run(r.ID()).History(ctx) {
		if err != nil {
			panic(err)
		}
		fmt.Println(event.Seq, event.Type)
	}
	// Output:
	// running waits for sleep
	// 1 run_created
	// 2 run_started
	// 3 step_completed
	// 4 wait_created
}
