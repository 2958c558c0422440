package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn"
)

// world stands for everything outside: the warehouse, the bank, the carriers. Each call takes a while, and leaves a line in the ledger. A real one
// would be asked over a network.
type world struct {
	pace time.Duration // of a call

	mu     sync.Mutex
	ledger io.Writer
}

// call does something out there. A step may be repeated when a process dies in the middle of it; the idempotency key, which stays the
// same, is how the other side knows that it has done this before. It returns the number of what was done.
func (w *world) call(ctx context.Context, what, about string) (string, error) {
	key := cairn.IdempotencyKey(ctx)
	w.mu.Lock()
	_, err := fmt.Fprintf(w.ledger, "%s %s %s\n", key, what, about)
	w.mu.Unlock()
	if err != nil {
		return "", err
	}
	select {
	case <-time.After(w.pace):
		return key[len(key)-6:], nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// The cards of the customers, by how they behave.
const (
	cardGood  = "good"
	cardBusy  = "busy"  // the bank has no time for the first two attempts
	cardEmpty = "empty" // the bank says no
)

var errBusy = errors.New("the bank is busy")

func (w *world) charge(ctx context.Context, o Order) (string, error) {
	switch {
	case o.Card == cardBusy && cairn.Attempt(ctx) <= 2:
		return "", errBusy
	case o.Card == cardEmpty:
		return "", errDeclined
	default:
		return w.call(ctx, "charge", o.ID)
	}
}
