// Package wait waits for channels and groups.
package wait

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/cairn-workflow/cairn"
)

func channels(ctx cairn.Context, c chan int, plain struct{ context.Context }) int {
	c <- 1             // want `sending to a channel in a workflow is a wait that the engine does not know: use hooks .* \[wait\]`
	n := <-c           // want `receiving from a channel in a workflow`
	n += <-(c)         // want `receiving from a channel`
	for m := range c { // want `a loop over a channel in a workflow`
		n += m
	}
	select { // want `select in a workflow`
	case c <- 1:
	case m, ok := <-c:
		if ok {
			n += m + <-c // want `receiving from a channel`
		}
	case <-ctx.Done():
	}
	select { // want `select in a workflow`
	case <-c:
	default:
	}
	<-plain.Done() // want `receiving from a channel`
	func() {
		<-c // want `receiving from a channel`
	}()
	return n
}

func end(ctx cairn.Context, c chan int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	default:
	}
	<-ctx.Done()
	n := -1
	close(c)
	_, err := cairn.Do(ctx, "step", func(ctx context.Context) (int, error) {
		c <- n
		select {
		case m := <-c:
			return m, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	return err
}

func groups(ctx cairn.Context) error {
	var group sync.WaitGroup
	group.Wait()                                 // want `sync.WaitGroup.Wait in a workflow is a wait that the engine does not know: use cairn.Future.Wait`
	sync.NewCond(&sync.Mutex{}).Wait()           // want `sync.Cond.Wait in`
	_ = semaphore.NewWeighted(1).Acquire(ctx, 1) // want `semaphore.Weighted.Acquire in`
	var many errgroup.Group
	return many.Wait() // want `errgroup.Group.Wait in`
}

func futures(ctx cairn.Context) (int, error) {
	f, err := cairn.Go(ctx, "branch", func(cairn.Context) (int, error) { return 1, nil })
	if err != nil {
		return 0, err
	}
	return f.Wait(ctx)
}

func outside(c chan int) int {
	var group sync.WaitGroup
	group.Wait()
	return <-c
}
