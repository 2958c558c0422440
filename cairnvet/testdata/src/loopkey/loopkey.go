// Package loopkey repeats durable calls.
package loopkey

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-workflow/cairn"
)

var (
	charge  = cairn.NewStep("charge", func(_ context.Context, n int) (int, error) { return n, nil })
	child   = cairn.NewWorkflow("child", func(_ cairn.Context, n int) (int, error) { return n, nil })
	arrived = cairn.NewPoll("arrived", time.Minute, func(_ context.Context, n int) (int, bool, error) { return n, true, nil })
	mail    = cairn.NewHook[int]("mail")
	seat    = cairn.NewRequestHook[int, int]("seat")
)

func body(context.Context) (int, error) { return 0, nil }

func branch(cairn.Context) (int, error) { return 0, nil }

func all(ctx cairn.Context, items []int, opts []cairn.StepOption) {
	for _, n := range items {
		_, _ = charge.Do(ctx, n)                  // want `charge.Do is repeated without a key: the n-th call is found by its position, so an inserted item would get its neighbour's record: give it a cairn.Key \[loopkey\]`
		_, _ = cairn.Do(ctx, "do", body)          // want `cairn.Do is repeated without a key`
		_ = cairn.Sleep(ctx, time.Hour)           // want `cairn.Sleep is repeated without a key`
		_ = cairn.SleepUntil(ctx, cairn.Now(ctx)) // want `cairn.SleepUntil is repeated`
		_, _ = mail.Open(ctx)                     // want `mail.Open is repeated`
		_, _ = mail.Wait(ctx, cairn.Timeout(1))   // want `mail.Wait is repeated`
		_, _ = seat.Open(ctx)                     // want `seat.Open is repeated`
		_, _ = arrived.Wait(ctx, n)               // want `arrived.Wait is repeated`
		_, _ = child.Run(ctx, n)                  // want `child.Run is repeated`
		_, _ = child.StartChild(ctx, n)           // want `child.StartChild is repeated`
		_, _ = cairn.Go(ctx, "branch", branch)    // want `cairn.Go is repeated`
		_, _ = charge.Do(ctx, n, opts...)         // who knows
		_, _ = charge.Do(ctx, n, cairn.Key("a"))  // it has one
		_ = cairn.Sleep(ctx, time.Hour, cairn.Key("a"))
		_, _ = cairn.Go(ctx, "b", func(ctx cairn.Context) (int, error) { return charge.Do(ctx, n) }, cairn.Key("b"))
		_, _ = cairn.Do(ctx, fmt.Sprint("item ", n), body)
		_, _ = charge.Do(ctx, n) //cairnvet:ignore loopkey the items never change
	}
}

func loops(ctx cairn.Context, items []int) {
	for range 3 {
		_, _ = charge.Do(ctx, 1) // always three
	}
	for range len(items) {
		_, _ = charge.Do(ctx, 1) // want `charge.Do is repeated`
	}
	for i := 0; i < len(items); i++ {
		for range 3 {
			_, _ = charge.Do(ctx, 1) // want `charge.Do is repeated`
		}
	}
	each := func(n int) { _, _ = charge.Do(ctx, n) } // want `charge.Do is repeated`
	for _, n := range items {
		each(n)
		func() { _ = cairn.Sleep(ctx, 1) }() // want `cairn.Sleep is repeated`
	}
	once := func(n int) { _, _ = charge.Do(ctx, n) }
	once(1)
	_, _ = charge.Do(ctx, 1)
}

func leave(ctx cairn.Context, items []int) (int, error) {
	for _, n := range items {
		if n > 7 {
			return charge.Do(ctx, n)
		}
		if n > 6 {
			_, _ = charge.Do(ctx, n)
			break
		}
		if n > 5 {
			_, err := charge.Do(ctx, n) // want `charge.Do is repeated`
			if err != nil {
				continue
			}
			return n, err
		}
		switch n {
		case 4:
			_, _ = charge.Do(ctx, n) // want `charge.Do is repeated`
			break
		case 3:
			_, err := charge.Do(ctx, n)
			return n, err
		}
		func() {
			_, _ = charge.Do(ctx, n) // want `charge.Do is repeated`
			return
		}()
	}
outer:
	for {
		for {
			_, _ = charge.Do(ctx, 1)
			break outer
		}
	}
	for len(items) > 0 {
		for {
			_, _ = charge.Do(ctx, 1) // want `charge.Do is repeated`
			break
		}
		items = items[1:]
	}
	return 0, nil
}

func step(_ context.Context, items []int) {
	for range items {
		_, _ = body(context.Background())
	}
}
