package sqlite

import (
	"context"
	"sync"
)

// asides are the store's own goroutines that use the file. None of them does so any more when Close returns: whoever closes the store may delete the
// file then, and a connection that is opened or closed late would bring back its log, or find it gone.
type asides struct {
	mu     sync.Mutex
	closed bool
	over   context.Context // ends with the store
	end    context.CancelFunc
	wait   sync.WaitGroup
}

func (a *asides) init() { a.over, a.end = context.WithCancel(context.Background()) }

// run runs f on a goroutine of its own, with a context that ends when the store is closed, and not with ctx. It returns what ends it earlier, or nil if the
// store is closed already: then f does not run.
func (a *asides) run(ctx context.Context, f func(ctx context.Context)) context.CancelFunc {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.wait.Go(func() {
		defer cancel()
		defer context.AfterFunc(a.over, cancel)() //nolint:contextcheck // the store ends it, not the caller
		f(ctx)
	})
	return cancel
}

// close ends what runs, and waits for it.
func (a *asides) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.end()
	a.wait.Wait()
}
