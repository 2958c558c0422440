package cairn_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-workflow/cairn"
)

// waiting waits until a run waits for something, for the examples.
func waiting(eng *cairn.Engine, runID string) {
	for {
		info, err := eng.Run(runID).Describe(context.Background())
		if err != nil {
			panic(err)
		}
		if len(info.Waits) > 0 {
			return
		}
	}
}

// A run is paused while somebody looks at something. What is sent to it meanwhile is kept.
func ExampleRunHandle_Pause() {
	ctx := context.Background()
	wf := cairn.NewWorkflow("payout", func(ctx cairn.Context, _ int) (string, error) {
		who, err := cairn.NewHook[string]("approved").Token("payout 7").Wait(ctx)
		return "paid, approved by " + who, err
	})
	eng := start(wf)
	r, err := wf.Start(ctx, eng, 0)
	if err != nil {
		panic(err)
	}
	waiting(eng, r.ID())
	if err := r.Pause(ctx, "the bank has a problem"); err != nil {
		panic(err)
	}
	if err := cairn.NewHook[string]("sent").Send(ctx, eng, "payout 7", "Grace"); err != nil {
		panic(err)
	}
	info, err := r.Describe(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(info.Status, info.Phase, info.Error)
	if err := r.Resume(ctx); err != nil {
		panic(err)
	}
	fmt.Println(r.Result(ctx))
	// Output:
	// running paused paused: the bank has a problem
	// paid, approved by Grace <nil>
}

// A run begins at a time, and not before.
func ExampleStartAt() {
	ctx := context.Background()
	wf := cairn.NewWorkflow("report", func(cairn.Context, string) (string, error) { return "written", nil })
	eng := start(wf)
	begin := time.Now().Add(30 * time.Millisecond).Truncate(time.Millisecond)
	r, err := wf.Start(ctx, eng, "May", cairn.StartAt(begin))
	if err != nil {
		panic(err)
	}
	out, err := r.Result(ctx)
	if err != nil {
		panic(err)
	}
	info, err := r.Describe(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(out, "too early:", info.StartedAt.Before(begin))
	// Output: written too early: false
}

// A run that has not begun is pending, and can be cancelled.
func ExampleStartAfter() {
	ctx := context.Background()
	wf := cairn.NewWorkflow("reminder", func(cairn.Context, string) (string, error) { return "sent", nil })
	eng := start(wf)
	r, err := wf.Start(ctx, eng, "ada", cairn.StartAfter(24*time.Hour))
	if err != nil {
		panic(err)
	}
	info, err := r.Describe(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(info.Status, "waits for", info.Waits[0].Kind)
	if err := r.Cancel(ctx, "she has answered"); err != nil {
		panic(err)
	}
	_, err = r.Result(ctx)
	fmt.Println(errors.Is(err, cairn.ErrCancelled))
	// Output:
	// pending waits for start
	// true
}

// A run that has ended is deleted with all that belongs to it. Its start key is free again.
func ExampleRunHandle_Delete() {
	ctx := context.Background()
	wf := cairn.NewWorkflow("order", func(_ cairn.Context, n int) (int, error) { return n, nil })
	eng := start(wf)
	first, err := wf.Start(ctx, eng, 1, cairn.Key("o-42"))
	if err != nil {
		panic(err)
	}
	if _, err := first.Result(ctx); err != nil {
		panic(err)
	}
	if err := eng.Run(first.ID()).Delete(ctx); err != nil {
		panic(err)
	}
	_, err = first.Describe(ctx)
	fmt.Println(errors.Is(err, cairn.NewError("run_not_found", "")))
	second, err := wf.Start(ctx, eng, 2, cairn.Key("o-42")) // with another input: nobody remembers the first
	if err != nil {
		panic(err)
	}
	fmt.Println(second.Result(ctx))
	// Output:
	// true
	// 2 <nil>
}

// A run failed, its cause was mended: a fork does the step that failed again and keeps what came before.
func ExampleWorkflow_Fork() {
	ctx := context.Background()
	broken := true
	fetch := cairn.NewStep("fetch", func(context.Context, string) (string, error) { fmt.Println("fetches"); return "data", nil })
	store := cairn.NewStep("store", func(_ context.Context, data string) (string, error) {
		if broken {
			return "", errors.New("the disk is full")
		}
		return data + " is stored", nil
	})
	wf := cairn.NewWorkflow("import", func(ctx cairn.Context, url string) (string, error) {
		data, err := fetch.Do(ctx, url)
		if err != nil {
			return "", err
		}
		return store.Do(ctx, data)
	})
	eng := start(wf)
	failed, err := wf.Start(ctx, eng, "some place")
	if err != nil {
		panic(err)
	}
	fmt.Println(failed.Result(ctx))

	broken = false
	fork, err := wf.Fork(ctx, eng, failed.ID(), cairn.Fork{From: "store", Reason: "there is room now", Actor: "grace"})
	if err != nil {
		panic(err)
	}
	fmt.Println(fork.Result(ctx))
	info, err := fork.Describe(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(info.ForkOfID == failed.ID())
	// Output:
	// fetches
	//  the disk is full
	// data is stored <nil>
	// true
}

// A fork with another input: what is kept stays as it is, what is done again sees the new one.
func ExampleWorkflow_ForkWith() {
	ctx := context.Background()
	greet := cairn.NewStep("greet", func(_ context.Context, name string) (string, error) { return "hello " + name, nil })
	wf := cairn.NewWorkflow("greetings", func(ctx cairn.Context, names []string) ([]string, error) {
		return cairn.Map(ctx, "name", names, 2, func(ctx cairn.Context, name string) (string, error) {
			return greet.Do(ctx, name)
		}, cairn.KeyBy(func(name string) string { return name }))
	})
	eng := start(wf)
	first, err := wf.Start(ctx, eng, []string{"ada", "grcae"})
	if err != nil {
		panic(err)
	}
	fmt.Println(first.Result(ctx))
	again := cairn.Fork{Drop: []string{"name@grcae/greet"}}
	second, err := wf.ForkWith(ctx, eng, first.ID(), again, []string{"ada", "grace"})
	if err != nil {
		panic(err)
	}
	fmt.Println(second.Result(ctx))
	// Output:
	// [hello ada hello grcae] <nil>
	// [hello ada hello grace] <nil>
}
