// Package goroutine starts goroutines.
package goroutine

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/cairn-workflow/cairn"
)

var step = cairn.NewStep("step", func(context.Context, int) (int, error) {
	go func() {}()
	return 0, nil
})

func plain(ctx cairn.Context, _ int) (int, error) {
	go step.Do(ctx, 1) // want `a go statement in a workflow starts what the engine does not know: use cairn.Go.* \[goroutine\]`
	work := func() {
		go println() // want `a go statement`
	}
	work()
	return 0, nil
}

var literal = cairn.NewWorkflow("literal", func(ctx cairn.Context, _ int) (int, error) {
	done := func() {}
	go done() // want `a go statement`
	return cairn.Do(ctx, "fine", func(context.Context) (int, error) {
		go func() {}()
		var group sync.WaitGroup
		group.Go(func() {})
		group.Wait()
		return 0, nil
	})
})

type machine struct{ errgroup.Group }

func (m *machine) run(ctx cairn.Context) error {
	var group sync.WaitGroup
	group.Go(func() {})                  // want `sync.WaitGroup.Go in a workflow starts a goroutine that the engine does not know: use cairn.Go`
	m.Go(func() error { return nil })    // want `errgroup.Group.Go in a workflow`
	m.TryGo(func() error { return nil }) // want `errgroup.Group.TryGo in a workflow`
	start := group.Go                    // want `sync.WaitGroup.Go in a workflow`
	start(func() {})
	context.AfterFunc(ctx, func() {}) // want `context.AfterFunc in a workflow`
	return nil
}

// What runs in a goroutine of its own is a finding once, not for each thing that it does.
func once(ctx cairn.Context, results chan int) error {
	go func() { results <- 1 }() // want `a go statement`
	return nil
}

func branches(ctx cairn.Context, numbers []int) ([]int, error) {
	f, err := cairn.Go(ctx, "one", func(ctx cairn.Context) (int, error) {
		go println() // want `a go statement`
		return step.Do(ctx, 1)
	})
	if err != nil {
		return nil, err
	}
	if _, err := f.Wait(ctx); err != nil {
		return nil, err
	}
	return cairn.Map(ctx, "many", numbers, 0, func(ctx cairn.Context, n int) (int, error) { return step.Do(ctx, n) })
}

func outside(ctx context.Context) {
	go println()
	var group sync.WaitGroup
	group.Go(func() {})
	group.Wait()
}
